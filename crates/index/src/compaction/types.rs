//! Types of a compaction: its inputs and outputs, the sizes that picks keep, and the tables that
//! they must not touch.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use cleavedb_base::planted::{Bug, planted};
use cleavedb_base::{FileNumber, SeqNo};

use crate::edit::{LEVEL_MAX, RunPosition};
use crate::range_tombstones::Fragments;
use crate::table_format::TableMeta;
use crate::table_handle::TableHandle;
use crate::version::Version;

/// How level 0 is kept and compacted into level 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Level0 {
    /// A flush is one run; when level 0 is full, all tables that are joined by common keys go at
    /// once.
    #[default]
    Whole,
    /// A flush is cut by keys into about this number of parts, at least 2; a bucket of level 0 that
    /// has twice its share of the size is compacted by itself, or the largest one when level 0 is
    /// full, several at a time (OHDB, section III.A).
    Partitions(usize),
    /// As in HyperLevelDB, also below level 0: up to 32 of the oldest tables of level 0 go at once;
    /// of a deeper level the neighbours that overlap the fewest bytes per byte of their own; levels
    /// grow by 4 and then by 8; tables that cost reads many seeks are compacted too. Only for
    /// comparison (OHDB, sections II and IV).
    #[cfg(feature = "experiments")]
    HyperLevelDb,
}

impl Level0 {
    /// Parts of a flush, 1 if it is not cut.
    pub fn partitions(self) -> usize {
        match self {
            Self::Partitions(count) => count.max(1),
            _ => 1,
        }
    }

    /// How many times larger level `level` is than the one above it, if it is not for the options
    /// to say. In HyperLevelDB the levels from 1 on have 128 and 512 MiB, 4 and 32 GiB.
    fn ratio_of(self, level: u8) -> Option<u64> {
        match (self, level) {
            #[cfg(feature = "experiments")]
            (Self::HyperLevelDb, level) => Some(if level == 2 { 4 } else { 8 }),
            _ => None,
        }
    }
}

/// Sizes of levels and tables.
#[derive(Clone, Debug)]
pub struct CompactionOptions {
    /// How level 0 is kept. Default: whole.
    pub level0: Level0,
    /// Size at which level 0 is compacted into level 1, in bytes. Default 64 MiB.
    pub l0_bytes: u64,
    /// Runs at which level 0 is compacted into level 1, whatever its size. Default 12.
    pub l0_runs_max: usize,
    /// Adjacent runs of level 0 that are merged into one, within level 0. Default 4, at least 2.
    pub l0_merge_runs: usize,
    /// Size of level 1, in bytes. Default 256 MiB.
    pub l1_bytes: u64,
    /// How many times larger each level is than the one above it. Default 10, at least 1.
    pub level_ratio: u64,
    /// Size of a table, in bytes; limits of compactions are multiples of it. Default 32 MiB.
    pub table_bytes: u64,
    /// Greatest size of an output table, in bytes, if less than that: a small store has short
    /// tables. Default: no limit.
    pub table_bytes_max: u64,
    /// Bytes that may be rewritten to drop tombstones from a table of values: as many as reads have
    /// spent on dead entries. Default 0.
    pub dead_bytes_read: u64,
}

impl Default for CompactionOptions {
    fn default() -> Self {
        Self {
            level0: Level0::Whole,
            l0_bytes: 64 << 20,
            l0_runs_max: 12,
            l0_merge_runs: 4,
            l1_bytes: 256 << 20,
            level_ratio: 10,
            table_bytes: 32 << 20,
            table_bytes_max: u64::MAX,
            dead_bytes_read: 0,
        }
    }
}

impl CompactionOptions {
    /// Size limit of level `level` (1 or deeper), in bytes.
    pub fn level_bytes(&self, level: u8) -> u64 {
        let ratio = |below| self.level0.ratio_of(below).unwrap_or(self.level_ratio);
        (2..=level).fold(self.l1_bytes, |bytes, below| bytes.saturating_mul(ratio(below)))
    }

