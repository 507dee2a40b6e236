//! The database that a command works on, and whether the command may create it.

use std::fs;
use std::io;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use cleavedb::reports::RecoveryReport;
use cleavedb::{Db, Error, ErrorKind, Keyspace, Options};
use cleavedb_named as named;
use cleavedb_units as units;

use crate::args::Within;
use crate::console::Console;
use crate::failure::{Failure, Result};
use crate::global::Global;
use crate::interrupt;
use crate::placement;

/// Pauses between two looks at a lock that another process has: the first one, and the longest.
const PAUSE: Duration = Duration::from_millis(1);
const PAUSE_MAX: Duration = Duration::from_millis(50);

/// Opens an existing database, with the preset that it was created with, and warns of losses.
pub fn open_existing(global: &Global, console: &Console) -> Result<Db> {
    warned(waiting(global, || open(&global.db, existing(global)?))?, console)
}

/// Opens an existing database for reading only, and warns of losses. If another process has it open
/// for writing, follows that process: what it has written up to now is read. A note says so.
pub fn open_or_follow(global: &Global, console: &Console) -> Result<Db> {
    warned(find_or_follow(global, console)?, console)
}

/// Opens a database as [`open_or_follow`] does; the caller reports losses.
pub fn find_or_follow(global: &Global, console: &Console) -> Result<Db> {
    followed_if_locked(global, console, |options| Db::open_read_only_with(&global.db, options))
}

/// Opens an existing database to make links to its files, and warns of losses; follows another
/// process as [`open_or_follow`] does.
pub fn open_to_link(global: &Global, console: &Console) -> Result<Db> {
    let open = |options| Db::open(&global.db, options);
    warned(followed_if_locked(global, console, open)?, console)
}

fn followed_if_locked(
    global: &Global,
    console: &Console,
    open: impl FnOnce(Options) -> cleavedb::Result<Db>,
) -> Result<Db> {
    let options = existing(global)?;
    match open(options.clone()) {
        Err(e) if e.kind() == ErrorKind::Locked => {
            let note = format!("following the process that has {} open", global.db.display());
            console.note(&note);
            Ok(Db::open_secondary_with(&global.db, options)?)
        }
        opened => Ok(opened?),
    }
}

/// Opens an existing database beside the process that writes it, if there is one.
pub fn follow(global: &Global) -> Result<Db> {
    Ok(Db::open_secondary_with(&global.db, existing(global)?)?)
}

/// Calls `open`, which needs the database for itself, again and again as long as another process
/// has it and `--wait` says.
pub fn waiting<T>(global: &Global, open: impl Fn() -> Result<T>) -> Result<T> {
    let (begun, mut pause) = (Instant::now(), PAUSE);
    loop {
        match open() {
            Err(Failure::Engine(e)) if e.kind() == ErrorKind::Locked => {
                let left = global.wait.saturating_sub(begun.elapsed());
                if left.is_zero() {
                    return Err(e.into());
                }
                interrupt::check()?;
                thread::sleep(pause.min(left));
                pause = (pause * 2).min(PAUSE_MAX);
            }
            opened => return opened,
        }
    }
}

/// The options for an existing database.
fn existing(global: &Global) -> Result<Options> {
    let path = &global.db;
    let stored = stored(path)?;
    // The engine explains a directory with files but without a database.
    if stored.is_none() && is_empty(path)? {
        return Err(Failure::NoDatabase(path.clone()));
    }
    let usual = usual(global, stored);
    Ok(Options { create_if_missing: false, ..options(global, usual)? })
}

/// Opens the database, or creates it, and warns of losses.
pub fn open_or_create(global: &Global, console: &Console) -> Result<Db> {
    let open = || {
        let usual = usual(global, stored(&global.db)?);
        open(&global.db, options(global, usual)?)
    };
    warned(waiting(global, open)?, console)
}

fn warned(db: Db, console: &Console) -> Result<Db> {
    losses(db.recovery_report()).iter().for_each(|loss| console.warn(loss));
    Ok(db)
}

