//! `merge`: changes the value of a key without reading it.

use std::ffi::OsStr;

use cleavedb::{Durability, Keyspace, Operand};

use crate::args::Within;
use crate::console::Console;
use crate::encoding::from_argument;
use crate::failure::{Exit, Result};
use crate::global::Global;
use crate::store;

pub(super) fn run(
    (key, operator, operand): (&OsStr, &str, &OsStr),
    durability: Durability,
    within: &Within,
    global: &Global,
    console: &Console,
) -> Result<Exit> {
    let (key, operand) = (from_argument(key, global.hex)?, from_argument(operand, global.hex)?);
    let db = store::open_or_create(global, console)?;
    let merged = store::keyspace(&db, within)
        .and_then(|keyspace| merge(&keyspace, (&key, operator, &operand), durability));
    store::closed(db, merged)?;
    Ok(Exit::Done)
}

pub(super) fn merge(
    keyspace: &Keyspace,
    (key, operator, operand): (&[u8], &str, &[u8]),
    durability: Durability,
) -> Result<()> {
    Ok(keyspace.merge_with(key, &Operand::new(operator, operand), durability)?)
}