    /// Size at which one bucket of level 0 is compacted, in bytes: twice its share of level 0,
    /// since buckets that leave in turn are half full on average.
    pub fn bucket_bytes(&self) -> u64 {
        (self.l0_bytes.saturating_mul(2) / self.level0.partitions() as u64).max(1)
    }

    /// Size at which an output table is ended, in bytes.
    pub fn table_end(&self) -> u64 {
        self.table_bytes.min(self.table_bytes_max)
    }

    /// Size at which an output table is ended if its first keys will soon be deleted, in bytes: a
    /// sixth of a table. From an eighth on it is not packed again.
    pub fn table_bytes_short(&self) -> u64 {
        self.table_end() / 6
    }

    /// Size below which a table is not worth a file of its own, in bytes: a 32nd of a table.
    pub fn table_bytes_min(&self) -> u64 {
        self.table_bytes / 32
    }

    /// Most bytes of neighbours of a level with their overlap in the next, if they are compacted
    /// together: 25 tables, as in LevelDB.
    pub fn compaction_bytes_max(&self) -> u64 {
        self.table_bytes.saturating_mul(25)
    }

    /// Bytes of inputs from which on a compaction is done in two halves: 4 tables, so that each
    /// half has more than one.
    pub fn halves_bytes_min(&self) -> u64 {
        self.table_bytes.saturating_mul(4)
    }

    /// Most bytes of the level below the target that one output table may overlap, which is the
    /// cost of its next compaction.
    pub fn overlap_bytes_max(&self) -> u64 {
        self.table_bytes.saturating_mul(10)
    }
}

/// Range of keys that a running compaction writes into a level.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WriteRange {
    /// Level of the outputs.
    pub level: u8,
    /// Smallest key that an output may have.
    pub smallest: Box<[u8]>,
    /// Largest key that an output may have.
    pub largest: Box<[u8]>,
}

impl WriteRange {
    pub(super) fn of(compaction: &Compaction) -> Self {
        let (smallest, largest) = compaction.key_range();
        Self { level: compaction.level, smallest: smallest.into(), largest: largest.into() }
    }

    pub(super) fn overlaps(&self, smallest: &[u8], largest: &[u8]) -> bool {
        &*self.smallest <= largest && smallest <= &*self.largest
    }
}

/// Tables and key ranges that a pick must not touch.
#[derive(Clone, Debug, Default)]
pub struct Constraints {
    /// Inputs of running compactions, and the target level of each.
    pub busy: HashMap<FileNumber, u8>,
    /// Key ranges that running compactions write. An output may span keys between its inputs, so
    /// the inputs alone do not keep two compactions apart.
    pub writing: Vec<WriteRange>,
    /// While a value collection runs: the epoch at which it fixed its inputs. Runs of level 0 with
    /// a later epoch stay in level 0, and no merge joins runs from both sides of it: the write-back
    /// run will be placed between them.
    pub pinned_above: Option<u64>,
    /// Greatest sequence number that every reader sees: of each key, entries below its youngest one
    /// up to there are not needed. Default 0.
    pub seen_by_all: SeqNo,
    /// The range tombstones that a compaction applies. Default: none.
    pub deleted: Fragments,
    /// Range tombstones up to this number count as eager, since there are too many. Default: 0.
    pub eager_upto: SeqNo,
    /// Whether values are filtered: a compaction on request then reads all tables.
    pub filters: bool,
    /// Values that expired up to this time, in milliseconds since 1970, are not there for any
    /// reader. Default: 0.
    pub earliest_time: u64,
    /// A table is rewritten if one of its values expired before this time. Default: 0.
    pub long_ago: u64,
    /// Tables with a damaged block, which a compaction cannot read to the end.
    pub damaged: BTreeSet<FileNumber>,
}

