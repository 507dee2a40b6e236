//! TableSet: sorted tables without common keys, which can be read as one. A level is a set, and so
//! is a run of level 0.
//!
//! Invariant: tables ascend, and each ends before the next begins, so at most one may hold a key.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use cleavedb_base::limits::SEQ_MAX;
use cleavedb_base::{EntryKind, Error, Result, SeqNo};

use crate::entry::{Entry, EntryIter};
use crate::table::{ReadMode, TableIter};
use crate::table_handle::TableHandle;

/// Sorted tables without common keys.
#[derive(Clone, Default)]
pub struct TableSet {
    tables: Arc<[Arc<TableHandle>]>,
    bytes: u64,
}

impl TableSet {
    /// The set of `tables`, in any order; fails if two of them share keys.
    pub fn new(mut tables: Vec<Arc<TableHandle>>) -> Result<Self> {
        tables.sort_by(|a, b| a.meta().smallest.cmp(&b.meta().smallest));
        for pair in tables.windows(2) {
            if pair[0].meta().largest >= pair[1].meta().smallest {
                let error = Error::corruption("two tables of one level or run have common keys");
                return Err(error.with("table", pair[0].number()).with("other", pair[1].number()));
            }
        }
        let bytes = tables.iter().map(|table| table.meta().size).sum();
        Ok(Self { tables: tables.into(), bytes })
    }

    /// The tables, in key order.
    #[inline]
    pub fn tables(&self) -> &[Arc<TableHandle>] {
        &self.tables
    }

    /// Size of all tables, in bytes.
    #[inline]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Whether there is no table.
    pub fn is_empty(&self) -> bool {
        self.tables.is_empty()
    }

    /// The table that may hold `key`.
    #[inline]
    pub fn find(&self, key: &[u8]) -> Option<&Arc<TableHandle>> {
        let i = self.tables.partition_point(|table| &*table.meta().largest < key);
        self.tables.get(i).filter(|table| &*table.meta().smallest <= key)
    }

    /// The tables that may hold keys from `smallest` through `largest`.
    pub fn overlapping(&self, smallest: &[u8], largest: &[u8]) -> &[Arc<TableHandle>] {
        let start = self.tables.partition_point(|table| &*table.meta().largest < smallest);
        let rest = &self.tables[start..];
        &rest[..rest.partition_point(|table| &*table.meta().smallest <= largest)]
    }

    /// The tables that may hold keys from `lower` (inclusive) to `upper` (exclusive).
    pub fn within(&self, lower: Option<&[u8]>, upper: Option<&[u8]>) -> &[Arc<TableHandle>] {
        &self.tables[self.indexes_within(lower, upper)]
    }

    fn indexes_within(&self, lower: Option<&[u8]>, upper: Option<&[u8]>) -> Range<usize> {
        let start = lower
            .map_or(0, |lower| self.tables.partition_point(|table| &*table.meta().largest < lower));
        let rest = &self.tables[start..];
        let len = upper.map_or(rest.len(), |upper| {
            rest.partition_point(|table| &*table.meta().smallest < upper)
        });
        start..start + len
    }

    /// An iterator over the tables that may hold keys from `lower` (inclusive) to `upper`
    /// (exclusive); none if there are no such tables.
    pub fn iter_within(
        &self,
        lower: Option<&[u8]>,
        upper: Option<&[u8]>,
        mode: ReadMode,
    ) -> Option<TableSetIter> {
        let within = self.indexes_within(lower, upper);
        let tables = Arc::clone(&self.tables);
        // A reader of the whole set gains nothing by waiting.
        let may_wait = mode.is_cached();
        (!within.is_empty()).then(|| TableSetIter {
            within,
            may_wait,
            ..TableSetIter::new(tables, mode)
        })
    }
}

/// Iterates over sorted tables without common keys as one source; opens each when it is reached.
pub struct TableSetIter {
    all: Arc<[Arc<TableHandle>]>,
    /// The tables that it iterates over.
    within: Range<usize>,
    mode: ReadMode,
    /// Index of the current table, among those.
    at: usize,
    current: Option<TableIter>,
    /// Whether it waits before the first entry of table `at`, which was not entered.
    waits: bool,
    /// Whether a seek to a key between two tables waits before the second.
    may_wait: bool,
    error: Option<Error>,
}

impl TableSetIter {
    /// An iterator over `tables`, which are those of a [`TableSet`] or a part of them.
    pub fn new(tables: impl Into<Arc<[Arc<TableHandle>]>>, mode: ReadMode) -> Self {
        let all = tables.into();
        let (current, error) = (None, None);
        let (waits, may_wait) = (false, false);
        Self { within: 0..all.len(), all, mode, at: 0, current, waits, may_wait, error }
    }

    #[inline]
    fn tables(&self) -> &[Arc<TableHandle>] {
        &self.all[self.within.clone()]
    }

