//! `SORT`: the elements of a list or a set in an order, and what other keys have for them.

use std::cmp::Ordering;

use bytes::Bytes;

use super::args::{is, number, syntax};
use super::collections;
use super::float;
use crate::exec::{Answer, ElementRange, Halt, View, event, wrong_type};
use crate::model::element::{self, MEMBERS, SCORES};
use crate::model::record::{Collection, CollectionKind, KeyContent, KeyRecord};
use crate::resp::reply::Reply;

/// What the words behind the key ask for.
struct SortTerms<'a> {
    by: Option<&'a [u8]>,
    /// Whether the order is that of the elements: a pattern stood for one key alone.
    keeps_order: bool,
    limit: Option<(i64, i64)>,
    get: Vec<&'a [u8]>,
    descends: bool,
    is_alpha: bool,
    to: Option<&'a [u8]>,
}

impl<'a> SortTerms<'a> {
    fn of(words: &[&'a [u8]], may_store: bool) -> Answer<Self> {
        let (by, limit, get, to) = (None, None, Vec::new(), None);
        let (keeps_order, descends, is_alpha) = (false, false, false);
        let mut terms = Self { by, keeps_order, limit, get, descends, is_alpha, to };
        let mut words = words.iter();
        while let Some(word) = words.next() {
            match word {
                _ if is(word, "ASC") => terms.descends = false,
                _ if is(word, "DESC") => terms.descends = true,
                _ if is(word, "ALPHA") => terms.is_alpha = true,
                _ if is(word, "LIMIT") && words.len() >= 2 => {
                    let mut next = || words.next().ok_or_else(syntax).and_then(|it| number(it));
                    terms.limit = Some((next()?, next()?));
                }
                _ if is(word, "STORE") && may_store => {
                    terms.to = Some(words.next().ok_or_else(syntax)?);
                }
                _ if is(word, "BY") => {
                    let pattern = words.next().ok_or_else(syntax)?;
                    terms.keeps_order |= !pattern.contains(&b'*');
                    terms.by = Some(pattern);
                }
                _ if is(word, "GET") => terms.get.push(words.next().ok_or_else(syntax)?),
                _ => return Err(syntax()),
            }
        }
        Ok(terms)
    }

    /// The places of `len` elements that are asked for.
    fn places(&self, len: usize) -> std::ops::Range<usize> {
        let (offset, count) = self.limit.unwrap_or((0, -1));
        let start = usize::try_from(offset).unwrap_or(0).min(len);
        let end = match usize::try_from(count) {
            Ok(count) => start.saturating_add(count).min(len),
            Err(_) => len,
        };
        start..end
    }
}

/// The elements of a list, a set or a sorted set, in their order or from the last one on.
fn elements(collection: Collection, from_last: bool, view: &View<'_>) -> Answer<Vec<Bytes>> {
    let part = if collection.kind == CollectionKind::SortedSet { SCORES } else { MEMBERS };
    let is_reversed = from_last && collection.kind != CollectionKind::Set;
    let within = ElementRange { part, is_reversed, ..ElementRange::ALL };
    let found = collections::elements(collection, within, view)?;
    Ok(found
        .into_iter()
        .map(|(name, value)| match collection.kind {
            CollectionKind::List => value,
            // Behind the score.
            CollectionKind::SortedSet => name.slice(size_of::<f64>().min(name.len())..),
            _ => name,
        })
        .collect())
}

/// What a pattern stands for with an element: the element itself, a string, or a field of a hash.
fn looked_up(pattern: &[u8], element: &Bytes, view: &View<'_>) -> Answer<Option<Bytes>> {
    if pattern == b"#" {
        return Ok(Some(element.clone()));
    }
    let Some(star) = pattern.iter().position(|byte| *byte == b'*') else { return Ok(None) };
    let (before, behind) = (&pattern[..star], &pattern[star + 1..]);
    let arrow = behind.windows(2).position(|pair| pair == b"->");
    // Nothing behind the arrow is no field.
    let arrow = arrow.filter(|at| at + 2 < behind.len());
    let (rest, field) = match arrow {
        Some(at) => (&behind[..at], Some(&behind[at + 2..])),
        None => (behind, None),
    };
    let key = [before, element, rest].concat();
    let found = match (view.record(&key)?.map(|record| record.content), field) {
        (Some(KeyContent::String(value)), None) => Some(value),
        (Some(KeyContent::Collection(hash)), Some(field)) if hash.kind == CollectionKind::Hash => {
            view.element(hash.id, element::MEMBERS, field)?
        }
        _ => None,
    };
    view.hold(found.as_ref().map_or(0, Bytes::len))?;
    Ok(found)
}

/// A number as C's `strtod` reads it, up to a zero: nothing is 0.
fn weight(text: &[u8]) -> Answer<f64> {
    let text = text.split(|byte| *byte == 0).next().unwrap_or_default();
    if text.is_empty() {
        return Ok(0.0);
    }
    let why = "ERR One or more scores can't be converted into double";
    float::double(float::behind_blanks(text)).ok_or_else(|| Halt::error(why))
}

/// The elements in the order that is asked for.
fn sorted(elements: Vec<Bytes>, terms: &SortTerms<'_>, view: &View<'_>) -> Answer<Vec<Bytes>> {
    let mut weighed = Vec::with_capacity(elements.len());
    for element in elements {
        let by = match terms.by {
            Some(pattern) => looked_up(pattern, &element, view)?,
            None => Some(element.clone()),
        };
        let number = match &by {
            Some(text) if !terms.is_alpha => weight(text)?,
            _ => 0.0,
        };
        weighed.push((element, by, number));
    }
    weighed.sort_by(|(one, one_by, one_number), (other, other_by, other_number)| {
        let order = match terms.is_alpha {
            true => one_by.cmp(other_by),
            false => one_number.partial_cmp(other_number).unwrap_or(Ordering::Equal),
        };
        // Elements of one weight have an order, so that it is the same each time.
        let order = order.then_with(|| one.cmp(other));
        if terms.descends { order.reverse() } else { order }
    });
    Ok(weighed.into_iter().map(|(element, ..)| element).collect())
}

/// What is found, for each element and each pattern; nothing where a pattern stands for nothing.
fn found(key: &[u8], terms: &SortTerms<'_>, view: &View<'_>) -> Answer<Vec<Option<Bytes>>> {
    let collection = match view.record(key)? {
        None => return Ok(Vec::new()),
        Some(KeyRecord { content: KeyContent::Collection(it), .. })
            if !matches!(it.kind, CollectionKind::Hash | CollectionKind::Stream) =>
        {
            it
        }
        Some(_) => return Err(wrong_type()),
    };
    // A set has no order that could be kept in what is stored.
    let is_set = collection.kind == CollectionKind::Set;
    let elements = elements(collection, terms.keeps_order && terms.descends, view)?;
    let elements = match terms.keeps_order {
        true if is_set && terms.to.is_some() => {
            let alpha = SortTerms { by: None, is_alpha: true, get: Vec::new(), ..*terms };
            sorted(elements, &alpha, view)?
        }
        true => elements,
        false => sorted(elements, terms, view)?,
    };
    let chosen = elements[terms.places(elements.len())].iter();
    if terms.get.is_empty() {
        return Ok(chosen.cloned().map(Some).collect());
    }
    view.take_lookups(chosen.len().saturating_mul(terms.get.len()))?;
    let mut found = Vec::new();
    for element in chosen {
        for pattern in &terms.get {
            found.push(looked_up(pattern, element, view)?);
        }
    }
    Ok(found)
}

/// `SORT key [BY pattern] [LIMIT offset count] [GET pattern ...] [ASC | DESC] [ALPHA] [STORE key]`
pub fn sort<'a>(args: &[&'a [u8]], view: &mut View<'a>) -> Answer {
    let terms = SortTerms::of(&args[2..], true)?;
    let found = found(args[1], &terms, view)?;
    let Some(to) = terms.to else { return Ok(told(found)) };
    view.hold_changes(found.len())?;
    let mut list = view.new_collection(CollectionKind::List)?;
    list.len = found.len() as u64;
    for (position, value) in (0..).zip(found) {
        let value = value.unwrap_or_default().to_vec();
        view.put_element(list.id, MEMBERS, &element::of_position(position), value);
    }
    if list.len > 0 {
        view.make_room(to)?;
        view.keep(to, (list, None));
        view.tell(event::LIST, "sortstore", to);
    } else if view.delete(to)? {
        view.tell(event::GENERIC, "del", to);
    }
    Ok(Reply::Integer(list.len.cast_signed()))
}

/// `SORT_RO key [BY pattern] [LIMIT offset count] [GET pattern ...] [ASC | DESC] [ALPHA]`
pub fn sort_ro(args: &[&[u8]], view: &mut View<'_>) -> Answer {
    let terms = SortTerms::of(&args[2..], false)?;
    found(args[1], &terms, view).map(told)
}

fn told(found: Vec<Option<Bytes>>) -> Reply {
    Reply::Array(found.into_iter().map(|it| it.map_or(Reply::Nil, Reply::Bulk)).collect())
}
