//! Partitioners: which group a key belongs to (HashKV, section 3.2; KT-Store, section 3.2).
//!
//! Every key has a *token* in one ordered space: its hash, or the tree key itself. A group owns the
//! tokens from its bound up to the next group's, so groups tile the space, whatever their sizes. A
//! group that outgrew its limit is divided at new bounds; no other group notices.
//!
//! A bound by key is the shortest prefix that tells the keys on its two sides apart. That is the
//! trie of KT-Store with compressed paths: long common prefixes, binary keys and skew need no
//! special case, and a key that would end at an inner node belongs to the leaf before it.

use std::collections::BTreeMap;

use crate::checksum::hash64;
use crate::codec::{Cursor, put_varint};
use crate::error::{Error, Result};
use crate::limits::KEYSPACE_PREFIX_LEN;

/// A group: a number that is never used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupId(pub u64);

impl std::fmt::Display for GroupId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

/// How keys become tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Partitioner {
    /// The hash of the tree key: groups are even, and know nothing of ranges.
    #[default]
    Hash,
    /// The tree key: a group is a range of keys.
    Key,
    /// So many bytes at the beginning of the user key, as in the paper of KT-Store: a group for
    /// each prefix. The keys that are shorter share the first group, the paper's `TT_IN`.
    Levels(u8),
}

/// A place in the space that groups tile; ordered as bytes.
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

impl Partitioner {
    /// The token of a key.
    #[inline]
    pub fn token(self, tree_key: &[u8]) -> Token<'_> {
        match self {
            Self::Hash => Token::Hash(hash64(tree_key, 0).to_be_bytes()),
            Self::Key => Token::Key(tree_key),
            Self::Levels(levels) => {
                let len = KEYSPACE_PREFIX_LEN + usize::from(levels);
                Token::Key(tree_key.get(..len).unwrap_or_default())
            }
        }
    }

    /// Whether keys that are neighbours are mostly in one group.
    pub fn keeps_order(self) -> bool {
        self != Self::Hash
    }

    /// Appends the encoding: a varint, 0 for hashes, 1 for keys, 1 + n for n levels.
    pub fn encode(self, out: &mut Vec<u8>) {
        let number = match self {
            Self::Hash => 0,
            Self::Key => 1,
            Self::Levels(levels) => 1 + u64::from(levels),
        };
        put_varint(out, number);
    }

    /// Reads a partitioner.
    pub fn decode(cursor: &mut Cursor<'_>) -> Result<Self> {
        Ok(match cursor.varint()? {
            0 => Self::Hash,
            1 => Self::Key,
            number => {
                let levels = u8::try_from(number - 1);
                let what = "an edit names a partitioner that cannot be";
                Self::Levels(levels.map_err(|_| Error::corruption(what))?)
            }
        })
    }
}

/// The bound of the first of the hashes from `first` on, without zeros at its end.
fn hash_bound(first: u64) -> Vec<u8> {
    let mut bound = first.to_be_bytes().to_vec();
    bound.truncate(8 - first.trailing_zeros() as usize / 8);
    bound
}

fn hash_of_bound(bound: &[u8]) -> u64 {
    let mut bytes = [0; 8];
    bytes.iter_mut().zip(bound).for_each(|(byte, known)| *byte = *known);
    u64::from_be_bytes(bytes)
}

/// The bounds of 2^`depth` groups of equally many hashes; `depth` is at most 63.
pub fn uniform_bounds(depth: u8) -> impl Iterator<Item = Vec<u8>> {
    let depth = u32::from(depth);
    (0..1u64 << depth).map(move |bits| hash_bound(bits.rotate_right(depth)))
}

/// The bounds that divide the hashes from one bound up to another, or to the end, into 2^`depth`
/// equal parts; fewer if there are fewer hashes.
pub fn parts_of_hashes(lower: &[u8], upper: Option<&[u8]>, depth: u8) -> Vec<Vec<u8>> {
    let Some(middle) = middle_of_hashes(lower, upper).filter(|_| depth > 0) else {
        return Vec::new();
    };
    let mut bounds = parts_of_hashes(lower, Some(&middle), depth - 1);
    let above = parts_of_hashes(&middle, upper, depth - 1);
    bounds.push(middle);
    bounds.extend(above);
    bounds
}

/// The bound that halves the hashes from one bound up to another, or to the end; none if there is
/// only one hash.
fn middle_of_hashes(lower: &[u8], upper: Option<&[u8]>) -> Option<Vec<u8>> {
    let first = hash_of_bound(lower);
    let last = upper.map_or(u64::MAX, |bound| hash_of_bound(bound) - 1);
    (first < last).then(|| hash_bound(first + (last - first) / 2 + 1))
}

/// The shortest prefix of `key` that is greater than `before`, a smaller key.
pub fn separator<'a>(before: &[u8], key: &'a [u8]) -> &'a [u8] {
    let same = before.iter().zip(key).take_while(|(a, b)| a == b).count();
    &key[..key.len().min(same + 1)]
}

