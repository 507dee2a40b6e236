//! Liveness by the index (KT-Store).

use super::DeadRecords;
use crate::groups::table::GroupTable;
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
        let flushed = |group| -> u64 {
            let extents = table.extents_of(group).filter(|extent| !extent.survivors);
            extents.map(|extent| extent.separated).sum()
        };
        let pads = !table.partition().keeps_order();
        let all: u64 = table.groups().map(|(id, _)| flushed(id)).sum();
        let of_group = |id| {
            let share = u128::from(unexposed) * u128::from(flushed(id));
            let dead = table.extents_of(id).map(|extent| extent.separated - extent.live);
            let flushed = table.extents_of(id).filter(|extent| !extent.survivors && pads);
            let padding =
                flushed.map(|extent| extent.key_directory_from().saturating_sub(extent.separated));
            (share / u128::from(all.max(1))) as u64 + dead.sum::<u64>() + padding.sum::<u64>()
        };
        table.groups().map(|(id, _)| (id, of_group(id))).collect()
    }
}
