//! Groups by prefix, as in the paper of KT-Store (section 3.3): each prefix gets its group with its
//! first key, and keeps it.

use super::{GroupSizes, Records, Sizing};
use crate::groups::table::GroupTable;

pub(super) struct ByPrefix;

impl Sizing for ByPrefix {
    /// Bounds of the prefixes that have no group yet.
    fn begun_by_flush(
        &self,
        _sizes: GroupSizes,
        table: &GroupTable,
        records: &dyn Records,
    ) -> Vec<Vec<u8>> {
        let mut bounds: Vec<Vec<u8>> = Vec::new();
        for key in (0..records.count()).map(|at| records.key(at)) {
            let token = table.partition().token(key);
            let group = table.group_of(key).and_then(|id| table.group(id));
            let known = group.is_some_and(|group| *group.bound == *token)
                || bounds.last().is_some_and(|last| **last == *token);
            if !known {
                bounds.push(token.to_vec());
            }
        }
        bounds
    }

    fn bounds_are_fixed(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::super::GroupEdit;
    use super::super::testing::{SIZES, bounds, table};
    use crate::partition::{GroupId, Partition};

    #[test]
    fn each_prefix_gets_a_group_once_and_short_keys_share_one() {
        let mut table = table(Partition::Prefix(2));
        assert_eq!(bounds(SIZES, &table, &["a", "aba", "abb", "b", "bb"]), ["ab", "bb"]);
        table.apply(&GroupEdit::Begin(GroupId(2), b"\0\0ab".to_vec(), 0)).unwrap();
        assert_eq!(bounds(SIZES, &table, &["a", "aba", "ac"]), ["ac"]);
        assert_eq!(table.group_of(b"\0\0b"), Some(GroupId(1)));
    }
}
