//! `export`: writes the database to a directory tree or a file.

use std::fmt;
use std::io::BufRead;

use cleavedb::Keyspace;
use cleavedb_units as units;
use serde::Serialize;

use crate::args::{Layout, Place, Within};
use crate::console::Console;
use crate::encoding::escape;
use crate::failure::{Exit, Failure, Result};
use crate::formats::{self, Sink};
use crate::global::Global;
use crate::interrupt;
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
    /// Values whose expiry this form does not keep.
    expiring: u64,
}

impl fmt::Display for Exported {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "exported {}", moved(self.items, self.bytes, self.seconds))?;
        if self.expiring > 0 {
            let expiring = units::thousands(self.expiring as f64);
            let what = "values expire, which this form does not keep; --jsonl does";
            write!(f, "\n{expiring} {what}")?;
        }
        if self.refused > 0 {
            let refused = units::thousands(self.refused as f64);
            write!(f, "\nNOT EXPORTED: {refused} keys that this form cannot hold")?;
        }
        Ok(())
    }
}

pub(super) fn run(
    place: &Place,
    layout: &Layout,
    within: &Within,
    global: &Global,
    console: &Console,
) -> Result<Exit> {
    interrupt::watch(console)?;
    let db = store::open_or_follow(global, console)?;
    let found = store::find_keyspace(&db, within);
    let outcome = found.and_then(|keyspace| {
        let mut sink = formats::sink(place, layout)?;
        let progress = Progress::new(console, "export", Some(db.metrics().data_bytes()));
        save(&keyspace, sink.as_mut(), &progress, console)
    });
    let outcome = store::closed(db, outcome)?;
    if formats::is_stream(formats::path(place)) {
        // Standard output is used by the export itself.
        console.note(&outcome.to_string());
    } else {
        console.outcome(&outcome)?;
    }
    Ok(if outcome.refused > 0 { Exit::Failed } else { Exit::Done })
}

fn save(
    keyspace: &Keyspace,
    sink: &mut dyn Sink,
    progress: &Progress,
    console: &Console,
) -> Result<Exported> {
    let mut outcome = Exported::default();
    let mut cursor = keyspace.cursor(..);
    while cursor.next()? {
        interrupt::check()?;
        let expires = cursor.expiry();
        let (Some(key), Some(mut reader)) = (cursor.key().map(<[u8]>::to_vec), cursor.reader()?)
        else {
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
    sink.finish()?;
    outcome.seconds = progress.elapsed().as_secs_f64();
    Ok(outcome)
}
