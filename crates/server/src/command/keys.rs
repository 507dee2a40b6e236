//! Commands of keys of any type.

use std::ops::ControlFlow;

use bytes::Bytes;

use super::args::{is, number, shown, small, syntax};
use super::glob;
use crate::exec::{Answer, Halt, View};
use crate::model::record::{KeyContent, KeyRecord, RecordHead};
use crate::resp::reply::Reply;
use crate::resp::request::integer;

/// `DEL key [key ...]`, and `UNLINK`: a key goes in one step, whatever it has.
pub fn del<'a>(args: &[&'a [u8]], view: &mut View<'a>) -> Answer {
    let mut count = 0;
    for key in &args[1..] {
        count += i64::from(view.delete(key)?);
    }
    Ok(Reply::Integer(count))
}

/// `EXISTS key [key ...]`, and `TOUCH`: a key that is named twice counts twice.
pub fn exists(args: &[&[u8]], view: &mut View<'_>) -> Answer {
    let mut count = 0;
    for key in &args[1..] {
        count += i64::from(view.exists(key)?);
    }
    Ok(Reply::Integer(count))
}

/// `TYPE key`
pub fn type_of(args: &[&[u8]], view: &mut View<'_>) -> Answer {
    Ok(Reply::Status(view.record(args[1])?.map_or("none", |record| record.content.type_name())))
}

/// `KEYS pattern`
pub fn keys(args: &[&[u8]], view: &mut View<'_>) -> Answer {
    let (pattern, mut found) = (args[1], Vec::new());
    let prefix = glob::literal_prefix(pattern);
    view.walk(prefix, false, &mut |key, _| {
        if !key.starts_with(prefix) {
            return ControlFlow::Break(());
        }
        if glob::matches(pattern, key) {
            found.push(Bytes::copy_from_slice(key));
        }
        ControlFlow::Continue(())
    })?;
    Ok(Reply::bulks(found))
}

/// `DBSIZE`
pub fn dbsize(_: &[&[u8]], view: &mut View<'_>) -> Answer {
    let mut count = 0;
    view.walk(b"", false, &mut |_, _| {
        count += 1;
        ControlFlow::Continue(())
    })?;
    Ok(Reply::Integer(count))
}

/// `RANDOMKEY`: the first key behind a drawn place, so keys behind gaps are drawn more often.
pub fn randomkey(_: &[&[u8]], view: &mut View<'_>) -> Answer {
    let mut found = None;
    let mut first = |key: &[u8], _| {
        found = Some(Bytes::copy_from_slice(key));
        ControlFlow::Break(())
    };
    let drawn = fastrand::u64(..).to_be_bytes();
    view.walk(&drawn, false, &mut first)?;
    if found.is_none() {
        let mut first = |key: &[u8], _| {
            found = Some(Bytes::copy_from_slice(key));
            ControlFlow::Break(())
        };
        view.walk(b"", false, &mut first)?;
    }
    Ok(found.map_or(Reply::Nil, Reply::Bulk))
}

fn move_key<'a>(from: &'a [u8], to: &'a [u8], only_new: bool, view: &mut View<'a>) -> Answer<bool> {
    let record = view.record(from)?.ok_or_else(|| Halt::error("ERR no such key"))?;
    if only_new && view.exists(to)? {
        return Ok(false);
    }
    if from != to {
        let KeyContent::String(value) = record.content;
        view.delete(from)?;
        view.put(to, value.to_vec(), record.until);
    }
    Ok(true)
}

/// `RENAME key newkey`
pub fn rename<'a>(args: &[&'a [u8]], view: &mut View<'a>) -> Answer {
    move_key(args[1], args[2], false, view).map(|_| Reply::OK)
}

/// `RENAMENX key newkey`
pub fn renamenx<'a>(args: &[&'a [u8]], view: &mut View<'a>) -> Answer {
    move_key(args[1], args[2], true, view).map(|moved| Reply::Integer(i64::from(moved)))
}

/// The number of a database.
pub fn database(text: &[u8], databases: usize) -> Answer<usize> {
    number_of_database(small(text, None)?, databases)
}

