//! How ranges of keys come and go: pure choices.
//!
//! Ranges of keys cannot be known before there are keys. A range without records is divided by the
//! keys of the flush that first writes to it, and nothing has to move. With fixed levels each
//! prefix gets its group with its first key (KT-Store, section 3.3). Neighbours that have become
//! small are merged, and nothing has to move either. (A range that has become long is divided by
//! its collection.)

use cleavedb_base::limits::BLOCK;
use cleavedb_base::partition::cut;
use cleavedb_base::planted::{Bug, planted};
use cleavedb_base::{GroupId, Partitioner, Result};

use super::edit::GroupEdit;
use super::table::{Group, GroupTable};
use super::victim::group_bytes;

/// Shortest part of a flush for which a group of its own is begun, in blocks: an extent pads to a
/// block, which is at most so small a part of it.
const PART_MIN_BLOCKS: u64 = 16;

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
            Partitioner::Hash => Vec::new(),
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

    /// Where groups without extents are divided.
    fn divisions<R>(
        self,
        table: &GroupTable,
        records: &[R],
        of: impl Fn(&R) -> (&[u8], u64),
    ) -> Vec<Vec<u8>> {
        let first = table.extents().next().is_none();
        let part_min = (PART_MIN_BLOCKS * BLOCK as u64).min(self.group_bytes / 4).max(1);
        let mut bounds = Vec::new();
        let vacant = |group: &Group| group.extents.is_empty() || planted(Bug::DividedWithRecords);
        for (id, group) in table.groups().filter(|(_, group)| vacant(group)) {
            // Their place is found, not looked for among all: a store that lets old keys go has
            // many ranges without records.
            let before = |bound: &[u8]| records.partition_point(|record| of(record).0 < bound);
            let end = table.end_of(id).map_or(records.len(), before);
            let records = records[before(&group.bound)..end].iter().map(&of);
            let bytes: u64 = records.clone().map(|(_, len)| len).sum();
            let expected = if first { self.capacity.max(bytes) } else { bytes };
            let parts = expected.div_ceil(self.group_bytes.max(1)).min(bytes / part_min);
            bounds.extend(cut(records, parts));
        }
        bounds
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
    use super::*;

    fn table(partitioner: Partitioner) -> GroupTable {
        let edits =
            [GroupEdit::Partition(partitioner), GroupEdit::Begin(GroupId(1), Vec::new(), 0)];
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
