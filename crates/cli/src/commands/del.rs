//! `del`: a key goes.

use std::ffi::OsStr;

use cleavedb::Durability;
use serde::Serialize;

use crate::args::Global;
use crate::console::Console;
use crate::encoding::{JsonBytes, from_argument};
use crate::failure::{Exit, Result};
use crate::store;

#[derive(Serialize)]
struct Deleted<'a> {
    key: JsonBytes<'a>,
}

pub(super) fn run(key: &OsStr, global: &Global, console: &Console) -> Result<Exit> {
    let key = from_argument(key, global.hex)?;
    let db = store::open_existing(global)?;
    db.delete_with(&key, Durability::Sync)?;
    db.close()?;
    if console.json() {
        console.json_line(&Deleted { key: console.json_bytes(&key) })?;
    }
    Ok(Exit::Done)
}
