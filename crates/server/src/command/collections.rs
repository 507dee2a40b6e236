//! What commands of several types of collections have in common.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::{Bound, ControlFlow};

use bytes::Bytes;

use super::args::{is, negatable, syntax};
use super::{glob, keys};
use crate::exec::{Answer, BLOCK_MAX, ElementForm, ElementRange, Halt, View};
use crate::model::element::{self, MEMBERS};
use crate::model::record::{Collection, CollectionKind};
use crate::resp::reply::Reply;

/// Elements up to which a scan visits all at once, as Redis does with small collections.
const SCANNED_AT_ONCE: u64 = 512;

/// What each element that may be drawn again takes besides its bytes.
const DRAWN_COST: usize = 128;

/// Elements up to which a collection that loses all is emptied element by element.
pub const REMOVED_ALONE: u64 = 64;

/// The name of an element, and its value.
pub type NameAndValue = (Bytes, Bytes);

/// The number of elements of a key's collection.
pub fn len(key: &[u8], kind: CollectionKind, view: &View<'_>) -> Answer {
    let found = view.collection(key, kind)?;
    Ok(Reply::Integer(found.map_or(0, |(collection, _)| collection.len.cast_signed())))
}

/// The elements of a key's collection, for a reply in this form; none without one.
pub fn all(
    key: &[u8],
    kind: CollectionKind,
    form: ElementForm,
    view: &View<'_>,
) -> Answer<Vec<NameAndValue>> {
    let Some((collection, _)) = view.collection(key, kind)? else { return Ok(Vec::new()) };
    let within = ElementRange { with_values: form.has_values(), ..ElementRange::ALL };
    view.send_long(collection.id, within, 0, collection.len, form)?;
    elements(collection, within, view)
}

/// Elements of a collection.
pub fn elements(
    collection: Collection,
    within: ElementRange<'_>,
    view: &View<'_>,
) -> Answer<Vec<NameAndValue>> {
    let mut found = Vec::new();
    view.elements(collection.id, within, &mut |name, value| {
        found.push((Bytes::copy_from_slice(name), Bytes::copy_from_slice(value)));
        view.holding(name.len() + value.len())
    })?;
    Ok(found)
}

/// Removes members of a key's hash or set, and says how many were there.
pub fn remove<'a>(
    key: &'a [u8],
    kind: CollectionKind,
    names: &[&[u8]],
    view: &mut View<'a>,
) -> Answer<i64> {
    let Some((mut collection, until)) = view.collection(key, kind)? else { return Ok(0) };
    let before = collection.len;
    for name in names {
        if view.has_element(collection.id, MEMBERS, name)? {
            view.remove_member(&mut collection, name);
        }
    }
    if collection.len < before {
        view.keep(key, (collection, until));
    }
    Ok((before - collection.len).cast_signed())
}

/// Which elements a command draws.
#[derive(Clone, Copy, Debug)]
pub struct RandomTerms {
    /// How many; one alone without a number; of a negative number each may come again.
    count: Option<i64>,
    with_values: bool,
}

impl RandomTerms {
    /// The words behind the key: a number, and a word that asks for values.
    pub fn of(args: &[&[u8]], with_values: &str) -> Answer<Self> {
        let Some(text) = args.get(2) else { return Ok(Self { count: None, with_values: false }) };
        let count = negatable(text)?;
        let with_values = match &args[3..] {
            [] => false,
            [word] if is(word, with_values) => true,
            _ => return Err(syntax()),
        };
        if with_values && count.unsigned_abs() > i64::MAX.unsigned_abs() / 2 {
            return Err(Halt::error("ERR value is out of range"));
        }
        Ok(Self { count: Some(count), with_values })
    }
}

/// Draws elements of a key's collection, as `shown` makes a name and a value of them.
pub fn random(
    key: &[u8],
    kind: CollectionKind,
    terms: RandomTerms,
    view: &View<'_>,
    shown: &dyn Fn(Bytes, Bytes) -> (Bytes, Reply),
) -> Answer {
    let found = view.collection(key, kind)?;
    let Some(count) = terms.count else {
        let Some((collection, _)) = found else { return Ok(Reply::Nil) };
        let drawn = drawn(collection, 1, false, view)?.pop();
        return Ok(drawn.map_or(Reply::Nil, |(name, _)| Reply::Bulk(name)));
    };
    let Some((collection, _)) = found else { return Ok(Reply::Array(Vec::new())) };
    let drawn = match count {
        0.. => drawn(collection, count.cast_unsigned(), terms.with_values, view)?,
        _ => drawn_again(collection, count.unsigned_abs(), terms.with_values, view)?,
    };
    Ok(match terms.with_values {
        false => Reply::bulks(drawn.into_iter().map(|(name, _)| name)),
        true => Reply::Pairs(
            drawn
                .into_iter()
                .map(|(name, value)| shown(name, value))
                .map(|(name, value)| (Reply::Bulk(name), value))
                .collect(),
        ),
    })
}

/// Draws different elements, all alike.
pub fn drawn(
    collection: Collection,
    count: u64,
    with_values: bool,
    view: &View<'_>,
) -> Answer<Vec<NameAndValue>> {
    let len = collection.len;
    let mut places = BTreeSet::new();
    if count < len {
        // Floyd's way: each step draws one of one place more, or takes that place.
        for end in len - count..len {
            let place = fastrand::u64(..=end);
            places.insert(if places.contains(&place) { end } else { place });
        }
    }
    at_places(collection, (count < len).then_some(&places), with_values, view)
}

