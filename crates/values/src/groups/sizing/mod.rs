//! How groups are created, split and merged: pure functions, a file for each partition.
//!
//! A database begins with one group. Each flush may create groups before it writes to them, which
//! moves nothing; a collection may split the group that it rewrites, or merge two that have become
//! small, which moves nothing more.

mod hash;
mod range;
#[cfg(feature = "experiments")]
mod prefix;

use cleavedb_base::Result;
use cleavedb_base::limits::BLOCK;

use super::edit::GroupEdit;
use super::table::GroupTable;
use super::victim::{SegmentSizes, group_bytes};
use crate::partition::{GroupId, Partition};

/// Divisor of the group length, and most blocks: the bounds of the shortest part of a flush for
/// which a group is created. An extent is padded to a block.
const PARTS_MAX: u64 = 1024;
const PART_BLOCKS: std::ops::RangeInclusive<u64> = 4..=16;

/// Sizes that groups should have, in bytes.
#[derive(Clone, Copy, Debug)]
pub struct GroupSizes {
    /// Length at which a group is divided, at least: see [`Sizing::length`].
    pub group_bytes: u64,
    /// Bytes for which the first flush creates groups; groups by range have a bound of their own.
    pub capacity: u64,
    /// Whether ranges of keys begin as one group, whatever the capacity.
    pub one_at_first: bool,
}

impl GroupSizes {
    /// Shortest part of a flush for which a group is created, in bytes.
    fn part_min(self) -> u64 {
        let blocks = PART_BLOCKS.start() * BLOCK as u64..=PART_BLOCKS.end() * BLOCK as u64;
        let part = (self.group_bytes / PARTS_MAX).clamp(*blocks.start(), *blocks.end());
        part.min(self.group_bytes / 4).max(1)
    }

    /// Number of groups that the capacity requires.
    fn wanted(self) -> u64 {
        if self.one_at_first {
            return 1;
        }
        self.capacity.div_ceil(self.group_bytes.max(1))
    }
}

/// Records in key order, as a partition sees them.
pub trait Records {
    /// Number of records.
    fn count(&self) -> usize;

    /// Tree key of one of the records, counted from 0.
    fn key(&self, at: usize) -> &[u8];

    /// Bytes to be written for it.
    fn bytes(&self, at: usize) -> u64;
}

/// A slice of records, with a function that returns the tree key and the bytes of each.
pub struct Slice<'a, R, F>(&'a [R], F);

impl<'a, R, F: Fn(&R) -> (&[u8], u64)> Slice<'a, R, F> {
    /// `of` returns the tree key of a record, and the bytes to be written for it.
    pub fn new(records: &'a [R], of: F) -> Self {
        Self(records, of)
    }
}

impl<R, F: Fn(&R) -> (&[u8], u64)> Records for Slice<'_, R, F> {
    fn count(&self) -> usize {
        self.0.len()
    }

    fn key(&self, at: usize) -> &[u8] {
        self.1(&self.0[at]).0
    }

    fn bytes(&self, at: usize) -> u64 {
        self.1(&self.0[at]).1
    }
}

/// How a partition sizes its groups. Bounds are tokens, smallest first.
pub trait Sizing {
    /// Bounds of the groups to create before `records` are written.
    fn begun_by_flush(
        &self,
        sizes: GroupSizes,
        table: &GroupTable,
        records: &dyn Records,
    ) -> Vec<Vec<u8>>;

    /// Whether the bounds of groups follow from the keys alone, so that a flush may create groups
    /// beside records that it does not know of.
    fn bounds_are_fixed(&self) -> bool {
        false
    }

    /// Length at which a group is divided, in bytes.
    fn length(&self, sizes: GroupSizes, _table: &GroupTable) -> u64 {
        sizes.group_bytes
    }

    /// Bounds at which a collection divides `group`, whose survivors are longer than a group should
    /// be; none if it is not split.
    fn split(
        &self,
        _sizes: GroupSizes,
        _table: &GroupTable,
        _group: GroupId,
        _survivors: &dyn Records,
    ) -> Vec<Vec<u8>> {
        Vec::new()
    }

    /// Whether a collection merges small groups, so that its end must not overlap a flush that
    /// writes to them.
    fn merges(&self) -> bool {
        false
    }

