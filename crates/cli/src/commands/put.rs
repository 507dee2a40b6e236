//! `put`: stores a value under a key.

use std::ffi::OsStr;
use std::fs;
use std::io::Read;
use std::path::Path;
use std::time::Duration;

use cleavedb::{Durability, Keyspace, VALUE_LEN_MAX, WriteBatch};
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

/// Bytes after which progress is shown again.
const PIECE: u64 = 1 << 20;

#[derive(Serialize)]
struct Stored<'a> {
    key: JsonBytes<'a>,
    bytes: usize,
}

pub(super) fn run(
    (key, value): (&OsStr, Option<&OsStr>),
    (ttl, durability): (Option<Duration>, Durability),
    within: &Within,
    global: &Global,
    console: &Console,
) -> Result<Exit> {
    let key = from_argument(key, global.hex)?;
    let value = match value {
        Some(value) if value != "-" => from_argument(value, global.hex)?,
        _ => from_stdin(global.hex, console)?,
    };
    let db = store::open_or_create(global, console)?;
    let put = store::keyspace(&db, within)
        .and_then(|keyspace| store(&keyspace, (&key, &value), ttl, durability));
    store::closed(db, put)?;
    announce(&key, &value, console)?;
    Ok(Exit::Done)
}

/// Stores a value that lives for `ttl`, or as long as the keyspace says.
pub(super) fn store(
    keyspace: &Keyspace,
    (key, value): (&[u8], &[u8]),
    ttl: Option<Duration>,
    durability: Durability,
) -> Result<()> {
    let Some(ttl) = ttl else { return Ok(keyspace.put_with(key, value, durability)?) };
    let mut batch = WriteBatch::new();
    batch.keyspace(keyspace).put_with_ttl(key, value, ttl)?;
    Ok(keyspace.database().write_with(&batch, durability)?)
}

/// Reports in JSON what was stored; prints nothing in text form.
pub(super) fn announce(key: &[u8], value: &[u8], console: &Console) -> Result<()> {
    let stored = Stored { key: console.json_bytes(key), bytes: value.len() };
    if console.json() { console.json_line(&stored) } else { Ok(()) }
}

/// All of standard input, up to the length at which it is too long for a value. Handles signals
/// while it waits for input.
fn from_stdin(hex: bool, console: &Console) -> Result<Vec<u8>> {
    interrupt::watch(console)?;
    let path = Path::new("-");
    let most = VALUE_LEN_MAX as u64 * if hex { 2 } else { 1 };
    let total = fs::metadata("/dev/stdin").ok().filter(fs::Metadata::is_file);
    let progress = Progress::new(console, "read", total.map(|found| found.len()));
    let (mut value, mut input) = (Vec::new(), formats::open(path)?.take(most + 1));
    loop {
        let read = input.by_ref().take(PIECE).read_to_end(&mut value);
        let read = read.map_err(Failure::file("read", path)).map_err(interrupt::explain)?;
        if read == 0 {
            break;
        }
        progress.at(value.len() as u64);
        progress.moved(1, value.len() as u64);
        interrupt::check()?;
    }
    if hex { from_hex(&value) } else { Ok(value) }
}
