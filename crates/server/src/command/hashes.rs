//! Commands of hashes.

use bytes::Bytes;

use super::args::number;
use super::collections::{self, RandomTerms, Shown};
use super::float::{self, NoSum};
use crate::exec::{Answer, ElementForm, Halt, View, event};
use crate::model::element::MEMBERS;
use crate::model::record::{Collection, CollectionKind};
use crate::resp::reply::Reply;
use crate::resp::request::integer;

const HASH: CollectionKind = CollectionKind::Hash;

fn find(key: &[u8], view: &View<'_>) -> Answer<Option<Collection>> {
    Ok(view.collection(key, HASH)?.map(|(hash, _)| hash))
}

fn field(key: &[u8], name: &[u8], view: &View<'_>) -> Answer<Option<Bytes>> {
    match find(key, view)? {
        Some(hash) => view.element(hash.id, MEMBERS, name),
        None => Ok(None),
    }
}

/// Gives fields their values, and says how many of them are new.
fn set<'a>(args: &[&'a [u8]], view: &mut View<'a>, command: &str) -> Answer<i64> {
    if args.len() % 2 == 1 {
        let why = format!("ERR wrong number of arguments for '{command}' command");
        return Err(Halt::error(why));
    }
    let (mut hash, until) = view.collection_or_new(args[1], HASH)?;
    let before = hash.len;
    for pair in args[2..].chunks_exact(2) {
        match view.has_element(hash.id, MEMBERS, pair[0])? {
            true => view.put_element(hash.id, MEMBERS, pair[0], pair[1]),
            false => view.add_member(&mut hash, pair[0], pair[1]),
        }
    }
    view.keep(args[1], (hash, until));
    view.tell(event::HASH, "hset", args[1]);
    Ok((hash.len - before).cast_signed())
}

/// `HSET key field value [field value ...]`
pub fn hset<'a>(args: &[&'a [u8]], view: &mut View<'a>) -> Answer {
    set(args, view, "hset").map(Reply::Integer)
}

/// `HMSET key field value [field value ...]`
pub fn hmset<'a>(args: &[&'a [u8]], view: &mut View<'a>) -> Answer {
    set(args, view, "hmset").map(|_| Reply::OK)
}

/// `HSETNX key field value`
pub fn hsetnx<'a>(args: &[&'a [u8]], view: &mut View<'a>) -> Answer {
    match has_field(args[1], args[2], view)? {
        true => Ok(Reply::Integer(0)),
        false => set(args, view, "hsetnx").map(Reply::Integer),
    }
}

/// `HGET key field`
pub fn hget(args: &[&[u8]], view: &mut View<'_>) -> Answer {
    Ok(field(args[1], args[2], view)?.map_or(Reply::Nil, Reply::Bulk))
}

/// `HMGET key field [field ...]`
pub fn hmget(args: &[&[u8]], view: &mut View<'_>) -> Answer {
    let hash = find(args[1], view)?;
    let value = |name: &&[u8]| {
        let Some(hash) = hash else { return Ok(Reply::Nil) };
        let value = view.element(hash.id, MEMBERS, name)?;
        view.hold(value.as_ref().map_or(0, Bytes::len))?;
        Ok(value.map_or(Reply::Nil, Reply::Bulk))
    };
    args[2..].iter().map(value).collect::<Answer<_>>().map(Reply::Array)
}

/// `HDEL key field [field ...]`
pub fn hdel<'a>(args: &[&'a [u8]], view: &mut View<'a>) -> Answer {
    let removed = collections::remove(args[1], HASH, &args[2..], view)?;
    if removed > 0 {
        view.tell(event::HASH, "hdel", args[1]);
        view.tell_if_gone(args[1])?;
    }
    Ok(Reply::Integer(removed))
}

/// `HLEN key`
pub fn hlen(args: &[&[u8]], view: &mut View<'_>) -> Answer {
    collections::len(args[1], HASH, view)
}

fn has_field(key: &[u8], name: &[u8], view: &View<'_>) -> Answer<bool> {
    find(key, view)?.map_or(Ok(false), |hash| view.has_element(hash.id, MEMBERS, name))
}

/// `HEXISTS key field`
pub fn hexists(args: &[&[u8]], view: &mut View<'_>) -> Answer {
    Ok(Reply::Integer(has_field(args[1], args[2], view)?.into()))
}