fn number_of_database(number: i32, databases: usize) -> Answer<usize> {
    let database = usize::try_from(number).ok().filter(|database| *database < databases);
    database.ok_or_else(|| Halt::error("ERR DB index is out of range"))
}

/// `COPY source destination [DB database] [REPLACE]`
pub fn copy<'a>(args: &[&'a [u8]], view: &mut View<'a>) -> Answer {
    let (mut to, mut replaces, mut words) = (view.database, false, args[3..].iter());
    while let Some(word) = words.next() {
        match word {
            _ if is(word, "REPLACE") => replaces = true,
            _ if is(word, "DB") => {
                to = database(words.next().ok_or_else(syntax)?, view.databases)?;
            }
            _ => return Err(syntax()),
        }
    }
    if to == view.database && args[1] == args[2] {
        return Err(Halt::error("ERR source and destination objects are the same"));
    }
    let Some(record) = view.record(args[1])? else { return Ok(Reply::Integer(0)) };
    if !replaces && view.record_in(to, args[2])?.is_some() {
        return Ok(Reply::Integer(0));
    }
    let KeyContent::String(value) = record.content;
    view.put_in(to, args[2], value.to_vec(), record.until);
    Ok(Reply::Integer(1))
}

/// `MOVE key database`
pub fn move_to<'a>(args: &[&'a [u8]], view: &mut View<'a>) -> Answer {
    let to = database(args[2], view.databases)?;
    if to == view.database {
        return Err(Halt::error("ERR source and destination objects are the same"));
    }
    let Some(record) = view.record(args[1])? else { return Ok(Reply::Integer(0)) };
    if view.record_in(to, args[1])?.is_some() {
        return Ok(Reply::Integer(0));
    }
    let KeyContent::String(value) = record.content;
    view.put_in(to, args[1], value.to_vec(), record.until);
    view.delete(args[1])?;
    Ok(Reply::Integer(1))
}

fn check_flush(args: &[&[u8]]) -> Answer<()> {
    match &args[1..] {
        [] => Ok(()),
        [word] if is(word, "SYNC") || is(word, "ASYNC") => Ok(()),
        _ => Err(syntax()),
    }
}

/// `FLUSHDB [ASYNC | SYNC]`: all keys go in one step, and their space behind it.
pub fn flushdb<'a>(args: &[&'a [u8]], view: &mut View<'a>) -> Answer {
    check_flush(args)?;
    view.clear(view.database);
    Ok(Reply::OK)
}

/// `FLUSHALL [ASYNC | SYNC]`
pub fn flushall<'a>(args: &[&'a [u8]], view: &mut View<'a>) -> Answer {
    check_flush(args)?;
    (0..view.databases).for_each(|database| view.clear(database));
    Ok(Reply::OK)
}

/// `SWAPDB database database`: rewrites all keys of both.
pub fn swapdb<'a>(args: &[&'a [u8]], view: &mut View<'a>) -> Answer {
    let first = small(args[1], Some("ERR invalid first DB index"))?;
    let second = small(args[2], Some("ERR invalid second DB index"))?;
    let [first, second] = [first, second].map(|it| number_of_database(it, view.databases));
    let (first, second) = (first?, second?);
    if first == second {
        return Ok(Reply::OK);
    }
    let of_first = view.all(first)?;
    let of_second = view.all(second)?;
    for (database, records) in [(first, of_second), (second, of_first)] {
        view.clear(database);
        for (key, KeyRecord { until, content: KeyContent::String(value) }) in records {
            view.put_in(database, key, value.to_vec(), until);
        }
    }
    Ok(Reply::OK)
}

/// `OBJECT ENCODING key`: how Redis would keep the value, if it was set as it is.
pub fn object_encoding(args: &[&[u8]], view: &mut View<'_>) -> Answer {
    Ok(view.string(args[2])?.map_or(Reply::Nil, |(value, _)| {
        let encoding = match value.len() {
            ..=20 if integer(&value).is_some() => "int",
            ..=44 => "embstr",
            _ => "raw",
        };
        Reply::Bulk(encoding.into())
    }))
}

