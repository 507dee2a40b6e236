//! Collections in a view: their elements, and their length in the record of their key.

use std::borrow::Cow;
use std::ops::{Bound, ControlFlow};

use bytes::Bytes;

use super::{KeyFound, View, merged, wrong_type};
use crate::exec::reads::{KeyPlace, KeyWalk};
use crate::exec::{Answer, ElementForm, Halt, LongPlan};
use crate::model::element::{self, KeyBounds, NameRange, PREFIX_LEN};
use crate::model::record::{Collection, CollectionKind, KeyContent, KeyRecord};
use crate::model::stream::StreamState;

/// Elements of a reply from which on it may be read while it is sent.
const LONG_MIN: u64 = 32;

/// Elements up to which a part of a collection is removed element by element.
pub const CUT_ALONE: usize = 4096;

/// A collection, and the end of its life, in milliseconds since 1970.
pub type OpenCollection = (Collection, Option<u64>);

/// What visits elements, by their names and with their values, until it breaks off.
pub type VisitElement<'a> = dyn FnMut(&[u8], &[u8]) -> ControlFlow<()> + 'a;

/// Which elements of a collection are visited.
#[derive(Clone, Copy, Debug)]
pub struct ElementRange<'a> {
    /// The part: one of those of [`element`].
    pub part: u8,
    /// Between which names.
    pub range: (Bound<&'a [u8]>, Bound<&'a [u8]>),
    /// Whether the last one comes first.
    pub is_reversed: bool,
    /// Whether they are visited with their values.
    pub with_values: bool,
}

impl ElementRange<'_> {
    /// All members, with their values.
    pub const ALL: Self = Self {
        part: element::MEMBERS,
        range: (Bound::Unbounded, Bound::Unbounded),
        is_reversed: false,
        with_values: true,
    };
}

impl<'a> View<'a> {
    /// The collection of a key; an error if the key has another type.
    pub fn collection(&self, key: &[u8], kind: CollectionKind) -> Answer<Option<OpenCollection>> {
        match self.record(key)? {
            None => Ok(None),
            Some(KeyRecord { content: KeyContent::Collection(collection), until })
                if collection.kind == kind =>
            {
                Ok(Some((collection, until)))
            }
            Some(_) => Err(wrong_type()),
        }
    }

    /// The collection of a key, or an empty one, which [`View::keep`] gives to the key.
    pub fn collection_or_new(&self, key: &[u8], kind: CollectionKind) -> Answer<OpenCollection> {
        match self.collection(key, kind)? {
            Some(found) => Ok(found),
            None => self.new_collection(kind).map(|collection| (collection, None)),
        }
    }

    /// An empty collection, which [`View::keep`] gives to a key.
    pub fn new_collection(&self, kind: CollectionKind) -> Answer<Collection> {
        let (id, stream) = (self.reads.new_id()?, StreamState::default());
        Ok(Collection { kind, id, len: 0, head: 0, stream, is_unregistered: true })
    }

    /// Gives a key of the client's database a collection as it is by now; one without elements is
    /// gone, and the key with it, but for a stream.
    pub fn keep(&mut self, key: &'a [u8], kept: OpenCollection) {
        let (collection, _) = kept;
        if collection.len == 0 && collection.kind != CollectionKind::Stream {
            self.effects.owners.insert(collection.id, None);
            return self.forget(key);
        }
        self.wake(self.database, key);
        self.keep_waiting(key, kept);
    }

    /// Gives a key of the client's database its collection as it is by now, with no more elements
    /// than it had: clients that wait for elements wait on.
    pub fn keep_waiting(&mut self, key: &'a [u8], kept: OpenCollection) {
        let (collection, until) = kept;
        let content = KeyContent::Collection(collection);
        self.rewrite(self.database, key, KeyRecord { until, content });
    }

    /// Removes a key of the client's database with its collection and all elements.
    pub fn end(&mut self, key: &'a [u8], collection: &Collection) {
        self.effects.drop_collection(collection.id);
        self.forget(key);
    }

    /// The value of an element.
    pub fn element(&self, id: u64, part: u8, name: &[u8]) -> Answer<Option<Bytes>> {
        let key = element::key(id, part, name);
        match self.effects.elements.get(&key) {
            Some(changed) => Ok(changed.as_deref().map(Bytes::copy_from_slice)),
            None if self.effects.is_cut(&key) => Ok(None),
            None => self.reads.get(KeyPlace::Elements, &key),
        }
    }

    /// Says that elements will be read soon by other commands, in the order of their names.
    pub fn expect(&self, id: u64, part: u8, names: impl Iterator<Item = [u8; 8]>) {
        let mut keys = names.map(|name| element::key(id, part, &name));
        self.reads.expect_elements(&mut keys);
    }

