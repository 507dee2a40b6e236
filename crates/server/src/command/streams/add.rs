//! What adds entries to streams and takes them away.

use std::ops::{Bound, ControlFlow};

use super::ids::{NewId, id};
use super::{STREAM, find, shown_id, walk_ids};
use crate::command::args::{is, number, shown, syntax};
use crate::exec::{Answer, Halt, View, event};
use crate::model::element::MEMBERS;
use crate::model::record::Collection;
use crate::model::stream::{StreamId, of_fields};
use crate::resp::reply::Reply;

/// Entries that are trimmed together if a trim may leave some: those of one node of Redis. The
/// last ones go with all others.
const TRIMMED_AT_ONCE: u64 = 100;

/// Most entries that such a trim takes without a limit of its own.
const LIMIT: i64 = 10_000;

/// Up to where a stream is trimmed.
#[derive(Clone, Copy, Debug)]
enum TrimEnd {
    /// No more entries than this.
    Len(u64),
    /// None in front of this.
    Id(StreamId),
}

/// What `XADD` and `XTRIM` say about what is trimmed.
#[derive(Clone, Copy, Debug)]
struct Trim {
    end: TrimEnd,
    /// Most entries that are trimmed, in whole nodes, if some may be left; all of 0.
    limit: Option<u64>,
}

impl Trim {
    /// The number of entries to be trimmed.
    fn count(self, stream: &Collection, view: &View<'_>) -> Answer<u64> {
        let limit = self.limit.filter(|limit| *limit > 0).unwrap_or(u64::MAX);
        let count = match self.end {
            TrimEnd::Len(len) => stream.len.saturating_sub(len).min(limit),
            TrimEnd::Id(id) => {
                let mut count = 0;
                walk_ids(stream, false, view, &mut |entry| {
                    if entry >= id || count == limit {
                        return ControlFlow::Break(());
                    }
                    count += 1;
                    ControlFlow::Continue(())
                })?;
                count
            }
        };
        if self.limit.is_none() || count == stream.len {
            return Ok(count);
        }
        // The first entry has this place among those that are trimmed together.
        let place = stream.stream.added.wrapping_sub(stream.len) % TRIMMED_AT_ONCE;
        let end = (place + count) / TRIMMED_AT_ONCE * TRIMMED_AT_ONCE;
        Ok(end.saturating_sub(place))
    }

    /// Trims a stream; the number of entries that are gone.
    fn apply(self, stream: &mut Collection, view: &mut View<'_>) -> Answer<u64> {
        let count = self.count(stream, view)?;
        if count == 0 {
            return Ok(0);
        }
        let first = at(stream, count, view)?;
        let (begin, end) = (stream.stream.first.to_bytes(), first.map(StreamId::to_bytes));
        let end = end.as_ref().map_or(Bound::Unbounded, |id| Bound::Excluded(&id[..]));
        view.delete_elements(stream.id, MEMBERS, (Bound::Included(&begin), end))?;
        stream.len = stream.len.saturating_sub(count);
        stream.stream.first = first.unwrap_or_default();
        Ok(count)
    }
}

/// The words of `XADD` and `XTRIM` behind the key.
struct EntryTerms {
    trim: Option<Trim>,
    makes_stream: bool,
    id: NewId,
    /// The place behind the id.
    fields: usize,
}

