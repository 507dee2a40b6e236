//! Groups by range of keys (KT-Store, sections 3.2 and 3.3), each of the length of a group.
//!
//! A flush writes an extent to each of them, so their number says how long extents are: of short
//! ones a collection reads many, and punches many holes. With more data groups first become longer,
//! and then more (`docs/decisions/0072-groups-become-longer.md`).
//!
//! Ranges cannot be known before there are keys. A range without records is divided by the keys of
//! the flush that first writes to it, which moves nothing. So is the part of a range beyond its
//! records, where the range would grow too long: ascending keys, such as times and counters, get a
//! new group for each group's length of them. Neighbours that have become small are merged, which
//! moves nothing either. A range that has become long is divided by its collection. A store that
//! begins with one group, as in the paper of HoaKV (section 3.5), is divided in no other way before
//! it has records.

use std::ops::Range;

use cleavedb_base::planted::{Bug, planted};

use super::{GroupSizes, Records, Sizing, grown_twofold};
use crate::cut::{cut, separator};
use crate::groups::table::GroupTable;
use crate::groups::victim::group_bytes;
use crate::partition::GroupId;

/// Number of groups with which a store begins. It grows only once these are as long as they may be.
const GROUPS: u64 = 64;

/// How many times as long as at first groups may become; less where records are short, since a
/// collection has the keys of a whole group in memory: once for each such part of a mean record, in
/// bytes.
const LONGER_MAX: u64 = 8;
const RECORD_PART: u64 = 128;

/// Divisor of the group length: neighbours are merged if they are at most as long together, far
/// from the length at which they would be split again.
const MERGE_PART: u64 = 4;

pub(super) struct ByRange;

impl Sizing for ByRange {
    fn length(&self, sizes: GroupSizes, table: &GroupTable) -> u64 {
        let (least, sums) = (sizes.group_bytes, table.sums());
        let mean = sums.len / sums.records.max(1);
        let longer = (mean / RECORD_PART).clamp(1, LONGER_MAX);
        (sums.len / GROUPS).clamp(least, least.saturating_mul(longer))
    }

    fn begun_by_flush(
        &self,
        sizes: GroupSizes,
        table: &GroupTable,
        records: &dyn Records,
    ) -> Vec<Vec<u8>> {
        // Hot segments belong to no range.
        if sizes.one_at_first && table.groups().all(|(_, group)| group.extents.is_empty()) {
            return Vec::new();
        }
        let first = table.extents().next().is_none();
        let length = self.length(sizes, table);
        let mut bounds = Vec::new();
        for (id, group) in table.groups() {
            // A binary search, not a scan of all records: a store that deletes old keys has many
            // ranges without records.
            let before = |bound: &[u8]| first_at(records, 0..records.count(), |key| key < bound);
            let end = table.end_of(id).map_or(records.count(), before);
            let within = before(&group.bound)..end;
            if group.extents.is_empty() || planted(Bug::DividedWithRecords) {
                let count = if first { begun(sizes) } else { 1 };
                bounds.extend(parts(sizes, length, count, records, within));
            } else if let Some(last) = table.last_of(id)
                && group_bytes(table, id) + bytes(records, within.clone()) > length
            {
                let beyond = first_at(records, within.clone(), |key| *key <= *last)..within.end;
                // Of random keys, few are beyond.
                let least = sizes.part_min().max(bytes(records, within) / 2);
                if bytes(records, beyond.clone()) >= least {
                    bounds.push(separator(&last, records.key(beyond.start)).to_vec());
                    bounds.extend(parts(sizes, length, 1, records, beyond));
                }
            }
        }
        bounds
    }

    /// At bounds that give parts of similar length.
    fn split(
        &self,
        sizes: GroupSizes,
        table: &GroupTable,
        _group: GroupId,
        survivors: &dyn Records,
    ) -> Vec<Vec<u8>> {
        let all = 0..survivors.count();
        let count = bytes(survivors, all.clone()).div_ceil(self.length(sizes, table));
        cut(all.map(|at| (survivors.key(at), survivors.bytes(at))), count)
    }

    fn merges(&self) -> bool {
        true
    }

    /// The groups that the capacity requires stay.
    fn merged(
        &self,
        sizes: GroupSizes,
        table: &GroupTable,
        group: GroupId,
    ) -> Option<[GroupId; 2]> {
        if table.groups().count() as u64 <= begun(sizes) {
            return None;
        }
        let pairs = table.groups().zip(table.groups().skip(1)).map(|((a, _), (b, _))| [a, b]);
        let bytes =
            |pair: &[GroupId; 2]| -> u64 { pair.iter().map(|id| group_bytes(table, *id)).sum() };
        let smallest = pairs.filter(|pair| pair.contains(&group)).min_by_key(bytes)?;
        (bytes(&smallest) <= self.length(sizes, table) / MERGE_PART).then_some(smallest)
    }

    fn outgrown(
        &self,
        sizes: GroupSizes,
        table: &GroupTable,
        groups: &[GroupId],
    ) -> Option<GroupId> {
        grown_twofold(self.length(sizes, table), table, groups)
    }
}

