//! `backup`: makes a backup of the database, or lists, checks or removes backups.

use std::fmt;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use cleavedb::reports::BackupReport;
use cleavedb::{Backup, BackupMode, Backups};
use cleavedb_units as units;
use serde::Serialize;

use super::check;
use crate::args::BackupArgs;
use crate::console::Console;
use crate::failure::{Exit, Result};
use crate::global::Global;
use crate::interrupt;
use crate::progress::Progress;
use crate::store;
use crate::watch;

#[derive(Serialize)]
struct Made {
    directory: PathBuf,
    number: u64,
    linked: u64,
    copied: u64,
    copied_bytes: u64,
    bytes: u64,
    seconds: f64,
    /// Numbers of the backups that were removed after it.
    removed: Vec<u64>,
}

impl fmt::Display for Made {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "made backup {} of {}, of {} and {} ({}), in {:.2} s",
            self.number,
            units::bytes(self.bytes),
            units::counted(self.linked, "linked file"),
            units::counted(self.copied, "copied file"),
            units::bytes(self.copied_bytes),
            self.seconds,
        )?;
        if self.removed.is_empty() {
            return Ok(());
        }
        write!(f, "\n{}", Removed { removed: &self.removed })
    }
}

#[derive(Serialize)]
struct Removed<'a> {
    removed: &'a [u64],
}

impl fmt::Display for Removed<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let numbers: Vec<_> = self.removed.iter().map(u64::to_string).collect();
        match &numbers[..] {
            [] => f.write_str("there was no backup to remove"),
            [number] => write!(f, "removed backup {number}"),
            many => write!(f, "removed backups {}", many.join(", ")),
        }
    }
}

#[derive(Serialize)]
struct ListedBackup {
    number: u64,
    directory: PathBuf,
    /// Seconds since 1970; none if the file `backup` is damaged.
    made: Option<u64>,
    files: u64,
    bytes: u64,
    own_bytes: u64,
}

impl ListedBackup {
    fn new(backup: &Backup, directory: &Path) -> Self {
        let since = backup.made.and_then(|made| made.duration_since(UNIX_EPOCH).ok());
        Self {
            number: backup.number,
            directory: directory.join(format!("{:06}", backup.number)),
            made: since.map(|since| since.as_secs()),
            files: backup.files,
            bytes: backup.bytes,
            own_bytes: backup.own_bytes,
        }
    }
}

impl fmt::Display for ListedBackup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:>6}  {:23}  {} in {}, {} of them its own",
            self.number,
            self.made.map_or_else(|| "at an unknown time".to_owned(), units::date),
            units::bytes(self.bytes),
            units::counted(self.files, "file"),
            units::bytes(self.own_bytes),
        )
    }
}

pub(super) fn run(args: &BackupArgs, global: &Global, console: &Console) -> Result<Exit> {
    interrupt::watch(console)?;
    let open = || Backups::open(&args.directory);
    if args.list {
        let backups = open()?.list()?;
        if backups.is_empty() {
            console.note("there are no backups");
        }
        for backup in backups {
            console.outcome(&ListedBackup::new(&backup, &args.directory))?;
        }
    } else if let Some(number) = args.verify {
        let backups = open()?;
        let (number, db) = backups.open_backup(number)?;
        console.note(&format!("checking backup {number}"));
        return check::run_on(db, console, move |_, counted| backups.verify(Some(number), counted));
    } else if let Some(keep) = args.prune {
        console.outcome(&Removed { removed: &open()?.prune(keep.get())? })?;
    } else if let Some(number) = args.remove {
        open()?.remove(number)?;
        console.outcome(&Removed { removed: &[number] })?;
    } else {
        make(args, global, console)?;
    }
    Ok(Exit::Done)
}

fn make(args: &BackupArgs, global: &Global, console: &Console) -> Result<()> {
    // A reader finds what a killed process has left, too, and changes nothing.
    let db = store::open_or_follow(global, console)?;
    let mode = if args.full { BackupMode::Full } else { BackupMode::Incremental };
    let progress = Progress::towards(console, "backup");
    let (theirs, directory) = (db.clone(), args.directory.clone());
    let made = watch::count(&progress, move |counted| theirs.backup_with(directory, mode, counted));
    let seconds = progress.elapsed().as_secs_f64();
    drop(progress);
    let BackupReport { number, linked, copied, copied_bytes, bytes } = store::closed(db, made)?;
    let prune = |keep: NonZeroUsize| Backups::open(&args.directory)?.prune(keep.get());
    // The backup is made, whatever becomes of the others.
    let pruned = args.keep.map_or(Ok(Vec::new()), prune);
    let removed = pruned.as_ref().cloned().unwrap_or_default();
    let directory = args.directory.clone();
    let report = Made { directory, number, linked, copied, copied_bytes, bytes, seconds, removed };
    console.outcome(&report)?;
    pruned?;
    Ok(())
}
