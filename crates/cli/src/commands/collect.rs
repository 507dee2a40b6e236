//! `collect`: frees the space of dead values.

use std::fmt;

use cleavedb_units as units;
use serde::Serialize;

use crate::args::{BoundArgs, Within};
use crate::bounds::bounds;
use crate::console::Console;
use crate::failure::{Exit, Result};
use crate::global::Global;
use crate::interrupt;
use crate::progress::Progress;
use crate::space::{Space, compare};
use crate::store;
use crate::watch;

#[derive(Serialize)]
struct Collected {
    collections: u64,
    read: u64,
    written: u64,
    seconds: f64,
    before: Space,
    after: Space,
}

impl fmt::Display for Collected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "collected {} in {:.2} s: {} read, {} of survivors and pointers written",
            units::counted(self.collections, "file"),
            self.seconds,
            units::bytes(self.read),
            units::bytes(self.written),
        )?;
        f.write_str(&compare(&self.before, &self.after))
    }
}

pub(super) fn run(
    dropped: bool,
    args: &BoundArgs,
    within: &Within,
    global: &Global,
    console: &Console,
) -> Result<Exit> {
    interrupt::watch(console)?;
    let db = store::open_existing(global, console)?;
    let ranged = dropped || args.are_given() || within.keyspace.is_some();
    let range = bounds(args, console.hex())?;
    let before = Space::of(&db, &global.db);
    let progress = Progress::new(console, "collect", None);
    let describe = |db: &cleavedb::Db| {
        if ranged {
            return watch::rewritten(db);
        }
        let metrics = db.metrics();
        let done = units::thousands(metrics.collections as f64);
        format!("{done} of up to {}", units::counted(before.value_files as u64, "file"))
    };
    let keyspace = store::find_keyspace(&db, within)?;
    watch::run(&db, &progress, describe, move |db| match ranged {
        true if dropped => db.collect_dropped(),
        true => keyspace.collect_range(range),
        false => db.collect(),
    })?;
    let seconds = progress.elapsed().as_secs_f64();
    drop(progress);
    let metrics = db.metrics();
    let after = Space::at_close(db, &global.db)?;
    console.outcome(&Collected {
        collections: metrics.collections,
        read: metrics.collection_read,
        written: metrics.collection_written,
        seconds,
        before,
        after,
    })?;
    Ok(Exit::Done)
}
