//! What groups give their consumers.

use std::ops::ControlFlow;

use super::group::OpenGroup;
use super::ids::IdRange;
use super::{StreamEntry, lag, shown, shown_id};
use crate::exec::{Answer, View};
use crate::model::element::MEMBERS;
use crate::model::stream::StreamId;
use crate::resp::reply::Reply;

/// Gives a consumer entries that the group was not given, which are pending unless they are
/// acknowledged at once.
pub(super) fn first<'a>(
    group: &mut OpenGroup<'a>,
    consumer: &'a [u8],
    key: &'a [u8],
    entries: Vec<StreamEntry>,
    is_settled: bool,
    view: &mut View<'a>,
) -> Answer {
    let mut consumer = group.see(consumer, key, view)?;
    let mut replies = Vec::with_capacity(entries.len());
    for entry in entries {
        let id = entry.0;
        lag::pass(&group.stream, &mut group.state, id);
        replies.push(shown(&group.stream, entry)?);
        if !is_settled {
            // `XGROUP SETID` may have led back to what is pending.
            let old = group.pending(id, view)?;
            group.give(&mut consumer, id, old.as_ref(), 1, view.now, view)?;
        }
    }
    group.save_consumer(consumer.name, consumer.state, view);
    group.save(view);
    Ok(Reply::Array(replies))
}

/// Gives a consumer entries again that it has, behind an id. One that the stream has no more is
/// told without fields.
pub(super) fn again<'a>(
    group: &mut OpenGroup<'a>,
    consumer: &'a [u8],
    key: &'a [u8],
    behind: StreamId,
    count: u64,
    view: &mut View<'a>,
) -> Answer {
    let consumer = group.see(consumer, key, view)?;
    group.save_consumer(consumer.name, consumer.state, view);
    group.save(view);
    let mut owned = Vec::new();
    group.walk_owned(consumer.name, IdRange::behind(behind), view, &mut |id| {
        owned.push(id);
        match owned.len() as u64 == count {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    })?;
    let mut replies = Vec::with_capacity(owned.len());
    for id in owned {
        match view.element(group.stream.id, MEMBERS, &id.to_bytes())? {
            None => replies.push(Reply::Array(vec![shown_id(id), Reply::NilArray])),
            Some(value) => {
                view.hold(value.len())?;
                replies.push(shown(&group.stream, (id, value))?);
                if let Some(mut entry) = group.pending(id, view)? {
                    entry.given = view.now;
                    entry.times = entry.times.wrapping_add(1);
                    group.save_pending(id, &entry, view);
                }
            }
        }
    }
    Ok(Reply::Array(replies))
}
