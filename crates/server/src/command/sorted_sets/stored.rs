//! Sorted sets as they lie in a store: members with their scores, and once more in their order.

use std::cmp::Ordering;
use std::ops::{Bound, ControlFlow, Range};

use bytes::Bytes;

use crate::command::collections::REMOVED_ALONE;
use crate::exec::{Answer, ElementForm, ElementRange, Halt, OpenCollection, View, event};
use crate::model::element::{self, MEMBERS, NameRange, SCORES};
use crate::model::record::{Collection, CollectionKind};
use crate::resp::reply::Reply;

pub const KIND: CollectionKind = CollectionKind::SortedSet;

/// A member, and its score.
pub type ScoredMember = (Bytes, f64);

/// What visits members with their scores, until it breaks off.
pub type VisitMember<'a> = dyn FnMut(&[u8], f64) -> ControlFlow<()> + 'a;

/// The error of an element that cannot be read.
pub fn damaged() -> Halt {
    let why = "ERR damaged: an element of a sorted set has no score; was the store written by \
               another program?";
    Halt::error(why)
}

/// The sorted set of a key.
pub fn find(key: &[u8], view: &View<'_>) -> Answer<Option<Collection>> {
    Ok(view.collection(key, KIND)?.map(|(zset, _)| zset))
}

/// The score of a member, if it is there.
pub fn score(zset: Collection, member: &[u8], view: &View<'_>) -> Answer<Option<f64>> {
    let value = view.element(zset.id, MEMBERS, member)?;
    value.map(|value| element::member_score(&value).ok_or_else(damaged)).transpose()
}

/// Gives a member a score in place of its old one.
pub fn put(zset: &mut Collection, member: &[u8], old: Option<f64>, new: f64, view: &mut View<'_>) {
    if let Some(old) = old {
        remove(zset, member, old, view);
    }
    // A score of -0 is kept as 0, as Redis does in small sorted sets.
    let new = new + 0.0;
    view.put_element(zset.id, MEMBERS, member, element::of_member(new).to_vec());
    let name = element::of_scored(new, member);
    view.put_element(zset.id, SCORES, &name, b"");
    view.count_name(zset, &name, 1);
    zset.len += 1;
}

/// Removes a member that has this score.
pub fn remove(zset: &mut Collection, member: &[u8], score: f64, view: &mut View<'_>) {
    let name = element::of_scored(score, member);
    view.delete_element(zset.id, MEMBERS, member);
    view.delete_element(zset.id, SCORES, &name);
    view.count_name(zset, &name, -1);
    zset.len = zset.len.saturating_sub(1);
}

/// Tells that members of a key's sorted set were removed.
pub fn tell_rest(key: &[u8], event: &'static str, view: &mut View<'_>) -> Answer<()> {
    view.tell(event::SORTED_SET, event, key);
    view.tell_if_gone(key)
}

/// Removes members of a key's sorted set, if there are any, and tells that.
pub fn take<'a>(
    key: &'a [u8],
    zset: OpenCollection,
    members: &[ScoredMember],
    event: &'static str,
    view: &mut View<'a>,
) -> Answer<()> {
    if members.is_empty() {
        return Ok(());
    }
    let (mut zset, until) = zset;
    if members.len() as u64 == zset.len && zset.len > REMOVED_ALONE {
        view.end(key, &zset);
    } else {
        members.iter().for_each(|(member, score)| remove(&mut zset, member, *score, view));
        view.keep(key, (zset, until));
    }
    tell_rest(key, event, view)
}

/// Gives a key a new sorted set in place of what it has; without members the key goes. Replies the
/// number of members.
pub fn store<'a>(
    key: &'a [u8],
    members: &[ScoredMember],
    event: &'static str,
    view: &mut View<'a>,
) -> Answer {
    view.hold_changes(2 * members.len())?;
    if !members.is_empty() {
        view.make_room(key)?;
        let mut zset = view.new_collection(KIND)?;
        members.iter().for_each(|(member, score)| put(&mut zset, member, None, *score, view));
        view.keep(key, (zset, None));
        view.tell(event::SORTED_SET, event, key);
    } else if view.delete(key)? {
        view.tell(event::GENERIC, "del", key);
    }
    Ok(Reply::Integer(members.len() as i64))
}

