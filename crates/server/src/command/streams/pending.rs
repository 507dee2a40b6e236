//! `XACK` and `XPENDING`: entries that groups have given.

use std::ops::ControlFlow;

use bytes::Bytes;

use super::group::{OpenGroup, PendingFound};
use super::ids::{IdRange, id};
use super::shown_id;
use crate::command::args::{is, number, showing_all, syntax};
use crate::exec::{Answer, Halt, View};
use crate::model::stream::StreamId;
use crate::resp::reply::Reply;

/// The error of a key without such a group.
pub(super) fn no_key_or_group(key: &[u8], group: &[u8]) -> Halt {
    showing_all(&[b"NOGROUP No such key '", key, b"' or consumer group '", group, b"'"])
}

/// `XACK key group id [id ...]`
pub fn xack<'a>(args: &[&'a [u8]], view: &mut View<'a>) -> Answer {
    let Some(mut group) = OpenGroup::find(args[1], args[2], view)? else {
        return Ok(Reply::Integer(0));
    };
    let ids = args[3..].iter().map(|text| id(text, 0)).collect::<Answer<Vec<_>>>()?;
    let before = group.state.pending;
    for id in ids {
        if let Some(entry) = group.pending(id, view)? {
            group.settle(id, &entry, view)?;
        }
    }
    group.save(view);
    Ok(Reply::Integer((before - group.state.pending).cast_signed()))
}

/// Which pending entries `XPENDING` shows.
struct PendingTerms<'a> {
    /// The least time since they were given, in milliseconds.
    idle: i64,
    within: IdRange,
    count: u64,
    consumer: Option<&'a [u8]>,
}

impl<'a> PendingTerms<'a> {
    fn of(args: &[&'a [u8]]) -> Answer<Self> {
        if !(6..=9).contains(&args.len()) {
            return Err(syntax());
        }
        let (idle, at) = match is(args[3], "IDLE") {
            true => (number(args[4])?, 5),
            false => (0, 3),
        };
        let [start, end, count, rest @ ..] = &args[at..] else { return Err(syntax()) };
        let count = number(count)?.max(0).cast_unsigned();
        let within = IdRange::of(start, end)?;
        Ok(Self { idle, within, count, consumer: rest.first().copied() })
    }

    /// Whether an entry is shown, if its consumer is.
    fn has(&self, entry: &PendingFound, now: u64) -> bool {
        self.idle == 0 || idle(entry, now) >= self.idle
    }
}

/// Milliseconds since an entry was given.
fn idle(entry: &PendingFound, now: u64) -> i64 {
    now.wrapping_sub(entry.1.given).cast_signed()
}

/// `XPENDING key group [[IDLE milliseconds] start end count [consumer]]`
pub fn xpending(args: &[&[u8]], view: &mut View<'_>) -> Answer {
    let terms = if args.len() == 3 { None } else { Some(PendingTerms::of(args)?) };
    let group = OpenGroup::find(args[1], args[2], view)?;
    let group = group.ok_or_else(|| no_key_or_group(args[1], args[2]))?;
    match terms {
        None => summary(&group, view),
        Some(terms) => shown(&group, &terms, view),
    }
}

fn summary(group: &OpenGroup<'_>, view: &View<'_>) -> Answer {
    let count = Reply::Integer(group.state.pending.cast_signed());
    if group.state.pending == 0 {
        return Ok(Reply::Array(vec![count, Reply::Nil, Reply::Nil, Reply::NilArray]));
    }
    let (mut first, mut last) = (StreamId::MIN, StreamId::MIN);
    for (end, is_reversed) in [(&mut first, false), (&mut last, true)] {
        group.walk_pending(IdRange::ALL, is_reversed, view, &mut |id, _| {
            *end = id;
            ControlFlow::Break(())
        })?;
    }
    let with_entries = group.consumers(view)?.into_iter().filter(|(_, it)| it.pending > 0);
    let consumers = with_entries.map(|(name, consumer)| {
        Reply::Array(vec![Reply::Bulk(name), Reply::Bulk(consumer.pending.to_string().into())])
    });
    let consumers = Reply::Array(consumers.collect());
    Ok(Reply::Array(vec![count, shown_id(first), shown_id(last), consumers]))
}

fn shown(group: &OpenGroup<'_>, terms: &PendingTerms<'_>, view: &View<'_>) -> Answer {
    let mut found: Vec<PendingFound> = Vec::new();
    match terms.consumer {
        _ if terms.count == 0 => {}
        None => group.walk_pending(terms.within, false, view, &mut |id, entry| {
            found.extend(Some((id, entry)).filter(|entry| terms.has(entry, view.now)));
            match found.len() as u64 == terms.count {
                true => ControlFlow::Break(()),
                false => view.holding(found.last().map_or(0, |(_, entry)| entry.consumer.len())),
            }
        })?,
        Some(consumer) => {
            let mut failed = None;
            group.walk_owned(consumer, terms.within, view, &mut |id| {
                match group.pending(id, view) {
                    Ok(Some(entry)) => {
                        let entry = (id, entry);
                        found.extend(Some(entry).filter(|entry| terms.has(entry, view.now)));
                    }
                    Ok(None) => {}
                    Err(halt) => failed = Some(halt),
                }
                match failed.is_some() || found.len() as u64 == terms.count {
                    true => ControlFlow::Break(()),
                    false => ControlFlow::Continue(()),
                }
            })?;
            failed.map_or(Ok(()), Err)?;
        }
    }
    let shown = found.into_iter().map(|found| {
        let idle = Reply::Integer(idle(&found, view.now).max(0));
        let (id, entry) = found;
        let times = Reply::Integer(entry.times.cast_signed());
        Reply::Array(vec![shown_id(id), Reply::Bulk(Bytes::clone(&entry.consumer)), idle, times])
    });
    Ok(Reply::Array(shown.collect()))
}
