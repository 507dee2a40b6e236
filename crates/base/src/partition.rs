//! Hash groups: which group a key belongs to, and how a group splits (HashKV, section 3.2).
//!
//! A group is all tree keys whose hashes begin with the same bits. Groups tile the space of hashes,
//! so a key has exactly one, whatever the number of bits of the others. A group that outgrew its
//! limit splits on one more bit; no other group notices.

use crate::codec::{Cursor, put_varint};
use crate::error::{Error, Result};

/// Most bits of a group: a thousand million groups are enough, and a depth stays far from 64.
pub const DEPTH_MAX: u8 = 30;

/// A group: the first bits of the hashes of its keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupId {
    /// Smallest hash of the group.
    first: u64,
    /// Number of bits that its hashes have in common.
    depth: u8,
}

impl GroupId {
    /// The group of all keys.
    pub const ALL: Self = Self { first: 0, depth: 0 };

    /// Number of bits that its hashes have in common.
    pub fn depth(self) -> u8 {
        self.depth
    }

    /// Whether a key with this hash belongs to the group.
    #[inline]
    pub fn covers(self, hash: u64) -> bool {
        self.depth == 0 || (self.first ^ hash) >> (64 - self.depth) == 0
    }

    /// The two groups that it splits into; none at [`DEPTH_MAX`].
    pub fn halves(self) -> Option<[Self; 2]> {
        let depth = self.depth + 1;
        let half = |bit: u64| Self { first: self.first | bit << (64 - depth), depth };
        (depth <= DEPTH_MAX).then(|| [half(0), half(1)])
    }

    /// The groups of `depth` bits each.
    pub fn uniform(depth: u8) -> impl Iterator<Item = Self> {
        let depth = depth.min(DEPTH_MAX);
        (0..1u64 << depth).map(move |bits| Self { first: bits.rotate_right(depth.into()), depth })
    }

    /// Appends the encoding: the depth, then the common bits as a number.
    pub fn encode(self, out: &mut Vec<u8>) {
        out.push(self.depth);
        put_varint(out, self.first.rotate_left(self.depth.into()));
    }

    /// Reads a group.
    pub fn decode(cursor: &mut Cursor<'_>) -> Result<Self> {
        let depth = cursor.u8()?;
        let bits = cursor.varint()?;
        if depth > DEPTH_MAX || bits >> depth != 0 {
            return Err(Error::corruption("an edit names a group that cannot be"));
        }
        Ok(Self { first: bits.rotate_right(depth.into()), depth })
    }
}

impl std::fmt::Display for GroupId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let bits = self.first.rotate_left(self.depth.into());
        write!(f, "{:0width$b}/{}", bits, self.depth, width = usize::from(self.depth))
    }
}

/// The greatest id that a group of a key with this hash can have, in the order of ids: the group
/// itself is the last one at or before it.
#[inline]
pub fn last_place(hash: u64) -> GroupId {
    GroupId { first: hash, depth: u8::MAX }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checksum::hash64;

    #[test]
    fn groups_tile_the_hashes_also_after_splits() {
        let mut groups: std::collections::BTreeSet<GroupId> = GroupId::uniform(2).collect();
        for _ in 0..3 {
            let group = *groups.iter().nth(1).unwrap();
            groups.remove(&group);
            groups.extend(group.halves().unwrap());
        }
        for hash in (0..10_000u64).map(|i| hash64(&i.to_le_bytes(), 0)).chain([0, u64::MAX]) {
            assert_eq!(groups.iter().filter(|group| group.covers(hash)).count(), 1);
            let found = groups.range(..=last_place(hash)).next_back().unwrap();
            assert!(found.covers(hash));
        }
    }

    #[test]
    fn groups_round_trip_and_impossible_ones_are_refused() {
        let deep = GroupId::uniform(3).last().unwrap().halves().unwrap()[1];
        for group in [GroupId::ALL, deep] {
            let mut bytes = Vec::new();
            group.encode(&mut bytes);
            assert_eq!(GroupId::decode(&mut Cursor::new(&bytes, "test")).unwrap(), group);
        }
        assert_eq!(deep.to_string(), "1111/4");
        assert!(GroupId::decode(&mut Cursor::new(&[2, 4], "test")).is_err());
        assert!(GroupId::decode(&mut Cursor::new(&[31, 0], "test")).is_err());
    }
}