/// Members as a reply.
pub fn shown(members: Vec<ScoredMember>, with_scores: bool) -> Reply {
    match with_scores {
        false => Reply::bulks(members.into_iter().map(|(member, _)| member)),
        true => {
            let pair = |(member, score)| (Reply::Bulk(member), Reply::Double(score));
            Reply::Pairs(members.into_iter().map(pair).collect())
        }
    }
}

/// The order of members: by their scores, and of equal ones by their bytes.
pub fn order(one: &ScoredMember, other: &ScoredMember) -> Ordering {
    let scores = element::of_score(one.1).cmp(&element::of_score(other.1));
    scores.then_with(|| one.0.cmp(&other.0))
}

/// Visits members in their order, until `visit` breaks off.
pub fn walk(
    zset: Collection,
    range: NameRange<'_>,
    is_reversed: bool,
    view: &View<'_>,
    visit: &mut VisitMember<'_>,
) -> Answer<()> {
    let within = ElementRange { part: SCORES, range, is_reversed, with_values: false };
    let mut is_damaged = false;
    view.elements(zset.id, within, &mut |name, _| match element::scored(name) {
        Some((score, member)) => visit(member, score),
        None => {
            is_damaged = true;
            ControlFlow::Break(())
        }
    })?;
    if is_damaged { Err(damaged()) } else { Ok(()) }
}

/// The members of some ranks, which are counted from the end if it `is_reversed`. Walks from the
/// nearer end.
pub fn at_ranks(
    zset: Collection,
    ranks: Range<u64>,
    is_reversed: bool,
    view: &View<'_>,
) -> Answer<Vec<ScoredMember>> {
    let (end, mut found) = (ranks.end.min(zset.len), Vec::new());
    let Some(count) = end.checked_sub(ranks.start).filter(|count| *count > 0) else {
        return Ok(found);
    };
    let (before, behind) = (ranks.start, zset.len - end);
    let is_turned = behind < before;
    let is_backwards = is_reversed != is_turned;
    let (at, mut skipped) = view.rank_bound(&zset, before.min(behind), is_backwards)?;
    walk(zset, from_bound(&at, is_backwards), is_backwards, view, &mut |member, score| {
        if skipped > 0 {
            skipped -= 1;
            return ControlFlow::Continue(());
        }
        found.push((Bytes::copy_from_slice(member), score));
        match found.len() as u64 == count {
            true => ControlFlow::Break(()),
            false => view.holding(member.len()),
        }
    })?;
    if is_turned {
        found.reverse();
    }
    Ok(found)
}

/// Ends a command whose reply is members from a rank on, if it may be read while it is sent.
pub fn send_long(
    zset: Collection,
    first: u64,
    count: u64,
    is_reversed: bool,
    form: ElementForm,
    view: &View<'_>,
) -> Answer<()> {
    if !view.may_send_long(count) {
        return Ok(());
    }
    let (at, skipped) = view.rank_bound(&zset, first, is_reversed)?;
    let range = from_bound(&at, is_reversed);
    let within = ElementRange { part: SCORES, range, is_reversed, with_values: false };
    view.send_long(zset.id, within, skipped, count, form)
}

/// The range from where a walk begins on.
fn from_bound(at: &Bound<Vec<u8>>, is_reversed: bool) -> NameRange<'_> {
    match (at.as_ref().map(Vec::as_slice), is_reversed) {
        (at, false) => (at, Bound::Unbounded),
        (at, true) => (Bound::Unbounded, at),
    }
}

/// The rank of a member that has this score, counted from the end if it `is_reversed`.
pub fn rank(
    zset: Collection,
    member: &[u8],
    score: f64,
    is_reversed: bool,
    view: &View<'_>,
) -> Answer<u64> {
    let name = element::of_scored(score, member);
    let below = view.members_below(&zset, &name)?;
    Ok(if is_reversed { zset.len.saturating_sub(below + 1) } else { below })
}