impl Constraints {
    /// Marks the inputs and the key range of `compaction`, which starts to run.
    pub fn start(&mut self, compaction: &Compaction) {
        self.busy.extend(compaction.tables().map(|table| (table.number(), compaction.level)));
        self.writing.push(WriteRange::of(compaction));
    }

    /// Removes the marks of [`Constraints::start`].
    pub fn end(&mut self, compaction: &Compaction) {
        for table in compaction.tables() {
            self.busy.remove(&table.number());
        }
        let range = WriteRange::of(compaction);
        if let Some(i) = self.writing.iter().position(|other| *other == range) {
            self.writing.swap_remove(i);
        }
    }

    /// Whether a running compaction may write keys from `smallest` through `largest` into `level`.
    pub(super) fn is_written(&self, level: u8, smallest: &[u8], largest: &[u8]) -> bool {
        self.writing.iter().any(|range| range.level == level && range.overlaps(smallest, largest))
    }

    /// Whether a range tombstone that every reader sees may cover entries of the table `meta`.
    pub(super) fn may_cover(&self, meta: &TableMeta) -> bool {
        let after = meta.min_seq.max(meta.uncovered_upto);
        self.deleted.overlaps(&meta.smallest, &meta.largest, after, self.seen_by_all)
    }

    /// As [`Constraints::may_cover`], for eager range tombstones.
    pub(super) fn may_cover_eagerly(&self, meta: &TableMeta) -> bool {
        let (smallest, largest) = (&meta.smallest, &meta.largest);
        let after = meta.min_seq.max(meta.uncovered_upto);
        let upto = self.eager_upto.min(self.seen_by_all);
        self.deleted.overlaps_eager(smallest, largest, after, self.seen_by_all)
            || after < upto && self.deleted.overlaps(smallest, largest, after, upto)
    }

    /// Whether the table `meta` may have something that no reader sees, if no deeper level has keys
    /// of it.
    pub(super) fn may_be_dead_in(&self, meta: &TableMeta) -> bool {
        let expired = meta.first_expiry.is_over(self.earliest_time);
        meta.deletes > 0 || meta.shadowed > 0 || expired || self.may_cover(meta)
    }

    /// Whether values of the table `meta` have expired and should give their space back.
    pub(super) fn has_expired(&self, meta: &TableMeta) -> bool {
        meta.is_due(self.earliest_time, self.long_ago)
    }

    /// Whether `table` is read by a running compaction, or must stay in its place.
    pub(super) fn is_busy(&self, table: &TableHandle) -> bool {
        let number = table.number();
        self.busy.contains_key(&number) || self.damaged.contains(&number)
    }

    /// Whether `table` of `level` is being compacted into a deeper level.
    pub(super) fn leaves(&self, table: &TableHandle, level: u8) -> bool {
        self.busy.get(&table.number()).is_some_and(|target| *target > level)
    }

    /// Whether a run at `position` must wait for a collection.
    pub(super) fn is_pinned(&self, position: RunPosition) -> bool {
        self.pinned_above.is_some_and(|epoch| position.epoch > epoch)
    }
}

/// Inputs from one place: a run of level 0, or a level.
#[derive(Clone)]
pub struct CompactionInput {
    /// Level of the tables.
    pub level: u8,
    /// Position of their run, if the level is 0.
    pub position: Option<RunPosition>,
    /// The tables, in key order, without common keys.
    pub tables: Vec<Arc<TableHandle>>,
}

/// The inputs of a merge, and the place of its outputs.
#[derive(Clone)]
pub struct Compaction {
    /// Inputs, youngest place first.
    pub inputs: Vec<CompactionInput>,
    /// Level of the outputs.
    pub level: u8,
    /// Position of the run of the outputs, if the level is 0.
    pub position: Option<RunPosition>,
    /// Whether the tables only move, without being read or written.
    pub moves: bool,
    /// Whether the tables only leave, since range tombstones hide all of them from every reader.
    pub drops: bool,
    /// Whether outputs are short, since the next keys will soon have tombstones.
    pub short: bool,
}