    /// The neighbour to merge `group` with, if both together are small: the pair, in the order of
    /// their bounds.
    fn merged(
        &self,
        _sizes: GroupSizes,
        _table: &GroupTable,
        _group: GroupId,
    ) -> Option<[GroupId; 2]> {
        None
    }

    /// A group of `groups` to be split by a collection although the space goal is met.
    fn outgrown(
        &self,
        _sizes: GroupSizes,
        _table: &GroupTable,
        _groups: &[GroupId],
    ) -> Option<GroupId> {
        None
    }

    /// Bytes in use of the segments that all groups share, and their total, if groups share any:
    /// collection is due when they are used up.
    fn shared_segments(&self, _segments: &SegmentSizes, _table: &GroupTable) -> Option<(u64, u64)> {
        None
    }

    /// Of an index of `index` bytes, those that count as live data in the reserve that groups
    /// share: as in HashKV, whose value store keeps its size whatever stays in the tree.
    fn counted_beside(&self, _table: &GroupTable, _index: u64) -> u64 {
        0
    }
}

/// A group of `groups` that grew to twice its `length` since its last collection. A smaller one may
/// be split without extra cost by the next collection for space.
fn grown_twofold(length: u64, table: &GroupTable, groups: &[GroupId]) -> Option<GroupId> {
    let grew = |group: &GroupId| {
        let flushed = table.extents_of(*group).any(|extent| !extent.survivors);
        flushed && group_bytes(table, *group) > 2 * length
    };
    groups.iter().copied().find(grew)
}

impl Partition {
    /// The sizing of this partition.
    #[doc(hidden)]
    pub fn sizing(self) -> &'static dyn Sizing {
        match self {
            Self::Hash => &hash::ByHash,
            Self::Range => &range::ByRange,
            #[cfg(feature = "experiments")]
            Self::Prefix(_) => &prefix::ByPrefix,
        }
    }
}

/// The groups to create in `table` before `records` are written.
pub fn begun_by_flush(
    sizes: GroupSizes,
    table: &GroupTable,
    records: &dyn Records,
) -> Vec<GroupEdit> {
    let bounds = table.partition().sizing().begun_by_flush(sizes, table, records);
    let first = table.next_id().0;
    (first..).zip(bounds).map(|(id, bound)| GroupEdit::Begin(GroupId(id), bound, 0)).collect()
}

/// `table` after `edits`.
pub fn after(table: &GroupTable, edits: &[GroupEdit]) -> Result<GroupTable> {
    let mut table = table.clone();
    edits.iter().try_for_each(|edit| table.apply(edit))?;
    Ok(table)
}

#[cfg(test)]
mod testing {
    use cleavedb_base::FileNumber;

    use super::{GroupEdit, GroupId, GroupSizes, GroupTable, Partition, Slice};
    use super::{after, begun_by_flush};
    use crate::groups::{Extent, Location};

    pub(super) const SIZES: GroupSizes =
        GroupSizes { group_bytes: 4000, capacity: 16_000, one_at_first: false };

    pub(super) fn sample() -> Extent {
        Extent::sample(GroupId(1), Location { file: FileNumber(9), offset: 0 })
    }

    pub(super) fn table(partition: Partition) -> GroupTable {
        let mut table = GroupTable::of_partition(partition);
        table.apply(&GroupEdit::Begin(GroupId(1), Vec::new(), 0)).unwrap();
        table
    }

    /// The bounds of the groups that a flush of 1,000 bytes for each of `keys` creates.
    pub(super) fn bounds(sizes: GroupSizes, table: &GroupTable, keys: &[&str]) -> Vec<String> {
        let tree_keys: Vec<Vec<u8>> =
            keys.iter().map(|key| [b"\0\0", key.as_bytes()].concat()).collect();
        let records = Slice::new(&tree_keys, |key: &Vec<u8>| (&key[..], 1000));
        let begins = begun_by_flush(sizes, table, &records);
        after(table, &begins).unwrap();
        let bound = |edit: &GroupEdit| match edit {
            GroupEdit::Begin(_, bound, _) => String::from_utf8(bound[2..].to_vec()).unwrap(),
            other => panic!("{other:?}"),
        };
        begins.iter().map(bound).collect()
    }
}
