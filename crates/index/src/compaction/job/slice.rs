//! Slice: the part of a compaction between two keys, merged into tables of its own.
//!
//! All versions of a key lie in one slice, and decisions about a key do not depend on other keys.
//! So slices of a compaction share only their inputs: they may run in any order or in parallel, and
//! their outputs, one slice behind the other, are those of the compaction.

use cleavedb_base::limits::SEQ_MAX;
use cleavedb_base::sync::atomic::{AtomicBool, Ordering};
use cleavedb_base::{Error, ErrorKind, FileNumber, Result};

use super::key_filter::KeyFilter;
use super::output::Output;
use super::{CompactionJob, TableFactory, ValueGcObserver};
use crate::entry::EntryIter;
use crate::merge::MergeIter;
use crate::retention::Retention;
use crate::table_format::TableMeta;
use crate::table_set::TableSetIter;

/// Result of a slice. Its created files and dropped entries count even if it failed half-way.
pub(super) struct Subcompaction<S> {
    pub(super) keeper: S,
    pub(super) created: Vec<FileNumber>,
    pub(super) result: Result<Merged>,
}

/// Output of a slice.
pub(super) struct Merged {
    pub(super) outputs: Vec<TableMeta>,
    /// Entries read.
    pub(super) entries: u64,
    /// Of these, older entries of an operation that a younger place also holds.
    pub(super) duplicates: u64,
}

/// Tells slices when to stop.
pub(super) struct Stop<'a> {
    cancelled: &'a AtomicBool,
    /// Whether a slice has failed: the work of the others would be discarded.
    failed: AtomicBool,
}

impl<'a> Stop<'a> {
    pub(super) fn new(cancelled: &'a AtomicBool) -> Self {
        Self { cancelled, failed: AtomicBool::new(false) }
    }

    #[inline]
    fn check(&self) -> Result<()> {
        if self.cancelled.load(Ordering::Relaxed) || self.failed.load(Ordering::Relaxed) {
            return Err(Error::new(ErrorKind::Closed, "compaction was cancelled"));
        }
        Ok(())
    }
}

impl CompactionJob {
    /// Merges the entries of keys from `lower` (inclusive) to `upper` (exclusive).
    pub(super) fn merge_slice<S: ValueGcObserver>(
        &self,
        lower: Option<&[u8]>,
        upper: Option<&[u8]>,
        factory: &dyn TableFactory,
        mut keeper: S,
        stop: &Stop<'_>,
    ) -> Subcompaction<S> {
        let mut created = Vec::new();
        let mut output = Output::new(self, factory, &mut created);
        let retention = Retention::new(&self.snapshots, &self.deleted, self.earliest_time);
        let mut filter = KeyFilter::new(retention, &*self.merge_rule, &mut keeper);
        let entries = self.merge_into(lower, upper, stop, &mut filter, &mut output);
        let duplicates = filter.duplicates();
        let result = entries
            .and_then(|entries| Ok(Merged { outputs: output.finish()?, entries, duplicates }));
        if result.is_err() {
            stop.failed.store(true, Ordering::Relaxed);
        }
        Subcompaction { keeper, created, result }
    }

    /// Reads the entries of the slice through the filter; returns their number.
    fn merge_into(
        &self,
        lower: Option<&[u8]>,
        upper: Option<&[u8]>,
        stop: &Stop<'_>,
        filter: &mut KeyFilter<'_, impl ValueGcObserver>,
        output: &mut Output<'_>,
    ) -> Result<u64> {
        let sources = self.compaction.inputs.iter().map(|input| -> Box<dyn EntryIter> {
            Box::new(TableSetIter::new(input.tables.clone(), self.mode))
        });
        let mut merged = MergeIter::new(sources.collect());
        match lower {
            Some(key) => merged.seek(key, SEQ_MAX)?,
            None => merged.seek_first()?,
        }
        let mut entries = 0;
        while merged.valid() {
            stop.check()?;
            let entry = merged.entry();
            if upper.is_some_and(|upper| entry.key >= upper) {
                break;
            }
            entries += 1;
            filter.add(entry, output)?;
            merged.next()?;
        }
        filter.end_key(output)?;
        Ok(entries)
    }

    /// A key that halves the bytes of the inputs, roughly: half of them lie in tables whose middle
    /// is before it. None if the halves would be too small for tables of their own.
    pub(super) fn middle(&self) -> Result<Option<Vec<u8>>> {
        let bytes = self.compaction.bytes();
        if bytes < self.options.halves_bytes_min() {
            return Ok(None);
        }
        let mut middles = Vec::new();
        for table in self.compaction.tables() {
            middles.push((table.table()?.middle_key(), table.meta().size));
        }
        middles.sort_unstable();
        let mut before = 0;
        let middle = middles.into_iter().find(|(_, size)| {
            before += size;
            before >= bytes / 2
        });
        Ok(middle.map(|(key, _)| key))
    }
}
