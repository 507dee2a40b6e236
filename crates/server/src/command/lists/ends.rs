//! What is pushed to the ends of lists and popped from them, with or without a wait.

use std::borrow::Cow;
use std::ops::Range;

use bytes::Bytes;

use super::{LIST, Side, at, find, position, put, remove_all, slice};
use crate::command::args::{at_least, count, is, syntax, timeout};
use crate::command::collections::REMOVED_ALONE;
use crate::exec::{Answer, Halt, KeyWait, OpenCollection, View, event};
use crate::model::element::{MEMBERS, of_position};
use crate::model::record::Collection;
use crate::resp::reply::Reply;

/// Elements that are fetched together with one that is popped.
const FETCHED: u64 = 64;

/// Bytes of an element up to which those behind it are fetched with it.
const SHORT: usize = 4 << 10;

/// Adds an element at an end.
fn push_one<'a>(
    list: &mut Collection,
    value: impl Into<Cow<'a, [u8]>>,
    side: Side,
    view: &mut View<'a>,
) {
    list.len += 1;
    match side {
        Side::Left => {
            list.head = list.head.wrapping_sub(1);
            put(list, 0, value, view);
        }
        Side::Right => put(list, list.len - 1, value, view),
    }
}

fn tell_push(key: &[u8], side: Side, view: &mut View<'_>) {
    let name = if side == Side::Left { "lpush" } else { "rpush" };
    view.tell(event::LIST, name, key);
}

fn tell_pop(key: &[u8], side: Side, view: &mut View<'_>) {
    let name = if side == Side::Left { "lpop" } else { "rpop" };
    view.tell(event::LIST, name, key);
}

fn push<'a>(args: &[&'a [u8]], side: Side, view: &mut View<'a>) -> Answer {
    let (mut list, until) = view.collection_or_new(args[1], LIST)?;
    args[2..].iter().for_each(|value| push_one(&mut list, *value, side, view));
    view.keep(args[1], (list, until));
    tell_push(args[1], side, view);
    Ok(Reply::Integer(list.len.cast_signed()))
}

/// `LPUSH key element [element ...]`
pub fn lpush<'a>(args: &[&'a [u8]], view: &mut View<'a>) -> Answer {
    push(args, Side::Left, view)
}

/// `RPUSH key element [element ...]`
pub fn rpush<'a>(args: &[&'a [u8]], view: &mut View<'a>) -> Answer {
    push(args, Side::Right, view)
}

fn push_old<'a>(args: &[&'a [u8]], side: Side, view: &mut View<'a>) -> Answer {
    match find(args[1], view)? {
        Some(_) => push(args, side, view),
        None => Ok(Reply::Integer(0)),
    }
}

/// `LPUSHX key element [element ...]`
pub fn lpushx<'a>(args: &[&'a [u8]], view: &mut View<'a>) -> Answer {
    push_old(args, Side::Left, view)
}

/// `RPUSHX key element [element ...]`
pub fn rpushx<'a>(args: &[&'a [u8]], view: &mut View<'a>) -> Answer {
    push_old(args, Side::Right, view)
}

/// Takes elements from an end of a key's list, the one at the end first, and tells of it.
fn pop_from<'a>(
    key: &'a [u8],
    found: OpenCollection,
    side: Side,
    count: u64,
    view: &mut View<'a>,
) -> Answer<Vec<Bytes>> {
    let popped = take(key, found, side, count, view)?;
    if !popped.is_empty() {
        tell_pop(key, side, view);
        view.tell_if_gone(key)?;
    }
    Ok(popped)
}

/// Has the elements fetched that are popped behind some: a long queue is taken one by one.
fn expect_behind(list: &Collection, popped: Range<u64>, side: Side, view: &View<'_>) {
    let name = |index| of_position(position(list, index));
    match side {
        Side::Left => {
            let behind = popped.end..list.len.min(popped.end + FETCHED);
            view.expect(list.id, MEMBERS, behind.map(name));
        }
        Side::Right => {
            let before = popped.start.saturating_sub(FETCHED)..popped.start;
            view.expect(list.id, MEMBERS, before.rev().map(name));
        }
    }
}

