//! Commands of strings.

use std::borrow::Cow;

use bytes::Bytes;

use super::args::{Unit, is, number, syntax};
use super::float::{self, NoSum};
use crate::exec::{Answer, Halt, View, event};
use crate::model::record::{KeyContent, KeyRecord};
use crate::resp::reply::Reply;

/// Most bytes of a string: `proto-max-bulk-len`.
pub const STRING_MAX: usize = 64 << 20;

fn too_long() -> Halt {
    Halt::error("ERR string exceeds maximum allowed size (proto-max-bulk-len)")
}

fn bulk_or_nil(found: Option<(Bytes, Option<u64>)>) -> Reply {
    found.map_or(Reply::Nil, |(value, _)| Reply::Bulk(value))
}

/// Gives a key a string, and tells of it.
pub(super) fn put<'a>(
    key: &'a [u8],
    value: impl Into<Cow<'a, [u8]>>,
    until: Option<u64>,
    name: &'static str,
    view: &mut View<'a>,
) {
    view.put(key, value, until);
    view.tell(event::STRING, name, key);
    if until.is_some() && name == "set" {
        view.tell(event::GENERIC, "expire", key);
    }
}

/// `GET key`
pub fn get(args: &[&[u8]], view: &mut View<'_>) -> Answer {
    view.string(args[1]).map(bulk_or_nil)
}

/// What words say about the end of a value.
#[derive(Default)]
struct Life<'a> {
    /// The end of the value: a number and its unit.
    ends: Option<(Unit, &'a [u8])>,
    /// The word `KEEPTTL` of `SET`, or `PERSIST` of `GETEX`.
    stays: bool,
}

impl<'a> Life<'a> {
    /// Adds a word, with the one behind it, if it has one. A unit may be named again.
    fn add<'w>(
        &mut self,
        word: &[u8],
        rest: &mut impl Iterator<Item = &'w &'a [u8]>,
        stays: &str,
    ) -> Answer<()>
    where
        'a: 'w,
    {
        if is(word, stays) && self.ends.is_none() {
            self.stays = true;
            return Ok(());
        }
        let is_free = |unit: &Unit| self.ends.is_none_or(|(other, _)| other == *unit);
        let unit = Unit::of(word).filter(|unit| !self.stays && is_free(unit));
        self.ends = Some((unit.ok_or_else(syntax)?, rest.next().ok_or_else(syntax)?));
        Ok(())
    }

    fn deadline(&self, now: u64, command: &str) -> Answer<Option<u64>> {
        self.ends.map(|(unit, count)| unit.deadline(count, now, command)).transpose()
    }
}

/// What the words behind `SET key value` ask for.
#[derive(Default)]
struct SetTerms {
    only_new: bool,
    only_old: bool,
    returns_old: bool,
    keeps_deadline: bool,
    until: Option<u64>,
}

impl SetTerms {
    fn of(words: &[&[u8]], now: u64) -> Answer<Self> {
        let (mut terms, mut life, mut words) = (Self::default(), Life::default(), words.iter());
        while let Some(word) = words.next() {
            match word {
                _ if is(word, "NX") && !terms.only_old => terms.only_new = true,
                _ if is(word, "XX") && !terms.only_new => terms.only_old = true,
                _ if is(word, "GET") => terms.returns_old = true,
                _ => life.add(word, &mut words, "KEEPTTL")?,
            }
        }
        terms.keeps_deadline = life.stays;
        terms.until = life.deadline(now, "set")?;
        Ok(terms)
    }

    /// Whether what was there does not matter.
    fn is_blind(&self) -> bool {
        !(self.only_new || self.only_old || self.returns_old || self.keeps_deadline)
    }
}

/// `SET key value [NX | XX] [GET] [EX s | PX ms | EXAT s | PXAT ms | KEEPTTL]`
pub fn set<'a>(args: &[&'a [u8]], view: &mut View<'a>) -> Answer {
    let terms = SetTerms::of(&args[3..], view.now)?;
    if terms.is_blind() {
        put(args[1], args[2], terms.until, "set", view);
        return Ok(Reply::OK);
    }
    let (was_there, old, until) = match terms.returns_old {
        true => {
            let found = view.string(args[1])?;
            let until = found.as_ref().and_then(|(_, until)| *until);
            (found.is_some(), bulk_or_nil(found), until)
        }
        false => {
            let record = view.record(args[1])?;
            (record.is_some(), Reply::Nil, record.and_then(|record| record.until))
        }
    };
    if was_there && terms.only_new || !was_there && terms.only_old {
        return Ok(old);
    }
    if terms.keeps_deadline {
        view.put(args[1], args[2], until);
        view.tell(event::STRING, "set", args[1]);
    } else {
        put(args[1], args[2], terms.until, "set", view);
    }
    Ok(if terms.returns_old { old } else { Reply::OK })
}

