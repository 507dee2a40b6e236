//! Commands of sorted sets that take their least or greatest members.

use bytes::Bytes;

use super::stored::{KIND, ScoredMember, at_ranks, shown, take};
use crate::command::args::{at_least, count, is, syntax, timeout};
use crate::exec::{Answer, Halt, KeyWait, OpenCollection, View};
use crate::resp::reply::Reply;

/// The members that are taken.
#[derive(Clone, Copy)]
struct Popped {
    /// Whether they are the greatest ones.
    are_greatest: bool,
    count: u64,
}

fn pair(member: ScoredMember) -> [Reply; 2] {
    [Reply::Bulk(member.0), Reply::Double(member.1)]
}

fn pop<'a>(
    key: &'a [u8],
    zset: OpenCollection,
    popped: Popped,
    view: &mut View<'a>,
) -> Answer<Vec<ScoredMember>> {
    let event = if popped.are_greatest { "zpopmax" } else { "zpopmin" };
    let members = at_ranks(zset.0, 0..popped.count, popped.are_greatest, view)?;
    take(key, zset, &members, event, view)?;
    Ok(members)
}

fn pop_of_one<'a>(args: &[&'a [u8]], are_greatest: bool, view: &mut View<'a>) -> Answer {
    let count = match &args[2..] {
        [] => None,
        [text] => Some(count(text)?),
        _ => return Err(syntax()),
    };
    let Some(zset) = view.collection(args[1], KIND)? else { return Ok(Reply::Array(Vec::new())) };
    let members = pop(args[1], zset, Popped { are_greatest, count: count.unwrap_or(1) }, view)?;
    Ok(match count {
        Some(_) => shown(members, true),
        None => Reply::Array(members.into_iter().flat_map(pair).collect()),
    })
}

/// `ZPOPMIN key [count]`
pub fn zpopmin<'a>(args: &[&'a [u8]], view: &mut View<'a>) -> Answer {
    pop_of_one(args, false, view)
}

/// `ZPOPMAX key [count]`
pub fn zpopmax<'a>(args: &[&'a [u8]], view: &mut View<'a>) -> Answer {
    pop_of_one(args, true, view)
}

/// Takes members of the first of some keys that has a sorted set.
fn pop_first<'a>(
    keys: &[&'a [u8]],
    popped: Popped,
    view: &mut View<'a>,
) -> Answer<Option<(Reply, Vec<ScoredMember>)>> {
    for key in keys {
        if let Some(zset) = view.collection(key, KIND)? {
            let key_reply = Reply::Bulk(Bytes::copy_from_slice(key));
            return Ok(Some((key_reply, pop(key, zset, popped, view)?)));
        }
    }
    Ok(None)
}

fn pop_or_block<'a>(args: &[&'a [u8]], are_greatest: bool, view: &mut View<'a>) -> Answer {
    let [_, keys @ .., last] = args else { return Err(syntax()) };
    let timeout = timeout(last)?;
    match pop_first(keys, Popped { are_greatest, count: 1 }, view)? {
        Some((key, members)) => {
            let parts = members.into_iter().flat_map(pair);
            Ok(Reply::Array([key].into_iter().chain(parts).collect()))
        }
        None => {
            Err(Halt::Block(KeyWait { timeout, in_transaction: Reply::NilArray, resumed: None }))
        }
    }
}

/// `BZPOPMIN key [key ...] timeout`
pub fn bzpopmin<'a>(args: &[&'a [u8]], view: &mut View<'a>) -> Answer {
    pop_or_block(args, false, view)
}

/// `BZPOPMAX key [key ...] timeout`
pub fn bzpopmax<'a>(args: &[&'a [u8]], view: &mut View<'a>) -> Answer {
    pop_or_block(args, true, view)
}

/// What `number key [key ...] MIN | MAX [COUNT count]` asks for.
fn several<'k, 'a>(words: &'k [&'a [u8]]) -> Answer<(&'k [&'a [u8]], Popped)> {
    let keys = at_least(words[0], 1, "ERR numkeys should be greater than 0")?;
    let split = usize::try_from(keys).ok().and_then(|keys| words[1..].split_at_checked(keys));
    let Some((keys, [end, rest @ ..])) = split else { return Err(syntax()) };
    let are_greatest = is(end, "MAX");
    if !are_greatest && !is(end, "MIN") {
        return Err(syntax());
    }
    let (count, rest) = match rest {
        [word, count, rest @ ..] if is(word, "COUNT") => {
            (at_least(count, 1, "ERR count should be greater than 0")?.cast_unsigned(), rest)
        }
        rest => (1, rest),
    };
    if rest.is_empty() { Ok((keys, Popped { are_greatest, count })) } else { Err(syntax()) }
}

fn pop_several<'a>(
    keys: &[&'a [u8]],
    popped: Popped,
    view: &mut View<'a>,
) -> Answer<Option<Reply>> {
    Ok(pop_first(keys, popped, view)?.map(|(key, members)| {
        let members = members.into_iter().map(|member| Reply::Array(pair(member).into()));
        Reply::Array(vec![key, Reply::Array(members.collect())])
    }))
}

/// `ZMPOP number key [key ...] MIN | MAX [COUNT count]`
pub fn zmpop<'a>(args: &[&'a [u8]], view: &mut View<'a>) -> Answer {
    let (keys, popped) = several(&args[1..])?;
    Ok(pop_several(keys, popped, view)?.unwrap_or(Reply::NilArray))
}

/// `BZMPOP timeout number key [key ...] MIN | MAX [COUNT count]`
pub fn bzmpop<'a>(args: &[&'a [u8]], view: &mut View<'a>) -> Answer {
    let (keys, popped) = several(&args[2..])?;
    let timeout = timeout(args[1])?;
    let block = || Halt::Block(KeyWait { timeout, in_transaction: Reply::NilArray, resumed: None });
    pop_several(keys, popped, view)?.ok_or_else(block)
}
