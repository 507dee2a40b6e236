//! `export`: writes the database to a directory tree or a file.

use std::fmt;
use std::io::BufRead;

use cleavedb::{Cursor, Db, Keyspace, KeyspaceOptions};
use cleavedb_units as units;
use serde::Serialize;

use crate::args::{Layout, PlaceArgs, Within};
use crate::console::Console;
use crate::encoding::escape;
use crate::expiry::Lasts;
use crate::failure::{Exit, Failure, Result};
use crate::formats::{self, Sink};
use crate::global::Global;
use crate::interrupt;
use crate::keyspaces::DEFAULT;
use crate::progress::{Progress, moved};
use crate::store;

/// Bytes from which on a value is written piece by piece, where the form allows that.
const LONG: u64 = 1 << 20;

/// Most refused keys that are listed; further ones are only counted.
const NOTES_MAX: u64 = 20;

#[derive(Default, Serialize)]
struct Exported {
    items: u64,
    bytes: u64,
    seconds: f64,
    refused: u64,
    /// Keys whose values cannot be read, since a merge cannot be applied to them.
    unmerged: u64,
    /// Values whose expiry this form does not keep.
    expiring: u64,
    keyspaces: usize,
    /// Keyspaces that are empty or have options, which this form does not keep.
    bare: u64,
}

impl fmt::Display for Exported {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let moved = moved(self.items, self.bytes, self.seconds);
        match self.keyspaces {
            1 => write!(f, "exported {moved}")?,
            many => write!(f, "exported {many} keyspaces: {moved}")?,
        }
        if self.expiring > 0 {
            let expiring = units::thousands(self.expiring as f64);
            let what = "values expire, which this form does not keep; --jsonl does";
            write!(f, "\n{expiring} {what}")?;
        }
        if self.bare > 0 {
            let bare = units::counted(self.bare, "keyspace");
            let what = "without keys or with options, which this form does not keep; --jsonl and \
                        --dir do";
            write!(f, "\n{bare} {what}")?;
        }
        for (keys, what) in [
            (self.refused, "that this form cannot hold"),
            (self.unmerged, "with a merge that cannot be applied"),
        ] {
            if keys > 0 {
                write!(f, "\nNOT EXPORTED: {} {what}", units::counted(keys, "key"))?;
            }
        }
        Ok(())
    }
}

pub(super) fn run(
    place: &PlaceArgs,
    layout: &Layout,
    within: &Within,
    global: &Global,
    console: &Console,
) -> Result<Exit> {
    interrupt::watch(console)?;
    let db = store::open_or_follow(global, console)?;
    let outcome = keyspaces(&db, within).and_then(|keyspaces| {
        let mut sink = formats::sink(place, layout, keyspaces.len() > 1)?;
        let progress = Progress::new(console, "export", Some(db.metrics().data_bytes()));
        save(&keyspaces, sink.as_mut(), &progress, console)
    });
    let outcome = store::closed(db, outcome)?;
    if formats::is_stream(formats::path(place)) {
        // Standard output is used by the export itself.
        console.note(&outcome.to_string());
    } else {
        console.outcome(&outcome)?;
    }
    Ok(if outcome.refused + outcome.unmerged > 0 { Exit::Failed } else { Exit::Done })
}

/// The keyspace of the arguments, or all, the default one first.
fn keyspaces(db: &Db, within: &Within) -> Result<Vec<Keyspace>> {
    let first = store::find_keyspace(db, within)?;
    let others = if within.keyspace.is_none() { db.keyspaces()? } else { Vec::new() };
    Ok([first].into_iter().chain(others).collect())
}

fn save(
    keyspaces: &[Keyspace],
    sink: &mut dyn Sink,
    progress: &Progress,
    console: &Console,
) -> Result<Exported> {
    let mut outcome = Exported { keyspaces: keyspaces.len(), ..Exported::default() };
    // All as of one moment.
    let snapshot = keyspaces[0].snapshot();
    for keyspace in keyspaces {
        let (options, before) = (keyspace.stored_options()?, outcome.items);
        if keyspaces.len() > 1 {
            sink.begin(keyspace.name(), options)?;
        }
        let cursor = snapshot.keyspace(keyspace).cursor(..);
        save_one(cursor, options.ttl.is_some(), sink, &mut outcome, progress, console)?;
        let is_bare = options != KeyspaceOptions::default() || outcome.items == before;
        let says = keyspaces.len() > 1 && !sink.keeps_options() && keyspace.name() != DEFAULT;
        outcome.bare += u64::from(is_bare && says);
    }
    sink.finish()?;
    outcome.seconds = progress.elapsed().as_secs_f64();
    Ok(outcome)
}

/// Writes the items of a keyspace, in which values may expire by themselves.
fn save_one(
    mut cursor: Cursor,
    by_itself: bool,
    sink: &mut dyn Sink,
    outcome: &mut Exported,
    progress: &Progress,
    console: &Console,
) -> Result<()> {
    while cursor.next()? {
        interrupt::check()?;
        let expires = Lasts::of(cursor.expiry(), by_itself);
        let reader = match cursor.reader() {
            Ok(reader) => reader,
            Err(error) => {
                progress.aside(|| console.left_out(error, &mut outcome.unmerged))?;
                continue;
            }
        };
        let (Some(key), Some(mut reader)) = (cursor.key().map(<[u8]>::to_vec), reader) else {
            break;
        };
        let refused = match reader.len() {
            0..LONG => sink.put(&key, reader.fill_buf().map_err(Failure::of_reader)?, expires)?,
            _ => sink.put_reader(&key, &mut reader, expires)?,
        };
        match refused {
            None => {
                outcome.items += 1;
                outcome.bytes += key.len() as u64 + reader.len();
                outcome.expiring += u64::from(expires.is_some() && !sink.keeps_expiry());
            }
            Some(reason) => {
                outcome.refused += 1;
                if outcome.refused <= NOTES_MAX {
                    let note = format!("refused key {}: {reason}", escape(&key));
                    progress.aside(|| console.note(&note));
                }
            }
        }
        progress.at(outcome.bytes);
        progress.moved(outcome.items, outcome.bytes);
    }
    Ok(())
}
