//! Partitions: how keys are divided into groups (HashKV, section 3.2; KT-Store, section 3.2).
//!
//! Every key has a *token* in one ordered space: its hash, the tree key itself, or its beginning. A
//! group owns the tokens from its bound up to the next group's, so groups tile the space, whatever
//! their sizes. A group that outgrew its limit is divided at new bounds; no other group changes.

use cleavedb_base::checksum::hash64;
use cleavedb_base::codec::{Cursor, put_varint};
use cleavedb_base::{Error, Result};

/// A group: a number that is never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupId(pub u64);

impl GroupId {
    /// The hot store: its extents hold values of keys of all groups, and it owns no token.
    pub const HOT: Self = Self(0);
}

impl std::fmt::Display for GroupId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

/// How keys are divided into groups. The module `groups::sizing` defines how groups of each
/// partition are created, split and merged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Partition {
    /// By the hash of the tree key: groups are of equal size, without key order (HashKV, section
    /// 3.2).
    #[default]
    Hash,
    /// By the tree key: a group is a range of keys (KT-Store, section 3.2).
    Range,
    /// By this number of bytes at the beginning of the user key, as in the paper of KT-Store: a
    /// group for each prefix. Shorter keys share the first group, the paper's `TT_IN`.
    #[cfg(feature = "experiments")]
    Prefix(u8),
}

/// A point in the space that groups tile; ordered as bytes.
pub enum Token<'a> {
    /// A hash, big-endian.
    Hash([u8; 8]),
    /// A tree key or the beginning of one.
    Key(&'a [u8]),
}

impl std::ops::Deref for Token<'_> {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        match self {
            Self::Hash(hash) => hash,
            Self::Key(key) => key,
        }
    }
}

impl Partition {
    /// The token of a key.
    #[inline]
    #[doc(hidden)]
    pub fn token(self, encoded_key: &[u8]) -> Token<'_> {
        match self {
            Self::Hash => Token::Hash(hash64(encoded_key, 0).to_be_bytes()),
            Self::Range => Token::Key(encoded_key),
            #[cfg(feature = "experiments")]
            Self::Prefix(bytes) => {
                use cleavedb_base::limits::KEYSPACE_PREFIX_LEN;
                let len = KEYSPACE_PREFIX_LEN + usize::from(bytes);
                Token::Key(encoded_key.get(..len).unwrap_or_default())
            }
        }
    }

    /// The tree key, or the beginning of one, that a token is; none if tokens are hashes.
    #[doc(hidden)]
    pub fn key_of(self, token: &[u8]) -> Option<&[u8]> {
        (self != Self::Hash).then_some(token)
    }

    /// Whether a group from the token `bound` to `end`, excluded, may have a key from `lower` to
    /// `upper`: any group if tokens are hashes, or if it has the keys that are too short for one.
    #[doc(hidden)]
    pub fn meets(self, bound: &[u8], end: Option<&[u8]>, lower: &[u8], upper: &[u8]) -> bool {
        // The token of a key that is too short says nothing of it.
        let token = |key: &[u8]| match self.token(key) {
            token if token.is_empty() => key.to_vec(),
            token => token.to_vec(),
        };
        self == Self::Hash
            || bound.is_empty()
            || *bound <= *token(upper) && end.is_none_or(|end| *end > *token(lower))
    }

    /// Whether neighbouring keys are mostly in one group.
    #[doc(hidden)]
    pub fn keeps_order(self) -> bool {
        self != Self::Hash
    }

    /// Appends the encoding: a varint, 0 for hashes, 1 for ranges, 1 + n for prefixes of n bytes.
    #[doc(hidden)]
    pub fn encode(self, out: &mut Vec<u8>) {
        let number = match self {
            Self::Hash => 0,
            Self::Range => 1,
            #[cfg(feature = "experiments")]
            Self::Prefix(bytes) => 1 + u64::from(bytes),
        };
        put_varint(out, number);
    }

    /// Reads a partition.
    #[doc(hidden)]
    pub fn decode(cursor: &mut Cursor<'_>) -> Result<Self> {
        Ok(match cursor.varint()? {
            0 => Self::Hash,
            1 => Self::Range,
            number @ 2..=9 => Self::by_prefix(number as u8 - 1)?,
            _ => return Err(Error::corruption("an edit names a partition that is not valid")),
        })
    }

    #[cfg(feature = "experiments")]
    fn by_prefix(bytes: u8) -> Result<Self> {
        Ok(Self::Prefix(bytes))
    }

    #[cfg(not(feature = "experiments"))]
    fn by_prefix(bytes: u8) -> Result<Self> {
        use cleavedb_base::ErrorKind;

        let what = "the store was made with experiments, groups by prefixes of keys: open it with \
                    a build that has the feature `experiments`";
        Err(Error::new(ErrorKind::LayoutMismatch, what).with("prefix", bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_a_hash_or_a_key() {
        let key = b"\0\0abc";
        assert_eq!(Partition::Hash.token(key)[..], hash64(key, 0).to_be_bytes());
        assert_eq!(Partition::Range.token(key)[..], *key);
    }

    #[cfg(feature = "experiments")]
    #[test]
    fn a_token_may_be_a_prefix() {
        assert_eq!(Partition::Prefix(2).token(b"\0\0abc")[..], *b"\0\0ab");
        assert!(Partition::Prefix(4).token(b"\0\0abc").is_empty(), "it ends at an inner node");
        let meets = Partition::Prefix(4).meets(b"\0\0cabc", None, b"\0\0c", b"\0\0e");
        assert!(meets, "ends are short keys");
    }

    #[test]
    fn groups_meet_ranges_of_their_keys() {
        let meets = |partition: Partition, bound: &[u8], end: &[u8]| {
            let end = Some(end).filter(|end| !end.is_empty());
            partition.meets(bound, end, b"\0\0c", b"\0\0e")
        };
        let by_key: &[Partition] = &[
            Partition::Range,
            #[cfg(feature = "experiments")]
            Partition::Prefix(1),
        ];
        for &partition in by_key {
            assert!(meets(partition, b"\0\0b", b"\0\0cc") && meets(partition, b"\0\0d", b""));
            assert!(!meets(partition, b"\0\0f", b"") && !meets(partition, b"\0\0a", b"\0\0c"));
            assert!(meets(partition, b"", b"\0\0a"), "it may have short keys");
        }
        assert!(meets(Partition::Hash, &[200; 8], b""));
    }

    #[test]
    fn partitions_round_trip_and_impossible_ones_are_refused() {
        for partition in [
            Partition::Hash,
            Partition::Range,
            #[cfg(feature = "experiments")]
            Partition::Prefix(3),
        ] {
            let mut bytes = Vec::new();
            partition.encode(&mut bytes);
            let decoded = Partition::decode(&mut Cursor::new(&bytes, "test")).unwrap();
            assert_eq!(decoded, partition);
        }
        assert!(Partition::decode(&mut Cursor::new(&[0xff, 0x7f], "test")).is_err());
    }

    #[cfg(not(feature = "experiments"))]
    #[test]
    fn groups_of_experiments_are_refused_by_name() {
        use cleavedb_base::ErrorKind;

        let refused = Partition::decode(&mut Cursor::new(&[1 + 3], "test")).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::LayoutMismatch);
        assert!(refused.message().contains("groups by prefixes"), "{refused}");
        assert!(refused.message().contains("the feature `experiments`"), "{refused}");
    }
}
