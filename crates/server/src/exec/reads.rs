//! Where commands read: records as they were before.

use std::ops::{Bound, ControlFlow};

use bytes::Bytes;

use super::{Answer, Ranks};

/// Where a key lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyPlace {
    /// Among the keys of a database.
    Keys(usize),
    /// Among the elements of all collections.
    Elements,
}

/// Which keys are visited, in their order.
#[derive(Clone, Copy, Debug)]
pub struct KeyWalk<'a> {
    /// Where they lie.
    pub space: KeyPlace,
    /// Between which keys.
    pub range: (Bound<&'a [u8]>, Bound<&'a [u8]>),
    /// Whether the last one comes first.
    pub is_reversed: bool,
    /// Whether they are visited with what they have.
    pub with_values: bool,
}

/// What visits keys with what they have, if that was asked for, until it breaks off.
pub type Visit<'a> = dyn FnMut(&[u8], &[u8]) -> ControlFlow<()> + 'a;

/// Records and elements as they were before a command.
pub trait Reads {
    /// Number of databases.
    fn databases(&self) -> usize;

    /// What a key has. It may be a record that is over.
    fn get(&self, space: KeyPlace, key: &[u8]) -> Answer<Option<Bytes>>;

    /// Whether a key is there. What it has is not read.
    fn has(&self, place: KeyPlace, key: &[u8]) -> Answer<bool>;

    /// Says that elements will be read soon: if they are not in memory, and the caller may wait,
    /// they are fetched together.
    fn expect_elements(&self, _: &mut dyn Iterator<Item = Vec<u8>>) {}

    /// Visits keys until `visit` breaks off.
    fn walk(&self, walk: KeyWalk<'_>, visit: &mut Visit<'_>) -> Answer<()>;

    /// An id for a collection, which none has had.
    fn new_id(&self) -> Answer<u64>;

    /// Whether the thread may wait: no others wait for it.
    fn may_wait(&self) -> bool {
        true
    }

    /// Ranks of collections, if they are kept; the locks of keys are held.
    fn ranks(&self) -> Answer<Option<&Ranks>> {
        Ok(None)
    }

    /// Whether the ranks of a collection are kept, whose key is held.
    fn has_ranks(&self, _: u64) -> bool {
        false
    }
}
