//! `restore`: makes a database of a backup.

use std::fmt;
use std::path::PathBuf;

use cleavedb::{Backups, RestoreMode};
use cleavedb_units as units;
use serde::Serialize;

use crate::args::RestoreArgs;
use crate::console::Console;
use crate::failure::{Exit, Result};
use crate::global::Global;
use crate::interrupt;
use crate::progress::Progress;
use crate::watch;

#[derive(Serialize)]
struct Restored {
    directory: PathBuf,
    number: u64,
    files: u64,
    bytes: u64,
    checked: bool,
    seconds: f64,
}

impl fmt::Display for Restored {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "restored backup {} in {}: {} in {}, {}, in {:.2} s",
            self.number,
            self.directory.display(),
            units::bytes(self.bytes),
            units::counted(self.files, "file"),
            if self.checked { "checked" } else { "not checked" },
            self.seconds,
        )
    }
}

pub(super) fn run(args: &RestoreArgs, global: &Global, console: &Console) -> Result<Exit> {
    interrupt::watch(console)?;
    let backups = Backups::open(&args.directory)?;
    // The backup is not removed meanwhile.
    let (number, held) = backups.open_backup(args.number)?;
    let mode = if args.no_check { RestoreMode::Unchecked } else { RestoreMode::Checked };
    let progress = Progress::towards(console, "restore");
    let directory = global.db.clone();
    let restored = watch::count(&progress, move |counted| {
        backups.restore_with(Some(number), directory, mode, counted)
    });
    let seconds = progress.elapsed().as_secs_f64();
    drop((progress, held));
    let report = restored?;
    console.outcome(&Restored {
        directory: global.db.clone(),
        number,
        files: report.copied,
        bytes: report.bytes,
        checked: mode == RestoreMode::Checked,
        seconds,
    })?;
    Ok(Exit::Done)
}
