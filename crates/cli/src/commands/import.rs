//! `import`: stores a directory tree or a file in the database.

use std::fmt;
use std::fs;

use cleavedb::{ErrorKind, Keyspace};
use cleavedb_units as units;
use serde::Serialize;

use super::bulk_import::{SortedImport, Target};
use crate::args::{BulkArgs, Layout, Place, Within};
use crate::console::Console;
use crate::failure::{Exit, Failure, Result};
use crate::formats::{self, Input, Source};
use crate::global::Global;
use crate::interrupt;
use crate::loader::Loader;
use crate::progress::{Progress, moved};
use crate::space::cost;
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
            "imported {}; {} written to disk, {} per byte",
            moved(self.items, self.bytes, self.seconds),
            units::bytes(self.written),
            cost(self.write_amplification, self.bytes),
        )?;
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
    (place, layout): (&Place, &Layout),
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
    let outcome = store::keyspace(&db, within).and_then(|keyspace| match bulk.bulk {
        false => load(source.as_mut(), place, &keyspace, &progress, console),
        true => {
            let mut target = SortedImport::new(&keyspace, bulk, global)?;
            let loaded = load_at_once(source.as_mut(), place, &mut target, &progress, console);
            loaded.map_err(|cause| Failure::Undone { cause: Box::new(cause) })
        }
    });
    drop(progress);
    let outcome = store::closed(db, outcome)?;
    console.outcome(&outcome)?;
    Ok(if outcome.failed > 0 { Exit::Failed } else { Exit::Done })
}

/// Stores the items of the source. Items before an error, or before Ctrl-C, stay stored.
fn load(
    source: &mut dyn Source,
    place: &Place,
    keyspace: &Keyspace,
    progress: &Progress,
    console: &Console,
) -> Result<Imported> {
    let mut outcome = Imported::default();
    let mut loader = Loader::new(keyspace);
    let read = read_all((source, place), &mut loader, &mut outcome, progress, console);
    let stored = loader.finish();
    let items = loader.stored;
    let stopped = |cause| Failure::Stopped { cause: Box::new(cause), items };
    read.and(stored).map_err(stopped)?;
    (outcome.items, outcome.bytes) = (loader.items, loader.bytes);
    outcome.measure(keyspace, progress)
}

/// Stores all items of the source at once, or none.
fn load_at_once(
    source: &mut dyn Source,
    place: &Place,
    target: &mut SortedImport,
    progress: &Progress,
    console: &Console,
) -> Result<Imported> {
    let mut outcome = Imported::default();
    read_all((source, place), target, &mut outcome, progress, console)?;
    let report = target.finish(progress)?;
    (outcome.items, outcome.bytes) = (report.entries, report.bytes);
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
    (source, place): (&mut dyn Source, &Place),
    target: &mut dyn Target,
    outcome: &mut Imported,
    progress: &Progress,
    console: &Console,
) -> Result<()> {
    let read = read_items(source, target, outcome, progress, console);
    read.map_err(|failure| match failure {
        Failure::Engine(error) if error.kind() == ErrorKind::InvalidArgument => {
            let message = format!("{}: {}", source.place(), error.message());
            Failure::Input { path: formats::path(place).to_owned(), message }
        }
        other => other,
    })
}

fn read_items(
    source: &mut dyn Source,
    target: &mut dyn Target,
    outcome: &mut Imported,
    progress: &Progress,
    console: &Console,
) -> Result<()> {
    let note = |count: u64, what: &str| {
        if count <= NOTES_MAX {
            progress.aside(|| console.note(what));
        }
    };
    while let Some(input) = source.next().map_err(interrupt::explain)? {
        match input {
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
        progress.at(source.position());
        let (items, bytes) = target.taken();
        progress.moved(items, bytes);
        interrupt::check()?;
    }
    Ok(())
}