/// `SETNX key value`
pub fn setnx<'a>(args: &[&'a [u8]], view: &mut View<'a>) -> Answer {
    let was_there = view.exists(args[1])?;
    if !was_there {
        put(args[1], args[2], None, "set", view);
    }
    Ok(Reply::Integer(i64::from(!was_there)))
}

/// `SETEX key seconds value`
pub fn setex<'a>(args: &[&'a [u8]], view: &mut View<'a>) -> Answer {
    let until = Unit::SECONDS.deadline(args[2], view.now, "setex")?;
    put(args[1], args[3], Some(until), "set", view);
    Ok(Reply::OK)
}

/// `PSETEX key milliseconds value`
pub fn psetex<'a>(args: &[&'a [u8]], view: &mut View<'a>) -> Answer {
    let until = Unit::MILLIS.deadline(args[2], view.now, "psetex")?;
    put(args[1], args[3], Some(until), "set", view);
    Ok(Reply::OK)
}

/// `GETSET key value`
pub fn getset<'a>(args: &[&'a [u8]], view: &mut View<'a>) -> Answer {
    let old = view.string(args[1])?;
    put(args[1], args[2], None, "set", view);
    Ok(bulk_or_nil(old))
}

/// `GETDEL key`
pub fn getdel<'a>(args: &[&'a [u8]], view: &mut View<'a>) -> Answer {
    let old = view.string(args[1])?;
    if old.is_some() {
        view.delete(args[1])?;
        view.tell(event::GENERIC, "del", args[1]);
    }
    Ok(bulk_or_nil(old))
}

/// `GETEX key [EX s | PX ms | EXAT s | PXAT ms | PERSIST]`
pub fn getex<'a>(args: &[&'a [u8]], view: &mut View<'a>) -> Answer {
    let (mut life, mut words) = (Life::default(), args[2..].iter());
    while let Some(word) = words.next() {
        life.add(word, &mut words, "PERSIST")?;
    }
    let Some((value, old)) = view.string(args[1])? else { return Ok(Reply::Nil) };
    let until = life.deadline(view.now, "getex")?;
    if until.is_some() || life.stays && old.is_some() {
        view.put(args[1], value.to_vec(), until);
        let name = match until {
            None => "persist",
            Some(until) if until <= view.now => "del",
            Some(_) => "expire",
        };
        view.tell(event::GENERIC, name, args[1]);
    }
    Ok(Reply::Bulk(value))
}

/// `MGET key [key ...]`: keys of other types have no string.
pub fn mget(args: &[&[u8]], view: &mut View<'_>) -> Answer {
    let value = |key: &&[u8]| {
        Ok(match view.record(key)? {
            Some(KeyRecord { content: KeyContent::String(value), .. }) => {
                view.hold(value.len())?;
                Reply::Bulk(value)
            }
            _ => Reply::Nil,
        })
    };
    args[1..].iter().map(value).collect::<Answer<_>>().map(Reply::Array)
}

fn put_all<'a>(pairs: &[&'a [u8]], view: &mut View<'a>) {
    pairs.chunks_exact(2).for_each(|pair| put(pair[0], pair[1], None, "set", view));
}

fn check_pairs(args: &[&[u8]], command: &str) -> Answer<()> {
    match args.len() % 2 {
        0 => Err(Halt::error(format!("ERR wrong number of arguments for '{command}' command"))),
        _ => Ok(()),
    }
}

/// `MSET key value [key value ...]`
pub fn mset<'a>(args: &[&'a [u8]], view: &mut View<'a>) -> Answer {
    check_pairs(args, "mset")?;
    put_all(&args[1..], view);
    Ok(Reply::OK)
}

/// `MSETNX key value [key value ...]`
pub fn msetnx<'a>(args: &[&'a [u8]], view: &mut View<'a>) -> Answer {
    check_pairs(args, "msetnx")?;
    for key in args[1..].iter().step_by(2) {
        if view.exists(key)? {
            return Ok(Reply::Integer(0));
        }
    }
    put_all(&args[1..], view);
    Ok(Reply::Integer(1))
}

