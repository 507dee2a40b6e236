//! Estimates of the dead records of groups: one file for each of two rules of liveness.
//!
//! In groups by hash the records themselves tell which are alive: each operation on a key with a
//! record there leaves one, a small one if it has no value (HashKV, section 3.3). Of other groups
//! the index tells, whose part for their keys is read together with them (KT-Store). A collection
//! asks [`crate::collect::Liveness`], which the engine implements for each rule.

mod by_records;
mod by_index;

use super::table::GroupTable;
use crate::partition::GroupId;

/// Bytes that a collection of each group may reclaim. `unexposed` is an estimate of the bytes of
/// garbage that the table does not know of. `false_stubs` is the number of group tombstones of a
/// group that flushes probably wrote for nothing.
pub fn reclaimable(
    table: &GroupTable,
    unexposed: u64,
    false_stubs: &dyn Fn(GroupId) -> f64,
) -> Vec<(GroupId, u64)> {
    match table.needs_stubs() {
        true => by_records::reclaimable(table, false_stubs),
        false => by_index::reclaimable(table, unexposed),
    }
}
