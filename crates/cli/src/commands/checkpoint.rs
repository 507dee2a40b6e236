//! `checkpoint`: makes a copy of the database that is a database of its own.

use std::fmt;
use std::path::{Path, PathBuf};

use cleavedb_units as units;
use serde::Serialize;

use crate::console::Console;
use crate::failure::{Exit, Result};
use crate::global::Global;
use crate::interrupt;
use crate::progress::Progress;
use crate::store;
use crate::watch;

#[derive(Serialize)]
struct MadeCheckpoint {
    directory: PathBuf,
    linked: u64,
    copied: u64,
    copied_bytes: u64,
}

impl fmt::Display for MadeCheckpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "made {} of {} and {} ({})",
            self.directory.display(),
            units::counted(self.linked, "linked file"),
            units::counted(self.copied, "copied file"),
            units::bytes(self.copied_bytes),
        )
    }
}

pub(super) fn run(directory: &Path, global: &Global, console: &Console) -> Result<Exit> {
    interrupt::watch(console)?;
    let db = store::open_to_link(global, console)?;
    let progress = Progress::towards(console, "checkpoint");
    let (theirs, to) = (db.clone(), directory.to_owned());
    let made = watch::count(&progress, move |counted| theirs.checkpoint_with(to, counted));
    drop(progress);
    let report = store::closed(db, made)?;
    console.outcome(&MadeCheckpoint {
        directory: directory.to_owned(),
        linked: report.linked,
        copied: report.copied,
        copied_bytes: report.copied_bytes,
    })?;
    Ok(Exit::Done)
}
