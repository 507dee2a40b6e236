//! `migrate`: gives the database another preset, by a copy that takes its place.

use std::fmt;

use cleavedb::Db;
use cleavedb_units as units;
use serde::Serialize;

use crate::console::Console;
use crate::failure::{Exit, Failure, Result};
use crate::global::Global;
use crate::interrupt;
use crate::progress::Progress;
use crate::space;
use crate::store;
use crate::watch;

#[derive(Serialize)]
struct Migrated {
    from: &'static str,
    to: &'static str,
    /// Keys that this command has copied.
    copied: u64,
    /// Keys that an earlier one had copied, which was stopped.
    found: u64,
    /// Bytes of all keys and values.
    bytes: u64,
    seconds: f64,
    disk_bytes_before: u64,
    disk_bytes_after: u64,
}

impl fmt::Display for Migrated {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { from, to, .. } = self;
        if self.copied + self.found == 0 {
            return match from == to {
                true => write!(f, "the database has the preset {to} already"),
                false => {
                    write!(f, "the database had the preset {from}, and has {to}, with no copy")
                }
            };
        }
        let before = match self.found {
            0 => String::new(),
            found => format!(", and {} copied before", units::counted(found, "key")),
        };
        write!(
            f,
            "migrated from {from} to {to}: {} copied{before}, {} in all, compared, in {:.2} s\n\
             {} on disk before, {} after",
            units::counted(self.copied, "key"),
            units::bytes(self.bytes),
            self.seconds,
            units::bytes(self.disk_bytes_before),
            units::bytes(self.disk_bytes_after),
        )
    }
}

pub(super) fn run(global: &Global, console: &Console) -> Result<Exit> {
    if global.preset.is_none() {
        let what = "name the preset that the database is to have: --preset cleave".to_owned();
        return Err(Failure::Usage(what));
    }
    interrupt::watch(console)?;
    let stored = store::stored(&global.db)?;
    let stored = stored.ok_or_else(|| Failure::NoDatabase(global.db.clone()))?;
    let options = store::options(global, store::usual(global, Some(stored)))?;
    let disk_bytes_before = space::of_directory(&global.db);
    let progress = Progress::towards(console, "migrate");
    let migrated = store::waiting(global, || {
        let (path, options) = (global.db.clone(), options.clone());
        watch::count(&progress, move |counted| Db::migrate_with(path, options, counted))
    });
    let seconds = progress.elapsed().as_secs_f64();
    drop(progress);
    if let Err(Failure::Interrupted) = migrated {
        console.note("the database is as it was; run it again to go on with what was copied");
    }
    let report = migrated?;
    console.outcome(&Migrated {
        from: report.from.name(),
        to: report.to.name(),
        copied: report.copied,
        found: report.found,
        bytes: report.bytes,
        seconds,
        disk_bytes_before,
        disk_bytes_after: space::of_directory(&global.db),
    })?;
    Ok(Exit::Done)
}
