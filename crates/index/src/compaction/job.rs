//! CompactionJob: merges the inputs of a compaction into new tables.
//!
//! *Prepare* (under the lock that fixes the version and the list of snapshots), *run* (without a
//! lock; a large job as two halves of its keys, in parallel), *finish* (returns the edit).
//! `KeyFilter` decides which entries of a key are kept; `Output` where tables end and whether
//! tombstones may be dropped.
//!
//! Invariants: every live snapshot, and readers without one, see the same before and after. The
//! versions of one key never lie in two tables of a level. Outputs are durable when `run` returns,
//! but not their names: the caller must handle a failed sync of the directory. An entry is reported
//! as dropped exactly if its operation is in no output.

use std::sync::Arc;

use cleavedb_base::record::FileIdentity;
use cleavedb_base::sync::atomic::AtomicBool;
use cleavedb_base::sync::side_by_side;
use cleavedb_base::{EntryKind, ErrorKind, FileNumber, Result, SeqNo};
use cleavedb_storage::File;

use super::futile;
use super::level0;
use super::pieces::{met, split_keys};
use super::types::{Compaction, CompactionOptions, older_runs};
use crate::edit::{AddedTable, VersionEdit};
use crate::entry::Entry;
use crate::operands::{LeaveOperands, MergeRule};
use crate::range_tombstones::Fragments;
use crate::table::ReadMode;
use crate::table_format::{TableMeta, TableOptions};
use crate::table_handle::TableHandle;
use crate::version::Version;

mod output;
mod key_filter;
mod slice;

use slice::Stop;

/// Creates the files of output tables.
pub trait TableFactory: Sync {
    /// A new, empty file under a new number, for a table of `level`, opened for writing.
    fn create(&self, level: u8) -> Result<(FileNumber, Arc<dyn File>, FileIdentity)>;
}

/// Observer of the pointers of a compaction: learns which records lost their last entry, and may
/// replace pointers to records that were moved.
pub trait ValueGcObserver: Send + Sync + Sized {
    /// `entry` is a pointer that is no repeat, and its operation is in no output. Counts only once
    /// the edit of the job is durable: if the job fails, nothing was removed.
    fn owner_removed(&mut self, entry: Entry<'_>) -> Result<()>;
    /// `entry` is a value in the index that goes to an output, and nothing newer in the inputs
    /// changes it: returns the kind and the value of the entry that takes its place, a tombstone
    /// or another value, if it does not stay. Not called while a snapshot is held.
    fn filtered(&mut self, _entry: &Entry<'_>) -> Result<Option<(EntryKind, Vec<u8>)>> {
        Ok(None)
    }
    /// A new observer for a part of the job, without reports yet.
    fn split(&self) -> Self;
    /// Merges the reports of the observer of a part.
    fn merge(&mut self, part: Self);
}

/// How a large job processes the halves of its keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SubcompactionMode {
    /// Not in halves.
    Never,
    /// One after the other, for tests that step through jobs.
    InTurn,
    /// On two threads.
    AtOnce,
}

/// Statistics of a compaction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CompactionStats {
    /// Size of all inputs, in bytes; 0 if they are not read, since tables only move or leave.
    pub input_bytes: u64,
    /// Size of all outputs, in bytes; 0 if tables only move or leave.
    pub output_bytes: u64,
    /// Entries read.
    pub input_entries: u64,
    /// Entries written.
    pub output_entries: u64,
    /// Older entries of an operation that a younger place also holds.
    pub duplicates: u64,
    /// Entries that no snapshot sees any more, including tombstones.
    pub dropped: u64,
    /// Whether something was won ([`super::futile`]).
    pub won: bool,
}

/// One compaction, from its pick to its edit.
pub struct CompactionJob {
    compaction: Compaction,
    /// Ascending.
    snapshots: Vec<SeqNo>,
    deleted: Fragments,
    /// Values that expired up to here are not there for any reader.
    earliest_time: u64,
    merge_rule: Arc<dyn MergeRule>,
    options: CompactionOptions,
    table_options: TableOptions,
    older: Vec<Vec<Arc<TableHandle>>>,
    /// Whether a run with unknown keys may still be added below the inputs: see
    /// [`CompactionJob::with_pending_write_back`].
    older_may_come: bool,
    grandparents: Vec<Arc<TableHandle>>,
    /// How inputs are read.
    mode: ReadMode,
    /// Keys before which a table ends, unless it is too small: the beginnings of buckets of level
    /// 0, so that each bucket overlaps tables of level 1 of its own.
    split_keys: Vec<Box<[u8]>>,
    created: Vec<FileNumber>,
    outputs: Vec<TableMeta>,
    stats: CompactionStats,
}

