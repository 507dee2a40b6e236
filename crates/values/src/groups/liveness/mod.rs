//! What is known of the dead records of groups, by the rule that decides which are alive: a file
//! for each.
//!
//! A collection asks [`crate::collect::Liveness`], which the engine implements for each rule.

mod by_records;
mod by_index;

use super::table::GroupTable;
use crate::layout::LivenessRule;
use crate::partition::GroupId;

/// What follows from the rule for flushes, and for the choice of groups to collect.
pub trait DeadRecords {
    /// Whether the group is told of each operation on a key of which it may have a record: a flush
    /// writes a record without a value, a *group tombstone*, and extents have filters of their
    /// keys.
    fn needs_tombstones(&self) -> bool;

    /// Bytes that a collection of each group may win, where `hidden` bytes of garbage are not known
    /// to the table, by estimate.
    fn reclaimable(&self, table: &GroupTable, unexposed: u64) -> Vec<(GroupId, u64)>;
}

impl LivenessRule {
    /// What follows from it.
    pub fn dead_records(self) -> &'static dyn DeadRecords {
        match self {
            Self::Records => &by_records::ByRecords,
            Self::Index => &by_index::ByIndex,
        }
    }
}
