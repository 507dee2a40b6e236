//! `get`: prints the value of a key, or a part of it.

use std::io::{BufRead, Read, Seek, SeekFrom};

use cleavedb::{Keyspace, ValueReader};
use serde::Serialize;

use crate::args::{GetArgs, Within};
use crate::console::Console;
use crate::encoding::{JsonBytes, from_argument, to_hex};
use crate::expiry::Timestamp;
use crate::failure::{Exit, Failure, Result};
use crate::global::Global;
use crate::interrupt;
use crate::progress::Progress;
use crate::store;

/// Length of a value whose output may be slow, in bytes.
const LONG: u64 = 8 << 20;

#[derive(Serialize)]
struct Got<'a> {
    key: JsonBytes<'a>,
    value: JsonBytes<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    expires: Option<Timestamp>,
}

pub(super) fn run(
    args: &GetArgs,
    within: &Within,
    global: &Global,
    console: &Console,
) -> Result<Exit> {
    let key = from_argument(&args.key, global.hex)?;
    let db = store::open_or_follow(global, console)?;
    let printed = store::find_keyspace(&db, within)
        .and_then(|keyspace| print(&keyspace, &key, args, console.on_terminal(), console));
    store::closed(db, printed)?;
    Ok(Exit::Done)
}

/// Prints what is asked for of the value of `key`, with a line end if `line_end` is set and it has
/// none.
pub(super) fn print(
    keyspace: &Keyspace,
    key: &[u8],
    args: &GetArgs,
    line_end: bool,
    console: &Console,
) -> Result<()> {
    if args.below {
        return print_below(keyspace, key, line_end, console);
    }
    let mut reader = keyspace.get_reader(key)?.ok_or(Failure::NotFound)?;
    let offset = args.offset.unwrap_or_default().min(reader.len());
    let len = args.length.unwrap_or(u64::MAX).min(reader.len() - offset);
    reader.seek(SeekFrom::Start(offset)).map_err(Failure::of_reader)?;
    if console.json() {
        let (expires, mut value) = (reader.expires(), Vec::new());
        reader.take(len).read_to_end(&mut value).map_err(Failure::of_reader)?;
        let (key, value) = (console.json_bytes(key), console.json_bytes(&value));
        return console.json_line(&Got { key, value, expires: Timestamp::of(expires) });
    }
    let last = write(reader, len, console)?;
    if console.hex() || line_end && last != Some(b'\n') {
        console.write(b"\n")?;
    }
    Ok(())
}

/// Writes `len` bytes to standard output; shows progress for a long value that does not go to the
/// terminal. Returns the last byte.
fn write(mut reader: ValueReader, len: u64, console: &Console) -> Result<Option<u8>> {
    let shows = len >= LONG && !console.on_terminal();
    let progress = shows.then(|| Progress::new(console, "write", Some(len)));
    if shows {
        interrupt::watch(console)?;
    }
    let (mut done, mut last) = (0, None);
    while done < len {
        let piece = reader.fill_buf().map_err(Failure::of_reader)?;
        let piece = &piece[..piece.len().min((len - done) as usize)];
        match console.hex() {
            true => console.write(to_hex(piece).as_bytes())?,
            false => console.write(piece)?,
        }
        (done, last) = (done + piece.len() as u64, piece.last().copied());
        let read = piece.len();
        reader.consume(read);
        if let Some(progress) = &progress {
            progress.at(done);
            interrupt::check()?;
        }
    }
    Ok(last)
}

/// Prints the value of `key` below a merge that cannot be applied.
fn print_below(keyspace: &Keyspace, key: &[u8], line_end: bool, console: &Console) -> Result<()> {
    let value = keyspace.get_below_failed_merge(key)?.ok_or(Failure::NotFound)?;
    if console.json() {
        let (key, value) = (console.json_bytes(key), console.json_bytes(&value));
        return console.json_line(&Got { key, value, expires: None });
    }
    if console.hex() {
        return console.line(to_hex(&value));
    }
    console.write(&value)?;
    if line_end && value.last() != Some(&b'\n') { console.write(b"\n") } else { Ok(()) }
}