impl EntryTerms {
    fn of(args: &[&[u8]], adds: bool) -> Answer<Self> {
        let mut terms = Self { trim: None, makes_stream: true, id: NewId::Now, fields: 0 };
        let (mut end, mut leaves_some, mut limit, mut at) = (None, false, None, 2);
        while let Some(word) = args.get(at) {
            let rest = &args[at + 1..];
            at += 1;
            match word {
                _ if adds && shown(word, word.len()) == b"*" => break,
                _ if !rest.is_empty() && (is(word, "MAXLEN") || is(word, "MINID")) => {
                    if end.is_some() {
                        return Err(Halt::error(
                            "ERR syntax error, MAXLEN and MINID options at the same time are not \
                             compatible",
                        ));
                    }
                    let (sign, text) = match rest {
                        [sign @ (b"~" | b"="), text, ..] => (*sign, text),
                        _ => (&b""[..], &rest[0]),
                    };
                    leaves_some = sign == b"~";
                    end = Some(match is(word, "MAXLEN") {
                        true => TrimEnd::Len(not_negative(text, "MAXLEN")?),
                        false => TrimEnd::Id(id(text, 0)?),
                    });
                    at += 1 + usize::from(!sign.is_empty());
                }
                _ if !rest.is_empty() && is(word, "LIMIT") => {
                    limit = Some(not_negative(rest[0], "LIMIT")?);
                    at += 1;
                }
                _ if adds && is(word, "NOMKSTREAM") => terms.makes_stream = false,
                _ if adds => {
                    terms.id = NewId::of(word)?;
                    break;
                }
                _ => return Err(syntax()),
            }
        }
        terms.fields = at;
        let why = match (end, limit) {
            (None, Some(1..)) => "LIMIT cannot be used without specifying a trimming strategy",
            (None, _) if !adds => "XTRIM must be called with a trimming strategy",
            (_, Some(_)) if !leaves_some => "LIMIT cannot be used without the special ~ option",
            _ => {
                let limit = leaves_some.then_some(limit.unwrap_or(LIMIT.cast_unsigned()));
                terms.trim = end.map(|end| Trim { end, limit });
                return Ok(terms);
            }
        };
        Err(Halt::error(format!("ERR syntax error, {why}")))
    }
}

/// A number of entries.
fn not_negative(text: &[u8], name: &str) -> Answer<u64> {
    let negative = |_| Halt::error(format!("ERR The {name} argument must be >= 0."));
    u64::try_from(number(text)?).map_err(negative)
}

/// The id of a new entry of a stream.
fn new_id(stream: &Collection, given: NewId, now: u64) -> Answer<StreamId> {
    let last = stream.stream.last;
    if last == StreamId::MAX {
        let why = "ERR The stream has exhausted the last possible ID, unable to add more items";
        return Err(Halt::error(why));
    }
    let new = match given {
        NewId::Now if now > last.ms() => Some(StreamId::new(now, 0)),
        NewId::Now => last.next(),
        NewId::Within(ms) if ms == last.ms() => last.next().filter(|next| next.ms() == ms),
        NewId::Within(ms) => Some(StreamId::new(ms, 0)),
        NewId::Given(id) => Some(id),
    };
    let why = "ERR The ID specified in XADD is equal or smaller than the target stream top item";
    new.filter(|new| *new > last).ok_or_else(|| Halt::error(why))
}

/// `XADD key [NOMKSTREAM] [MAXLEN | MINID [= | ~] threshold [LIMIT count]] id field value
/// [field value ...]`: the id is `*`, a time with `-*`, or an id.
pub fn xadd<'a>(args: &[&'a [u8]], view: &mut View<'a>) -> Answer {
    let terms = EntryTerms::of(args, true)?;
    let fields = args.get(terms.fields..).unwrap_or_default();
    if fields.is_empty() || fields.len() % 2 == 1 {
        return Err(Halt::error("ERR wrong number of arguments for 'xadd' command"));
    }
    if terms.id == NewId::Given(StreamId::MIN) {
        return Err(Halt::error("ERR The ID specified in XADD must be greater than 0-0"));
    }
    let (mut stream, until) = match find(args[1], view)? {
        Some(found) => found,
        None if !terms.makes_stream => return Ok(Reply::Nil),
        None => (view.new_collection(STREAM)?, None),
    };
    let id = new_id(&stream, terms.id, view.now)?;
    view.put_element(stream.id, MEMBERS, &id.to_bytes(), of_fields(fields));
    if stream.len == 0 {
        stream.stream.first = id;
    }
    stream.len += 1;
    stream.stream.last = id;
    stream.stream.added = stream.stream.added.wrapping_add(1);
    let trimmed = terms.trim.map_or(Ok(0), |trim| trim.apply(&mut stream, view))?;
    view.keep(args[1], (stream, until));
    view.tell(event::STREAM, "xadd", args[1]);
    if trimmed > 0 {
        view.tell(event::STREAM, "xtrim", args[1]);
    }
    Ok(shown_id(id))
}