/// Takes elements from an end of a key's list, the one at the end first.
fn take<'a>(
    key: &'a [u8],
    found: OpenCollection,
    side: Side,
    count: u64,
    view: &mut View<'a>,
) -> Answer<Vec<Bytes>> {
    let (mut list, until) = found;
    let count = count.min(list.len);
    let indexes = match side {
        Side::Left => 0..count,
        Side::Right => list.len - count..list.len,
    };
    let mut popped = slice(&list, indexes.clone(), view)?;
    if side == Side::Right {
        popped.reverse();
    }
    if count == 0 {
        return Ok(popped);
    }
    if popped.iter().all(|value| value.len() <= SHORT) {
        expect_behind(&list, indexes.clone(), side, view);
    }
    if count == list.len && count > REMOVED_ALONE {
        view.end(key, &list);
    } else {
        remove_all(&list, indexes, view);
        list.len -= count;
        if side == Side::Left {
            list.head = list.head.wrapping_add_unsigned(count);
        }
        view.keep(key, (list, until));
    }
    Ok(popped)
}

fn pop<'a>(args: &[&'a [u8]], side: Side, view: &mut View<'a>) -> Answer {
    let count = match args {
        [_, _] => None,
        [_, _, text] => Some(count(text)?),
        _ => {
            let name = if side == Side::Left { "lpop" } else { "rpop" };
            let why = format!("ERR wrong number of arguments for '{name}' command");
            return Err(Halt::error(why));
        }
    };
    let Some(list) = find(args[1], view)? else {
        return Ok(if count.is_some() { Reply::NilArray } else { Reply::Nil });
    };
    let mut popped = pop_from(args[1], list, side, count.unwrap_or(1), view)?;
    Ok(match count {
        Some(_) => Reply::bulks(popped),
        None => popped.pop().map_or(Reply::Nil, Reply::Bulk),
    })
}

/// `LPOP key [count]`
pub fn lpop<'a>(args: &[&'a [u8]], view: &mut View<'a>) -> Answer {
    pop(args, Side::Left, view)
}

/// `RPOP key [count]`
pub fn rpop<'a>(args: &[&'a [u8]], view: &mut View<'a>) -> Answer {
    pop(args, Side::Right, view)
}

/// Takes an element from an end of a list to an end of another or of the same; none without one.
fn move_element<'a>(
    [from, to]: [&'a [u8]; 2],
    [side, to_side]: [Side; 2],
    view: &mut View<'a>,
) -> Answer<Option<Bytes>> {
    let Some((list, until)) = find(from, view)? else { return Ok(None) };
    find(to, view)?;
    if from == to && list.len == 1 {
        // The list would end and begin anew, and lose its deadline.
        view.keep(from, (list, until));
        tell_push(to, to_side, view);
        tell_pop(from, side, view);
        return at(&list, 0, view).map(Some);
    }
    let Some(value) = take(from, (list, until), side, 1, view)?.pop() else { return Ok(None) };
    let (mut target, until) = view.collection_or_new(to, LIST)?;
    push_one(&mut target, value.to_vec(), to_side, view);
    view.keep(to, (target, until));
    tell_push(to, to_side, view);
    tell_pop(from, side, view);
    view.tell_if_gone(from)?;
    Ok(Some(value))
}

/// `LMOVE source destination LEFT | RIGHT LEFT | RIGHT`
pub fn lmove<'a>(args: &[&'a [u8]], view: &mut View<'a>) -> Answer {
    let sides = [Side::of(args[3])?, Side::of(args[4])?];
    Ok(move_element([args[1], args[2]], sides, view)?.map_or(Reply::Nil, Reply::Bulk))
}

/// `RPOPLPUSH source destination`
pub fn rpoplpush<'a>(args: &[&'a [u8]], view: &mut View<'a>) -> Answer {
    let moved = move_element([args[1], args[2]], [Side::Right, Side::Left], view)?;
    Ok(moved.map_or(Reply::Nil, Reply::Bulk))
}

/// `BLMOVE source destination LEFT | RIGHT LEFT | RIGHT timeout`
pub fn blmove<'a>(args: &[&'a [u8]], view: &mut View<'a>) -> Answer {
    let sides = [Side::of(args[3])?, Side::of(args[4])?];
    let timeout = timeout(args[5])?;
    let moved = move_element([args[1], args[2]], sides, view)?;
    let block = || Halt::Block(KeyWait { timeout, in_transaction: Reply::Nil, resumed: None });
    moved.map(Reply::Bulk).ok_or_else(block)
}

