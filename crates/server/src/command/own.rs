//! Commands of keys that Redis does not have.

use std::ops::ControlFlow;

use bytes::Bytes;

use super::args::{at_least, is, syntax};
use crate::exec::{Answer, Halt, View, event};
use crate::model::record::{KeyContent, KeyRecord};
use crate::resp::reply::Reply;

/// Most keys of a reply without `LIMIT`.
const KEYS_USUAL: u64 = 1000;

/// Bytes of keys and strings from which on a reply ends.
const BYTES_MAX: usize = 16 << 20;

/// An end of a range of keys.
enum KeyEnd<'a> {
    Open,
    With(&'a [u8]),
    Without(&'a [u8]),
}

impl<'a> KeyEnd<'a> {
    fn of(text: &'a [u8], open: &[u8]) -> Answer<Self> {
        match text {
            _ if text == open => Ok(Self::Open),
            [b'[', key @ ..] => Ok(Self::With(key)),
            [b'(', key @ ..] => Ok(Self::Without(key)),
            _ => Err(Halt::error("ERR min or max not valid string range item")),
        }
    }
}

/// `CLEAVE.RANGE start end [LIMIT count] [KEYS]`: keys of the database in the order of their bytes
/// with their strings; of other types there is nothing. An end is `-`, `+`, `[key` or `(key`, as
/// for `ZRANGEBYLEX`. There are at most 1,000 keys without a limit, and never more than 16 MiB.
pub fn range(args: &[&[u8]], view: &mut View<'_>) -> Answer {
    let (start, end) = (KeyEnd::of(args[1], b"-")?, KeyEnd::of(args[2], b"+")?);
    let (mut most, mut keys_only, mut words) = (KEYS_USUAL, false, args[3..].iter());
    while let Some(word) = words.next() {
        match word {
            _ if is(word, "KEYS") => keys_only = true,
            _ if is(word, "LIMIT") => {
                let count = words.next().ok_or_else(syntax)?;
                most = at_least(count, 0, "ERR LIMIT can't be negative")?.cast_unsigned();
            }
            _ => return Err(syntax()),
        }
    }
    let from = match start {
        KeyEnd::Open => &b""[..],
        KeyEnd::With(key) | KeyEnd::Without(key) => key,
    };
    let (mut found, mut bytes) = (Vec::new(), 0);
    view.walk(from, !keys_only, &mut |key, record| {
        let is_behind = match end {
            KeyEnd::Open => false,
            KeyEnd::With(end) => key > end,
            KeyEnd::Without(end) => key >= end,
        };
        if is_behind || found.len() as u64 == most || bytes >= BYTES_MAX {
            return ControlFlow::Break(());
        }
        if !matches!(start, KeyEnd::Without(start) if start == key) {
            let value = match record {
                Some(KeyRecord { content: KeyContent::String(value), .. }) => Some(value),
                _ => None,
            };
            bytes += key.len() + value.as_ref().map_or(0, Bytes::len);
            let value = value.map_or(Reply::Nil, Reply::Bulk);
            found.push((Reply::Bulk(Bytes::copy_from_slice(key)), value));
        }
        ControlFlow::Continue(())
    })?;
    Ok(match keys_only {
        true => Reply::Array(found.into_iter().map(|(key, _)| key).collect()),
        false => Reply::Pairs(found),
    })
}

/// `CLEAVE.CAS key old new`: gives a key whose string is `old` the string `new` and leaves its end;
/// whether it did.
pub fn cas<'a>(args: &[&'a [u8]], view: &mut View<'a>) -> Answer {
    let found = view.string(args[1])?.filter(|(value, _)| value == args[2]);
    if let Some((_, until)) = found {
        view.put(args[1], args[3], until);
        view.tell(event::STRING, "set", args[1]);
    }
    Ok(Reply::Integer(found.is_some().into()))
}
