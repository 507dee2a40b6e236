//! `merge`: changes the value of a key without reading it.

use cleavedb::{Keyspace, Operand};

use crate::args::{MergeArgs, Within};
use crate::console::Console;
use crate::encoding::from_argument;
use crate::failure::{Exit, Result};
use crate::global::Global;
use crate::store;

pub(super) fn run(
    args: &MergeArgs,
    within: &Within,
    global: &Global,
    console: &Console,
) -> Result<Exit> {
    let (key, operand) = parsed(args, console)?;
    let db = store::open_or_create(global, console)?;
    let merged =
        store::keyspace(&db, within).and_then(|keyspace| Ok(keyspace.merge(key, &operand)?));
    store::closed(db, merged)?;
    Ok(Exit::Done)
}

pub(super) fn merge(keyspace: &Keyspace, args: &MergeArgs, console: &Console) -> Result<()> {
    let (key, operand) = parsed(args, console)?;
    Ok(keyspace.merge(key, &operand)?)
}

/// The key and the operand, before anything is opened.
pub(super) fn parsed(args: &MergeArgs, console: &Console) -> Result<(Vec<u8>, Operand)> {
    let bytes = |argument| from_argument(argument, console.hex());
    Ok((bytes(&args.key)?, Operand::new(&*args.operator, bytes(&args.operand)?)))
}