    /// Whether an element is there. Its value is not read.
    pub fn has_element(&self, id: u64, part: u8, name: &[u8]) -> Answer<bool> {
        let key = element::key(id, part, name);
        match self.effects.elements.get(&key) {
            Some(changed) => Ok(changed.is_some()),
            None => Ok(!self.effects.is_cut(&key) && self.reads.has(KeyPlace::Elements, &key)?),
        }
    }

    /// Gives an element a value.
    pub fn put_element(&mut self, id: u64, part: u8, name: &[u8], value: impl Into<Cow<'a, [u8]>>) {
        self.effects.change_element(element::key(id, part, name), Some(value.into()));
    }

    /// Removes an element.
    pub fn delete_element(&mut self, id: u64, part: u8, name: &[u8]) {
        self.effects.change_element(element::key(id, part, name), None);
    }

    /// Visits elements of a collection in the order of their names, until `visit` breaks off.
    pub fn elements(
        &self,
        id: u64,
        within: ElementRange<'_>,
        visit: &mut VisitElement<'_>,
    ) -> Answer<()> {
        let ElementRange { part, range, is_reversed, with_values } = within;
        let bounds = element::bounds(id, part, range);
        if is_empty(&bounds) {
            return Ok(());
        }
        let slices = element::slices(&bounds);
        let walk = KeyWalk { space: KeyPlace::Elements, range: slices, is_reversed, with_values };
        let mut visit = |key: &[u8], found: KeyFound<'_, Option<Cow<'_, [u8]>>>| {
            let value = match &found {
                KeyFound::Stored(_) if self.effects.is_cut(key) => None,
                KeyFound::Stored(value) => Some(*value),
                KeyFound::Changed(value) => value.as_deref(),
            };
            match value {
                Some(value) => visit(&key[PREFIX_LEN..], value),
                None => ControlFlow::Continue(()),
            }
        };
        let changes = self.effects.elements.range::<[u8], _>(slices);
        let changes = changes.map(|(key, change)| (&**key, change));
        match is_reversed {
            true => merged(self.reads, Some(walk), changes.rev(), &mut visit),
            false => merged(self.reads, Some(walk), changes, &mut visit),
        }?;
        self.check_held()
    }

    /// Removes all elements of a part of a stream between two names.
    pub fn delete_elements(&mut self, id: u64, part: u8, range: NameRange<'_>) -> Answer<()> {
        let mut names = Vec::new();
        let within = ElementRange { part, range, is_reversed: false, with_values: false };
        self.elements(id, within, &mut |name, _| {
            names.push(name.to_vec());
            if names.len() > CUT_ALONE { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })?;
        match names.len() {
            ..=CUT_ALONE => names.iter().for_each(|name| self.delete_element(id, part, name)),
            _ => self.cut(id, part, range),
        }
        Ok(())
    }

    /// Removes all elements of a part of a list or a stream between two names, as a range: more
    /// than [`CUT_ALONE`], since reads pass each range that was removed.
    pub fn cut(&mut self, id: u64, part: u8, range: NameRange<'_>) {
        self.effects.cut(element::bounds(id, part, range));
    }

    /// Whether a reply with a number of elements may be read while it is sent.
    pub fn may_send_long(&self, count: u64) -> bool {
        self.sends_long && count >= LONG_MIN
    }

    /// Ends a command whose reply is elements of a collection, if it may be read while it is sent.
    pub fn send_long(
        &self,
        id: u64,
        within: ElementRange<'_>,
        skipped: u64,
        count: u64,
        form: ElementForm,
    ) -> Answer<()> {
        if !self.may_send_long(count) {
            return Ok(());
        }
        let ElementRange { part, range, is_reversed, .. } = within;
        let keys = element::bounds(id, part, range);
        Err(Halt::Long(LongPlan { keys, is_reversed, skipped, count, form }))
    }

    /// A copy of a collection with an id of its own, for any key.
    pub fn copy_of(&mut self, collection: Collection) -> Answer<Collection> {
        let copy = Collection { id: self.reads.new_id()?, ..collection };
        for part in 0..element::PARTS {
            let mut found = Vec::new();
            let within = ElementRange { part, ..ElementRange::ALL };
            self.elements(collection.id, within, &mut |name, value| {
                found.push((name.to_vec(), value.to_vec()));
                self.holding(name.len() + value.len())
            })?;
            self.hold_changes(found.len())?;
            for (name, value) in found {
                self.put_element(copy.id, part, &name, value);
            }
        }
        Ok(copy)
    }
}

/// Whether no key lies between bounds.
fn is_empty(bounds: &KeyBounds) -> bool {
    match bounds {
        (Bound::Included(from), Bound::Included(to)) => from > to,
        (
            Bound::Included(from) | Bound::Excluded(from),
            Bound::Included(to) | Bound::Excluded(to),
        ) => from >= to,
        _ => false,
    }
}