/// `HSTRLEN key field`
pub fn hstrlen(args: &[&[u8]], view: &mut View<'_>) -> Answer {
    let value = field(args[1], args[2], view)?;
    Ok(Reply::Integer(value.map_or(0, |value| value.len() as i64)))
}

/// `HGETALL key`
pub fn hgetall(args: &[&[u8]], view: &mut View<'_>) -> Answer {
    let all = collections::all(args[1], HASH, ElementForm::Map, view)?;
    let all = all.into_iter().map(|(name, value)| (Reply::Bulk(name), Reply::Bulk(value)));
    Ok(Reply::Map(all.collect()))
}

/// `HKEYS key`
pub fn hkeys(args: &[&[u8]], view: &mut View<'_>) -> Answer {
    let all = collections::all(args[1], HASH, ElementForm::Names, view)?;
    Ok(Reply::bulks(all.into_iter().map(|(name, _)| name)))
}

/// `HVALS key`
pub fn hvals(args: &[&[u8]], view: &mut View<'_>) -> Answer {
    let all = collections::all(args[1], HASH, ElementForm::Values, view)?;
    Ok(Reply::bulks(all.into_iter().map(|(_, value)| value)))
}

/// Gives a field a value that was made of the old one, in a hash that need not be there.
fn change<'a>(
    args: &[&'a [u8]],
    view: &mut View<'a>,
    name: &'static str,
    new: impl FnOnce(Option<Bytes>) -> Answer<Vec<u8>>,
) -> Answer<Bytes> {
    let (mut hash, until) = view.collection_or_new(args[1], HASH)?;
    let old = view.element(hash.id, MEMBERS, args[2])?;
    let (is_new, value) = (old.is_none(), new(old)?);
    match is_new {
        true => view.add_member(&mut hash, args[2], value.clone()),
        false => view.put_element(hash.id, MEMBERS, args[2], value.clone()),
    }
    view.keep(args[1], (hash, until));
    view.tell(event::HASH, name, args[1]);
    Ok(value.into())
}

/// `HINCRBY key field number`
pub fn hincrby<'a>(args: &[&'a [u8]], view: &mut View<'a>) -> Answer {
    let step = number(args[3])?;
    let mut sum = 0;
    change(args, view, "hincrby", |old| {
        let old = old.map_or(Some(0), |old| integer(&old));
        let old = old.ok_or_else(|| Halt::error("ERR hash value is not an integer"))?;
        let overflow = || Halt::error("ERR increment or decrement would overflow");
        sum = old.checked_add(step).ok_or_else(overflow)?;
        Ok(sum.to_string().into())
    })?;
    Ok(Reply::Integer(sum))
}

/// `HINCRBYFLOAT key field number`
pub fn hincrbyfloat<'a>(args: &[&'a [u8]], view: &mut View<'a>) -> Answer {
    match float::sum(b"0", args[3]) {
        Ok(_) => {}
        Err(NoSum::NoNumber) => return Err(Halt::error("ERR value is not a valid float")),
        Err(NoSum::Infinite) => return Err(Halt::error("ERR value is NaN or Infinity")),
    }
    let value = change(args, view, "hincrbyfloat", |old| {
        let sum = float::sum(old.as_deref().unwrap_or(b"0"), args[3]).map_err(|why| match why {
            NoSum::NoNumber => Halt::error("ERR hash value is not a float"),
            NoSum::Infinite => Halt::error("ERR increment would produce NaN or Infinity"),
        });
        Ok(sum?.into_bytes())
    })?;
    Ok(Reply::Bulk(value))
}

/// `HRANDFIELD key [count [WITHVALUES]]`
pub fn hrandfield(args: &[&[u8]], view: &mut View<'_>) -> Answer {
    let terms = RandomTerms::of(args, "WITHVALUES")?;
    collections::random(args[1], HASH, terms, view, &|name, value| (name, Reply::Bulk(value)))
}

/// `HSCAN key cursor [MATCH pattern] [COUNT count]`
pub fn hscan(args: &[&[u8]], view: &mut View<'_>) -> Answer {
    collections::scan(args, HASH, view, Shown::WithValues(&|_, value| Reply::Bulk(value)))
}
