//! Output: the tables that a compaction writes, and the older places below them.

use std::sync::Arc;

use cleavedb_base::planted::{Bug, planted};
use cleavedb_base::{FileNumber, Result};

use super::{CompactionJob, TableFactory};
use crate::entry::Entry;
use crate::table_builder::TableBuilder;
use crate::table_format::TableMeta;
use crate::table_handle::TableHandle;

/// Older places, each sorted; queried with ascending keys.
pub(super) struct Places<'a> {
    places: Vec<&'a [Arc<TableHandle>]>,
    /// Whether any key may still be added to an older place.
    unknown: bool,
}

impl<'a> Places<'a> {
    pub(super) fn new(places: &'a [Vec<Arc<TableHandle>>], unknown: bool) -> Self {
        Self { places: places.iter().map(|tables| &tables[..]).collect(), unknown }
    }

    /// Whether one of the places may hold `key`; keys of successive calls must not descend.
    fn may_hold(&mut self, key: &[u8]) -> bool {
        if planted(Bug::TombstoneDroppedEarly) {
            return false;
        }
        if self.unknown {
            return true;
        }
        self.places.iter_mut().any(|tables| {
            while let Some((first, rest)) = tables.split_first()
                && &*first.meta().largest < key
            {
                *tables = rest;
            }
            tables.first().is_some_and(|table| &*table.meta().smallest <= key)
        })
    }
}

/// Writes entries into tables, each ended between two keys: when it is large enough, or when it
/// overlaps many bytes of the level below the target, which would make its compaction expensive.
pub(super) struct Output<'a> {
    job: &'a CompactionJob,
    factory: &'a dyn TableFactory,
    older: Places<'a>,
    /// Tables of the level below the target that lie at or behind the current key.
    grandparents: &'a [Arc<TableHandle>],
    /// Keys at or behind the current key before which a table should end.
    split_keys: &'a [Box<[u8]>],
    /// Bytes of grandparents that the current table has passed.
    overlap: u64,
    created: &'a mut Vec<FileNumber>,
    builder: Option<TableBuilder>,
    done: Vec<TableMeta>,
}

impl<'a> Output<'a> {
    pub(super) fn new(
        job: &'a CompactionJob,
        factory: &'a dyn TableFactory,
        created: &'a mut Vec<FileNumber>,
    ) -> Self {
        Self {
            job,
            factory,
            older: Places::new(&job.older, job.older_may_come),
            grandparents: &job.grandparents,
            split_keys: &job.split_keys,
            overlap: 0,
            created,
            builder: None,
            done: Vec::new(),
        }
    }

    /// Whether an older place may hold `key`; keys must ascend.
    pub(super) fn may_be_older(&mut self, key: &[u8]) -> bool {
        self.older.may_hold(key)
    }

    /// Announces that entries of another key follow: tables end only here.
    #[inline]
    pub(super) fn begin_key(&mut self, key: &[u8]) -> Result<()> {
        while let Some((first, rest)) = self.grandparents.split_first()
            && &*first.meta().largest < key
        {
            self.overlap += first.meta().size;
            self.grandparents = rest;
        }
        let mut passed = false;
        while let Some((first, rest)) = self.split_keys.split_first()
            && **first <= *key
        {
            passed = true;
            self.split_keys = rest;
        }
        let Some(builder) = &self.builder else {
            self.overlap = 0;
            return Ok(());
        };
        let size = builder.estimated_size();
        let options = &self.job.options;
        let full = size >= options.table_end()
            || passed && size >= options.table_bytes_min()
            || self.overlap > options.overlap_bytes_max();
        if full { self.end_table() } else { Ok(()) }
    }

    fn end_table(&mut self) -> Result<()> {
        self.overlap = 0;
        if let Some(builder) = self.builder.take() {
            self.done.push(builder.finish()?);
        }
        Ok(())
    }

    #[inline]
    pub(super) fn add(&mut self, entry: Entry<'_>) -> Result<()> {
        if self.builder.is_none() {
            let job = self.job;
            let (number, file, identity) = self.factory.create(job.compaction.level)?;
            self.created.push(number);
            let builder = TableBuilder::new(file, identity, number, &job.table_options)?;
            self.builder = Some(builder.with_uncovered_upto(job.uncovered_upto()));
        }
        match &mut self.builder {
            Some(builder) => builder.add(entry),
            None => Ok(()),
        }
    }

    /// Ends the last table; returns all of them, in key order.
    pub(super) fn finish(mut self) -> Result<Vec<TableMeta>> {
        self.end_table()?;
        Ok(self.done)
    }
}