/// `BRPOPLPUSH source destination timeout`
pub fn brpoplpush<'a>(args: &[&'a [u8]], view: &mut View<'a>) -> Answer {
    let timeout = timeout(args[3])?;
    let moved = move_element([args[1], args[2]], [Side::Right, Side::Left], view)?;
    let block = || Halt::Block(KeyWait { timeout, in_transaction: Reply::Nil, resumed: None });
    moved.map(Reply::Bulk).ok_or_else(block)
}

/// Takes elements from the first key that has a list.
fn pop_first<'a>(
    keys: &[&'a [u8]],
    side: Side,
    count: u64,
    view: &mut View<'a>,
) -> Answer<Option<(&'a [u8], Vec<Bytes>)>> {
    for key in keys {
        if let Some(list) = find(key, view)? {
            return Ok(Some((key, pop_from(key, list, side, count, view)?)));
        }
    }
    Ok(None)
}

fn pop_or_block<'a>(args: &[&'a [u8]], side: Side, view: &mut View<'a>) -> Answer {
    let [_, keys @ .., last] = args else { return Err(syntax()) };
    let timeout = timeout(last)?;
    match pop_first(keys, side, 1, view)? {
        Some((key, popped)) => {
            let key = Bytes::copy_from_slice(key);
            Ok(Reply::bulks([key].into_iter().chain(popped)))
        }
        None => {
            Err(Halt::Block(KeyWait { timeout, in_transaction: Reply::NilArray, resumed: None }))
        }
    }
}

/// `BLPOP key [key ...] timeout`
pub fn blpop<'a>(args: &[&'a [u8]], view: &mut View<'a>) -> Answer {
    pop_or_block(args, Side::Left, view)
}

/// `BRPOP key [key ...] timeout`
pub fn brpop<'a>(args: &[&'a [u8]], view: &mut View<'a>) -> Answer {
    pop_or_block(args, Side::Right, view)
}

/// What `numkeys key [key ...] LEFT | RIGHT [COUNT count]` asks for.
struct PopTerms<'t, 'a> {
    keys: &'t [&'a [u8]],
    side: Side,
    count: u64,
}

impl<'t, 'a> PopTerms<'t, 'a> {
    fn of(words: &'t [&'a [u8]]) -> Answer<Self> {
        let numkeys = at_least(words[0], 1, "ERR numkeys should be greater than 0")?;
        let split = usize::try_from(numkeys).ok().and_then(|it| words[1..].split_at_checked(it));
        let Some((keys, [side, rest @ ..])) = split else { return Err(syntax()) };
        let side = Side::of(side)?;
        let mut count = None;
        for pair in rest.chunks(2) {
            match pair {
                [word, number] if is(word, "COUNT") && count.is_none() => {
                    let least = at_least(number, 1, "ERR count should be greater than 0")?;
                    count = Some(least.cast_unsigned());
                }
                _ => return Err(syntax()),
            }
        }
        Ok(Self { keys, side, count: count.unwrap_or(1) })
    }

    fn pop(self, view: &mut View<'a>) -> Answer<Option<Reply>> {
        let popped = pop_first(self.keys, self.side, self.count, view)?;
        Ok(popped.map(|(key, popped)| {
            let key = Reply::Bulk(Bytes::copy_from_slice(key));
            Reply::Array(vec![key, Reply::bulks(popped)])
        }))
    }
}

/// `LMPOP numkeys key [key ...] LEFT | RIGHT [COUNT count]`
pub fn lmpop<'a>(args: &[&'a [u8]], view: &mut View<'a>) -> Answer {
    Ok(PopTerms::of(&args[1..])?.pop(view)?.unwrap_or(Reply::NilArray))
}

/// `BLMPOP timeout numkeys key [key ...] LEFT | RIGHT [COUNT count]`
pub fn blmpop<'a>(args: &[&'a [u8]], view: &mut View<'a>) -> Answer {
    let terms = PopTerms::of(&args[2..])?;
    let timeout = timeout(args[1])?;
    let block = || Halt::Block(KeyWait { timeout, in_transaction: Reply::NilArray, resumed: None });
    terms.pop(view)?.ok_or_else(block)
}
