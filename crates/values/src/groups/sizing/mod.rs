//! How groups begin, split and merge: pure choices, a file for each partition.
//!
//! A database begins with one group. Each flush may begin groups before it writes to them, and then
//! nothing has to move; a collection may split the group that it rewrites, or merge two that have
//! become small, and then nothing has to move besides.

mod hash;
mod range;
mod prefix;

use cleavedb_base::Result;
use cleavedb_base::limits::BLOCK;

use super::edit::GroupEdit;
use super::table::GroupTable;
use super::victim::{SegmentSizes, group_bytes};
use crate::partition::{GroupId, Partition};

/// Shortest part of a flush for which a group of its own is begun: of the length of a group, one
/// part in so many, but in blocks at least and at most so many. An extent pads to a block.
const PARTS_MAX: u64 = 1024;
const PART_BLOCKS: std::ops::RangeInclusive<u64> = 4..=16;

/// How large groups should be, in bytes.
#[derive(Clone, Copy, Debug)]
pub struct GroupSizes {
    /// Length of a group at which it is divided.
    pub group_bytes: u64,
    /// Bytes for which the first flush begins groups.
    pub capacity: u64,
}

impl GroupSizes {
    /// Shortest part of a flush for which a group is begun, in bytes.
    fn part_min(self) -> u64 {
        let blocks = PART_BLOCKS.start() * BLOCK as u64..=PART_BLOCKS.end() * BLOCK as u64;
        let part = (self.group_bytes / PARTS_MAX).clamp(*blocks.start(), *blocks.end());
        part.min(self.group_bytes / 4).max(1)
    }

    /// Groups that the capacity asks for.
    fn wanted(self) -> u64 {
        self.capacity.div_ceil(self.group_bytes.max(1))
    }
}

/// Records in the order of their keys, as a partition sees them.
pub trait Records {
    /// Number of records.
    fn count(&self) -> usize;

    /// Tree key of one of them, counted from 0.
    fn key(&self, at: usize) -> &[u8];

    /// Bytes that are written for it.
    fn bytes(&self, at: usize) -> u64;
}

/// Records in a slice, of each of which a function tells the tree key and the bytes.
pub struct Slice<'a, R, F>(&'a [R], F);

impl<'a, R, F: Fn(&R) -> (&[u8], u64)> Slice<'a, R, F> {
    /// `of` tells the tree key of a record, and the bytes that are written for it.
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

/// What a partition does with its groups. Bounds are tokens, smallest first.
pub trait Sizing {
    /// Bounds of the groups to begin before `records` are written.
    fn begun_by_flush(
        &self,
        sizes: GroupSizes,
        table: &GroupTable,
        records: &dyn Records,
    ) -> Vec<Vec<u8>>;

    /// Bounds at which a collection divides `group`, whose survivors are longer than a group should
    /// be; none if they stay together.
    fn split(
        &self,
        _sizes: GroupSizes,
        _table: &GroupTable,
        _group: GroupId,
        _survivors: &dyn Records,
    ) -> Vec<Vec<u8>> {
        Vec::new()
    }

    /// Whether a collection merges groups that have become small, so that its end must not meet a
    /// flush that writes to them.
    fn merges(&self) -> bool {
        false
    }

    /// The neighbour with which `group` is to be merged, if both together are small: they, in the
    /// order of their bounds.
    fn merged(
        &self,
        _sizes: GroupSizes,
        _table: &GroupTable,
        _group: GroupId,
    ) -> Option<[GroupId; 2]> {
        None
    }

    /// One of `groups` that is collected although the space goal is met, since that divides it.
    fn outgrown(
        &self,
        _segments: &SegmentSizes,
        _table: &GroupTable,
        _groups: &[GroupId],
    ) -> Option<GroupId> {
        None
    }

    /// Bytes of the segments that all groups share in use, and of all that there are, where groups
    /// share some: collection is due when they are used up.
    fn shared_segments(&self, _segments: &SegmentSizes, _table: &GroupTable) -> Option<(u64, u64)> {
        None
    }
}

/// One of `groups` that grew to twice its limit since its last collection. Before that the next
/// collection for the sake of space may divide it for nothing.
fn grown_twofold(
    segments: &SegmentSizes,
    table: &GroupTable,
    groups: &[GroupId],
) -> Option<GroupId> {
    let grew = |group: &GroupId| {
        let flushed = table.extents_of(*group).any(|extent| !extent.survivors);
        flushed && group_bytes(table, *group) > 2 * segments.main
    };
    groups.iter().copied().find(grew)
}

impl Partition {
    /// What it does with its groups.
    pub fn sizing(self) -> &'static dyn Sizing {
        match self {
            Self::Hash => &hash::ByHash,
            Self::Range => &range::ByRange,
            Self::Prefix(_) => &prefix::ByPrefix,
        }
    }
}

/// The groups to begin in `table` before `records` are written.
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

    pub(super) const SIZES: GroupSizes = GroupSizes { group_bytes: 4000, capacity: 16_000 };

    pub(super) fn sample() -> Extent {
        Extent::sample(GroupId(1), Location { file: FileNumber(9), offset: 0 })
    }

    pub(super) fn table(partition: Partition) -> GroupTable {
        let mut table = GroupTable::of_partition(partition);
        table.apply(&GroupEdit::Begin(GroupId(1), Vec::new(), 0)).unwrap();
        table
    }

    /// The bounds of the groups that a flush of 1,000 bytes for each of `keys` begins.
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
