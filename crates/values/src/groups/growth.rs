//! How ranges of keys come and go: pure choices.
//!
//! A database begins with one group. The hashes are divided by the first flush, as often as the
//! capacity asks for and its bytes suffice for: a small store has few groups.
//!
//! Ranges of keys cannot be known before there are keys. A range without records is divided by the
//! keys of the flush that first writes to it, and nothing has to move. So is the part of a range
//! beyond its records, where the range would otherwise grow too long: keys that ascend, as times
//! and counters do, find a new group for every group's length of them. With fixed levels each
//! prefix gets its group with its first key (KT-Store, section 3.3). Neighbours that have become
//! small are merged, and nothing has to move either. (A range that has become long is divided by
//! its collection.)

use cleavedb_base::limits::BLOCK;
use cleavedb_base::partition::{cut, parts_of_hashes, separator, uniform_bounds};
use cleavedb_base::planted::{Bug, planted};
use cleavedb_base::{GroupId, Partitioner, Result};

use super::edit::GroupEdit;
use super::table::GroupTable;
use super::victim::group_bytes;

/// Shortest part of a flush for which a group of its own is begun: of the length of a group, one
/// part in so many, but in blocks at least and at most so many. An extent pads to a block.
const PARTS_MAX: u64 = 1024;
const PART_BLOCKS: std::ops::RangeInclusive<u64> = 4..=16;

/// Neighbours are merged if they are at most this part of a group, 1/4, together: far from the
/// length at which they would split again.
const MERGE_PART: u64 = 4;

/// How large groups should be, in bytes.
#[derive(Clone, Copy, Debug)]
pub struct Growth {
    /// Length of a group at which it is divided.
    pub group_bytes: u64,
    /// Bytes for which the first flush begins groups.
    pub capacity: u64,
}

impl Growth {
    /// The groups to begin in `table` before `records`, in the order of their keys, are written;
    /// `of` tells the tree key of a record and the length of what is written for it.
    pub fn begins<R>(
        self,
        table: &GroupTable,
        records: &[R],
        of: impl Fn(&R) -> (&[u8], u64),
    ) -> Vec<GroupEdit> {
        let bounds = match table.partitioner() {
            Partitioner::Hash => self.halves(table, records.iter().map(|record| of(record).1)),
            Partitioner::Key => self.divisions(table, records, of),
            Partitioner::Levels(_) => prefixes(table, records.iter().map(|record| of(record).0)),
        };
        let first = table.next_id().0;
        let begin = |(id, bound)| GroupEdit::Begin(GroupId(id), bound, 0);
        (first..).zip(bounds).map(begin).collect()
    }

    /// The neighbour with which `group` is to be merged, if both together are small: they, in the
    /// order of their bounds. The groups that the capacity asks for stay.
    pub fn merges(self, table: &GroupTable, group: GroupId) -> Option<[GroupId; 2]> {
        let divides = table.partitioner() == Partitioner::Key;
        let count = table.groups().count() as u64;
        if !divides || count <= self.capacity.div_ceil(self.group_bytes.max(1)) {
            return None;
        }
        let pairs = table.groups().zip(table.groups().skip(1)).map(|((a, _), (b, _))| [a, b]);
        let bytes =
            |pair: &[GroupId; 2]| -> u64 { pair.iter().map(|id| group_bytes(table, *id)).sum() };
        let smallest = pairs.filter(|pair| pair.contains(&group)).min_by_key(bytes)?;
        (bytes(&smallest) <= self.group_bytes / MERGE_PART).then_some(smallest)
    }

    /// Where the hashes are divided before the first records, of these lengths, are written: as
    /// often as the capacity asks for, if a group then gets enough to begin with. Later on groups
    /// split by collection.
    fn halves(self, table: &GroupTable, lens: impl ExactSizeIterator<Item = u64>) -> Vec<Vec<u8>> {
        if table.groups().count() > 1 || table.extents().next().is_some() {
            return Vec::new();
        }
        let records = lens.len() as u64;
        uniform_bounds(self.depth(1, lens.sum(), records)).skip(1).collect()
    }

    /// How often hashes are halved where there are `groups` for so many bytes and records: as often
    /// as the capacity asks for and the bytes suffice for.
    fn depth(self, groups: u64, bytes: u64, records: u64) -> u8 {
        let wanted = self.capacity.div_ceil(self.group_bytes.max(1)).div_ceil(groups.max(1));
        let filled = (bytes / self.part_min()).min(records).max(1);
        wanted.max(1).next_power_of_two().ilog2().min(filled.ilog2()) as u8
    }