/// `XTRIM key MAXLEN | MINID [= | ~] threshold [LIMIT count]`
pub fn xtrim<'a>(args: &[&'a [u8]], view: &mut View<'a>) -> Answer {
    let terms = EntryTerms::of(args, false)?;
    let Some((mut stream, until)) = find(args[1], view)? else { return Ok(Reply::Integer(0)) };
    let trimmed = terms.trim.map_or(Ok(0), |trim| trim.apply(&mut stream, view))?;
    if trimmed > 0 {
        view.keep_waiting(args[1], (stream, until));
        view.tell(event::STREAM, "xtrim", args[1]);
    }
    Ok(Reply::Integer(trimmed.cast_signed()))
}

/// `XDEL key id [id ...]`
pub fn xdel<'a>(args: &[&'a [u8]], view: &mut View<'a>) -> Answer {
    let Some((mut stream, until)) = find(args[1], view)? else { return Ok(Reply::Integer(0)) };
    let ids = args[2..].iter().map(|text| id(text, 0)).collect::<Answer<Vec<_>>>()?;
    let before = stream.len;
    for id in &ids {
        if view.has_element(stream.id, MEMBERS, &id.to_bytes())? {
            view.delete_element(stream.id, MEMBERS, &id.to_bytes());
            stream.len = stream.len.saturating_sub(1);
            stream.stream.max_deleted = stream.stream.max_deleted.max(*id);
        }
    }
    let removed = before - stream.len;
    if removed > 0 {
        if ids.contains(&stream.stream.first) {
            stream.stream.first = at(&stream, 0, view)?.unwrap_or_default();
        }
        view.keep_waiting(args[1], (stream, until));
        view.tell(event::STREAM, "xdel", args[1]);
    }
    Ok(Reply::Integer(removed.cast_signed()))
}

/// The entry at a place of a stream, if it has as many, from the nearer end.
fn at(stream: &Collection, place: u64, view: &View<'_>) -> Answer<Option<StreamId>> {
    let Some(behind) = stream.len.checked_sub(place + 1) else { return Ok(None) };
    let (mut left, mut found) = (place.min(behind), None);
    walk_ids(stream, behind < place, view, &mut |entry| match left.checked_sub(1) {
        Some(less) => {
            left = less;
            ControlFlow::Continue(())
        }
        None => {
            found = Some(entry);
            ControlFlow::Break(())
        }
    })?;
    Ok(found)
}

/// `XSETID key last-id [ENTRIESADDED count] [MAXDELETEDID id]`
pub fn xsetid<'a>(args: &[&'a [u8]], view: &mut View<'a>) -> Answer {
    let last = id(args[2], 0)?;
    let (mut added, mut max_deleted) = (None, StreamId::MIN);
    for pair in args[3..].chunks(2) {
        match pair {
            [word, count] if is(word, "ENTRIESADDED") => {
                let negative = |_| Halt::error("ERR entries_added must be positive");
                added = Some(u64::try_from(number(count)?).map_err(negative)?);
            }
            [word, text] if is(word, "MAXDELETEDID") => {
                max_deleted = id(text, 0)?;
                if last < max_deleted {
                    return Err(Halt::error(
                        "ERR The ID specified in XSETID is smaller than the provided \
                         max_deleted_entry_id",
                    ));
                }
            }
            _ => return Err(syntax()),
        }
    }
    let found = find(args[1], view)?;
    let (mut stream, until) = found.ok_or_else(|| Halt::error("ERR no such key"))?;
    if stream.len > 0 {
        let greatest = at(&stream, stream.len - 1, view)?;
        if greatest.is_some_and(|greatest| last < greatest) {
            return Err(Halt::error(
                "ERR The ID specified in XSETID is smaller than the target stream top item",
            ));
        }
        if added.is_some_and(|added| stream.len > added) {
            return Err(Halt::error(
                "ERR The entries_added specified in XSETID is smaller than the target stream \
                 length",
            ));
        }
    }
    stream.stream.last = last;
    stream.stream.added = added.unwrap_or(stream.stream.added);
    if max_deleted > StreamId::MIN {
        stream.stream.max_deleted = max_deleted;
    }
    view.keep_waiting(args[1], (stream, until));
    view.tell(event::STREAM, "xsetid", args[1]);
    Ok(Reply::OK)
}
