//! Commands of lists. The positions of a list have no gaps, so a place is found without a walk.

mod change;
mod ends;

use std::borrow::Cow;
use std::ops::{Bound, ControlFlow, Range};

use bytes::Bytes;

use super::args::{at_least, is, number, syntax};
use super::collections;
use crate::exec::{Answer, CUT_ALONE, ElementForm, ElementRange, Halt, OpenCollection, View};
use crate::model::element::{MEMBERS, NameRange, of_position};
use crate::model::record::{Collection, CollectionKind};
use crate::resp::reply::Reply;

pub use self::change::{linsert, lrem, lset, ltrim};
pub use self::ends::{
    blmove, blmpop, blpop, brpop, brpoplpush, lmove, lmpop, lpop, lpush, lpushx, rpop, rpoplpush,
    rpush, rpushx,
};

const LIST: CollectionKind = CollectionKind::List;

/// Elements up to which each is read by itself, which needs no wait if it is in memory.
const READ_ALONE: u64 = 32;

/// An end of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    Left,
    Right,
}

impl Side {
    fn of(word: &[u8]) -> Answer<Self> {
        match word {
            _ if is(word, "LEFT") => Ok(Self::Left),
            _ if is(word, "RIGHT") => Ok(Self::Right),
            _ => Err(syntax()),
        }
    }
}

fn find(key: &[u8], view: &View<'_>) -> Answer<Option<OpenCollection>> {
    view.collection(key, LIST)
}

/// The position of an index.
fn position(list: &Collection, index: u64) -> i64 {
    list.head.wrapping_add_unsigned(index)
}

/// The element at an index, which a list has that is not damaged.
fn at(list: &Collection, index: u64, view: &View<'_>) -> Answer<Bytes> {
    let found = view.element(list.id, MEMBERS, &of_position(position(list, index)))?;
    found.ok_or_else(|| {
        let why = format!("ERR damaged: the list {} has no element {index}", list.id);
        Halt::error(why)
    })
}

/// Gives an index an element.
fn put<'a>(list: &Collection, index: u64, value: impl Into<Cow<'a, [u8]>>, view: &mut View<'a>) {
    view.put_element(list.id, MEMBERS, &of_position(position(list, index)), value);
}

/// Removes the elements of some indexes.
fn remove_all(list: &Collection, indexes: Range<u64>, view: &mut View<'_>) {
    if indexes.end - indexes.start > CUT_ALONE as u64 {
        return view.cut(list.id, MEMBERS, range_of(&names_of(list, &indexes)));
    }
    for index in indexes {
        view.delete_element(list.id, MEMBERS, &of_position(position(list, index)));
    }
}

/// The names of the first one of some indexes, and of the one behind the last.
fn names_of(list: &Collection, indexes: &Range<u64>) -> [[u8; 8]; 2] {
    [indexes.start, indexes.end].map(|index| of_position(position(list, index)))
}

/// The names from one on up to another one.
fn range_of([from, to]: &[[u8; 8]; 2]) -> NameRange<'_> {
    (Bound::Included(from), Bound::Excluded(to))
}

/// The place of an index that counts from the end if it is negative; none in front of the list.
fn place(list: &Collection, index: i64) -> Option<u64> {
    match index {
        0.. => Some(index.cast_unsigned()),
        _ => list.len.checked_sub(index.unsigned_abs()),
    }
}

/// The indexes from `start` up to `end`, both included, that a list has.
fn indexes(list: &Collection, start: i64, end: i64) -> Range<u64> {
    let start = place(list, start).unwrap_or(0);
    let end = place(list, end).map_or(0, |end| end.saturating_add(1).min(list.len));
    start..end.max(start)
}

/// The elements of some indexes, in their order.
fn slice(list: &Collection, indexes: Range<u64>, view: &View<'_>) -> Answer<Vec<Bytes>> {
    if indexes.end - indexes.start <= READ_ALONE {
        let held = |index| {
            let value = at(list, index, view)?;
            view.hold(value.len()).map(|()| value)
        };
        return indexes.map(held).collect();
    }
    let names = names_of(list, &indexes);
    let within = ElementRange { range: range_of(&names), ..ElementRange::ALL };
    let found = collections::elements(*list, within, view)?;
    Ok(found.into_iter().map(|(_, value)| value).collect())
}