    /// Where a hash group of `table` is divided that has outgrown its limit: in the middle, but all
    /// at once into as many parts as the capacity asks for, if it has asked for more groups than
    /// there are. A store that began small moves its first values once.
    pub fn split(
        self,
        table: &GroupTable,
        group: GroupId,
        bytes: u64,
        records: u64,
    ) -> Vec<Vec<u8>> {
        let Some(lower) = table.group(group).map(|group| &group.bound[..]) else {
            return Vec::new();
        };
        let depth = self.depth(table.groups().count() as u64, bytes, records).max(1);
        parts_of_hashes(lower, table.end_of(group), depth)
    }

    /// Where groups are divided that have no records, or none where the new ones go.
    fn divisions<R>(
        self,
        table: &GroupTable,
        records: &[R],
        of: impl Fn(&R) -> (&[u8], u64),
    ) -> Vec<Vec<u8>> {
        let first = table.extents().next().is_none();
        let mut bounds = Vec::new();
        for (id, group) in table.groups() {
            // Their place is found, not looked for among all: a store that lets old keys go has
            // many ranges without records.
            let before = |bound: &[u8]| records.partition_point(|record| of(record).0 < bound);
            let end = table.end_of(id).map_or(records.len(), before);
            let records = &records[before(&group.bound)..end];
            let bytes = |records: &[R]| records.iter().map(|record| of(record).1).sum::<u64>();
            if group.extents.is_empty() || planted(Bug::DividedWithRecords) {
                let expected = if first { self.capacity } else { 0 };
                bounds.extend(self.parts(expected, records, &of));
            } else if let Some(last) = table.last_of(id)
                && group_bytes(table, id) + bytes(records) > self.group_bytes
            {
                let beyond = records.partition_point(|record| *of(record).0 <= *last);
                let beyond = &records[beyond..];
                // Of keys at random few lie beyond.
                if bytes(beyond) >= self.part_min().max(bytes(records) / 2) {
                    bounds.push(separator(&last, of(&beyond[0]).0).to_vec());
                    bounds.extend(self.parts(0, beyond, &of));
                }
            }
        }
        bounds
    }

    /// Shortest part of a flush for which a group is begun, in bytes.
    fn part_min(self) -> u64 {
        let blocks = PART_BLOCKS.start() * BLOCK as u64..=PART_BLOCKS.end() * BLOCK as u64;
        let part = (self.group_bytes / PARTS_MAX).clamp(*blocks.start(), *blocks.end());
        part.min(self.group_bytes / 4).max(1)
    }

    /// Where `records` are cut for groups of their own, as many as `expected` bytes ask for.
    fn parts<R>(
        self,
        expected: u64,
        records: &[R],
        of: impl Fn(&R) -> (&[u8], u64),
    ) -> Vec<Vec<u8>> {
        let records = records.iter().map(&of);
        let bytes: u64 = records.clone().map(|(_, len)| len).sum();
        let parts = expected.max(bytes).div_ceil(self.group_bytes.max(1));
        cut(records, parts.min(bytes / self.part_min()))
    }
}

/// The prefixes that have no group yet.
fn prefixes<'a>(table: &GroupTable, keys: impl Iterator<Item = &'a [u8]>) -> Vec<Vec<u8>> {
    let mut bounds: Vec<Vec<u8>> = Vec::new();
    for key in keys {
        let token = table.partitioner().token(key);
        let group = table.group_of(key).and_then(|id| table.group(id));
        let known = group.is_some_and(|group| *group.bound == *token)
            || bounds.last().is_some_and(|last| **last == *token);
        if !known {
            bounds.push(token.to_vec());
        }
    }
    bounds
}