impl Compaction {
    pub(super) fn new(
        inputs: Vec<CompactionInput>,
        level: u8,
        position: Option<RunPosition>,
        moves: bool,
    ) -> Self {
        debug_assert!(level <= LEVEL_MAX && (level == 0) == position.is_some());
        debug_assert!(inputs.iter().all(|input| !input.tables.is_empty()) && !inputs.is_empty());
        debug_assert!(
            inputs.is_sorted_by_key(|input| (input.level, std::cmp::Reverse(input.position))),
            "inputs stand youngest place first"
        );
        Self { inputs, level, position, moves, drops: false, short: false }
    }

    /// All inputs.
    pub fn tables(&self) -> impl Iterator<Item = &Arc<TableHandle>> {
        self.inputs.iter().flat_map(|input| &input.tables)
    }

    /// Size of all inputs, in bytes.
    pub fn bytes(&self) -> u64 {
        self.tables().map(|table| table.meta().size).sum()
    }

    /// Whether more than half of the inputs' bytes are in memory, estimated from one page of each
    /// table.
    pub fn is_in_memory(&self) -> bool {
        let there =
            |table: &&Arc<TableHandle>| table.table().is_ok_and(|table| table.is_in_memory());
        let bytes: u64 = self.tables().filter(there).map(|table| table.meta().size).sum();
        bytes > self.bytes() / 2
    }

    /// Whether its tables are read: not if they only move, nor if they leave and have no pointers
    /// that must be reported.
    pub fn is_read(&self) -> bool {
        let leaves = self.drops && self.tables().all(|table| table.meta().pointer_bytes == 0);
        !self.moves && !leaves
    }

    /// Most bytes that it may write.
    pub fn bytes_written_max(&self) -> u64 {
        if self.moves || self.drops { 0 } else { self.bytes() }
    }

    /// Whether one table is rewritten in its place.
    pub(super) fn is_in_place(&self) -> bool {
        let [input] = &self.inputs[..] else { return false };
        input.level == self.level && input.tables.len() == 1 && !self.moves && !self.drops
    }

    /// Smallest and largest key of all inputs.
    pub fn key_range(&self) -> (&[u8], &[u8]) {
        key_range(self.tables().map(|table| table.meta())).expect("a compaction has inputs")
    }
}

/// Smallest and largest key of `tables`; none without tables.
pub(super) fn key_range<'a>(
    tables: impl Iterator<Item = &'a TableMeta>,
) -> Option<(&'a [u8], &'a [u8])> {
    tables.map(|meta| (&*meta.smallest, &*meta.largest)).reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)))
}

/// The tables of all places at and below the youngest input's place that are not inputs and may
/// hold keys of the compaction: as long as one of them may hold a key, its tombstone must stay.
pub(super) fn older_runs(version: &Version, compaction: &Compaction) -> Vec<Vec<Arc<TableHandle>>> {
    let inputs: HashSet<FileNumber> = compaction.tables().map(|table| table.number()).collect();
    let (smallest, largest) = compaction.key_range();
    let is_input = |table: &Arc<TableHandle>| inputs.contains(&table.number());
    version
        .sorted_runs(u64::MAX)
        .skip_while(|place| !place.tables().iter().any(is_input))
        .filter(|place| {
            let deep = || (1..=LEVEL_MAX).any(|level| std::ptr::eq(version.level(level), *place));
            !planted(Bug::BucketForgetsOlderRuns) || deep()
        })
        .map(|place| {
            let overlapping = place.overlapping(smallest, largest);
            overlapping.iter().filter(|table| !is_input(table)).cloned().collect::<Vec<_>>()
        })
        .filter(|tables| !tables.is_empty())
        .collect()
}
