//! How far groups are behind their stream, as Redis 7.0 reckons it.

use crate::model::group::GroupState;
use crate::model::record::Collection;
use crate::model::stream::StreamId;

/// Whether an entry may be missing between an id and the end of a stream.
pub(super) fn has_gaps(stream: &Collection, from: StreamId) -> bool {
    let state = &stream.stream;
    let has_deleted = stream.len > 0 && state.max_deleted > StreamId::MIN;
    has_deleted && state.first <= state.max_deleted && from <= state.max_deleted
}

/// The number of entries up to an id that were ever added, if that is known.
pub(super) fn added_up_to(stream: &Collection, id: StreamId) -> Option<u64> {
    let state = &stream.stream;
    if state.added == 0 {
        return Some(0);
    }
    let has_no_gaps = state.max_deleted == StreamId::MIN || state.max_deleted < state.first;
    let before_first = state.added.wrapping_sub(stream.len);
    match id {
        _ if stream.len == 0 && id <= state.last => Some(state.added),
        _ if id == state.last => Some(state.added),
        _ if id > state.last => None,
        _ if has_no_gaps && id < state.first => Some(before_first),
        _ if has_no_gaps && id == state.first => Some(before_first.wrapping_add(1)),
        _ => None,
    }
}

/// The number of entries that a group has not read, if that is known.
pub(super) fn of(stream: &Collection, group: &GroupState) -> Option<u64> {
    let added = stream.stream.added;
    match group.read {
        _ if added == 0 => Some(0),
        Some(read) if !has_gaps(stream, group.last) => Some(added.wrapping_sub(read)),
        _ => added_up_to(stream, group.last).map(|read| added.wrapping_sub(read)),
    }
}

/// Notes that a group was given an entry.
pub(super) fn pass(stream: &Collection, group: &mut GroupState, id: StreamId) {
    if id <= group.last {
        return;
    }
    match group.read {
        Some(read) if !has_gaps(stream, id) => group.read = Some(read.wrapping_add(1)),
        _ if stream.stream.added > 0 => group.read = added_up_to(stream, id),
        _ => {}
    }
    group.last = id;
}
