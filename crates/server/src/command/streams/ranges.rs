//! What streams have: their length, and ranges of their entries.

use super::ids::IdRange;
use super::{STREAM, entries, find, shown_all};
use crate::command::args::{is, number, syntax};
use crate::command::collections;
use crate::exec::{Answer, View};
use crate::resp::reply::Reply;

/// `XLEN key`
pub fn xlen(args: &[&[u8]], view: &mut View<'_>) -> Answer {
    collections::len(args[1], STREAM, view)
}

fn range(args: &[&[u8]], within: IdRange, is_reversed: bool, view: &View<'_>) -> Answer {
    let mut count = -1;
    for pair in args[4..].chunks(2) {
        match pair {
            [word, text] if is(word, "COUNT") => count = number(text)?.max(0),
            _ => return Err(syntax()),
        }
    }
    let Some((stream, _)) = find(args[1], view)? else { return Ok(Reply::Array(Vec::new())) };
    if count == 0 {
        return Ok(Reply::NilArray);
    }
    let count = count.max(0).cast_unsigned();
    shown_all(&stream, entries(&stream, within, is_reversed, count, view)?)
}

/// `XRANGE key start end [COUNT count]`: an end is `-`, `+`, an id, or one behind a bracket.
pub fn xrange(args: &[&[u8]], view: &mut View<'_>) -> Answer {
    range(args, IdRange::of(args[2], args[3])?, false, view)
}

/// `XREVRANGE key end start [COUNT count]`
pub fn xrevrange(args: &[&[u8]], view: &mut View<'_>) -> Answer {
    range(args, IdRange::of(args[3], args[2])?, true, view)
}