impl CompactionJob {
    /// A job for `compaction`, which was picked from `version`. `snapshots` are the sequence
    /// numbers of all live snapshots, in any order; later snapshots must not be older than the
    /// newest entry of `version`.
    pub fn prepare(
        version: &Version,
        compaction: Compaction,
        mut snapshots: Vec<SeqNo>,
        options: &CompactionOptions,
        table_options: &TableOptions,
    ) -> Self {
        snapshots.sort_unstable();
        snapshots.dedup();
        let mut options = options.clone();
        if compaction.short {
            options.table_bytes_max = options.table_bytes_short();
        }
        let (smallest, largest) = compaction.key_range();
        let grandparents = match compaction.level {
            _ if compaction.is_in_place() => met(version, &compaction),
            // A merge within level 0 does not know yet where its keys will go.
            0 => Vec::new(),
            crate::edit::LEVEL_MAX => Vec::new(),
            level => version.level(level + 1).overlapping(smallest, largest).to_vec(),
        };
        let split_keys = match compaction.level {
            // Inputs of level 1 alone are packed, or have lost their tombstones.
            1 if compaction.inputs[0].level == 0 => {
                level0::policy(options.level0).output_split_keys(version)
            }
            _ if compaction.is_in_place() => split_keys(&grandparents),
            _ => Vec::new(),
        };
        Self {
            split_keys,
            older: older_runs(version, &compaction),
            older_may_come: false,
            mode: ReadMode::Last,
            compaction,
            snapshots,
            deleted: Fragments::default(),
            earliest_time: 0,
            merge_rule: Arc::new(LeaveOperands),
            options,
            table_options: table_options.clone(),
            grandparents,
            created: Vec::new(),
            outputs: Vec::new(),
            stats: CompactionStats::default(),
        }
    }

    /// The job with range tombstones to apply, which all readers without a snapshot see.
    #[must_use]
    pub fn without_deleted(mut self, deleted: Fragments) -> Self {
        self.deleted = deleted;
        self
    }

    /// The job for readers to which values that expired up to this time, in milliseconds
    /// since 1970, are not there any more.
    #[must_use]
    pub fn at_earliest_time(mut self, millis: u64) -> Self {
        self.earliest_time = millis;
        self
    }

    /// The job with operands combined and applied by `rule`; otherwise they stay.
    #[must_use]
    pub fn with_merge_rule(mut self, rule: Arc<dyn MergeRule>) -> Self {
        self.merge_rule = rule;
        self
    }

    /// See [`TableMeta::uncovered_upto`].
    fn uncovered_upto(&self) -> SeqNo {
        let upto = self.deleted.upto();
        self.snapshots.first().map_or(upto, |oldest| upto.min(*oldest))
    }

    /// The job for inputs that wait above a running collection: its run of new pointers will
    /// be added below them and may hold, for a snapshot that is released by then, versions that
    /// these inputs' tombstones hide. So no tombstone is dropped.
    #[must_use]
    pub fn with_pending_write_back(mut self) -> Self {
        self.older_may_come = true;
        self
    }

    /// The job for inputs in memory that other readers use until it ends: they are not
    /// evicted.
    #[must_use]
    pub fn of_inputs_in_memory(mut self) -> Self {
        self.mode = ReadMode::Ahead;
        self
    }

    /// The compaction that the job runs.
    pub fn compaction(&self) -> &Compaction {
        &self.compaction
    }

    /// Files that the job created; if it fails, the caller removes them.
    pub fn created(&self) -> &[FileNumber] {
        &self.created
    }

    /// Writes the outputs and makes them durable, but not their names. Stops with
    /// [`ErrorKind::Closed`] soon after `cancel` is set.
    pub fn run(
        &mut self,
        factory: &dyn TableFactory,
        keeper: &mut impl ValueGcObserver,
        subcompactions: SubcompactionMode,
        cancel: &AtomicBool,
    ) -> Result<()> {
        if !self.compaction.is_read() {
            return Ok(());
        }
        self.stats.input_bytes = self.compaction.bytes();
        let middle = if subcompactions == SubcompactionMode::Never { None } else { self.middle()? };
        let middle = middle.as_deref();
        let stop = Stop::new(cancel);
        let slice = |(lower, upper)| self.merge_slice(lower, upper, factory, keeper.split(), &stop);
        let slices = match (middle, subcompactions) {
            (None, _) => vec![slice((None, None))],
            (_, SubcompactionMode::AtOnce) => {
                side_by_side(&[(None, middle), (middle, None)], slice)
            }
            _ => vec![slice((None, middle)), slice((middle, None))],
        };
        self.created.extend(slices.iter().flat_map(|slice| &slice.created));
        // A half that stopped because the other one failed only reports that it was cancelled.
        let errors = || slices.iter().filter_map(|slice| slice.result.as_ref().err());
        let cause = errors().find(|error| error.kind() != ErrorKind::Closed);
        if let Some(error) = cause.or_else(|| errors().next()) {
            return Err(error.clone());
        }
        for slice in slices {
            let merged = slice.result?;
            keeper.merge(slice.keeper);
            self.stats.input_entries += merged.entries;
            self.stats.duplicates += merged.duplicates;
            self.outputs.extend(merged.outputs);
        }
        let stats = &mut self.stats;
        stats.output_entries = self.outputs.iter().map(|meta| meta.entries).sum();
        stats.output_bytes = self.outputs.iter().map(|meta| meta.size).sum();
        stats.dropped = stats.input_entries - stats.output_entries - stats.duplicates;
        Ok(())
    }

    /// The edit that replaces inputs by outputs, and the statistics.
    pub fn finish(mut self) -> (VersionEdit, CompactionStats) {
        self.stats.won = futile::has_won(&self.compaction, &self.outputs);
        let Compaction { level, position, moves, .. } = self.compaction;
        let removed = self.compaction.tables().map(|table| table.number()).collect();
        let metas = match moves {
            true => self.compaction.tables().map(|table| table.meta().clone()).collect(),
            false => self.outputs,
        };
        let added = metas.into_iter().map(|meta| AddedTable { level, position, meta }).collect();
        (VersionEdit { added, removed }, self.stats)
    }
}

#[cfg(test)]
mod tests;
