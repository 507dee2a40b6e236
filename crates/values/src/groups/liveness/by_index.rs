//! Liveness by the index (KT-Store).

use crate::groups::table::{Group, GroupTable};
use crate::partition::GroupId;

/// Bytes known to be dead, and a share of the unexposed garbage: a record that hides another was
/// written by a flush, so a group with many such records hides much.
pub(super) fn reclaimable(table: &GroupTable, unexposed: u64) -> Vec<(GroupId, u64)> {
    let separated = table.groups().map(|(_, group)| group.flushed.separated);
    let all = separated.fold(0, u64::saturating_add);
    let of_group = |group: &Group| {
        let share = u128::from(unexposed) * u128::from(group.flushed.separated);
        let dead = group.flushed.dead().saturating_add(group.survivors.dead());
        let hidden = (share / u128::from(all.max(1))) as u64;
        hidden.saturating_add(dead)
    };
    table.groups().map(|(id, group)| (id, of_group(group))).collect()
}
