//! Liveness by the records of the group (HashKV, section 3.3).

use super::DeadRecords;
use crate::groups::extent::Extent;
use crate::groups::table::GroupTable;
use crate::partition::GroupId;

/// Least bytes that are counted as reclaimable for a group tombstone.
const STUB_MIN: u64 = 256;

pub(super) struct ByRecords;

impl DeadRecords for ByRecords {
    fn needs_tombstones(&self) -> bool {
        true
    }

    /// Upper bound: all bytes that flushes appended since the last collection, and survivors that
    /// are known to be dead.
    fn reclaimable(&self, table: &GroupTable, _hidden: u64) -> Vec<(GroupId, u64)> {
        table.groups().map(|(id, _)| (id, table.extents_of(id).map(of_extent).sum())).collect()
    }
}

/// Upper bound of the dead bytes of an extent: with this rule only the records of the group tell
/// which values are dead.
fn of_extent(extent: &Extent) -> u64 {
    if extent.survivors {
        return extent.separated - extent.live;
    }
    // A group tombstone may hide a record of any length: an average one is assumed.
    let mean = extent.separated / (extent.records - extent.tombstones - extent.tags).max(1);
    // The padding of the extent to whole blocks is reclaimed too.
    extent.key_directory_from().max(extent.separated) + extent.tombstones * mean.max(STUB_MIN)
}

#[cfg(test)]
mod tests {
    use cleavedb_base::FileNumber;

    use super::*;
    use crate::groups::Location;

    /// Deletes of absent keys left group tombstones, each of which took a block and counted for 256
    /// bytes: a store at its space limit found nothing to collect, and refused further deletes.
    #[test]
    fn an_extent_of_one_stub_is_worth_the_block_that_it_takes() {
        let place = Location { file: FileNumber(7), offset: 0 };
        let empty = Extent::empty(GroupId(1), place);
        let tombstone =
            Extent { records: 1, tombstones: 1, records_len: 40, filter_len: 30, ..empty };
        assert_eq!(tombstone.key_directory_from(), 4096);
        assert!(of_extent(&tombstone) >= tombstone.len());
        let value = Extent { records: 1, records_len: 900, separated: 900, live: 900, ..tombstone };
        assert!(of_extent(&value) >= value.len(), "newer records may have replaced it");
        assert_eq!(of_extent(&Extent { survivors: true, ..value }), 0);
    }
}
