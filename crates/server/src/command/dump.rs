//! `DUMP` and `RESTORE`: values as bytes that Redis reads and writes, too.

mod packed;
mod payload;

use std::borrow::Cow;
use std::ops::ControlFlow;

use self::packed::BadPayload;
use self::payload::DumpedValue;
use super::STRING_MAX;
use super::args::{Unit, is, number, syntax};
use super::sorted_sets::stored;
use crate::exec::{Answer, ElementRange, Halt, View, event};
use crate::model::element::{self, MEMBERS};
use crate::model::record::{Collection, CollectionKind, KeyContent, KeyRecord};
use crate::resp::reply::Reply;

/// `FUNCTION DUMP`: the texts of libraries.
pub fn of_libraries<'t>(texts: impl Iterator<Item = &'t [u8]>) -> Vec<u8> {
    let mut out = Vec::new();
    texts.for_each(|text| payload::put_library(text, &mut out));
    payload::seal(&mut out);
    out
}

/// The texts of libraries that a dump has.
pub fn libraries(dump: &[u8]) -> Result<Vec<Cow<'_, [u8]>>, &'static str> {
    payload::libraries(dump).map_err(|bad| match bad {
        BadPayload::Seal => "DUMP payload version or checksum are wrong",
        BadPayload::Content => "given type is not a function",
    })
}

/// `DUMP key`: the value in forms that each version of Redis reads that has this version of dumps.
pub fn dump(args: &[&[u8]], view: &mut View<'_>) -> Answer {
    let Some(record) = view.record(args[1])? else { return Ok(Reply::Nil) };
    let mut out = Vec::new();
    match record.content {
        KeyContent::String(value) => {
            out.push(payload::STRING);
            payload::put_string(&value, &mut out);
        }
        KeyContent::Collection(collection) => dump_elements(collection, &mut out, view)?,
    }
    payload::seal(&mut out);
    if out.len() > STRING_MAX {
        return Err(Halt::error("ERR the dump would be longer than a string may be"));
    }
    Ok(Reply::Bulk(out.into()))
}

fn dump_elements(collection: Collection, out: &mut Vec<u8>, view: &View<'_>) -> Answer<()> {
    let Collection { kind, id, len, .. } = collection;
    out.push(match kind {
        CollectionKind::List => payload::LIST,
        CollectionKind::Set => payload::SET,
        CollectionKind::Hash => payload::HASH,
        CollectionKind::SortedSet => payload::SORTED_SET,
        CollectionKind::Stream => return Err(Halt::error("ERR streams have no dumps yet")),
    });
    payload::put_len(len, out);
    let mut is_damaged = false;
    view.elements(id, ElementRange::ALL, &mut |name, value| {
        if kind != CollectionKind::List {
            payload::put_string(name, out);
        }
        match kind {
            CollectionKind::List | CollectionKind::Hash => payload::put_string(value, out),
            CollectionKind::Set | CollectionKind::Stream => {}
            CollectionKind::SortedSet => match element::member_score(value) {
                Some(score) => out.extend(score.to_le_bytes()),
                None => is_damaged = true,
            },
        }
        match is_damaged || out.len() > STRING_MAX {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    })?;
    if is_damaged { Err(stored::damaged()) } else { Ok(()) }
}

/// What the words behind `RESTORE key ttl payload` ask for. How long ago a key was used, and how
/// often, is read and not kept.
#[derive(Default)]
struct RestoreTerms {
    replaces: bool,
    is_absolute: bool,
}

impl RestoreTerms {
    fn of(mut words: &[&[u8]]) -> Answer<Self> {
        let (mut terms, mut has_idle, mut has_frequency) = (Self::default(), false, false);
        while let [word, rest @ ..] = words {
            words = match rest {
                _ if is(word, "REPLACE") => {
                    terms.replaces = true;
                    rest
                }
                _ if is(word, "ABSTTL") => {
                    terms.is_absolute = true;
                    rest
                }
                [seconds, rest @ ..] if is(word, "IDLETIME") && !has_frequency => {
                    has_idle = true;
                    if number(seconds)? < 0 {
                        return Err(Halt::error("ERR Invalid IDLETIME value, must be >= 0"));
                    }
                    rest
                }
                [uses, rest @ ..] if is(word, "FREQ") && !has_idle => {
                    has_frequency = true;
                    if !(0..=255).contains(&number(uses)?) {
                        let why = "ERR Invalid FREQ value, must be >= 0 and <= 255";
                        return Err(Halt::error(why));
                    }
                    rest
                }
                _ => return Err(syntax()),
            };
        }
        Ok(terms)
    }
}

/// `RESTORE key ttl payload [REPLACE] [ABSTTL] [IDLETIME seconds] [FREQ frequency]`
pub fn restore<'a>(args: &[&'a [u8]], view: &mut View<'a>) -> Answer {
    let terms = RestoreTerms::of(&args[4..])?;
    let key = args[1];
    if !terms.replaces && view.exists(key)? {
        return Err(Halt::error("BUSYKEY Target key name already exists."));
    }
    let life = number(args[2])?;
    if life < 0 {
        return Err(Halt::error("ERR Invalid TTL value, must be >= 0"));
    }
    view.take_time(args[3].len())?;
    let value = DumpedValue::of(args[3]).map_err(|why| match why {
        BadPayload::Seal => Halt::error("ERR DUMP payload version or checksum are wrong"),
        BadPayload::Content => Halt::error("ERR Bad data format"),
    })?;
    let unit = if terms.is_absolute { Unit::AT_MILLIS } else { Unit::MILLIS };
    let until = match life {
        0 => None,
        // As in Redis, a time that is too far is one that is over.
        _ => Some(unit.time(life, view.now).map_or(0, i64::cast_unsigned)),
    };
    let was_there = view.delete(key)?;
    if until.is_some_and(|until| until <= view.now) {
        if was_there {
            view.tell(event::GENERIC, "del", key);
        }
        return Ok(Reply::OK);
    }
    let content = restored(value, view)?;
    view.put_record(view.database, key, KeyRecord { until, content });
    view.tell(event::GENERIC, "restore", key);
    Ok(Reply::OK)
}

/// What a key has that is given a value, whose elements lie under an id of their own.
fn restored<'a>(value: DumpedValue<'a>, view: &mut View<'a>) -> Answer<KeyContent> {
    let new = |kind, len: usize, view: &View<'a>| {
        Ok(Collection { len: len as u64, ..view.new_collection(kind)? })
    };
    let collection = match value {
        DumpedValue::String(value) => return Ok(KeyContent::String(value.into_owned().into())),
        DumpedValue::List(values) => {
            let list = new(CollectionKind::List, values.len(), view)?;
            for (position, value) in values.into_iter().enumerate() {
                view.put_element(list.id, MEMBERS, &element::of_position(position as i64), value);
            }
            list
        }
        DumpedValue::Set(members) => {
            let set = new(CollectionKind::Set, members.len(), view)?;
            for member in members {
                view.put_element(set.id, MEMBERS, &member, &b""[..]);
            }
            set
        }
        DumpedValue::Hash(fields) => {
            let hash = new(CollectionKind::Hash, fields.len(), view)?;
            for (field, value) in fields {
                view.put_element(hash.id, MEMBERS, &field, value);
            }
            hash
        }
        DumpedValue::SortedSet(members) => {
            let mut zset = new(CollectionKind::SortedSet, 0, view)?;
            for (member, score) in members {
                stored::put(&mut zset, &member, None, score, view);
            }
            zset
        }
    };
    Ok(KeyContent::Collection(collection))
}
