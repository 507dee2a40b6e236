//! What commands have changed and not committed yet.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ops::{Bound, Range, RangeBounds};

use super::events::KeyEvent;
use crate::model::element::{self, KeyBounds, PREFIX_LEN};
use crate::model::record::Collection;

/// What becomes of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change<'a> {
    /// A string until a time, in milliseconds since 1970.
    String(Cow<'a, [u8]>, Option<u64>),
    /// A collection until a time, in milliseconds since 1970.
    Collection(Collection, Option<u64>),
    /// Nothing.
    Delete,
}

impl Change<'_> {
    /// Bytes of the string.
    fn len(&self) -> usize {
        if let Self::String(value, _) = self { value.len() } else { 0 }
    }
}

/// A database, and a key of it.
pub type DatabaseKey<'a> = (usize, Cow<'a, [u8]>);

/// What commands have changed: databases that are empty but for what follows, keys, and elements.
/// Numbers of databases are those of before, if databases were swapped.
#[derive(Debug, Default)]
pub struct Effects<'a> {
    /// Under the number of each database the one that it had before; none if none were swapped.
    pub origins: Vec<usize>,
    /// Databases of which all else is gone.
    pub cleared: Vec<usize>,
    /// Whether no collection is left but for what follows.
    pub is_flushed: bool,
    /// The keys of each database.
    pub keys: BTreeMap<DatabaseKey<'a>, Change<'a>>,
    /// Collections whose elements are gone.
    pub dropped: Vec<u64>,
    /// Ranges of elements that are gone but for what follows.
    pub cuts: Vec<KeyBounds>,
    /// Elements by their keys: their values, or none if they are gone.
    pub elements: BTreeMap<Vec<u8>, Option<Cow<'a, [u8]>>>,
    /// Elements that were added (1) to collections whose ranks are kept, or removed (-1), by the
    /// keys that have their order.
    pub ranked: BTreeMap<Vec<u8>, i64>,
    /// The keys of collections, or none if the collections are gone.
    pub owners: BTreeMap<u64, Option<DatabaseKey<'a>>>,
    /// Keys whose collections were given elements, in the order in which they were.
    pub ready: Vec<(usize, Vec<u8>)>,
    /// What is told of keys once it is committed.
    pub events: Vec<KeyEvent>,
    /// Bytes of strings and of elements, about.
    pub bytes: usize,
    /// How often a key or elements were changed: a command that fails behind a change of its own
    /// must not be committed with others.
    pub edits: u64,
}

fn owned(bytes: &[u8]) -> Cow<'static, [u8]> {
    Cow::Owned(bytes.to_vec())
}

impl<'a> Effects<'a> {
    /// Whether nothing was changed.
    pub fn is_empty(&self) -> bool {
        let Self { origins, cleared, keys, cuts, elements, .. } = self;
        let is_empty = cleared.is_empty() && keys.is_empty();
        is_empty && origins.is_empty() && cuts.is_empty() && elements.is_empty()
    }

    /// Swaps two of a number of databases.
    pub fn swap(&mut self, databases: usize, first: usize, second: usize) {
        if self.origins.is_empty() {
            self.origins = (0..databases).collect();
        }
        self.origins.swap(first, second);
    }

    /// The number that a database had before.
    pub fn origin(&self, database: usize) -> usize {
        self.origins.get(database).copied().unwrap_or(database)
    }

    /// The number that a database has by now.
    pub fn number(&self, origin: usize) -> usize {
        self.origins.iter().position(|it| *it == origin).unwrap_or(origin)
    }

    /// The databases that have the keys of others by now, and the numbers that those had before.
    pub fn swapped(&self) -> impl Iterator<Item = (usize, usize)> {
        let all = self.origins.iter().copied().enumerate();
        all.filter(|(database, origin)| database != origin)
    }

    /// Changes a key.
    pub fn change(&mut self, key: DatabaseKey<'a>, change: Change<'a>) {
        self.edits += 1;
        self.bytes += change.len();
        let before = self.keys.insert(key, change);
        self.bytes = self.bytes.saturating_sub(before.map_or(0, |before| before.len()));
    }

    /// Gives the element of a key a value, or none.
    pub fn change_element(&mut self, key: Vec<u8>, value: Option<Cow<'a, [u8]>>) {
        let len = |value: &Option<Cow<'_, [u8]>>| value.as_ref().map_or(0, |value| value.len());
        self.edits += 1;
        self.bytes += key.len() + len(&value);
        let key_len = key.len();
        if let Some(before) = self.elements.insert(key, value) {
            self.bytes = self.bytes.saturating_sub(key_len + len(&before));
        }
    }

