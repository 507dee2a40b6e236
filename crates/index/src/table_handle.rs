//! TableHandle: a table that versions share, opened when it is read, and its end.
//!
//! A table leaves the database by an edit, but versions that readers hold may still name it. Each
//! holds an `Arc` of the handle; once the edit is durable the handle is *retired*, and the last
//! `Arc` that drops queues the file in the [`ObsoleteFiles`]. A handle that was not retired (at
//! close) leaves its file alone.

use std::sync::Arc;

use cleavedb_base::planted::{Bug, planted};
use cleavedb_base::record::FileIdentity;
use cleavedb_base::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use cleavedb_base::{Error, FileNumber, Result};
use cleavedb_storage::{Access, File, FileKind, Mode, Name, ObsoleteFiles, Storage};

use crate::cache::BlockCache;
use crate::open_tables::{OpenTables, Seat, TableRef};
use crate::table::Table;
use crate::table_format::TableMeta;

/// Seeks that a table may cost before it is compacted: one for so many of its bytes, since a seek
/// takes about as long as compacting them (LevelDB's numbers), and at least so many.
const SEEK_BYTES: u64 = 16 << 10;
const SEEKS_MIN: u64 = 100;

/// What tables of one database have in common: where they lie and who caches and removes them.
pub struct TableStore {
    storage: Arc<dyn Storage>,
    database_id: u64,
    cache: Arc<BlockCache>,
    open_tables: OpenTables,
    obsolete_files: Arc<ObsoleteFiles>,
}

impl TableStore {
    /// The tables of database `database_id` in `storage`. How many stay open is the cache's to say
    /// ([`BlockCache::pinning`]).
    pub fn new(
        storage: Arc<dyn Storage>,
        database_id: u64,
        cache: Arc<BlockCache>,
        obsolete_files: Arc<ObsoleteFiles>,
    ) -> Self {
        let open_tables = OpenTables::new(cache.pinned_max());
        Self { storage, database_id, cache, open_tables, obsolete_files }
    }

    /// What ties blocks to table `number`.
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
    seat: Arc<Seat>,
    obsolete: AtomicBool,
    /// Seeks that it may still cost where level 0 is kept so that this counts
    /// ([`crate::compaction::Level0::compacts_on_seeks`]); nobody touches it elsewhere.
    seeks_left: AtomicU64,
}

impl TableHandle {
    /// A handle on the table with `meta`, which is not opened yet.
    pub fn new(meta: TableMeta, store: Arc<TableStore>) -> Self {
        let seeks_left = AtomicU64::new(Self::seeks_allowed(&meta));
        let obsolete = AtomicBool::new(false);
        Self { meta, store, seat: Arc::default(), obsolete, seeks_left }
    }

    fn seeks_allowed(meta: &TableMeta) -> u64 {
        (meta.size / SEEK_BYTES).max(SEEKS_MIN)
    }

    /// A read looked here and had to look on: true if that was the last seek that the table may
    /// cost.
    pub fn charge_seek(&self) -> bool {
        // Relaxed: only the count matters, and who saw the end of it tells others through a lock.
        let charged = |left: u64| left.checked_sub(1);
        let before = self.seeks_left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, charged);
        before == Ok(1)
    }

    /// Whether the table has cost all seeks that it may.
    pub fn seeks_are_spent(&self) -> bool {
        self.seeks_left.load(Ordering::Relaxed) == 0
    }

    /// Lets the table cost seeks anew, in a new place.
    pub(crate) fn renew_seeks(&self) {
        self.seeks_left.store(Self::seeks_allowed(&self.meta), Ordering::Relaxed);
    }

    /// What is known of the table.
    #[inline]
    pub fn meta(&self) -> &TableMeta {
        &self.meta
    }

    /// Number of the table's file.
    pub fn number(&self) -> FileNumber {
        self.meta.number
    }

    /// The table, opened now if it is not open. After a failure the next call tries again.
    #[inline]
    pub fn table(&self) -> Result<TableRef> {
        match self.seat.table() {
            Some(table) => Ok(table),
            None => self.store.open_tables.open(&self.seat, || self.store.open(&self.meta)),
        }
    }

    /// Opens the table before anybody reads it, if it may stay open without another one being
    /// closed for it: the first read of each of many new tables would wait for its filter and its
    /// index. What fails is tried again by who reads it.
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

    /// Says that the edit that removed the table is durable: its file goes with the last reader.
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
        // Relaxed: whoever drops it is alone.
        if self.obsolete.load(Ordering::Relaxed) {
            self.enqueue();
        }
    }
}
