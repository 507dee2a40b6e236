//! `get`: prints the value of a key.

use std::ffi::OsStr;

use cleavedb::Keyspace;
use serde::Serialize;

use crate::args::Within;
use crate::console::Console;
use crate::encoding::{JsonBytes, from_argument, to_hex};
use crate::expiry::Moment;
use crate::failure::{Exit, Failure, Result};
use crate::global::Global;
use crate::progress::Progress;
use crate::store;

/// Length of a value whose output may be slow, in bytes, and of a piece of it.
const LONG: usize = 8 << 20;
const PIECE: usize = 1 << 20;

#[derive(Serialize)]
struct Got<'a> {
    key: JsonBytes<'a>,
    value: JsonBytes<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    expires: Option<Moment>,
}

pub(super) fn run(
    key: &OsStr,
    within: &Within,
    global: &Global,
    console: &Console,
) -> Result<Exit> {
    let key = from_argument(key, global.hex)?;
    let db = store::open_or_follow(global, console)?;
    let printed = store::find_keyspace(&db, within)
        .and_then(|keyspace| print(&keyspace, &key, console.on_terminal(), console));
    store::closed(db, printed)?;
    Ok(Exit::Done)
}

/// Prints the value of `key`, with a line end if `line_end` is set and it has none.
pub(super) fn print(
    keyspace: &Keyspace,
    key: &[u8],
    line_end: bool,
    console: &Console,
) -> Result<()> {
    let (value, expires) = keyspace.get_with_expiry(key)?.ok_or(Failure::NotFound)?;
    if console.json() {
        let (key, value) = (console.json_bytes(key), console.json_bytes(&value));
        return console.json_line(&Got { key, value, expires: Moment::of(expires) });
    }
    if console.hex() {
        return console.line(to_hex(&value));
    }
    write(&value, console)?;
    if line_end && !value.ends_with(b"\n") {
        console.write(b"\n")?;
    }
    Ok(())
}

/// Writes the value to standard output; shows progress for a long one that does not go to the
/// terminal.
fn write(value: &[u8], console: &Console) -> Result<()> {
    if value.len() < LONG || console.on_terminal() {
        return console.write(value);
    }
    let progress = Progress::new(console, "write", Some(value.len() as u64));
    for (at, piece) in value.chunks(PIECE).enumerate() {
        console.write(piece)?;
        progress.at((at * PIECE + piece.len()) as u64);
    }
    Ok(())
}
