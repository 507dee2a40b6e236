//! TableHandle: a table shared by versions; opens it at its first read and ends its life.
//!
//! A table leaves the database by an edit, but versions in use by readers may still name it. Each
//! holds an `Arc` of the handle; once the edit is durable the handle is *retired*, and the last
//! `Arc` that drops queues the file in the [`ObsoleteFiles`]. A handle that was not retired (at
//! close) does not touch its file.

use std::sync::Arc;

use cleavedb_base::planted::{Bug, planted};
use cleavedb_base::record::FileIdentity;
use cleavedb_base::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use cleavedb_base::{Error, ErrorKind, FileNumber, Result};
use cleavedb_storage::{Access, File, FileKind, Mode, Name, ObsoleteFiles, Reach, Storage};

use crate::cache::BlockCache;
use crate::open_tables::{OpenTables, TableRef, TableSeat};
#[cfg(feature = "experiments")]
use crate::seeks_left::SeeksLeft;
use crate::table::Table;
use crate::table_format::TableMeta;

/// What tables of one database share: their storage, their cache and the queue for their removal.
pub struct TableStore {
    storage: Arc<dyn Storage>,
    database_id: u64,
    cache: Arc<BlockCache>,
    open_tables: Arc<OpenTables>,
    obsolete_files: Arc<ObsoleteFiles>,
}

impl TableStore {
    /// The tables of database `database_id` in `storage`. The cache bounds how many stay open
    /// ([`BlockCache::pinning`]).
    pub fn new(
        storage: Arc<dyn Storage>,
        database_id: u64,
        cache: Arc<BlockCache>,
        obsolete_files: Arc<ObsoleteFiles>,
    ) -> Self {
        let open_tables = OpenTables::new(cache.clone());
        Self { storage, database_id, cache, open_tables, obsolete_files }
    }

    /// Identity that ties blocks to table `number`.
    pub fn identity(&self, number: FileNumber) -> FileIdentity {
        FileIdentity::new(self.database_id, number)
    }

    /// The cache of all tables.
    pub fn cache(&self) -> &Arc<BlockCache> {
        &self.cache
    }

    /// Creates the file of table `number`.
    pub fn create(&self, number: FileNumber) -> Result<Arc<dyn File>> {
        self.open_file(number, Mode::CreateNew)
    }

    fn open_file(&self, number: FileNumber, mode: Mode) -> Result<Arc<dyn File>> {
        let name = Name::numbered(FileKind::Table, number);
        self.storage
            .open(&name, mode, Access::Random)
            .map_err(|e| Error::unopened("open a table", e).with("file", name))
    }

    fn open(&self, meta: &TableMeta) -> Result<Table> {
        let file = self.open_file(meta.number, Mode::Read)?;
        let identity = self.identity(meta.number);
        let table = Table::open(file, identity, meta.number, Arc::clone(&self.cache))?;
        if table.meta() != meta {
            let name = Name::numbered(FileKind::Table, meta.number);
            let error = Error::corruption("table is not the one that the manifest names");
            return Err(error.with("file", name).with("expected_size", meta.size));
        }
        Ok(table)
    }
}

/// A table of one or more versions.
pub struct TableHandle {
    meta: TableMeta,
    store: Arc<TableStore>,
    seat: Arc<TableSeat>,
    obsolete: AtomicBool,
    #[cfg(feature = "experiments")]
    seeks: SeeksLeft,
    /// Why a compaction was made that won nothing and wrote this table
    /// ([`crate::compaction::futile`]).
    futile: AtomicU8,
}

impl TableHandle {
    /// A handle on the table with `meta`, which is not opened yet.
    pub fn new(meta: TableMeta, store: Arc<TableStore>) -> Self {
        let (obsolete, futile) = Default::default();
        Self {
            #[cfg(feature = "experiments")]
            seeks: SeeksLeft::of(&meta),
            meta,
            store,
            seat: Arc::default(),
            obsolete,
            futile,
        }
    }

    /// Seeks that it may still cost.
    #[cfg(feature = "experiments")]
    pub(crate) fn seeks(&self) -> &SeeksLeft {
        &self.seeks
    }

    /// Forgets what was learnt of the table in its last place.
    pub(crate) fn enter_place(&self) {
        #[cfg(feature = "experiments")]
        self.seeks.begin_anew(&self.meta);
        self.set_futile(0);
    }

    /// See [`crate::compaction::futile`].
    pub(crate) fn futile(&self) -> u8 {
        self.futile.load(Ordering::Relaxed)
    }

    pub(crate) fn set_futile(&self, why: u8) {
        self.futile.store(why, Ordering::Relaxed);
    }

    /// The metadata of the table.
    #[inline]
    pub fn meta(&self) -> &TableMeta {
        &self.meta
    }

    /// Number of the table's file.
    pub fn number(&self) -> FileNumber {
        self.meta.number
    }

    /// The table, which is opened if it is not open. After a failure the next call tries again.
    #[inline]
    pub fn table(&self) -> Result<TableRef> {
        self.table_within(Reach::Device)
    }

    /// As [`TableHandle::table`]; from within memory it is not opened.
    #[inline]
    pub(crate) fn table_within(&self, reach: Reach) -> Result<TableRef> {
        match self.seat.table() {
            Some(table) => Ok(table),
            None if reach == Reach::Memory => {
                Err(Error::new(ErrorKind::WouldWait, "a table of the index is not open"))
            }
            None => self.store.open_tables.open(&self.seat, || self.store.open(&self.meta)),
        }
    }

    /// Opens the table before its first read, if it may stay open without closing another one:
    /// otherwise the first read of each of many new tables waits for its filter and its index. The
    /// first read retries after a failure.
    pub fn open_ahead(&self) {
        if self.store.open_tables.has_room() {
            let _ = self.table();
        }
    }

    /// Whether it is open.
    #[cfg(test)]
    pub(crate) fn is_open(&self) -> bool {
        self.seat.table().is_some()
    }

    /// Marks the table as removed by a durable edit: its last reader queues the file for removal.
    pub fn retire(&self) {
        if planted(Bug::BuriedUnderReaders) {
            self.enqueue();
        }
        self.obsolete.store(true, Ordering::Release);
    }

    fn enqueue(&self) {
        self.store
            .obsolete_files
            .enqueue(Name::numbered(FileKind::Table, self.meta.number), self.meta.size);
    }
}

impl Drop for TableHandle {
    fn drop(&mut self) {
        self.store.open_tables.close(&self.seat);
        // Relaxed: a drop has exclusive access.
        if self.obsolete.load(Ordering::Relaxed) {
            self.enqueue();
        }
    }
}