/// `APPEND key value`
pub fn append<'a>(args: &[&'a [u8]], view: &mut View<'a>) -> Answer {
    let found = view.string(args[1])?;
    let (value, until): (Cow<'a, [u8]>, _) = match found {
        None => (args[2].into(), None),
        Some((old, until)) => ([&old[..], args[2]].concat().into(), until),
    };
    if value.len() > STRING_MAX {
        return Err(too_long());
    }
    let len = value.len();
    put(args[1], value, until, "append", view);
    Ok(Reply::Integer(len as i64))
}

/// `STRLEN key`
pub fn strlen(args: &[&[u8]], view: &mut View<'_>) -> Answer {
    let found = view.string(args[1])?;
    Ok(Reply::Integer(found.map_or(0, |(value, _)| value.len() as i64)))
}

/// `GETRANGE key start end`: both ends included, and counted from the end if they are negative.
pub fn getrange(args: &[&[u8]], view: &mut View<'_>) -> Answer {
    let (start, end) = (number(args[2])?, number(args[3])?);
    let Some((value, _)) = view.string(args[1])? else { return Ok(Reply::Bulk(Bytes::new())) };
    let len = value.len() as i64;
    let at = |index: i64| if index < 0 { index.saturating_add(len).max(0) } else { index };
    let is_empty = len == 0 || (start < 0 && end < 0 && start > end) || at(start) > at(end);
    let (start, end) = (at(start), at(end).min(len - 1));
    Ok(Reply::Bulk(match is_empty || start > end {
        true => Bytes::new(),
        false => value.slice(start as usize..=end as usize),
    }))
}

/// `SETRANGE key offset value`
pub fn setrange<'a>(args: &[&'a [u8]], view: &mut View<'a>) -> Answer {
    let offset = number(args[2])?;
    let Ok(offset) = usize::try_from(offset) else {
        return Err(Halt::error("ERR offset is out of range"));
    };
    let found = view.string(args[1])?;
    let (old, until) = found.map_or((Bytes::new(), None), |(value, until)| (value, until));
    if args[3].is_empty() {
        return Ok(Reply::Integer(old.len() as i64));
    }
    let end = offset.saturating_add(args[3].len());
    if end > STRING_MAX {
        return Err(too_long());
    }
    let mut value = old.to_vec();
    value.resize(value.len().max(end), 0);
    value[offset..end].copy_from_slice(args[3]);
    let len = value.len();
    put(args[1], value, until, "setrange", view);
    Ok(Reply::Integer(len as i64))
}

fn add<'a>(key: &'a [u8], change: i64, view: &mut View<'a>) -> Answer {
    let found = view.string(key)?;
    let (old, until) = match &found {
        None => (0, None),
        Some((value, until)) => (number(value)?, *until),
    };
    let overflow = || Halt::error("ERR increment or decrement would overflow");
    let new = old.checked_add(change).ok_or_else(overflow)?;
    let text = itoa::Buffer::new().format(new).as_bytes().to_vec();
    put(key, text, until, "incrby", view);
    Ok(Reply::Integer(new))
}

/// `INCRBYFLOAT key number`
pub fn incrbyfloat<'a>(args: &[&'a [u8]], view: &mut View<'a>) -> Answer {
    let found = view.string(args[1])?;
    let (old, until) = found.unwrap_or((Bytes::from_static(b"0"), None));
    let sum = float::sum(&old, args[2]).map_err(|why| match why {
        NoSum::NoNumber => Halt::error("ERR value is not a valid float"),
        NoSum::Infinite => Halt::error("ERR increment would produce NaN or Infinity"),
    })?;
    put(args[1], sum.clone().into_bytes(), until, "incrbyfloat", view);
    Ok(Reply::Bulk(sum.into()))
}

/// `INCR key`
pub fn incr<'a>(args: &[&'a [u8]], view: &mut View<'a>) -> Answer {
    add(args[1], 1, view)
}

/// `DECR key`
pub fn decr<'a>(args: &[&'a [u8]], view: &mut View<'a>) -> Answer {
    add(args[1], -1, view)
}

/// `INCRBY key number`
pub fn incrby<'a>(args: &[&'a [u8]], view: &mut View<'a>) -> Answer {
    add(args[1], number(args[2])?, view)
}

/// `DECRBY key number`
pub fn decrby<'a>(args: &[&'a [u8]], view: &mut View<'a>) -> Answer {
    let change = number(args[2])?.checked_neg();
    add(args[1], change.ok_or_else(|| Halt::error("ERR decrement would overflow"))?, view)
}
