//! Where tables go that were not written by a flush or a compaction, and are newer than everything
//! in the index: the tables of a bulk load.
//!
//! A table may go to a deep level if no younger place, and no table of the level itself, shares
//! keys with it: then everything above it is without its keys, and everything below it is older
//! (invariants 1 and 2 of [`super`]). Of these levels it goes to the first one that has room, as
//! compactions would have brought it there, or else to the deepest one. A level into which a
//! running compaction may write such keys ends the search. Other tables go to level 0.

use cleavedb_base::planted::{Bug, planted};

use super::types::{CompactionOptions, Constraints};
use crate::edit::LEVEL_MAX;
use crate::table_format::TableMeta;
use crate::version::Version;

/// Chooses the levels of new tables, one by one.
pub struct Placement<'a> {
    version: &'a Version,
    options: &'a CompactionOptions,
    constraints: &'a Constraints,
    /// Bytes that were added to each level.
    added: [u64; LEVEL_MAX as usize + 1],
}

impl<'a> Placement<'a> {
    /// For tables that no other one of the load shares keys with.
    pub fn new(
        version: &'a Version,
        options: &'a CompactionOptions,
        constraints: &'a Constraints,
    ) -> Self {
        Self { version, options, constraints, added: Default::default() }
    }

    /// The level of the table with `meta`.
    pub fn level_of(&mut self, meta: &TableMeta) -> u8 {
        // The run of a collection under way will enter level 0 below younger runs, but above all
        // deeper levels. Without such a run the limit is the greatest number.
        let write_back = self.constraints.pinned_above.is_some_and(|epoch| epoch != u64::MAX);
        let write_back = write_back && !planted(Bug::LoadBelowWriteBack);
        let deepest = if write_back { 0 } else { self.deepest(meta) };
        let room = |level: &u8| {
            let bytes = self.version.level_bytes(*level) + self.added[usize::from(*level)];
            bytes + meta.size <= self.options.level_bytes(*level)
        };
        let level = (1..=deepest).find(room).unwrap_or(deepest);
        self.added[usize::from(level)] += meta.size;
        level
    }

    /// The deepest level that the table may go to.
    fn deepest(&self, meta: &TableMeta) -> u8 {
        let (smallest, largest) = (&*meta.smallest, &*meta.largest);
        let runs = self.version.runs();
        if runs.iter().any(|run| !run.set.overlapping(smallest, largest).is_empty()) {
            return 0;
        }
        let is_free = |level: &u8| {
            let tables = self.version.level(*level).overlapping(smallest, largest);
            tables.is_empty() && !self.constraints.is_written(*level, smallest, largest)
        };
        (1..=LEVEL_MAX).take_while(is_free).last().unwrap_or_default()
    }
}
