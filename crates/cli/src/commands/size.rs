//! `size`: about how much a range of keys holds.

use std::fmt;

use cleavedb::Keyspace;
use cleavedb_units as units;
use serde::Serialize;

use crate::args::{BoundArgs, Within};
use crate::bounds::bounds;
use crate::console::Console;
use crate::failure::{Exit, Result};
use crate::global::Global;
use crate::store;

#[derive(Serialize)]
struct SizeLine {
    keys: u64,
    index_bytes: u64,
    value_bytes: u64,
}

impl fmt::Display for SizeLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "about {}: {} in the index, {} of values outside it",
            units::counted(self.keys, "key"),
            units::bytes(self.index_bytes),
            units::bytes(self.value_bytes),
        )
    }
}

pub(super) fn run(
    args: &BoundArgs,
    within: &Within,
    global: &Global,
    console: &Console,
) -> Result<Exit> {
    let db = store::open_or_follow(global, console)?;
    let found = store::find_one_keyspace(&db, within, console);
    let done = found.and_then(|keyspace| print(&keyspace, args, console));
    store::closed(db, done)?;
    Ok(Exit::Done)
}

/// Estimates the size of the range and prints it.
pub(super) fn print(keyspace: &Keyspace, args: &BoundArgs, console: &Console) -> Result<()> {
    let size = keyspace.approximate_size(bounds(args, console.hex())?)?;
    console.outcome(&SizeLine {
        keys: size.entries,
        index_bytes: size.index_bytes,
        value_bytes: size.value_bytes,
    })
}
