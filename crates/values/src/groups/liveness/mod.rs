//! Estimates of the dead records of groups, for each rule of liveness: one file per rule.
//!
//! A collection asks [`crate::collect::Liveness`], which the engine implements for each rule.

mod by_records;
mod by_index;

use super::table::GroupTable;
use crate::layout::LivenessRule;
use crate::partition::GroupId;

/// Consequences of the rule for flushes, and for the choice of groups to collect.
pub trait DeadRecords {
    /// Whether a flush writes a record without a value, a *group tombstone*, for each operation on
    /// a key of which the group may have a record; extents then have filters of their keys.
    fn needs_tombstones(&self) -> bool;

    /// Bytes that a collection of each group may reclaim. `unexposed` is an estimate of the bytes
    /// of garbage that the table does not know of. `false_stubs` is the number of group tombstones
    /// of a group that flushes probably wrote for nothing.
    fn reclaimable(
        &self,
        table: &GroupTable,
        unexposed: u64,
        false_stubs: &dyn Fn(GroupId) -> f64,
    ) -> Vec<(GroupId, u64)>;
}

impl LivenessRule {
    /// The implementation of this rule.
    pub fn dead_records(self) -> &'static dyn DeadRecords {
        match self {
            Self::Records => &by_records::ByRecords,
            Self::Index => &by_index::ByIndex,
        }
    }
}