/// Draws elements of which each may come again.
fn drawn_again(
    collection: Collection,
    count: u64,
    with_values: bool,
    view: &View<'_>,
) -> Answer<Vec<NameAndValue>> {
    let count = usize::try_from(count).unwrap_or(usize::MAX);
    view.take_time(count.saturating_mul(DRAWN_COST))?;
    view.hold(count.saturating_mul(DRAWN_COST))?;
    let places: Vec<u64> = (0..count).map(|_| fastrand::u64(..collection.len.max(1))).collect();
    let different: BTreeSet<u64> = places.iter().copied().collect();
    let found = at_places(collection, Some(&different), with_values, view)?;
    let found: BTreeMap<u64, NameAndValue> = different.into_iter().zip(found).collect();
    let mut drawn = Vec::with_capacity(places.len());
    for (name, value) in places.iter().filter_map(|place| found.get(place)) {
        view.hold(name.len() + value.len())?;
        drawn.push((name.clone(), value.clone()));
    }
    Ok(drawn)
}

/// The element at a place of a collection that is not walked.
fn at_place(
    collection: &Collection,
    place: u64,
    with_values: bool,
    view: &View<'_>,
) -> Answer<Option<NameAndValue>> {
    let Some(name) = view.name_at(collection, place)? else { return Ok(None) };
    if collection.kind == CollectionKind::SortedSet {
        let found = element::scored(&name);
        return Ok(found.map(|(score, member)| {
            (Bytes::copy_from_slice(member), Bytes::copy_from_slice(&element::of_member(score)))
        }));
    }
    let value = match with_values {
        true => view.element(collection.id, MEMBERS, &name)?.unwrap_or_default(),
        false => Bytes::new(),
    };
    Ok(Some((name.into(), value)))
}

/// The elements at some places in an order, or all. Few of many are found by their ranks, which
/// cost a walk over a block each; otherwise the collection is walked up to the last one.
fn at_places(
    collection: Collection,
    places: Option<&BTreeSet<u64>>,
    with_values: bool,
    view: &View<'_>,
) -> Answer<Vec<NameAndValue>> {
    let within = ElementRange { with_values, ..ElementRange::ALL };
    let Some(places) = places else { return elements(collection, within, view) };
    if (places.len() as u64).saturating_mul(BLOCK_MAX) < collection.len {
        let found = places.iter().map(|at| at_place(&collection, *at, with_values, view));
        return found.filter_map(Answer::transpose).collect();
    }
    let last = collection.len.saturating_sub(1);
    // From the nearer end.
    let from_end = match (places.first(), places.last()) {
        (Some(first), Some(to)) => first.saturating_add(*to) > last,
        _ => return Ok(Vec::new()),
    };
    let place = |step: u64| if from_end { last.saturating_sub(step) } else { step };
    let (mut found, mut step) = (Vec::with_capacity(places.len()), 0);
    let within = ElementRange { is_reversed: from_end, ..within };
    view.elements(collection.id, within, &mut |name, value| {
        let mut flow = ControlFlow::Continue(());
        if places.contains(&place(step)) {
            found.push((Bytes::copy_from_slice(name), Bytes::copy_from_slice(value)));
            flow = view.holding(name.len() + value.len());
        }
        step += 1;
        if found.len() == places.len() || step > last { ControlFlow::Break(()) } else { flow }
    })?;
    if from_end {
        found.reverse();
    }
    Ok(found)
}

/// What a scan shows of an element.
#[derive(Clone, Copy)]
pub enum Shown<'a> {
    /// The name.
    Names,
    /// The name, and what is made of it and the value.
    WithValues(&'a dyn Fn(&[u8], Bytes) -> Reply),
}

/// `HSCAN`, `SSCAN` or `ZSCAN key cursor [MATCH pattern] [COUNT count]`
pub fn scan(args: &[&[u8]], kind: CollectionKind, view: &View<'_>, shown: Shown<'_>) -> Answer {
    let from = view.scans.place(keys::cursor(args[2])?);
    let found = view.collection(args[1], kind)?;
    let answer = |cursor: u64, items| {
        let cursor = Reply::Bulk(cursor.to_string().into());
        Ok(Reply::Array(vec![cursor, Reply::Array(items)]))
    };
    let Some((collection, _)) = found else { return answer(0, Vec::new()) };
    let keys::ScanTerms { pattern, count, .. } = keys::ScanTerms::of(&args[3..], false)?;
    view.take_lookups(pattern.len())?;
    // A small collection is visited as a whole, wherever a cursor of another one stood.
    let (most, from) = match collection.len {
        ..=SCANNED_AT_ONCE => (u64::MAX, None),
        _ => (count.cast_unsigned(), from),
    };
    let from = from.as_deref().map_or(Bound::Unbounded, Bound::Included);
    let with_values = matches!(shown, Shown::WithValues(_));
    let within = ElementRange { with_values, range: (from, Bound::Unbounded), ..ElementRange::ALL };
    let (mut items, mut seen, mut next) = (Vec::new(), 0, None);
    view.elements(collection.id, within, &mut |name, value| {
        if seen == most {
            next = Some(Box::<[u8]>::from(name));
            return ControlFlow::Break(());
        }
        seen += 1;
        if !glob::matches(pattern, name) {
            return ControlFlow::Continue(());
        }
        items.push(Reply::Bulk(Bytes::copy_from_slice(name)));
        if let Shown::WithValues(shown) = shown {
            items.push(shown(name, Bytes::copy_from_slice(value)));
        }
        view.holding(name.len() + value.len())
    })?;
    answer(next.map_or(0, |next| view.scans.cursor(next)), items)
}