    /// Moves to table `at`; none if there is no such table.
    fn enter(&mut self, at: usize) -> Result<Option<&mut TableIter>> {
        if self.current.is_none() || self.at != at {
            self.current = None;
            let Some(handle) = self.tables().get(at) else { return Ok(None) };
            self.current = Some(handle.table_within(self.mode.reach())?.iter(self.mode));
            self.at = at;
        }
        Ok(self.current.as_mut())
    }

    fn run(&mut self, movement: impl FnOnce(&mut Self) -> Result<()>) -> Result<()> {
        if let Some(error) = &self.error {
            return Err(error.clone());
        }
        self.waits = false;
        movement(self).inspect_err(|error| {
            self.current = None;
            self.error = Some(error.clone());
        })
    }

    fn on_entry(&self) -> bool {
        self.current.as_ref().is_some_and(|iter| iter.valid())
    }

    /// The table that a seek to `key` enters, and whether it may wait before it instead.
    fn table_at(&self, key: &[u8]) -> (usize, bool) {
        let at = self.tables().partition_point(|table| &*table.meta().largest < key);
        let before = self.tables().get(at).is_some_and(|table| &*table.meta().smallest > key);
        (at, self.may_wait && before)
    }

    /// Moves to the next table if the current one has ended.
    fn settle_forward(&mut self) -> Result<()> {
        if self.on_entry() {
            return Ok(());
        }
        match self.enter(self.at + 1)? {
            Some(iter) => iter.seek_first(),
            None => Ok(()),
        }
    }

    /// Moves to the table before if the current one has ended.
    fn settle_backward(&mut self) -> Result<()> {
        if self.on_entry() {
            return Ok(());
        }
        let before = self.at.checked_sub(1).unwrap_or(usize::MAX);
        match self.enter(before)? {
            Some(iter) => iter.seek_last(),
            None => Ok(()),
        }
    }
}

impl EntryIter for TableSetIter {
    #[inline]
    fn valid(&self) -> bool {
        self.on_entry()
    }

    #[inline]
    fn entry(&self) -> Entry<'_> {
        self.current.as_ref().expect("the iterator stands on an entry").entry()
    }

    #[inline]
    fn peek(&self) -> Option<Entry<'_>> {
        match &self.current {
            Some(iter) => iter.peek(),
            None if self.waits => {
                let key = &*self.tables()[self.at].meta().smallest;
                let kind = EntryKind::Delete;
                Some(Entry { key, seq: SEQ_MAX, kind, repeat: false, value: &[] })
            }
            None => None,
        }
    }

    fn waits(&self) -> bool {
        self.waits
    }

    fn arrive(&mut self) -> Result<()> {
        self.run(|set| match set.enter(set.at)? {
            Some(iter) => iter.seek_first(),
            None => Ok(()),
        })
    }

    fn keep_value(&self) -> Bytes {
        self.current.as_ref().expect("the iterator stands on an entry").keep_value()
    }

    fn seek_first(&mut self) -> Result<()> {
        self.run(|set| match set.enter(0)? {
            Some(iter) => iter.seek_first(),
            None => Ok(()),
        })
    }

    fn seek_last(&mut self) -> Result<()> {
        self.run(|set| match set.enter(set.tables().len().wrapping_sub(1))? {
            Some(iter) => iter.seek_last(),
            None => Ok(()),
        })
    }

    fn seek(&mut self, key: &[u8], seq: SeqNo) -> Result<()> {
        self.run(|set| {
            let (at, waits) = set.table_at(key);
            if waits {
                (set.at, set.current, set.waits) = (at, None, true);
                return Ok(());
            }
            let Some(iter) = set.enter(at)? else { return Ok(()) };
            iter.seek(key, seq)?;
            set.settle_forward()
        })
    }

    fn expect_seek(&mut self, key: &[u8], seq: SeqNo) {
        let (at, waits) = self.table_at(key);
        // The seek will enter the table again and return its error.
        if !waits && let Ok(Some(iter)) = self.enter(at) {
            iter.expect_seek(key, seq);
        }
    }

    fn seek_before(&mut self, key: &[u8], seq: SeqNo) -> Result<()> {
        self.run(|set| {
            let behind = set.tables().partition_point(|table| &*table.meta().smallest <= key);
            let Some(iter) = set.enter(behind.wrapping_sub(1))? else { return Ok(()) };
            iter.seek_before(key, seq)?;
            set.settle_backward()
        })
    }

    #[inline]
    fn next(&mut self) -> Result<()> {
        self.run(|set| {
            set.current.as_mut().expect("the iterator stands on an entry").next()?;
            set.settle_forward()
        })
    }

    #[inline]
    fn prev(&mut self) -> Result<()> {
        self.run(|set| {
            set.current.as_mut().expect("the iterator stands on an entry").prev()?;
            set.settle_backward()
        })
    }
}
