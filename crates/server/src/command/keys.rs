//! Commands of keys of any type.

use std::ops::ControlFlow;

use bytes::Bytes;

use super::args::{is, number, shown, small, syntax};
use super::glob;
use crate::exec::{Answer, ElementRange, Halt, View, event};
use crate::model::element;
use crate::model::record::{self, Collection, CollectionKind, KeyContent, KeyRecord};
use crate::resp::reply::Reply;
use crate::resp::request::integer;

/// `DEL key [key ...]`, and `UNLINK`: a key goes in one step, whatever it has.
pub fn del<'a>(args: &[&'a [u8]], view: &mut View<'a>) -> Answer {
    let mut count = 0;
    for key in &args[1..] {
        if view.delete(key)? {
            view.tell(event::GENERIC, "del", key);
            count += 1;
        }
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
    view.take_lookups(pattern.len())?;
    let prefix = glob::literal_prefix(pattern);
    view.walk(prefix, false, &mut |key, _| {
        if !key.starts_with(prefix) {
            return ControlFlow::Break(());
        }
        if !glob::matches(pattern, key) {
            return ControlFlow::Continue(());
        }
        found.push(Bytes::copy_from_slice(key));
        view.holding(key.len())
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

/// Keys behind a drawn place among which one is drawn.
const DRAWN_AMONG: usize = 256;

/// `RANDOMKEY`: one of the first keys behind a drawn place. All of a few keys are drawn alike; of
/// many, keys behind gaps more often.
pub fn randomkey(_: &[&[u8]], view: &mut View<'_>) -> Answer {
    let drawn = fastrand::u64(..).to_be_bytes();
    let mut found: Vec<Bytes> = Vec::new();
    for (from, is_over) in [(&drawn[..], false), (b"", true)] {
        view.walk(from, false, &mut |key, _| {
            if found.len() == DRAWN_AMONG || is_over && key >= &drawn[..] {
                return ControlFlow::Break(());
            }
            found.push(Bytes::copy_from_slice(key));
            ControlFlow::Continue(())
        })?;
    }
    let chosen = fastrand::usize(..found.len().max(1));
    Ok(found.into_iter().nth(chosen).map_or(Reply::Nil, Reply::Bulk))
}

fn move_key<'a>(from: &'a [u8], to: &'a [u8], only_new: bool, view: &mut View<'a>) -> Answer<bool> {
    let record = view.record(from)?.ok_or_else(|| Halt::error("ERR no such key"))?;
    if only_new && view.exists(to)? {
        return Ok(false);
    }
    if from != to {
        view.delete(to)?;
        view.forget(from);
        view.put_record(view.database, to, record);
        view.tell(event::GENERIC, "rename_from", from);
        view.tell(event::GENERIC, "rename_to", to);
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
    let content = match record.content {
        KeyContent::Collection(collection) => KeyContent::Collection(view.copy_of(collection)?),
        content => content,
    };
    view.delete_in(to, args[2])?;
    view.put_record(to, args[2], KeyRecord { content, ..record });
    view.tell_in(to, event::GENERIC, "copy_to", args[2]);
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
    view.forget(args[1]);
    view.put_record(to, args[1], record);
    view.tell(event::GENERIC, "move_from", args[1]);
    view.tell_in(to, event::GENERIC, "move_to", args[1]);
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
    view.clear_all();
    Ok(Reply::OK)
}

/// `SWAPDB database database`: no key is touched but those that clients wait for.
pub fn swapdb<'a>(args: &[&'a [u8]], view: &mut View<'a>) -> Answer {
    let first = small(args[1], Some("ERR invalid first DB index"))?;
    let second = small(args[2], Some("ERR invalid second DB index"))?;
    let [first, second] = [first, second].map(|it| number_of_database(it, view.databases));
    let (first, second) = (first?, second?);
    if first != second {
        // All locks are taken, and keys looked at that clients watch.
        view.take_time(usize::MAX)?;
        view.swap(first, second);
    }
    Ok(Reply::OK)
}

/// Elements of a collection up to which Redis would keep it in one piece.
const SMALL: u64 = 128;

/// `OBJECT ENCODING key`: how Redis would keep the value, if it was set as it is, and a collection
/// with that number of short elements.
pub fn object_encoding(args: &[&[u8]], view: &mut View<'_>) -> Answer {
    Ok(view.record(args[2])?.map_or(Reply::Nil, |record| {
        let encoding = match record.content {
            KeyContent::String(value) => match value.len() {
                ..=20 if integer(&value).is_some() => "int",
                ..=44 => "embstr",
                _ => "raw",
            },
            KeyContent::Collection(Collection { kind, len, .. }) => match kind {
                CollectionKind::List => "quicklist",
                CollectionKind::Stream => "stream",
                CollectionKind::Set => "hashtable",
                _ if len <= SMALL => "listpack",
                CollectionKind::Hash => "hashtable",
                CollectionKind::SortedSet => "skiplist",
            },
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

/// `MEMORY USAGE key [SAMPLES count]`: the bytes of the key and its record, before compression, and
/// for each element the mean of the first ones; 0 samples are all.
pub fn memory_usage(args: &[&[u8]], view: &mut View<'_>) -> Answer {
    let mut samples = 5;
    for pair in args[3..].chunks(2) {
        match pair {
            [word, count] if is(word, "SAMPLES") => {
                samples = u64::try_from(number(count)?).map_err(|_| syntax())?;
            }
            _ => return Err(syntax()),
        }
    }
    let Some(found) = view.record(args[2])? else { return Ok(Reply::Nil) };
    let of_value = match found.content {
        KeyContent::String(value) => record::of_string(found.until).len() + value.len(),
        KeyContent::Collection(collection) => {
            let (mut seen, mut bytes) = (0, 0);
            view.elements(collection.id, ElementRange::ALL, &mut |name, value| {
                (seen, bytes) = (seen + 1, bytes + element::PREFIX_LEN + name.len() + value.len());
                if seen == samples { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            })?;
            let of_elements = bytes as u128 * u128::from(collection.len) / u128::from(seen.max(1));
            record::of_collection(collection, found.until).len() + of_elements as usize
        }
    };
    Ok(Reply::Integer((args[2].len() + of_value) as i64))
}

/// The number of a cursor, as C's `strtoul` reads it: up to a zero byte, and a negative one counts
/// from the end of 64 bits.
pub fn cursor(text: &[u8]) -> Answer<u64> {
    let number = |text: &str| match text.strip_prefix('-') {
        _ if text.is_empty() => Some(0),
        Some(digits) => {
            digits.parse().ok().filter(|_| !digits.starts_with('+')).map(u64::wrapping_neg)
        }
        None => text.parse().ok(),
    };
    let text = str::from_utf8(shown(text, usize::MAX)).ok();
    text.and_then(number).ok_or_else(|| Halt::error("ERR invalid cursor"))
}

/// What the words of a scan ask for.
pub struct ScanTerms<'a> {
    /// What names look like.
    pub pattern: &'a [u8],
    /// How many are looked at.
    pub count: i64,
    /// The type of the values.
    of_type: Option<&'a [u8]>,
}

impl<'a> ScanTerms<'a> {
    /// The words behind a cursor.
    pub fn of(words: &[&'a [u8]], has_type: bool) -> Answer<Self> {
        let mut terms = Self { pattern: b"*", count: 10, of_type: None };
        for pair in words.chunks(2) {
            let [word, value] = pair else { return Err(syntax()) };
            match word {
                _ if is(word, "MATCH") => terms.pattern = value,
                _ if is(word, "TYPE") && has_type => terms.of_type = Some(*value),
                _ if is(word, "COUNT") => {
                    terms.count = number(value)?;
                    if terms.count < 1 {
                        return Err(syntax());
                    }
                }
                _ => return Err(syntax()),
            }
        }
        Ok(terms)
    }
}

/// `SCAN cursor [MATCH pattern] [COUNT count] [TYPE type]`
pub fn scan(args: &[&[u8]], view: &mut View<'_>) -> Answer {
    let from = view.scans.place(cursor(args[1])?);
    let ScanTerms { pattern, count, of_type } = ScanTerms::of(&args[2..], true)?;
    view.take_lookups(pattern.len())?;
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
        if !is_of_type || !glob::matches(pattern, key) {
            return ControlFlow::Continue(());
        }
        found.push(Bytes::copy_from_slice(key));
        view.holding(key.len())
    })?;
    let cursor = next.map_or(0, |next| view.scans.cursor(next)).to_string();
    Ok(Reply::Array(vec![Reply::Bulk(cursor.into()), Reply::bulks(found)]))
}
