//! Commands of streams.

mod ids;
mod add;
mod ranges;
mod group;
mod lag;
mod delivery;
mod read;
mod groups;
mod pending;
mod claims;
mod info;

use std::ops::{Bound, ControlFlow};
use std::time::Duration;

use bytes::Bytes;

use self::ids::IdRange;
use super::args::at_least;
use crate::exec::{Answer, ElementRange, Halt, OpenCollection, View};
use crate::model::record::{Collection, CollectionKind};
use crate::model::stream::{self, StreamId};
use crate::resp::reply::Reply;

pub use self::add::{xadd, xdel, xsetid, xtrim};
pub use self::claims::{xautoclaim, xclaim};
pub use self::groups::{
    xgroup_create, xgroup_createconsumer, xgroup_delconsumer, xgroup_destroy, xgroup_setid,
};
pub use self::info::{xinfo_consumers, xinfo_groups, xinfo_stream};
pub use self::pending::{xack, xpending};
pub use self::ranges::{xlen, xrange, xrevrange};
pub use self::read::{keys_of, waits, xread, xreadgroup};

const STREAM: CollectionKind = CollectionKind::Stream;

/// An entry: its id, and its fields and their values as they are kept.
type StreamEntry = (StreamId, Bytes);

fn find(key: &[u8], view: &View<'_>) -> Answer<Option<OpenCollection>> {
    view.collection(key, STREAM)
}

/// The error of an element that is not what was written.
fn damaged(stream: &Collection, what: &str) -> Halt {
    Halt::error(format!("ERR damaged: {what} of stream {}", stream.id))
}

/// An id as clients see it.
fn shown_id(id: StreamId) -> Reply {
    Reply::Bulk(id.to_string().into())
}

/// An entry as clients see it.
fn shown(stream: &Collection, entry: StreamEntry) -> Answer {
    let (id, value) = entry;
    let fields = stream::fields(value).ok_or_else(|| damaged(stream, "an entry"))?;
    Ok(Reply::Array(vec![shown_id(id), Reply::bulks(fields)]))
}

/// Visits the ids of all entries in their order, or the last one first.
fn walk_ids(
    stream: &Collection,
    is_reversed: bool,
    view: &View<'_>,
    visit: &mut dyn FnMut(StreamId) -> ControlFlow<()>,
) -> Answer<()> {
    let within = ElementRange { is_reversed, with_values: false, ..ElementRange::ALL };
    walk(stream, IdRange::ALL, within, view, &mut |id, _| visit(id))
}

/// Visits entries between two ids, in the way that `how` has.
fn walk(
    stream: &Collection,
    within: IdRange,
    how: ElementRange<'_>,
    view: &View<'_>,
    visit: &mut dyn FnMut(StreamId, &[u8]) -> ControlFlow<()>,
) -> Answer<()> {
    let IdRange { from, to } = within;
    // Nothing is in front of the first entry but what was deleted there.
    let from = from.max(stream.stream.first);
    if stream.len == 0 || from > to.min(stream.stream.last) {
        return Ok(());
    }
    let [from, to] = [from, to].map(StreamId::to_bytes);
    let range = (Bound::Included(&from[..]), Bound::Included(&to[..]));
    let within = ElementRange { range, ..how };
    let mut is_damaged = false;
    view.elements(stream.id, within, &mut |name, value| match StreamId::of_bytes(name) {
        Some(id) => visit(id, value),
        None => {
            is_damaged = true;
            ControlFlow::Break(())
        }
    })?;
    if is_damaged { Err(damaged(stream, "an id")) } else { Ok(()) }
}

/// At most `count` entries of a range in their order, or the last one first; all of 0.
fn entries(
    stream: &Collection,
    within: IdRange,
    is_reversed: bool,
    count: u64,
    view: &View<'_>,
) -> Answer<Vec<StreamEntry>> {
    let (mut found, how) = (Vec::new(), ElementRange { is_reversed, ..ElementRange::ALL });
    walk(stream, within, how, view, &mut |id, value| {
        found.push((id, Bytes::copy_from_slice(value)));
        match found.len() as u64 == count {
            true => ControlFlow::Break(()),
            false => view.holding(value.len()),
        }
    })?;
    Ok(found)
}

/// Entries as clients see them.
fn shown_all(stream: &Collection, entries: Vec<StreamEntry>) -> Answer {
    entries.into_iter().map(|entry| shown(stream, entry)).collect::<Answer<_>>().map(Reply::Array)
}

/// A number of milliseconds that a client waits; for ever of 0.
fn timeout(text: &[u8]) -> Answer<Option<Duration>> {
    let why = "ERR timeout is not an integer or out of range";
    let millis = at_least(text, i64::MIN, why)?;
    match u64::try_from(millis) {
        Ok(0) => Ok(None),
        Ok(millis) => Ok(Some(Duration::from_millis(millis))),
        Err(_) => Err(Halt::error("ERR timeout is negative")),
    }
}
