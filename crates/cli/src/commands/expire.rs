//! `expire`: gives the value of a key another time to live.

use std::ffi::OsStr;
use std::time::Duration;

use cleavedb::Keyspace;

use crate::args::Within;
use crate::console::Console;
use crate::encoding::from_argument;
use crate::failure::{Exit, Failure, Result};
use crate::global::Global;
use crate::store;

pub(super) fn run(
    key: &OsStr,
    ttl: Option<Duration>,
    within: &Within,
    global: &Global,
    console: &Console,
) -> Result<Exit> {
    let key = from_argument(key, global.hex)?;
    let db = store::open_existing(global, console)?;
    let found = store::find_keyspace(&db, within);
    store::closed(db, found.and_then(|keyspace| expire(&keyspace, &key, ttl)))?;
    Ok(Exit::Done)
}

/// Gives the value of `key` another time to live; `None` for good.
pub(super) fn expire(keyspace: &Keyspace, key: &[u8], ttl: Option<Duration>) -> Result<()> {
    let is_there = match ttl {
        Some(ttl) => keyspace.set_ttl(key, ttl)?,
        None => keyspace.set_expiry(key, None)?,
    };
    if is_there { Ok(()) } else { Err(Failure::NotFound) }
}