/// `OBJECT REFCOUNT key`: a value has one key.
pub fn object_refcount(args: &[&[u8]], view: &mut View<'_>) -> Answer {
    Ok(if view.exists(args[2])? { Reply::Integer(1) } else { Reply::Nil })
}

/// `OBJECT IDLETIME key`
pub fn object_idletime(args: &[&[u8]], view: &mut View<'_>) -> Answer {
    match view.exists(args[2])? {
        true => Err(Halt::error("ERR idle time is not tracked, since reads write nothing")),
        false => Ok(Reply::Nil),
    }
}

/// `OBJECT FREQ key`
pub fn object_freq(args: &[&[u8]], view: &mut View<'_>) -> Answer {
    let why = "ERR An LFU maxmemory policy is not selected, access frequency not tracked. Please \
               note that when switching between policies at runtime LRU and LFU data will take \
               some time to adjust.";
    if view.exists(args[2])? { Err(Halt::error(why)) } else { Ok(Reply::Nil) }
}

/// `MEMORY USAGE key [SAMPLES count]`: the bytes of the key and its record, before compression.
pub fn memory_usage(args: &[&[u8]], view: &mut View<'_>) -> Answer {
    for pair in args[3..].chunks(2) {
        match pair {
            [word, count] if is(word, "SAMPLES") => {
                if number(count)? < 0 {
                    return Err(syntax());
                }
            }
            _ => return Err(syntax()),
        }
    }
    Ok(view.record(args[2])?.map_or(Reply::Nil, |record| {
        let KeyContent::String(value) = &record.content;
        let head = RecordHead::of_string(record.until);
        Reply::Integer((args[2].len() + head.as_bytes().len() + value.len()) as i64)
    }))
}

/// The number of a cursor, as C's `strtoul` reads it: up to a zero byte, and a negative one counts
/// from the end of 64 bits.
fn cursor(text: &[u8]) -> Option<u64> {
    let text = str::from_utf8(shown(text, usize::MAX)).ok()?;
    match text.strip_prefix('-') {
        _ if text.is_empty() => Some(0),
        Some(digits) => {
            digits.parse().ok().filter(|_| !digits.starts_with('+')).map(u64::wrapping_neg)
        }
        None => text.parse().ok(),
    }
}

/// `SCAN cursor [MATCH pattern] [COUNT count] [TYPE type]`
pub fn scan(args: &[&[u8]], view: &mut View<'_>) -> Answer {
    let invalid = || Halt::error("ERR invalid cursor");
    let from = view.scans.place(cursor(args[1]).ok_or_else(invalid)?);
    let (mut pattern, mut count, mut of_type) = (&b"*"[..], 10, None);
    for pair in args[2..].chunks(2) {
        let [word, value] = pair else { return Err(syntax()) };
        match word {
            _ if is(word, "MATCH") => pattern = value,
            _ if is(word, "TYPE") => of_type = Some(*value),
            _ if is(word, "COUNT") => count = number(value)?,
            _ => return Err(syntax()),
        }
    }
    if count < 1 {
        return Err(syntax());
    }
    let prefix = glob::literal_prefix(pattern);
    let (mut found, mut seen, mut next) = (Vec::new(), 0, None);
    let from = from.as_deref().unwrap_or_default().max(prefix);
    view.walk(from, of_type.is_some(), &mut |key, record| {
        if !key.starts_with(prefix) {
            return ControlFlow::Break(());
        }
        if seen == count {
            next = Some(Box::<[u8]>::from(key));
            return ControlFlow::Break(());
        }
        seen += 1;
        let is_of_type = of_type.is_none_or(|of_type| {
            record.is_some_and(|record| is(of_type, record.content.type_name()))
        });
        if is_of_type && glob::matches(pattern, key) {
            found.push(Bytes::copy_from_slice(key));
        }
        ControlFlow::Continue(())
    })?;
    let cursor = next.map_or(0, |next| view.scans.cursor(next)).to_string();
    Ok(Reply::Array(vec![Reply::Bulk(cursor.into()), Reply::bulks(found)]))
}