/// Part of a part by which a cut may miss its ideal place, if that makes the bound shorter: 1/4.
const CUT_SLACK: u64 = 4;

/// A bound, and how far it is from ideal, to be compared.
type Candidate<'a> = ((bool, u64, u64), &'a [u8]);

/// The bounds that divide `records`, which are keys in their order and lengths, into about `parts`
/// parts of about the same length: fewer where a key is longer than a part.
pub fn cut<'a>(records: impl Iterator<Item = (&'a [u8], u64)> + Clone, parts: u64) -> Vec<Vec<u8>> {
    let part = records.clone().map(|(_, len)| len).sum::<u64>() / parts.max(1);
    if parts < 2 || part == 0 {
        return Vec::new();
    }
    let mut best: BTreeMap<u64, Candidate<'_>> = BTreeMap::new();
    let mut sum = 0;
    let mut before: Option<&[u8]> = None;
    for (key, len) in records {
        if let Some(before) = before.filter(|before| *before != key) {
            let wanted = ((sum + part / 2) / part).clamp(1, parts - 1);
            let miss = (wanted * part).abs_diff(sum);
            let (far, short) = (miss > part / CUT_SLACK, separator(before, key));
            let len = short.len() as u64;
            let rank = if far { (far, miss, len) } else { (far, len, miss) };
            let bound = (rank, short);
            best.entry(wanted).and_modify(|known| *known = bound.min(*known)).or_insert(bound);
        }
        (sum, before) = (sum + len, Some(key));
    }
    best.into_values().map(|(_, bound)| bound.to_vec()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uniform_bounds_are_halved_on_one_more_bit() {
        let bounds: Vec<Vec<u8>> = uniform_bounds(2).collect();
        assert_eq!(bounds, [vec![], vec![0x40], vec![0x80], vec![0xc0]]);
        assert_eq!(uniform_bounds(0).collect::<Vec<_>>(), [Vec::new()]);
        assert_eq!(middle_of_hashes(&[], None), Some(vec![0x80]));
        assert_eq!(middle_of_hashes(&[0x40], Some(&[0x80])), Some(vec![0x60]));
        assert_eq!(middle_of_hashes(&[0xff, 0x80], None), Some(vec![0xff, 0xc0]));
        assert_eq!(middle_of_hashes(&[0xff; 8], None), None, "one hash");
        let parts = uniform_bounds(3).skip(1).collect::<Vec<_>>();
        assert_eq!(parts_of_hashes(&[], None, 3), parts);
        assert_eq!(parts_of_hashes(&[0x40], Some(&[0x80]), 1), [vec![0x60]]);
        assert_eq!(parts_of_hashes(&[0xff; 8], None, 3), Vec::<Vec<u8>>::new());
    }

    #[test]
    fn a_token_is_a_hash_a_key_or_a_prefix() {
        let key = b"\0\0abc";
        assert_eq!(Partitioner::Hash.token(key)[..], hash64(key, 0).to_be_bytes());
        assert_eq!(Partitioner::Key.token(key)[..], *key);
        assert_eq!(Partitioner::Levels(2).token(key)[..], *b"\0\0ab");
        assert!(Partitioner::Levels(4).token(key).is_empty(), "it ends at an inner node");
    }

    #[test]
    fn partitioners_round_trip_and_impossible_ones_are_refused() {
        for partitioner in [Partitioner::Hash, Partitioner::Key, Partitioner::Levels(3)] {
            let mut bytes = Vec::new();
            partitioner.encode(&mut bytes);
            let decoded = Partitioner::decode(&mut Cursor::new(&bytes, "test")).unwrap();
            assert_eq!(decoded, partitioner);
        }
        assert!(Partitioner::decode(&mut Cursor::new(&[0xff, 0x7f], "test")).is_err());
    }

    fn cut_evenly(keys: &[&str], parts: u64) -> Vec<String> {
        let bounds = cut(keys.iter().map(|key| (key.as_bytes(), 10)), parts);
        bounds.into_iter().map(|bound| String::from_utf8(bound).unwrap()).collect()
    }

    #[test]
    fn a_cut_is_the_shortest_prefix_near_the_middle() {
        let keys = ["user/0001", "user/0002", "user/0003", "user/1", "user/1001", "user/1002"];
        assert_eq!(cut_evenly(&keys, 2), ["user/1"]);
        assert_eq!(cut_evenly(&["a", "b", "c", "d"], 4), ["b", "c", "d"]);
        // The same key in many versions cannot be divided.
        assert!(cut_evenly(&["a", "a", "a"], 2).is_empty());
        assert!(cut_evenly(&[], 2).is_empty() && cut_evenly(&["a", "b"], 1).is_empty());
    }

    #[test]
    fn a_value_longer_than_a_part_stands_alone() {
        let records = [(&b"a"[..], 1), (b"b", 1000), (b"c", 1)];
        let bounds = cut(records.into_iter(), 8);
        assert_eq!(bounds, [b"b", b"c"]);
    }
}
