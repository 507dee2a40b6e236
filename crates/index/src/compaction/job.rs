//! CompactionJob: merges the inputs of a compaction into new tables.
//!
//! *Prepare* (under the lock that fixes the version and the list of snapshots), *run* (without a
//! lock), *finish* (gives the edit). What is kept of each key is decided by `KeyFilter`; where
//! tables end and tombstones may go, by `Output`.
//!
//! Invariants: every live snapshot, and who reads without one, sees the same before and after. The
//! versions of one key never lie in two tables of a level. Outputs and their names are durable when
//! `run` returns. An entry is reported as dropped exactly if its operation stands in no output.

use std::sync::Arc;

use cleavedb_base::record::FileIdentity;
use cleavedb_base::sync::atomic::{AtomicBool, Ordering};
use cleavedb_base::{Error, ErrorKind, FileNumber, Result, SeqNo};
use cleavedb_storage::File;

use super::{Compaction, CompactionOptions, Level0, older_places};
use crate::edit::{AddedTable, VersionEdit};
use crate::entry::{Entry, EntryIter};
use crate::merge::MergeIter;
use crate::table::ReadMode;
use crate::table_format::{TableMeta, TableOptions};
use crate::table_handle::{TableHandle, TableStore};
use crate::table_set::TableSetIter;
use crate::version::Version;

mod output;
mod key_filter;

use key_filter::KeyFilter;
use output::{Output, Places};

/// Makes the files of output tables.
pub trait TableFactory {
    /// A new, empty file under a new number, for a table of `level`, opened for buffered writing.
    fn create(&self, level: u8) -> Result<(FileNumber, Arc<dyn File>, FileIdentity)>;
}

/// Learns which records of the value store lost their last entry.
pub trait DropSink {
    /// `entry` is a pointer that is no repeat, and its operation stands in no output. Counts only
    /// once the edit of the job is durable: if the job fails, nothing was dropped.
    fn dropped(&mut self, entry: Entry<'_>);
}

/// What a compaction did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CompactionStats {
    /// Size of all inputs, in bytes.
    pub input_bytes: u64,
    /// Size of all outputs, in bytes; 0 if tables only moved.
    pub output_bytes: u64,
    /// Entries read.
    pub input_entries: u64,
    /// Entries written.
    pub output_entries: u64,
    /// Older entries of an operation that a younger place holds too.
    pub duplicates: u64,
    /// Entries that no snapshot sees any more, tombstones included.
    pub dropped: u64,
}

/// One compaction on its way from a pick to an edit.
pub struct CompactionJob {
    compaction: Compaction,
    store: Arc<TableStore>,
    /// Ascending.
    snapshots: Vec<SeqNo>,
    options: CompactionOptions,
    table_options: TableOptions,
    older: Vec<Vec<Arc<TableHandle>>>,
    /// A run may yet enter below the inputs, with keys that nobody can know: see
    /// [`CompactionJob::below_which_a_run_may_enter`].
    older_may_come: bool,
    grandparents: Vec<Arc<TableHandle>>,
    /// Keys before which a table ends, unless it is too small: where buckets of level 0 begin, so
    /// that each meets tables of level 1 of its own.
    cuts: Vec<Box<[u8]>>,
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
        let (smallest, largest) = compaction.key_range();
        let grandparents = match compaction.level {
            // A merge within level 0 says nothing yet about where its keys will go.
            0 | crate::edit::LEVEL_MAX => Vec::new(),
            level => version.level(level + 1).overlapping(smallest, largest).to_vec(),
        };
        let cuts = match (compaction.level, options.level0) {
            (1, Level0::Partitions(_)) => {
                version.buckets().iter().map(|bucket| bucket.smallest.clone()).collect()
            }
            _ => Vec::new(),
        };
        Self {
            cuts,
            older: older_places(version, &compaction),
            older_may_come: false,
            store: Arc::clone(version.store()),
            compaction,
            snapshots,
            options: options.clone(),
            table_options: table_options.clone(),
            grandparents,
            created: Vec::new(),
            outputs: Vec::new(),
            stats: CompactionStats::default(),
        }
    }

    /// The same job for inputs that wait above a collection: its run of new pointers will enter
    /// below them and may hold, for a snapshot that is gone by then, versions that these inputs'
    /// tombstones hide. So no tombstone is dropped.
    #[must_use]
    pub fn below_which_a_run_may_enter(mut self) -> Self {
        self.older_may_come = true;
        self
    }

    /// What the job merges.
    pub fn compaction(&self) -> &Compaction {
        &self.compaction
    }

    /// Files that the job made; if it fails, the caller removes them.
    pub fn created(&self) -> &[FileNumber] {
        &self.created
    }

    /// Writes the outputs and makes them durable. Stops with [`ErrorKind::Closed`] soon after
    /// `cancel` is set.
    pub fn run(
        &mut self,
        factory: &dyn TableFactory,
        sink: &mut dyn DropSink,
        cancel: &AtomicBool,
    ) -> Result<()> {
        self.stats.input_bytes = self.compaction.bytes();
        if self.compaction.moves {
            return Ok(());
        }
        let mut output = Output::new(
            (factory, self.compaction.level),
            &self.table_options,
            &self.options,
            Places::new(&self.older, self.older_may_come),
            &self.grandparents,
            &self.cuts,
            &mut self.created,
        );
        let mut filter = KeyFilter::new(&self.snapshots, sink);
        let sources = self.compaction.inputs.iter().map(|input| -> Box<dyn EntryIter> {
            Box::new(TableSetIter::new(input.tables.clone(), ReadMode::Ahead))
        });
        let mut merged = MergeIter::new(sources.collect());
        merged.seek_first()?;
        while merged.valid() {
            if cancel.load(Ordering::Relaxed) {
                return Err(Error::new(ErrorKind::Closed, "compaction was cancelled"));
            }
            self.stats.input_entries += 1;
            filter.add(merged.entry(), &mut output)?;
            merged.next()?;
        }
        filter.end_key(&mut output)?;
        self.stats.duplicates = filter.duplicates();
        self.outputs = output.finish()?;
        let stats = &mut self.stats;
        stats.output_entries = self.outputs.iter().map(|meta| meta.entries).sum();
        stats.output_bytes = self.outputs.iter().map(|meta| meta.size).sum();
        stats.dropped = stats.input_entries - stats.output_entries - stats.duplicates;
        if self.outputs.is_empty() { Ok(()) } else { self.store.sync_dir() }
    }

    /// The edit that swaps inputs for outputs, and what was done.
    pub fn finish(self) -> (VersionEdit, CompactionStats) {
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