/// Losses and repairs of an open, in words.
pub fn losses(report: &RecoveryReport) -> Vec<String> {
    let RecoveryReport { bytes_cut, operations_lost, window_lost, copies_healed, .. } = *report;
    let mut losses = Vec::new();
    if window_lost {
        losses.push(
            "the log window is lost, and with it the last writes that were not synced".to_owned(),
        );
    }
    if operations_lost > 0 {
        losses.push(format!(
            "{} lost: not synced, and damaged in the log window, or on a detached disk",
            units::counted(operations_lost, "operation")
        ));
    }
    if bytes_cut > 0 {
        losses.push(format!(
            "{} behind the last whole write were cut: writes that were not synced",
            units::bytes(bytes_cut)
        ));
    }
    if copies_healed > 0 {
        losses.push(format!(
            "{} of the manifest had a damaged copy; the other one was used",
            units::counted(copies_healed, "edit")
        ));
    }
    losses
}

/// The options that the arguments do not change: those of the preset that they name, or of the
/// database as it was `stored`, or the defaults. Another preset with the same layout only changes
/// the tuning.
pub fn usual(global: &Global, stored: Option<Options>) -> Options {
    let stored = stored.unwrap_or_default();
    match global.preset {
        Some(preset) if stored.preset != Some(preset) => {
            Options { preset: Some(preset), layout: None, ..stored }
        }
        _ => stored,
    }
}

/// The options of the arguments of every command, the others being `usual`.
pub fn options(global: &Global, usual: Options) -> Result<Options> {
    // On the command line every placement has a directory.
    let volumes = placement::volumes(&global.place, Path::new(""));
    let accept_lost_window = global.accept_lost_window;
    let mut options = Options { volumes, accept_lost_window, ..usual };
    let of_with = |why| Failure::Usage(format!("--with {why}"));
    named::set(&mut options, &global.with).map_err(of_with)?;
    options.space_limit = global.space_limit.or(options.space_limit);
    Ok(options)
}

/// Opens the database in `path` with `options`.
pub fn open(path: &Path, options: Options) -> Result<Db> {
    Ok(Db::open(path, options)?)
}

/// The keyspace that the arguments name, which must exist.
pub fn find_keyspace(db: &Db, within: &Within) -> Result<Keyspace> {
    let name = name(within);
    let found = db.find_keyspace(name)?;
    Ok(found.ok_or_else(|| {
        let what = "there is no keyspace of that name; `cleave keyspace list` shows all";
        Error::new(ErrorKind::NoKeyspace, what).with("keyspace", name)
    })?)
}

/// Finds the keyspace for a command that shows what is in one keyspace: a note says if there are
/// others, and none was named.
pub fn find_one_keyspace(db: &Db, within: &Within, console: &Console) -> Result<Keyspace> {
    let found = find_keyspace(db, within)?;
    let others = db.keyspaces()?.len();
    if within.keyspace.is_none() && others > 0 {
        console.note(&format!(
            "this is the default keyspace, one of {}; `cleave keyspace list` names the others, and \
             --keyspace NAME shows one",
            others + 1
        ));
    }
    Ok(found)
}

/// The keyspace that the arguments name, which is created if there is none.
pub fn keyspace(db: &Db, within: &Within) -> Result<Keyspace> {
    Ok(db.keyspace(name(within))?)
}

fn name(within: &Within) -> &str {
    within.keyspace.as_deref().unwrap_or("default")
}

/// Closes the database after `done`, whose failure matters more than that of the close.
pub fn closed<T>(db: Db, done: Result<T>) -> Result<T> {
    let closed = db.close();
    let done = done?;
    closed?;
    Ok(done)
}

/// The options for the database in `path` as it was created, if there is one.
pub fn stored(path: &Path) -> Result<Option<Options>> {
    Ok(Db::stored_options(path).map_err(|error| error.with("path", path.display()))?)
}

/// Whether the directory is empty or missing.
pub fn is_empty(path: &Path) -> Result<bool> {
    match fs::read_dir(path) {
        Ok(mut entries) => Ok(entries.next().is_none()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(true),
        Err(error) => Err(Failure::file("list", path)(error)),
    }
}