/// `table` after `edits`.
pub fn after(table: &GroupTable, edits: &[GroupEdit]) -> Result<GroupTable> {
    let mut table = table.clone();
    edits.iter().try_for_each(|edit| table.apply(edit))?;
    Ok(table)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use cleavedb_base::FileNumber;

    use super::super::edit::Relocation;
    use super::super::extent::{Extent, Place};
    use super::*;

    fn sample() -> Extent {
        Extent::sample(GroupId(1), Place { file: FileNumber(9), offset: 0 })
    }

    fn table(partitioner: Partitioner) -> GroupTable {
        let edits = [
            GroupEdit::Partition(partitioner, Relocation::WriteBack),
            GroupEdit::Begin(GroupId(1), Vec::new(), 0),
        ];
        edits.iter().fold(GroupTable::default(), |mut table, edit| {
            table.apply(edit).unwrap();
            table
        })
    }

    fn bounds(growth: Growth, table: &GroupTable, keys: &[&str]) -> Vec<String> {
        let tree_keys: Vec<Vec<u8>> =
            keys.iter().map(|key| [b"\0\0", key.as_bytes()].concat()).collect();
        let begins = growth.begins(table, &tree_keys, |key| (&key[..], 1000));
        let mut table = table.clone();
        begins.iter().try_for_each(|edit| table.apply(edit)).unwrap();
        let bound = |edit: &GroupEdit| match edit {
            GroupEdit::Begin(_, bound, _) => String::from_utf8(bound[2..].to_vec()).unwrap(),
            other => panic!("{other:?}"),
        };
        begins.iter().map(bound).collect()
    }

    const GROWTH: Growth = Growth { group_bytes: 4000, capacity: 16_000 };

    #[test]
    fn the_first_flush_divides_the_keys_for_the_capacity() {
        let keys = ["a", "b", "c", "d", "e", "f", "g", "h"];
        let table = table(Partitioner::Key);
        assert_eq!(bounds(GROWTH, &table, &keys), ["c", "e", "g"]);
        assert!(bounds(GROWTH, &table, &keys[..1]).is_empty());
    }

    #[test]
    fn the_first_flush_halves_the_hashes_as_often_as_it_has_bytes_for() {
        let mut table = table(Partitioner::Hash);
        let halves =
            |table: &GroupTable, lens: &[u64]| GROWTH.halves(table, lens.iter().copied()).len();
        let few = [halves(&table, &[]), halves(&table, &[999; 2]), halves(&table, &[1 << 30])];
        assert_eq!(few, [0, 0, 0]);
        assert_eq!([2, 4, 500].map(|count| halves(&table, &[1000][..].repeat(count))), [1, 3, 3]);
        table.apply(&GroupEdit::Add(sample())).unwrap();
        assert_eq!(halves(&table, &[1000; 500]), 0);
    }

    #[test]
    fn a_store_that_began_small_gets_the_groups_of_its_capacity_at_once() {
        let mut table = table(Partitioner::Hash);
        let parts = |table: &GroupTable, bytes| {
            GROWTH.split(table, GroupId(1), bytes, bytes / 1000).len() + 1
        };
        assert_eq!((parts(&table, 2000), parts(&table, 8000)), (2, 4));
        for (id, bound) in [(2, 0x40), (3, 0x80), (4, 0xc0)] {
            table.apply(&GroupEdit::Begin(GroupId(id), vec![bound], 0)).unwrap();
        }
        assert_eq!(parts(&table, 8000), 2, "there are as many groups as it asks for");
    }

    #[test]
    fn keys_beyond_the_records_of_a_long_group_get_groups_of_their_own() {
        let (growth, mut table) = (Growth { group_bytes: 6000, ..GROWTH }, table(Partitioner::Key));
        let place = Place { file: FileNumber(9), offset: 4096 };
        let last = Arc::from(&b"\0\0bb"[..]);
        let extent = Extent { group: GroupId(1), place, records_len: 1200, last, ..sample() };
        table.apply(&GroupEdit::Add(extent)).unwrap();
        let ascending = ["bbc", "c", "d", "e", "f", "g", "h"];
        assert_eq!(bounds(growth, &table, &ascending), ["bbc", "e"]);
        assert!(bounds(growth, &table, &ascending[..1]).is_empty(), "there is room for them");
        let most_among = ["a", "aa", "ab", "ac", "c", "d"];
        assert!(bounds(growth, &table, &most_among).is_empty());
        let unknown =
            Extent { last: Arc::default(), place: Place { offset: 8192, ..place }, ..sample() };
        table.apply(&GroupEdit::Add(unknown)).unwrap();
        assert!(bounds(growth, &table, &ascending).is_empty());
    }

    #[test]
    fn small_neighbours_merge_unless_the_capacity_asks_for_them() {
        let mut table = table(Partitioner::Key);
        for (id, bound) in [(2, "b"), (3, "c"), (4, "d"), (5, "e")] {
            table.apply(&GroupEdit::Begin(GroupId(id), bound.into(), 0)).unwrap();
        }
        assert_eq!(GROWTH.merges(&table, GroupId(5)), Some([GroupId(4), GroupId(5)]));
        table
            .apply(&GroupEdit::Merge { groups: [GroupId(4), GroupId(5)], into: GroupId(6) })
            .unwrap();
        assert_eq!(GROWTH.merges(&table, GroupId(6)), None);
    }

    #[test]
    fn each_prefix_gets_a_group_once_and_short_keys_share_one() {
        let mut table = table(Partitioner::Levels(2));
        assert_eq!(bounds(GROWTH, &table, &["a", "aba", "abb", "b", "bb"]), ["ab", "bb"]);
        table.apply(&GroupEdit::Begin(GroupId(2), b"\0\0ab".to_vec(), 0)).unwrap();
        assert_eq!(bounds(GROWTH, &table, &["a", "aba", "ac"]), ["ac"]);
        assert_eq!(table.group_of(b"\0\0b"), Some(GroupId(1)));
    }
}
