//! `del`: removes a key, or all keys of a range.

use cleavedb::Keyspace;
use cleavedb_units as units;
use serde::Serialize;

use crate::args::{BoundArgs, DelArgs, Within};
use crate::bounds::{KeyBound, bounds};
use crate::console::Console;
use crate::encoding::{JsonBytes, from_argument};
use crate::failure::{Exit, Failure, Result};
use crate::global::Global;
use crate::interrupt;
use crate::store;

#[derive(Serialize)]
struct Deleted<'a> {
    key: JsonBytes<'a>,
}

#[derive(Serialize)]
struct DeletedAll {
    keys: u64,
}

pub(super) fn run(
    args: &DelArgs,
    within: &Within,
    global: &Global,
    console: &Console,
) -> Result<Exit> {
    interrupt::watch(console)?;
    let db = store::open_existing(global, console)?;
    let done =
        store::find_keyspace(&db, within).and_then(|keyspace| delete(&keyspace, args, console));
    store::closed(db, done)?;
    Ok(Exit::Done)
}

/// Removes the keys, and prints their number if it was not known before.
pub(super) fn delete(keyspace: &Keyspace, args: &DelArgs, console: &Console) -> Result<()> {
    let Some(key) = args.key.as_deref() else {
        return delete_all(keyspace, &args.bounds, console);
    };
    let key = from_argument(key, console.hex())?;
    keyspace.delete(&key)?;
    let deleted = Deleted { key: console.json_bytes(&key) };
    if console.json() { console.json_line(&deleted) } else { Ok(()) }
}

/// The range of keys to remove, which must be named.
pub(super) fn range(args: &BoundArgs, console: &Console) -> Result<(KeyBound, KeyBound)> {
    if !args.are_given() {
        let what = "name a key, or a range by --prefix, --from or --to";
        return Err(Failure::Usage(what.to_owned()));
    }
    let (from, to) = bounds(args, console.hex())?;
    if from.as_deref().unwrap_or_default().is_empty() && to.is_none() {
        let what = "this is the range of every key; name one byte at least, or drop the keyspace";
        return Err(Failure::Usage(what.to_owned()));
    }
    Ok((from, to))
}

/// Counts the keys of a range, and removes them in one step: all, or, after a failure or Ctrl-C,
/// none.
fn delete_all(keyspace: &Keyspace, args: &BoundArgs, console: &Console) -> Result<()> {
    let (from, to) = range(args, console)?;
    let whole = || (from.as_deref(), to.as_deref());
    let mut keys = 0;
    for item in keyspace.range(whole()).keys_only() {
        interrupt::check()?;
        item?;
        keys += 1;
    }
    keyspace.delete_range(whole())?;
    if console.json() {
        return console.json_line(&DeletedAll { keys });
    }
    console.line(format_args!("deleted {}", units::counted(keys, "key")))
}
