//! `import`: stores a directory tree or a file in the database.

use std::fmt;
use std::fs;
use std::path::Path;

use cleavedb::{ErrorKind, Keyspace};
use cleavedb_units as units;
use serde::Serialize;

use super::bulk_import::{ImportTarget, InBatches, SortedImport};
use crate::args::{BulkArgs, Layout, PlaceArgs, Within};
use crate::console::Console;
use crate::failure::{Exit, Failure, Result};
use crate::formats::{self, Input, ItemSource};
use crate::global::Global;
use crate::interrupt;
use crate::progress::{Progress, moved};
use crate::space::{UNTOLD, cost};
use crate::store;

/// Most notes of one kind; further ones are only counted.
const NOTES_MAX: u64 = 20;

#[derive(Default, Serialize)]
struct Imported {
    items: u64,
    bytes: u64,
    seconds: f64,
    skipped: u64,
    failed: u64,
    written: u64,
    write_amplification: f64,
}

impl fmt::Display for Imported {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "imported {}; {} written to disk",
            moved(self.items, self.bytes, self.seconds),
            units::bytes(self.written),
        )?;
        let cost = cost(self.write_amplification, self.bytes);
        if cost != UNTOLD {
            write!(f, ", {cost} per byte")?;
        }
        if self.skipped > 0 {
            write!(f, "\nskipped: {}", units::thousands(self.skipped as f64))?;
        }
        if self.failed > 0 {
            write!(f, "\nNOT IMPORTED: {}", units::thousands(self.failed as f64))?;
        }
        Ok(())
    }
}

pub(super) fn run(
    place: &PlaceArgs,
    layout: &Layout,
    bulk: &BulkArgs,
    within: &Within,
    global: &Global,
    console: &Console,
) -> Result<Exit> {
    interrupt::watch(console)?;
    // The source first: a mistyped name must not leave an empty database.
    let mut source = formats::source(place, layout, &global.db).map_err(interrupt::explain)?;
    let db = store::open_or_create(global, console)?;
    let total = [&place.jsonl, &place.csv].into_iter().flatten().next();
    let total = total.and_then(|file| fs::metadata(file).ok()).filter(fs::Metadata::is_file);
    let progress = Progress::new(console, "import", total.map(|metadata| metadata.len()));
    let from = From { source: source.as_mut(), path: formats::path(place), within };
    let outcome = store::keyspace(&db, within).and_then(|keyspace| match bulk.bulk {
        false => load(from, &keyspace, &progress, console),
        true => {
            let mut target = SortedImport::new(&keyspace, bulk, global)?;
            let loaded = load_at_once(from, &mut target, &progress, console);
            loaded.map_err(|cause| match (Box::new(cause), target.loaded()) {
                (cause, 0) => Failure::Undone { cause },
                (cause, items) => Failure::Stopped { cause, items },
            })
        }
    });
    drop(progress);
    let outcome = store::closed(db, outcome)?;
    console.outcome(&outcome)?;
    Ok(if outcome.failed > 0 { Exit::Failed } else { Exit::Done })
}

/// Where the items come from.
struct From<'a> {
    source: &'a mut dyn ItemSource,
    path: &'a Path,
    /// The keyspace of the arguments, which a source that names keyspaces does not have.
    within: &'a Within,
}

/// Stores the items of the source. Items before an error, or before Ctrl-C, stay stored.
fn load(
    from: From<'_>,
    keyspace: &Keyspace,
    progress: &Progress,
    console: &Console,
) -> Result<Imported> {
    let mut outcome = Imported::default();
    let mut target = InBatches::new(keyspace);
    let read = read_all(from, &mut target, &mut outcome, progress, console);
    let loader = &mut target.loader;
    let stored = loader.finish();
    let items = loader.stored;
    let stopped = |cause| Failure::Stopped { cause: Box::new(cause), items };
    read.and(stored).map_err(stopped)?;
    (outcome.items, outcome.bytes) = (loader.items, loader.bytes);
    outcome.measure(keyspace, progress)
}

/// Stores all items of the source at once, or none.
fn load_at_once(
    from: From<'_>,
    target: &mut SortedImport,
    progress: &Progress,
    console: &Console,
) -> Result<Imported> {
    let mut outcome = Imported::default();
    read_all(from, target, &mut outcome, progress, console)?;
    (outcome.items, outcome.bytes) = target.finish(progress)?;
    outcome.measure(target.keyspace(), progress)
}

impl Imported {
    /// Adds time and writes, those of the close included.
    fn measure(mut self, keyspace: &Keyspace, progress: &Progress) -> Result<Self> {
        let db = keyspace.database();
        db.flush()?;
        let metrics = db.metrics();
        self.seconds = progress.elapsed().as_secs_f64();
        (self.written, self.write_amplification) =
            (metrics.written(), metrics.write_amplification());
        Ok(self)
    }
}

/// Reads the whole source. An item that can never be stored is an error of its place there.
fn read_all(
    mut from: From<'_>,
    target: &mut dyn ImportTarget,
    outcome: &mut Imported,
    progress: &Progress,
    console: &Console,
) -> Result<()> {
    let read = read_items(&mut from, target, outcome, progress, console);
    read.map_err(|failure| match failure {
        Failure::Engine(error) if error.kind() == ErrorKind::InvalidArgument => {
            from.failed(error.message())
        }
        other => other,
    })
}

impl From<'_> {
    /// An item that cannot be stored.
    fn failed(&self, message: &str) -> Failure {
        let message = format!("{}: {message}", self.source.place());
        Failure::Input { path: self.path.to_owned(), message }
    }

    /// Fails if `keyspace` is not the only one that the arguments allow.
    fn check(&self, keyspace: Option<&str>) -> Result<()> {
        match keyspace.filter(|_| self.within.keyspace.is_some()) {
            Some(name) => Err(self.failed(&format!(
                "the keyspace is {name}: what has keyspaces is imported without --keyspace"
            ))),
            None => Ok(()),
        }
    }
}

fn read_items(
    from: &mut From<'_>,
    target: &mut dyn ImportTarget,
    outcome: &mut Imported,
    progress: &Progress,
    console: &Console,
) -> Result<()> {
    let note = |count: u64, what: &str| {
        if count <= NOTES_MAX {
            progress.aside(|| console.note(what));
        }
    };
    while let Some(input) = from.source.next().map_err(interrupt::explain)? {
        if let Input::Pair(..) | Input::File(..) = input {
            let keyspace = from.source.keyspace();
            from.check(keyspace)?;
            target.enter(keyspace)?;
        }
        match input {
            Input::Keyspace(name, options) => {
                from.check(Some(&name))?;
                if let Some(what) = target.declare(&name, options)? {
                    progress.aside(|| console.note(&what));
                }
            }
            Input::Pair(key, value, expires) => target.take(&key, &value, expires)?,
            Input::File(key, file, len) => target.take_file(&key, file, len)?,
            Input::Skipped(what) => {
                outcome.skipped += 1;
                note(outcome.skipped, &what);
            }
            Input::Failed(what) => {
                outcome.failed += 1;
                note(outcome.failed, &what);
            }
        }
        progress.at(from.source.position());
        let (items, bytes) = target.taken();
        progress.moved(items, bytes);
        interrupt::check()?;
    }
    Ok(())
}
