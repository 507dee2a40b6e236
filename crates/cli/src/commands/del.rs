//! `del`: removes a key, or all keys that begin with some bytes.

use std::ffi::OsStr;

use cleavedb::{Durability, Keyspace};
use serde::Serialize;

use crate::args::{DelArgs, Within};
use crate::bounds::end_of_prefix;
use crate::console::Console;
use crate::encoding::{JsonBytes, from_argument};
use crate::failure::{Exit, Failure, Result};
use crate::global::Global;
use crate::interrupt;
use crate::loader::Loader;
use crate::store;

/// Keys that are looked up before they are removed.
const PIECE: usize = 1000;

#[derive(Serialize)]
struct Deleted<'a> {
    key: JsonBytes<'a>,
}

#[derive(Serialize)]
struct DeletedAll<'a> {
    prefix: JsonBytes<'a>,
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
    let done = store::find_keyspace(&db, within)
        .and_then(|keyspace| delete(&keyspace, args, Durability::Sync, console));
    store::closed(db, done)?;
    Ok(Exit::Done)
}

/// Removes the keys, and prints their number if it was not known before.
pub(super) fn delete(
    keyspace: &Keyspace,
    args: &DelArgs,
    durability: Durability,
    console: &Console,
) -> Result<()> {
    if let Some(prefix) = &args.prefix {
        return delete_all(keyspace, prefix, console);
    }
    let key = args.key.as_deref().expect("one of them is required");
    let key = from_argument(key, console.hex())?;
    keyspace.delete_with(&key, durability)?;
    let deleted = Deleted { key: console.json_bytes(&key) };
    if console.json() { console.json_line(&deleted) } else { Ok(()) }
}

/// Removes the keys that begin with `prefix`; keys removed before a failure stay removed.
fn delete_all(keyspace: &Keyspace, prefix: &OsStr, console: &Console) -> Result<()> {
    let prefix = from_argument(prefix, console.hex())?;
    if prefix.is_empty() {
        let what = "an empty prefix is that of every key; name one byte at least";
        return Err(Failure::Usage(what.to_owned()));
    }
    let mut loader = Loader::new(keyspace);
    let to = end_of_prefix(&prefix);
    let deleted = delete_from(keyspace, prefix.clone(), to.as_deref(), &mut loader);
    let finished = loader.finish();
    deleted.and(finished)?;
    let keys = loader.stored;
    if console.json() {
        return console.json_line(&DeletedAll { prefix: console.json_bytes(&prefix), keys });
    }
    console.line(format_args!("deleted {keys} keys"))
}

/// Removes the keys from `from` up to `to`. Ranges are reopened often: a long-lived one would keep
/// deleted data, on a disk that may be full.
fn delete_from(
    keyspace: &Keyspace,
    mut from: Vec<u8>,
    to: Option<&[u8]>,
    loader: &mut Loader,
) -> Result<()> {
    loop {
        let some = keyspace.range((Some(&from[..]), to)).keys_only().take(PIECE);
        let keys = some.map(|item| Ok(item?.key)).collect::<Result<Vec<_>>>()?;
        for key in &keys {
            interrupt::check()?;
            loader.delete(key)?;
        }
        let Some(last) = keys.last() else { return Ok(()) };
        from = [last, &b"\0"[..]].concat();
    }
}
