//! Finds the groups of a sequence of keys, most of them in ascending order.

use super::table::GroupTable;
use crate::partition::{GroupId, Partition};

/// The groups of a table, in the order of their bounds, and the position of the last key.
pub struct GroupCursor<'a> {
    partition: Partition,
    groups: Vec<(&'a [u8], GroupId)>,
    at: usize,
}

impl<'a> GroupCursor<'a> {
    /// A cursor over the groups of `table`.
    pub fn new(table: &'a GroupTable) -> Self {
        let groups = table.groups().map(|(id, group)| (&*group.bound, id)).collect();
        Self { partition: table.partition(), groups, at: 0 }
    }

    /// Number of groups.
    pub fn count(&self) -> usize {
        self.groups.len()
    }

    /// The group of a key, as its number in the order of bounds.
    #[inline]
    pub fn ordinal(&mut self, encoded_key: &[u8]) -> Option<u32> {
        let token = self.partition.token(encoded_key);
        let begins = |(bound, _): &(&[u8], GroupId)| **bound <= *token;
        let is_at = |at: usize| self.groups.get(at).is_some_and(begins);
        if !is_at(self.at) || is_at(self.at + 1) {
            self.at = self.groups.partition_point(begins).checked_sub(1)?;
        }
        Some(self.at as u32)
    }

    /// The id of the group with this number.
    pub fn group(&self, ordinal: u32) -> GroupId {
        self.groups[ordinal as usize].1
    }
}

#[cfg(test)]
mod tests {
    use super::super::edit::GroupEdit;
    use super::*;

    #[test]
    fn it_finds_what_the_table_finds() {
        for partition in [
            Partition::Range,
            Partition::Hash,
            #[cfg(feature = "experiments")]
            Partition::Prefix(1),
        ] {
            let mut table = GroupTable::of_partition(partition);
            assert_eq!(GroupCursor::new(&table).ordinal(b"\0\0a"), None);
            let bounds = ["", "\0\0b", "\0\0c", "\u{40}", "\u{60}"];
            let begin = |(at, bound): (u64, &str)| GroupEdit::Begin(GroupId(at), bound.into(), 0);
            let mut edits = (1..).zip(bounds).map(begin);
            edits.try_for_each(|edit| table.apply(&edit)).unwrap();
            let mut locator = GroupCursor::new(&table);
            for key in ["a", "b", "ba", "c", "cc", "a", "c", "b", "x", ""] {
                let key = [b"\0\0", key.as_bytes()].concat();
                let ordinal = locator.ordinal(&key).unwrap();
                assert_eq!(Some(locator.group(ordinal)), table.group_of(&key), "{partition:?}");
            }
        }
    }
}
