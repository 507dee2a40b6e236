//! Groups by hash (HashKV, section 3.2): of equal size, and as many as the capacity requires.
//!
//! The first flush divides the hashes, as far as the capacity requires and its bytes suffice: a
//! small store has few groups. Later a group is split by its collection. Each group has a main
//! segment of its own, and all share a reserve of log segments.

use super::{GroupSizes, Records, Sizing};
use crate::groups::table::GroupTable;
use crate::groups::victim::SegmentSizes;
use crate::layout::GroupLayout;
use crate::partition::GroupId;

pub(super) struct ByHash;

impl Sizing for ByHash {
    fn begun_by_flush(
        &self,
        sizes: GroupSizes,
        table: &GroupTable,
        records: &dyn Records,
    ) -> Vec<Vec<u8>> {
        if table.groups().count() > 1 || table.extents().next().is_some() {
            return Vec::new();
        }
        let bytes = (0..records.count()).map(|at| records.bytes(at)).sum();
        uniform_bounds(depth(sizes, 1, bytes, records.count() as u64)).skip(1).collect()
    }

    /// In the middle, but into as many parts at once as the capacity requires, if it requires more
    /// groups than there are: a store that began small moves its first values once. No split if one
    /// part would get all survivors: one value may be longer than a main segment.
    fn split(
        &self,
        sizes: GroupSizes,
        table: &GroupTable,
        group: GroupId,
        survivors: &dyn Records,
    ) -> Vec<Vec<u8>> {
        let Some(lower) = table.group(group).map(|group| &group.bound[..]) else {
            return Vec::new();
        };
        let count = survivors.count();
        let bytes = (0..count).map(|at| survivors.bytes(at)).sum();
        let depth = depth(sizes, table.groups().count() as u64, bytes, count as u64).max(1);
        let bounds = parts_of_hashes(lower, table.end_of(group), depth);
        let part = |at| {
            let token = table.partition().token(survivors.key(at));
            bounds.partition_point(|bound| **bound <= *token)
        };
        let mut parts = (0..count).map(part);
        let first = parts.next();
        if parts.all(|part| Some(part) == first) { Vec::new() } else { bounds }
    }

    fn shared_segments(&self, segments: &SegmentSizes, table: &GroupTable) -> Option<(u64, u64)> {
        share(table).then(|| (segments.used(table), segments.reserve(table)))
    }

    fn counted_beside(&self, table: &GroupTable, index: u64) -> u64 {
        if share(table) { index } else { 0 }
    }
}

/// Whether there are groups that share a reserve.
fn share(table: &GroupTable) -> bool {
    table.layout().is_some_and(GroupLayout::shares_segments) && !table.is_empty()
}

/// How often the hashes are halved for `groups` groups and these bytes and records: as often as the
/// capacity requires and the bytes suffice for.
fn depth(sizes: GroupSizes, groups: u64, bytes: u64, records: u64) -> u8 {
    let wanted = sizes.wanted().div_ceil(groups.max(1));
    let filled = (bytes / sizes.part_min()).min(records).max(1);
    wanted.max(1).next_power_of_two().ilog2().min(filled.ilog2()) as u8
}

/// The bound of the hashes from `first` on, without trailing zeros.
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

/// The bounds of 2^`depth` groups with equally many hashes; `depth` is at most 63.
fn uniform_bounds(depth: u8) -> impl Iterator<Item = Vec<u8>> {
    let depth = u32::from(depth);
    (0..1u64 << depth).map(move |bits| hash_bound(bits.rotate_right(depth)))
}

/// The bounds that divide the hashes from one bound up to another, or to the end, into 2^`depth`
/// equal parts; fewer if there are fewer hashes.
fn parts_of_hashes(lower: &[u8], upper: Option<&[u8]>, depth: u8) -> Vec<Vec<u8>> {
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

#[cfg(test)]
mod tests {
    use super::super::testing::{SIZES, sample, table};
    use super::super::{GroupEdit, Slice};
    use super::*;
    use crate::partition::Partition;

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
    fn the_first_flush_halves_the_hashes_as_often_as_it_has_bytes_for() {
        let mut table = table(Partition::Hash);
        let begun = |table: &GroupTable, lens: &[u64]| {
            let records = Slice::new(lens, |len: &u64| (&b"key"[..], *len));
            ByHash.begun_by_flush(SIZES, table, &records).len()
        };
        let few = [begun(&table, &[]), begun(&table, &[999; 2]), begun(&table, &[1 << 30])];
        assert_eq!(few, [0, 0, 0]);
        assert_eq!([2, 4, 500].map(|count| begun(&table, &[1000][..].repeat(count))), [1, 3, 3]);
        table.apply(&GroupEdit::Add(sample())).unwrap();
        assert_eq!(begun(&table, &[1000; 500]), 0);
    }

    #[test]
    fn a_store_that_began_small_gets_the_groups_of_its_capacity_at_once() {
        let mut table = table(Partition::Hash);
        let parts = |table: &GroupTable, records: u64, bytes: u64| {
            let keys: Vec<_> = (0..records).map(u64::to_be_bytes).collect();
            let records = Slice::new(&keys, |key: &[u8; 8]| (&key[..], bytes));
            ByHash.split(SIZES, table, GroupId(1), &records).len() + 1
        };
        assert_eq!((parts(&table, 64, 32), parts(&table, 64, 128)), (2, 4));
        assert_eq!(parts(&table, 1, 8192), 1, "one record cannot be divided");
        for (id, bound) in [(2, 0x40), (3, 0x80), (4, 0xc0)] {
            table.apply(&GroupEdit::Begin(GroupId(id), vec![bound], 0)).unwrap();
        }
        assert_eq!(parts(&table, 64, 128), 2, "there are as many groups as it asks for");
    }
}
