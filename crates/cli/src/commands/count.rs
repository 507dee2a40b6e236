//! `count`: the number of keys.

use cleavedb::Keyspace;
use serde::Serialize;

use crate::args::{CountArgs, Within};
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
    args: &CountArgs,
    within: &Within,
    global: &Global,
    console: &Console,
) -> Result<Exit> {
    interrupt::watch(console)?;
    let db = store::open_or_follow(global, console)?;
    let found = store::find_one_keyspace(&db, within, console);
    let done = found.and_then(|keyspace| print(&keyspace, args, console));
    store::closed(db, done)?;
    Ok(Exit::Done)
}

/// Counts the keys and prints their number.
pub(super) fn print(keyspace: &Keyspace, args: &CountArgs, console: &Console) -> Result<()> {
    let range = bounds(&args.bounds, console.hex())?;
    let mut keys = 0;
    if args.approximate {
        keys = keyspace.approximate_size(range)?.entries;
    } else {
        for item in keyspace.range(range).keys_only() {
            interrupt::check()?;
            item?;
            keys += 1;
        }
    }
    if console.json() { console.json_line(&Counted { keys }) } else { console.line(keys) }
}
