//! `put`: a value under a key.

use std::ffi::OsStr;
use std::io::{self, Read};
use std::path::Path;

use cleavedb::{Durability, VALUE_LEN_MAX};
use serde::Serialize;

use crate::args::Global;
use crate::console::Console;
use crate::encoding::{JsonBytes, from_argument, from_hex};
use crate::failure::{Exit, Failure, Result};
use crate::store;

#[derive(Serialize)]
struct Stored<'a> {
    key: JsonBytes<'a>,
    bytes: usize,
}

pub(super) fn run(
    key: &OsStr,
    value: Option<&OsStr>,
    durability: Durability,
    global: &Global,
    console: &Console,
) -> Result<Exit> {
    let key = from_argument(key, global.hex)?;
    let value = match value {
        Some(value) if value != "-" => from_argument(value, global.hex)?,
        _ => from_stdin(global.hex)?,
    };
    let db = store::open_or_create(global)?;
    db.put_with(&key, &value, durability)?;
    db.close()?;
    if console.json() {
        console.json_line(&Stored { key: console.json_bytes(&key), bytes: value.len() })?;
    }
    Ok(Exit::Done)
}

/// All of standard input, but not more than shows that it is too long for a value.
fn from_stdin(hex: bool) -> Result<Vec<u8>> {
    let most = VALUE_LEN_MAX as u64 * if hex { 2 } else { 1 };
    let mut value = Vec::new();
    let read = io::stdin().take(most + 1).read_to_end(&mut value);
    read.map_err(Failure::file("read", Path::new("standard input")))?;
    if hex { from_hex(&value) } else { Ok(value) }
}