    /// Removes a collection with all its elements.
    pub fn drop_collection(&mut self, id: u64) {
        self.edits += 1;
        let (from, to) = (id.to_be_bytes(), (id + 1).to_be_bytes());
        let mut rest = self.elements.split_off(&from[..]);
        self.elements.append(&mut rest.split_off(&to[..]));
        let mut rest = self.ranked.split_off(&from[..]);
        self.ranked.append(&mut rest.split_off(&to[..]));
        self.dropped.push(id);
        self.owners.insert(id, None);
    }

    /// Removes all elements between two keys.
    pub fn cut(&mut self, range: KeyBounds) {
        self.edits += 1;
        self.elements.retain(|key, _| !range.contains(key));
        self.cuts.push(range);
    }

    /// Whether an element that is stored is gone with a range.
    pub fn is_cut(&self, key: &[u8]) -> bool {
        self.cuts.iter().any(|range| RangeBounds::<[u8]>::contains(&element::slices(range), key))
    }

    /// Elements that were added or removed, with the ids of their collections and their names.
    pub fn ranked_all(&self) -> impl Iterator<Item = (u64, &[u8], i64)> {
        let place = |key: &[u8]| element::place(key).map(|(id, _)| id);
        self.ranked
            .iter()
            .filter_map(move |(key, change)| Some((place(key)?, &key[PREFIX_LEN..], *change)))
    }

    /// Elements of a collection that were added or removed, with its id and their names.
    pub fn ranked_of(&self, id: u64) -> impl Iterator<Item = (u64, &[u8], i64)> {
        let Range { start, end } = all_elements(id);
        let range = (Bound::Included(&start[..]), Bound::Excluded(&end[..]));
        let of_set = self.ranked.range::<[u8], _>(range);
        of_set.map(move |(key, change)| (id, &key[PREFIX_LEN..], *change))
    }

    /// A copy that borrows nothing.
    pub fn to_owned(&self) -> Effects<'static> {
        let keys = self.keys.iter().map(|((database, key), change)| {
            let change = match change {
                Change::String(value, until) => Change::String(owned(value), *until),
                Change::Collection(collection, until) => Change::Collection(*collection, *until),
                Change::Delete => Change::Delete,
            };
            ((*database, owned(key)), change)
        });
        let elements = self.elements.iter();
        let owners = self.owners.iter().map(|(id, owner)| {
            (*id, owner.as_ref().map(|(database, key)| (*database, owned(key))))
        });
        Effects {
            origins: self.origins.clone(),
            cleared: self.cleared.clone(),
            is_flushed: self.is_flushed,
            keys: keys.collect(),
            dropped: self.dropped.clone(),
            cuts: self.cuts.clone(),
            elements: elements.map(|(key, it)| (key.clone(), it.as_deref().map(owned))).collect(),
            ranked: self.ranked.clone(),
            owners: owners.collect(),
            ready: self.ready.clone(),
            events: self.events.clone(),
            bytes: self.bytes,
            edits: self.edits,
        }
    }
}

/// The range of all elements of a collection.
pub fn all_elements(id: u64) -> Range<[u8; 8]> {
    id.to_be_bytes()..(id + 1).to_be_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::element;

    #[test]
    fn a_dropped_collection_leaves_the_elements_of_others() {
        let mut effects = Effects::default();
        for id in [6, 7, 8] {
            effects.elements.insert(element::key(id, element::SCORES, b"a"), None);
            effects.owners.insert(id, Some((0, Cow::Borrowed(b"key"))));
        }
        effects.drop_collection(7);
        let ids = effects.elements.keys().map(|key| element::place(key).unwrap().0);
        assert_eq!(ids.collect::<Vec<_>>(), [6, 8]);
        assert_eq!((effects.dropped, effects.owners[&7].is_none()), (vec![7], true));
    }

    #[test]
    fn bytes_are_those_of_what_is_left() {
        let mut effects = Effects::default();
        let string = |len: usize| Change::String(vec![0; len].into(), None);
        for (change, bytes) in [(string(9), 9), (string(5), 5), (Change::Delete, 0)] {
            effects.change((0, Cow::Borrowed(b"key")), change);
            assert_eq!(effects.bytes, bytes);
        }
        for (value, bytes) in [(Some(&b"value"[..]), 8), (Some(b"v"), 4), (None, 3)] {
            effects.change_element(b"key".to_vec(), value.map(Cow::Borrowed));
            assert_eq!(effects.bytes, bytes);
        }
    }
}
