//! `XINFO`: what streams, groups and consumers have.

use std::ops::ControlFlow;

use bytes::Bytes;

use super::group::OpenGroup;
use super::groups::no_group;
use super::ids::IdRange;
use super::{entries, find, lag, shown, shown_all, shown_id};
use crate::command::args::{is, number, wrong_subcommand};
use crate::exec::{Answer, ElementRange, Halt, View};
use crate::model::element::GROUPS;
use crate::model::group::ConsumerState;
use crate::model::record::Collection;
use crate::resp::reply::Reply;

/// Entries of each list that `XINFO STREAM` shows without a number.
const COUNT: i64 = 10;

/// Entries that Redis keeps together, from which numbers of its nodes follow.
const IN_ONE_NODE: u64 = 100;

fn needed(key: &[u8], view: &View<'_>) -> Answer<Collection> {
    let found = find(key, view)?.ok_or_else(|| Halt::error("ERR no such key"))?;
    Ok(found.0)
}

fn map<const N: usize>(pairs: [(&'static str, Reply); N]) -> Vec<(Reply, Reply)> {
    pairs.into_iter().map(|(name, value)| (Reply::Bulk(name.into()), value)).collect()
}

fn count(number: u64) -> Reply {
    Reply::Integer(number.cast_signed())
}

fn known(number: Option<u64>) -> Reply {
    number.map_or(Reply::Nil, count)
}

/// The names of the groups of a stream, in the order of their bytes.
fn groups_of(stream: &Collection, view: &View<'_>) -> Answer<Vec<Vec<u8>>> {
    let mut found = Vec::new();
    let within = ElementRange { part: GROUPS, with_values: false, ..ElementRange::ALL };
    view.elements(stream.id, within, &mut |name, _| {
        found.push(name.to_vec());
        ControlFlow::Continue(())
    })?;
    Ok(found)
}

/// What is made of each group of a stream.
fn each_group(
    stream: Collection,
    view: &View<'_>,
    shown: &dyn Fn(&OpenGroup<'_>) -> Answer,
) -> Answer {
    let mut replies = Vec::new();
    for name in groups_of(&stream, view)? {
        if let Some(group) = OpenGroup::of(stream, &name, view)? {
            replies.push(shown(&group)?);
        }
    }
    Ok(Reply::Array(replies))
}

/// `XINFO GROUPS key`
pub fn xinfo_groups(args: &[&[u8]], view: &mut View<'_>) -> Answer {
    each_group(needed(args[2], view)?, view, &|group| {
        let OpenGroup { stream, name, state, .. } = group;
        Ok(Reply::Map(map([
            ("name", Reply::Bulk(Bytes::copy_from_slice(name))),
            ("consumers", count(state.consumers)),
            ("pending", count(state.pending)),
            ("last-delivered-id", shown_id(state.last)),
            ("entries-read", known(state.read)),
            ("lag", known(lag::of(stream, state))),
        ])))
    })
}

/// `XINFO CONSUMERS key group`
pub fn xinfo_consumers(args: &[&[u8]], view: &mut View<'_>) -> Answer {
    let group = OpenGroup::of(needed(args[2], view)?, args[3], view)?;
    let group = group.ok_or_else(|| no_group(args[2], args[3]))?;
    let shown = |(name, consumer): (Bytes, ConsumerState)| {
        Reply::Map(map([
            ("name", Reply::Bulk(name)),
            ("pending", count(consumer.pending)),
            ("idle", count(view.now.saturating_sub(consumer.seen))),
        ]))
    };
    Ok(Reply::Array(group.consumers(view)?.into_iter().map(shown).collect()))
}

/// `XINFO STREAM key [FULL [COUNT count]]`
pub fn xinfo_stream(args: &[&[u8]], view: &mut View<'_>) -> Answer {
    let stream = needed(args[2], view)?;
    let most = match &args[3..] {
        [] => None,
        [full] if is(full, "FULL") => Some(COUNT),
        [full, word, most] if is(full, "FULL") && is(word, "COUNT") => {
            Some(number(most)?).map(|most| if most < 0 { COUNT } else { most })
        }
        _ => return Err(wrong_subcommand(args)),
    };
    let state = stream.stream;
    let nodes = stream.len.div_ceil(IN_ONE_NODE);
    let mut told = map([
        ("length", count(stream.len)),
        ("radix-tree-keys", count(nodes)),
        ("radix-tree-nodes", count(nodes + 1)),
        ("last-generated-id", shown_id(state.last)),
        ("max-deleted-entry-id", shown_id(state.max_deleted)),
        ("entries-added", count(state.added)),
        ("recorded-first-entry-id", shown_id(state.first)),
    ]);
    match most {
        None => {
            let end = |is_reversed| {
                let found = entries(&stream, IdRange::ALL, is_reversed, 1, view)?.pop();
                found.map_or(Ok(Reply::Nil), |entry| shown(&stream, entry))
            };
            told.extend(map([
                ("groups", count(groups_of(&stream, view)?.len() as u64)),
                ("first-entry", end(false)?),
                ("last-entry", end(true)?),
            ]));
        }
        Some(most) => {
            let most = most.cast_unsigned();
            let found = entries(&stream, IdRange::ALL, false, most, view)?;
            told.extend(map([
                ("entries", shown_all(&stream, found)?),
                ("groups", each_group(stream, view, &|group| full(group, most, view))?),
            ]));
        }
    }
    Ok(Reply::Map(told))
}

/// All that a group has, with at most `most` entries of each list.
fn full(group: &OpenGroup<'_>, most: u64, view: &View<'_>) -> Answer {
    let mut pending = Vec::new();
    group.walk_pending(IdRange::ALL, false, view, &mut |id, entry| {
        let (given, times) = (count(entry.given), count(entry.times));
        pending.push(Reply::Array(vec![shown_id(id), Reply::Bulk(entry.consumer), given, times]));
        go_on(pending.len() as u64 != most)
    })?;
    let consumers = group.consumers(view)?.into_iter();
    let consumers = consumers.map(|(name, state)| full_consumer(group, name, state, most, view));
    let consumers = consumers.collect::<Answer<_>>().map(Reply::Array)?;
    Ok(Reply::Map(map([
        ("name", Reply::Bulk(Bytes::copy_from_slice(group.name))),
        ("last-delivered-id", shown_id(group.state.last)),
        ("entries-read", known(group.state.read)),
        ("lag", known(lag::of(&group.stream, &group.state))),
        ("pel-count", count(group.state.pending)),
        ("pending", Reply::Array(pending)),
        ("consumers", consumers),
    ])))
}

fn go_on(does: bool) -> ControlFlow<()> {
    if does { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
}

fn full_consumer(
    group: &OpenGroup<'_>,
    name: Bytes,
    state: ConsumerState,
    most: u64,
    view: &View<'_>,
) -> Answer {
    let mut owned = Vec::new();
    group.walk_owned(&name, IdRange::ALL, view, &mut |id| {
        owned.push(id);
        go_on(owned.len() as u64 != most)
    })?;
    let mut pending = Vec::with_capacity(owned.len());
    for id in owned {
        if let Some(entry) = group.pending(id, view)? {
            let (given, times) = (count(entry.given), count(entry.times));
            pending.push(Reply::Array(vec![shown_id(id), given, times]));
        }
    }
    Ok(Reply::Map(map([
        ("name", Reply::Bulk(name)),
        ("seen-time", count(state.seen)),
        ("pel-count", count(state.pending)),
        ("pending", Reply::Array(pending)),
    ])))
}