/// `LLEN key`
pub fn llen(args: &[&[u8]], view: &mut View<'_>) -> Answer {
    collections::len(args[1], LIST, view)
}

/// `LINDEX key index`
pub fn lindex(args: &[&[u8]], view: &mut View<'_>) -> Answer {
    let Some((list, _)) = find(args[1], view)? else { return Ok(Reply::Nil) };
    let index = place(&list, number(args[2])?).filter(|index| *index < list.len);
    index.map_or(Ok(Reply::Nil), |index| at(&list, index, view).map(Reply::Bulk))
}

/// `LRANGE key start end`: both ends included, and counted from the end if they are negative.
pub fn lrange(args: &[&[u8]], view: &mut View<'_>) -> Answer {
    let (start, end) = (number(args[2])?, number(args[3])?);
    let Some((list, _)) = find(args[1], view)? else { return Ok(Reply::Array(Vec::new())) };
    let indexes = indexes(&list, start, end);
    let (names, count) = (names_of(&list, &indexes), indexes.end - indexes.start);
    let within = ElementRange { range: range_of(&names), ..ElementRange::ALL };
    view.send_long(list.id, within, 0, count, ElementForm::Values)?;
    slice(&list, indexes, view).map(Reply::bulks)
}

/// What the words behind `LPOS key element` ask for.
struct PosTerms {
    rank: i64,
    count: Option<u64>,
    most: u64,
}

impl PosTerms {
    fn of(words: &[&[u8]]) -> Answer<Self> {
        let mut terms = Self { rank: 1, count: None, most: 0 };
        for pair in words.chunks(2) {
            let [word, value] = pair else { return Err(syntax()) };
            match word {
                _ if is(word, "RANK") => terms.rank = number(value)?,
                _ if is(word, "COUNT") => {
                    let count = at_least(value, 0, "ERR COUNT can't be negative")?;
                    terms.count = Some(count.cast_unsigned());
                }
                _ if is(word, "MAXLEN") => {
                    terms.most =
                        at_least(value, 0, "ERR MAXLEN can't be negative")?.cast_unsigned();
                }
                _ => return Err(syntax()),
            }
            if terms.rank == 0 {
                return Err(Halt::error(
                    "ERR RANK can't be zero: use 1 to start from the first match, 2 from the \
                     second ... or use negative to start from the end of the list",
                ));
            }
        }
        Ok(terms)
    }
}

/// `LPOS key element [RANK rank] [COUNT count] [MAXLEN length]`
pub fn lpos(args: &[&[u8]], view: &mut View<'_>) -> Answer {
    let terms = PosTerms::of(&args[3..])?;
    let list = find(args[1], view)?.map(|(list, _)| list);
    let mut found = Vec::new();
    if let Some(list) = list {
        let is_reversed = terms.rank < 0;
        let wanted = match terms.count {
            None => 1,
            Some(0) => u64::MAX,
            Some(count) => count,
        };
        let most = if terms.most == 0 { u64::MAX } else { terms.most };
        let (mut skipped, mut seen) = (terms.rank.unsigned_abs() - 1, 0);
        let within = ElementRange { is_reversed, ..ElementRange::ALL };
        view.elements(list.id, within, &mut |_, value| {
            let index = if is_reversed { list.len.saturating_sub(seen + 1) } else { seen };
            seen += 1;
            if value == args[2] {
                match skipped.checked_sub(1) {
                    Some(left) => skipped = left,
                    None => found.push(Reply::Integer(index.cast_signed())),
                }
            }
            match found.len() as u64 == wanted || seen == most {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            }
        })?;
    }
    Ok(match terms.count {
        Some(_) => Reply::Array(found),
        None => found.pop().unwrap_or(Reply::Nil),
    })
}