/// The first of the records `within` whose key is not `before`.
fn first_at(records: &dyn Records, within: Range<usize>, before: impl Fn(&[u8]) -> bool) -> usize {
    let (mut low, mut high) = (within.start, within.end);
    while low < high {
        let middle = low + (high - low) / 2;
        if before(records.key(middle)) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    low
}

fn bytes(records: &dyn Records, within: Range<usize>) -> u64 {
    within.map(|at| records.bytes(at)).sum()
}

/// Number of groups with which a store begins.
fn begun(sizes: GroupSizes) -> u64 {
    sizes.wanted().min(GROUPS)
}

/// The bounds of groups of a `length` for the records, `count` of them if these are not too few.
fn parts(
    sizes: GroupSizes,
    length: u64,
    count: u64,
    records: &dyn Records,
    within: Range<usize>,
) -> Vec<Vec<u8>> {
    let bytes = bytes(records, within.clone());
    let parts = bytes.div_ceil(length.max(1)).max(count).min(bytes / sizes.part_min());
    cut(within.map(|at| (records.key(at), records.bytes(at))), parts)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use cleavedb_base::FileNumber;

    use super::super::GroupEdit;
    use super::super::testing::{SIZES, bounds, sample, table};
    use super::*;
    use crate::groups::{Extent, Location};
    use crate::partition::Partition;

    #[test]
    fn the_first_flush_divides_the_keys_for_the_capacity() {
        let keys = ["a", "b", "c", "d", "e", "f", "g", "h"];
        let table = table(Partition::Range);
        assert_eq!(bounds(SIZES, &table, &keys), ["c", "e", "g"]);
        assert!(bounds(SIZES, &table, &keys[..1]).is_empty());
    }

    #[test]
    fn a_store_that_begins_with_one_group_is_not_divided_without_records() {
        let sizes = GroupSizes { one_at_first: true, ..SIZES };
        let keys = ["a", "b", "c", "d", "e", "f", "g", "h"];
        let mut table = table(Partition::Range);
        assert!(bounds(sizes, &table, &keys).is_empty());
        // A range that has lost its records beside one that has some is divided by a flush.
        table.apply(&GroupEdit::Begin(GroupId(2), b"\0\0b".to_vec(), 0)).unwrap();
        table.apply(&GroupEdit::Add(sample())).unwrap();
        assert_eq!(bounds(sizes, &table, &keys), ["e"]);
    }

    #[test]
    fn keys_beyond_the_records_of_a_long_group_get_groups_of_their_own() {
        let sizes = GroupSizes { group_bytes: 6000, ..SIZES };
        let mut table = table(Partition::Range);
        let place = Location { file: FileNumber(9), offset: 4096 };
        let last = Arc::from(&b"\0\0bb"[..]);
        let extent = Extent { group: GroupId(1), place, records_len: 1200, last, ..sample() };
        table.apply(&GroupEdit::Add(extent)).unwrap();
        let ascending = ["bbc", "c", "d", "e", "f", "g", "h"];
        assert_eq!(bounds(sizes, &table, &ascending), ["bbc", "e"]);
        assert!(bounds(sizes, &table, &ascending[..1]).is_empty(), "there is room for them");
        let most_among = ["a", "aa", "ab", "ac", "c", "d"];
        assert!(bounds(sizes, &table, &most_among).is_empty());
        let unknown =
            Extent { last: Arc::default(), place: Location { offset: 8192, ..place }, ..sample() };
        table.apply(&GroupEdit::Add(unknown)).unwrap();
        assert!(bounds(sizes, &table, &ascending).is_empty());
    }

    #[test]
    fn groups_become_longer_before_there_are_more_of_them() {
        let mut table = table(Partition::Range);
        assert_eq!(ByRange.length(SIZES, &table), 4000, "of an empty store");
        let extent = |bytes: u64, records: u64| Extent {
            group: GroupId(1),
            place: Location { file: FileNumber(9), offset: 0 },
            records,
            records_len: bytes,
            ..sample()
        };
        for (bytes, records, length) in [
            (64 * 4000, 100, 4000),
            (64 * 12_000, 300, 12_000),
            (64 * 100_000, 2_500, 32_000),
            // Keys of short records take as much memory as those of long ones.
            (64 * 12_000, 6_000, 4000),
            (64 * 12_000, 3_000, 8000),
        ] {
            table.apply(&GroupEdit::Add(extent(bytes, records))).unwrap();
            let got = ByRange.length(SIZES, &table);
            assert!(got.abs_diff(length) <= 64, "{got} of {bytes} in {records} records");
            let gone = Location { file: FileNumber(9), offset: 0 };
            table.apply(&GroupEdit::Remove(gone)).unwrap();
        }
    }

    #[test]
    fn a_store_begins_with_few_groups_whatever_its_capacity() {
        let sizes = GroupSizes { group_bytes: 1 << 20, capacity: 1 << 40, one_at_first: false };
        let keys: Vec<_> = (0..4000_u32).map(u32::to_be_bytes).collect();
        let records = super::super::Slice::new(&keys, |key: &[u8; 4]| (&key[..], 1 << 10));
        let begun = ByRange.begun_by_flush(sizes, &table(Partition::Range), &records).len() + 1;
        assert_eq!(begun as u64, GROUPS);
    }

    #[test]
    fn small_neighbours_merge_unless_the_capacity_asks_for_them() {
        let mut table = table(Partition::Range);
        for (id, bound) in [(2, "b"), (3, "c"), (4, "d"), (5, "e")] {
            table.apply(&GroupEdit::Begin(GroupId(id), bound.into(), 0)).unwrap();
        }
        let merged = |table: &GroupTable, id| ByRange.merged(SIZES, table, GroupId(id));
        assert_eq!(merged(&table, 5), Some([GroupId(4), GroupId(5)]));
        table
            .apply(&GroupEdit::Merge { groups: [GroupId(4), GroupId(5)], into: GroupId(6) })
            .unwrap();
        assert_eq!(merged(&table, 6), None);
        let sizes = GroupSizes { one_at_first: true, ..SIZES };
        let any = ByRange.merged(sizes, &table, GroupId(6));
        assert!(any.is_some_and(|pair| pair.contains(&GroupId(6))));
    }
}
