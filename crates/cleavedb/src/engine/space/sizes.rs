//! Lengths at which files end, and the capacity of the index's levels, as of now.
//!
//! Log files, segments and tables are rewritten as a whole, so they end at a length that the
//! reserve can hold, even on a large disk: other programs may fill it later.

use std::sync::Arc;

use cleavedb_base::limits::BLOCK;
use cleavedb_base::sync::atomic::Ordering;
use cleavedb_index::compaction::CompactionOptions;
use cleavedb_index::table_handle::TableHandle;

use crate::engine::space::{SpaceContext, rest};
use crate::engine::value_files;
use crate::store::limit::Limit;
use crate::store::manifest::Manifest;

const SHARE: u64 = 4;

/// Bytes up to which a database has as much again in reserve, and the least length at which files
/// end.
const SHARE_LEAST: u64 = 512 << 10;

pub(crate) const MOST: u64 = 64 << 20;

/// Divisor of a store for the window that it keeps once it is written no more, and a length, in
/// bytes, that is not worth a change.
const WINDOW_OF_STORE: u64 = 8;
const WINDOW_SHORT: u64 = 8 << 20;

/// Number of short tables that fit the reserve.
const TABLES: u64 = 64;

/// The part of the reserve that is for the jobs of a database of `bytes` bytes.
pub(crate) fn share(bytes: u64) -> u64 {
    (bytes / SHARE).max(bytes.min(SHARE_LEAST)).min(MOST)
}

impl SpaceContext<'_> {
    /// Updates the recorded length of the database's files.
    pub(crate) fn note_bytes(&self, manifest: &Manifest) {
        let live = manifest.live();
        self.full.seen.manifest.store(manifest.next_len_max(), Ordering::Relaxed);
        let size = |(_, table): (u8, &Arc<TableHandle>)| table.meta().size;
        let index: u64 = live.version.tables().map(size).sum();
        let young = live.version.tables().filter(|(level, _)| *level == 0).map(size).max();
        self.full.seen.young.store(young.unwrap_or_default(), Ordering::Relaxed);
        let stubs = (live.groups.told_of_deaths() * BLOCK) as u64;
        self.full.seen.stub_blocks.store(stubs, Ordering::Relaxed);
        self.full
            .seen
            .files
            .store(index + value_files::value_bytes(self.jobs, self.log, live), Ordering::Relaxed);
        self.full.seen.written.store(self.written(), Ordering::Relaxed);
    }

    /// Bytes of the database, with what was written since the last update.
    pub(crate) fn bytes(&self) -> u64 {
        let since = self.written().saturating_sub(self.full.seen.written.load(Ordering::Relaxed));
        self.full.seen.files.load(Ordering::Relaxed) + since
    }

    /// Bytes written so far that count as data.
    pub(crate) fn written(&self) -> u64 {
        let log = self.log.buffer().written_upto();
        self.options.log().data_written(log, self.counters.user_bytes.get())
    }

    /// Most bytes of a file that is rewritten as a whole: the reserve can hold its live part. Below
    /// a space limit the budget keeps room for jobs, so there is no such bound.
    fn file_bytes_max(&self) -> u64 {
        self.file_bytes_max_of(self.bytes())
    }

    /// As [`file_bytes_max`], of a database of `bytes` bytes.
    fn file_bytes_max_of(&self, bytes: u64) -> u64 {
        if self.limit.is_some() { u64::MAX } else { share(bytes).max(SHARE_LEAST) }
    }

    /// Lengths at which tables and segments of a bulk load end, if the database will have `bytes`
    /// bytes with it: what is empty now would get very short ones.
    pub(crate) fn of_load(&self, bytes: u64) -> (u64, u64) {
        let most = self.file_bytes_max_of(bytes);
        (self.table_bytes().min(most / 2), self.options.tuning.segment_bytes.min(most))
    }

    /// Length at which a log file ends.
    pub(crate) fn log_file_bytes(&self) -> u64 {
        self.options.log().file_bytes(self.options, self.bytes(), self.file_bytes_max())
    }

    /// Whether the window takes more than its part of a small store, once nothing needs it.
    pub(crate) fn window_is_long(&self) -> bool {
        self.log.buffer().len() > (self.bytes() / WINDOW_OF_STORE).max(WINDOW_SHORT)
    }

    /// How much log a MemTable should cover where it gathers what the window holds, and writers
    /// write `meanwhile` bytes for each byte of its log until its flush has ended.
    pub(crate) fn covered(&self, meanwhile: f64) -> Option<u64> {
        self.options.log().covered(self.options, self.log.buffer().len(), meanwhile)
    }

    /// Length at which a segment of survivors ends.
    pub(crate) fn segment_bytes(&self) -> u64 {
        self.options.tuning.segment_bytes.min(self.file_bytes_max())
    }

    /// Length of a table; a shorter one on a full disk.
    fn table_bytes(&self) -> u64 {
        if self.full.is_short() {
            self.short_table_bytes()
        } else {
            self.options.tuning.table_bytes
        }
    }

    /// Length of tables of which many fit the reserve, so that compactions can go in pieces.
    pub(crate) fn short_table_bytes(&self) -> u64 {
        let short = (self.full.reserve.wanted() / TABLES).max(BLOCK as u64);
        self.options.tuning.table_bytes.min(short)
    }

    /// Whether the store begins to rest: whether nothing was written since the last look.
    pub(crate) fn begins_to_rest(&self) -> bool {
        self.rest.look(self.counters.user_bytes.get())
    }

    /// Whether nothing was written for some time.
    pub(crate) fn rests(&self) -> bool {
        self.rest.lasts(self.counters.user_bytes.get())
    }

    pub(crate) fn compaction_options(&self) -> CompactionOptions {
        let common = CompactionOptions::default();
        let state = self.state.load();
        let patience = self.options.log().merge_patience(state.waiting());
        let (l0_bytes, l1_bytes) = self.options.level_bytes(state.version.contents());
        let least = || state.version.largest_level_bytes() / rest::LEVEL0_PART;
        let l0_bytes = if self.rests() { l0_bytes.min(least().max(1)) } else { l0_bytes };
        let options = CompactionOptions {
            l0_merge_runs: common.l0_merge_runs * patience,
            level0: self.options.level0(),
            l0_bytes,
            l1_bytes,
            table_bytes: self.table_bytes(),
            // A table is merged into the next level together with the tables that it overlaps.
            table_bytes_max: self.file_bytes_max() / 2,
            dead_bytes_read: self.dead_reads.bytes(),
            ..common
        };
        if !self.limit.is_some_and(Limit::forces_full_compaction) {
            return options;
        }
        // Every level but the deepest counts as overfull, so that all entries sink.
        CompactionOptions { l0_bytes: 1, l1_bytes: 1, level_ratio: 1, ..options }
    }
}
