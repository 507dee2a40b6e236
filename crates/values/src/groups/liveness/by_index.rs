//! Liveness by the index (KT-Store).

use super::DeadRecords;
use crate::groups::table::{Group, GroupTable};
use crate::partition::GroupId;

pub(super) struct ByIndex;

impl DeadRecords for ByIndex {
    fn needs_tombstones(&self) -> bool {
        false
    }

    /// Bytes known to be dead, and a share of the unexposed garbage: a record that hides another
    /// was written by a flush, so a group with many such records hides much. Where every flush
    /// writes to all groups, as by hash, the padding of extents to whole blocks adds up, and is
    /// reclaimed too.
    fn reclaimable(
        &self,
        table: &GroupTable,
        unexposed: u64,
        _: &dyn Fn(GroupId) -> f64,
    ) -> Vec<(GroupId, u64)> {
        let pads = !table.partition().keeps_order();
        let separated = table.groups().map(|(_, group)| group.flushed.separated);
        let all = separated.fold(0, u64::saturating_add);
        let of_group = |group: &Group| {
            let share = u128::from(unexposed) * u128::from(group.flushed.separated);
            let dead = group.flushed.dead().saturating_add(group.survivors.dead());
            let padding = if pads { group.flushed.padding } else { 0 };
            let hidden = (share / u128::from(all.max(1))) as u64;
            hidden.saturating_add(dead).saturating_add(padding)
        };
        table.groups().map(|(id, group)| (id, of_group(group))).collect()
    }
}
