//! `expire`: gives the value of a key another time to live.

use std::ffi::OsStr;
use std::time::Duration;

use crate::args::Within;
use crate::console::Console;
use crate::encoding::from_argument;
use crate::failure::{Exit, Failure, Result};
use crate::global::Global;
use crate::store;

pub(super) fn run(
    (key, ttl): (&OsStr, Option<Duration>),
    within: &Within,
    global: &Global,
    console: &Console,
) -> Result<Exit> {
    let key = from_argument(key, global.hex)?;
    let db = store::open_existing(global, console)?;
    let set = store::find_keyspace(&db, within).and_then(|keyspace| {
        let is_there = match ttl {
            Some(ttl) => keyspace.set_ttl(&key, ttl)?,
            None => keyspace.set_expiry(&key, None)?,
        };
        if is_there { Ok(()) } else { Err(Failure::NotFound) }
    });
    store::closed(db, set)?;
    Ok(Exit::Done)
}
