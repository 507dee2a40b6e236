//! `count`: the number of keys.

use cleavedb::Keyspace;
use serde::Serialize;

use crate::args::{BoundArgs, Within};
use crate::bounds::bounds;
use crate::console::Console;
use crate::failure::{Exit, Result};
use crate::global::Global;
use crate::interrupt;
use crate::store;

#[derive(Serialize)]
struct Counted {
    keys: u64,
}

pub(super) fn run(
    args: &BoundArgs,
    within: &Within,
    global: &Global,
    console: &Console,
) -> Result<Exit> {
    interrupt::watch(console)?;
    let db = store::open_to_read(global, console)?;
    let found = store::find_keyspace(&db, within);
    let done = found.and_then(|keyspace| print(&keyspace, args, console));
    store::closed(db, done)?;
    Ok(Exit::Done)
}

/// Counts the keys and prints their number.
pub(super) fn print(keyspace: &Keyspace, args: &BoundArgs, console: &Console) -> Result<()> {
    let (from, to) = bounds(args, console.hex())?;
    let mut keys = 0;
    for item in keyspace.range((from, to)).keys_only() {
        interrupt::check()?;
        item?;
        keys += 1;
    }
    if console.json() { console.json_line(&Counted { keys }) } else { console.line(keys) }
}
