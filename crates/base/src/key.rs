//! Keys, sequence numbers and the kinds of an index entry.
//!
//! The index knows one ordered space of *tree keys*: the keyspace id, big-endian, and then the
//! user key. Entries are ordered by tree key ascending, then sequence number descending, so the
//! newest version of a key comes first.

use smallvec::SmallVec;

use crate::error::Result;
use crate::expiry::{Expiry, Lasting};
use crate::limits::KEYSPACE_PREFIX_LEN;

/// Number of one operation in commit order; 56 bits, never reused (invariant 5).
pub type SeqNo = u64;

/// The number of a keyspace: a named space of keys of its own inside a database.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyspaceId(pub u16);

impl KeyspaceId {
    /// The keyspace that every database has.
    pub const DEFAULT: Self = Self(0);

    /// The keyspace of the store itself: names of keyspaces, and ranges that were deleted.
    pub const SYSTEM: Self = Self(u16::MAX);
}

/// What an index entry says about its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum EntryKind {
    /// The key is deleted at this sequence number (a tombstone).
    Delete = 1,
    /// The value follows in the entry.
    Inline = 2,
    /// The entry holds a [`crate::ValuePointer`] to a record in a segment.
    Pointer = 3,
    /// The newest version, which is at least this young, is in a store with an index of its own:
    /// the key is hot.
    Marker = 4,
    /// As [`EntryKind::Inline`], behind the expiry of the value.
    ExpiringInline = 5,
    /// As [`EntryKind::Pointer`], behind the expiry of the value.
    ExpiringPointer = 6,
    /// A [`crate::StoredOperand`]: it changes what older versions say.
    Operand = 7,
}

impl EntryKind {
    /// The kind of a byte read from disk; `None` if this release does not know it.
    pub fn from_byte(byte: u8) -> Option<Self> {
        match byte {
            1 => Some(Self::Delete),
            2 => Some(Self::Inline),
            3 => Some(Self::Pointer),
            4 => Some(Self::Marker),
            5 => Some(Self::ExpiringInline),
            6 => Some(Self::ExpiringPointer),
            7 => Some(Self::Operand),
            _ => None,
        }
    }

    /// Whether the entry points to a record.
    #[inline]
    pub fn is_pointer(self) -> bool {
        matches!(self, Self::Pointer | Self::ExpiringPointer)
    }

    /// Whether the entry has the value itself.
    #[inline]
    pub fn is_inline(self) -> bool {
        matches!(self, Self::Inline | Self::ExpiringInline)
    }

    /// Whether an [`crate::Expiry`] stands in front of the value or the pointer.
    #[inline]
    pub fn expires(self) -> bool {
        matches!(self, Self::ExpiringInline | Self::ExpiringPointer)
    }

    /// The kind of the same entry without an expiry.
    #[inline]
    pub fn without_expiry(self) -> Self {
        match self {
            Self::ExpiringInline => Self::Inline,
            Self::ExpiringPointer => Self::Pointer,
            kind => kind,
        }
    }

    /// The kind of the same entry with an expiry in front of its value, if it `expires`.
    #[inline]
    pub fn expiring(self, expires: bool) -> Self {
        match self {
            Self::Inline if expires => Self::ExpiringInline,
            Self::Pointer if expires => Self::ExpiringPointer,
            kind => kind,
        }
    }

    /// The kind of the same entry of a value that is there until then.
    #[inline]
    pub fn until(self, until: Expiry) -> Self {
        self.expiring(!until.is_never())
    }

    /// The value or the pointer of an entry of this kind, with its end, which `stored` has.
    #[inline]
    pub fn split(self, stored: &[u8]) -> Result<Lasting<&[u8]>> {
        Lasting::split(self.expires(), stored)
    }

    /// Whether no reader of the entry needs older versions of its key.
    #[inline]
    pub fn hides_older(self) -> bool {
        self != Self::Operand
    }
}

/// A tree key on the stack: keyspace prefix and user key without a heap allocation for ordinary
/// keys.
pub struct EncodedKey {
    inline: [u8; Self::INLINE],
    heap: Vec<u8>,
    len: usize,
}

impl EncodedKey {
    const INLINE: usize = 64;

    /// The tree key of `key` in `keyspace`.
    #[inline]
    pub fn new(keyspace: KeyspaceId, key: &[u8]) -> Self {
        let len = KEYSPACE_PREFIX_LEN + key.len();
        let prefix = keyspace.0.to_be_bytes();
        let mut encoded_key = Self { inline: [0; Self::INLINE], heap: Vec::new(), len };
        if len <= Self::INLINE {
            encoded_key.inline[..KEYSPACE_PREFIX_LEN].copy_from_slice(&prefix);
            encoded_key.inline[KEYSPACE_PREFIX_LEN..len].copy_from_slice(key);
        } else {
            encoded_key.heap.reserve_exact(len);
            encoded_key.heap.extend_from_slice(&prefix);
            encoded_key.heap.extend_from_slice(key);
        }
        encoded_key
    }

    /// The bytes that the index orders by.
    #[inline]
    pub fn as_bytes(&self) -> &[u8] {
        if self.len <= Self::INLINE { &self.inline[..self.len] } else { &self.heap }
    }
}

/// A tree key that is kept: without a heap allocation of its own unless it is long.
pub type KeptKey = SmallVec<[u8; 31]>;

/// Splits a tree key into its keyspace and user key; `None` if it is too short to be one.
#[inline]
pub fn split_encoded_key(encoded_key: &[u8]) -> Option<(KeyspaceId, &[u8])> {
    let (prefix, key) = encoded_key.split_first_chunk::<KEYSPACE_PREFIX_LEN>()?;
    Some((KeyspaceId(u16::from_be_bytes(*prefix)), key))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tree_keys_order_by_keyspace_then_key() {
        let key = |ks, k: &[u8]| EncodedKey::new(KeyspaceId(ks), k).as_bytes().to_vec();
        assert!(key(0, b"zz") < key(1, b"a"));
        assert!(key(1, b"a") < key(1, b"aa"));
        assert!(key(255, b"") < key(256, b""));
        let long = vec![7u8; 1000];
        assert_eq!(split_encoded_key(&key(3, &long)), Some((KeyspaceId(3), &long[..])));
        assert_eq!(split_encoded_key(&[1]), None);
    }
}
