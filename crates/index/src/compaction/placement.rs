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
pub struct LevelChooser<'a> {
    version: &'a Version,
    options: &'a CompactionOptions,
    constraints: &'a Constraints,
    /// Bytes that were added to each level.
    added: [u64; LEVEL_MAX as usize + 1],
}

impl<'a> LevelChooser<'a> {
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

#[cfg(test)]
mod tests {
    use cleavedb_base::FileNumber;

    use super::*;
    use crate::compaction::WriteRange;
    use crate::edit::{AddedTable, RunPosition, VersionEdit};
    use crate::testing::World;

    const MIB: u64 = 1 << 20;

    fn meta(number: u64, keys: (&str, &str), size: u64) -> TableMeta {
        let (smallest, largest) = (keys.0.as_bytes().into(), keys.1.as_bytes().into());
        TableMeta { size, smallest, largest, entries: 2, ..TableMeta::empty(FileNumber(number)) }
    }

    /// Level 0 has m to n, level 1 has c to d, level 4 has f to g.
    fn version() -> Version {
        let mut edit = VersionEdit::default();
        let position = Some(RunPosition { epoch: 1, order: 0 });
        for (level, position, keys) in
            [(0, position, ("m", "n")), (1, None, ("c", "d")), (4, None, ("f", "g"))]
        {
            let meta = meta(100 + u64::from(level), keys, MIB);
            edit.added.push(AddedTable { level, position, meta });
        }
        Version::empty(World::new().store).apply(&edit).unwrap()
    }

    fn levels(constraints: &Constraints, tables: &[((&str, &str), u64)]) -> Vec<u8> {
        let (version, options) = (version(), CompactionOptions::default());
        let mut placement = LevelChooser::new(&version, &options, constraints);
        tables.iter().map(|(keys, size)| placement.level_of(&meta(1, *keys, *size))).collect()
    }

    #[test]
    fn a_table_goes_to_the_first_level_with_room_above_what_it_overlaps() {
        let free = Constraints::default();
        let tables = [(("a", "b"), MIB), (("a", "b"), 300 * MIB), (("o", "p"), 5000 * MIB)];
        assert_eq!(levels(&free, &tables), [1, 2, 3]);
        assert_eq!(levels(&free, &[(("o", "p"), 1 << 60)]), [6], "no level has room");
        let apart = [(("a", "b"), 200 * MIB), (("h", "k"), 100 * MIB)];
        assert_eq!(levels(&free, &apart), [1, 2], "they share the room of a level");
        let overlaps = [(("d", "e"), MIB), (("n", "z"), MIB), (("g", "h"), 1 << 60)];
        assert_eq!(levels(&free, &overlaps), [0, 0, 3]);
    }

    #[test]
    fn a_level_that_a_compaction_writes_ends_the_search() {
        let range = WriteRange { level: 2, smallest: (*b"a").into(), largest: (*b"z").into() };
        let busy = Constraints { writing: vec![range], ..Constraints::default() };
        assert_eq!(levels(&busy, &[(("h", "k"), 1 << 60)]), [1]);
    }

    fn the_run_of_a_collection_stays_below() {
        let collects = |epoch| Constraints { pinned_above: Some(epoch), ..Constraints::default() };
        assert_eq!(levels(&collects(7), &[(("h", "k"), MIB)]), [0]);
        assert_eq!(levels(&collects(u64::MAX), &[(("h", "k"), MIB)]), [1], "it writes no run");
    }

    #[test]
    fn nothing_goes_below_the_run_that_a_collection_will_write() {
        the_run_of_a_collection_stays_below();
    }

    #[cfg(feature = "test-planted-bugs")]
    #[test]
    fn planted_table_below_the_run_of_a_collection() {
        let check = the_run_of_a_collection_stays_below;
        cleavedb_base::planted::must_notice(Bug::LoadBelowWriteBack, check);
    }
}
