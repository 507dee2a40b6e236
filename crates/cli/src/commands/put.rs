//! `put`: stores a value under a key.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{self, Cursor, Read};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use cleavedb::{Keyspace, Options, PutOptions, VALUE_LEN_MAX};
use serde::Serialize;

use crate::args::Within;
use crate::console::Console;
use crate::encoding::{JsonBytes, from_argument, from_hex};
use crate::failure::{Exit, Failure, Result};
use crate::formats;
use crate::global::Global;
use crate::interrupt;
use crate::progress::Progress;
use crate::store;

/// How long after the end of a long value on standard input a signal may come that has ended its
/// writer, too: half of a value is not to be stored.
const SIGNAL: Duration = Duration::from_millis(50);

#[derive(Serialize)]
struct Stored<'a> {
    key: JsonBytes<'a>,
    bytes: u64,
}

/// Where a value comes from.
pub(super) enum ValueArgument {
    /// The command line.
    Argument(OsString),
    /// A file, or standard input: `-`.
    File(PathBuf),
}

impl ValueArgument {
    /// The source that the arguments name.
    pub(super) fn of(value: Option<OsString>, file: Option<PathBuf>) -> Self {
        match (value, file) {
            (_, Some(file)) => Self::File(file),
            (Some(value), None) if value != "-" => Self::Argument(value),
            _ => Self::File("-".into()),
        }
    }
}

pub(super) fn run(
    key: &OsStr,
    source: &ValueArgument,
    ttl: Option<Duration>,
    within: &Within,
    global: &Global,
    console: &Console,
) -> Result<Exit> {
    let key = from_argument(key, global.hex)?;
    let path = match source {
        ValueArgument::Argument(value) => {
            let value = from_argument(value, global.hex)?;
            return put_whole(&key, &value, ttl, within, global, console);
        }
        ValueArgument::File(path) => path,
    };
    let mut input = ValueInput::open(path, console)?;
    let begun = input.begin(global.hex)?;
    if let Begun::Whole(value) = begun {
        return put_whole(&key, &value, ttl, within, global, console);
    }
    let db = store::open_or_create(global, console)?;
    let put = store::keyspace(&db, within).and_then(|keyspace| {
        let usual = PutOptions::new();
        let stored = keyspace.put_reader_with(&key, input, ttl.map_or(usual, |ttl| usual.ttl(ttl)));
        stored.map_err(Failure::from).map_err(interrupt::explain)
    });
    let bytes = store::closed(db, put)?;
    announce(&key, bytes, console)?;
    Ok(Exit::Done)
}

/// Stores a value that is in memory.
fn put_whole(
    key: &[u8],
    value: &[u8],
    ttl: Option<Duration>,
    within: &Within,
    global: &Global,
    console: &Console,
) -> Result<Exit> {
    let db = store::open_or_create(global, console)?;
    let put = store::keyspace(&db, within).and_then(|keyspace| store(&keyspace, key, value, ttl));
    store::closed(db, put)?;
    announce(key, value.len() as u64, console)?;
    Ok(Exit::Done)
}

/// Stores a value that lives for `ttl`, or as long as the keyspace says.
pub(super) fn store(
    keyspace: &Keyspace,
    key: &[u8],
    value: &[u8],
    ttl: Option<Duration>,
) -> Result<()> {
    let Some(ttl) = ttl else { return Ok(keyspace.put(key, value)?) };
    Ok(keyspace.put_with(key, value, PutOptions::new().ttl(ttl))?)
}

/// Reports in JSON what was stored; prints nothing in text form.
pub(super) fn announce(key: &[u8], bytes: u64, console: &Console) -> Result<()> {
    let stored = Stored { key: console.json_bytes(key), bytes };
    if console.json() { console.json_line(&stored) } else { Ok(()) }
}

/// A value that comes from a file or from standard input. A signal ends the reading of it.
struct ValueInput<'p> {
    path: &'p Path,
    /// What was read before the database was opened.
    first: Cursor<Vec<u8>>,
    rest: Box<dyn Read>,
    progress: Progress,
    read: u64,
}

/// What the front of an input has told.
enum Begun {
    /// All of the value.
    Whole(Vec<u8>),
    /// More than is held in memory.
    Long,
}

impl<'p> ValueInput<'p> {
    fn open(path: &'p Path, console: &Console) -> Result<Self> {
        interrupt::watch(console)?;
        let of = if path == Path::new("-") { Path::new("/dev/stdin") } else { path };
        let total = fs::metadata(of).ok().filter(fs::Metadata::is_file).map(|found| found.len());
        let progress = Progress::new(console, "read", total);
        let rest = formats::open(path)?;
        Ok(Self { path, first: Cursor::default(), rest, progress, read: 0 })
    }

    /// Reads the front, so that the database is not held open by an input that is slow to begin;
    /// of digits of hex everything.
    fn begin(&mut self, hex: bool) -> Result<Begun> {
        let most =
            if hex { 2 * VALUE_LEN_MAX as u64 + 1 } else { Options::default().tuning.blob_bytes };
        let mut first = Vec::new();
        let read = self.by_ref().take(most).read_to_end(&mut first);
        read.map_err(Failure::file("read", self.path)).map_err(interrupt::explain)?;
        if hex {
            return from_hex(&first).map(Begun::Whole);
        }
        if (first.len() as u64) < most {
            return Ok(Begun::Whole(first));
        }
        self.first = Cursor::new(first);
        Ok(Begun::Long)
    }
}

impl Read for ValueInput<'_> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let before = self.first.read(buf)?;
        if before > 0 {
            return Ok(before);
        }
        let len = self.rest.read(buf)?;
        // Behind the read: a signal may also be what has ended the input.
        if len == 0 && formats::is_stream(self.path) {
            thread::sleep(SIGNAL);
        }
        if interrupt::interrupted() {
            return Err(io::Error::other("interrupted"));
        }
        self.read += len as u64;
        self.progress.at(self.read);
        self.progress.moved(1, self.read);
        Ok(len)
    }
}
