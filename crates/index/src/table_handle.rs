//! TableHandle: a table that versions share, opened when it is first read, and its end.
//!
//! A table leaves the database by an edit, but versions that readers hold may still name it. Each
//! holds an `Arc` of the handle; once the edit is durable the handle is *retired*, and the last
//! `Arc` that drops queues the file in the [`Reaper`]. A handle that was not retired (at close)
//! leaves its file alone.

use std::sync::{Arc, OnceLock};

use cleavedb_base::planted::{Bug, planted};
use cleavedb_base::record::FileIdentity;
use cleavedb_base::sync::atomic::{AtomicBool, Ordering};
use cleavedb_base::{Error, FileNumber, Result};
use cleavedb_storage::{Access, File, FileKind, Mode, Name, Reaper, Storage};

use crate::cache::BlockCache;
use crate::table::Table;
use crate::table_format::TableMeta;

/// What tables of one database have in common: where they lie and who caches and removes them.
pub struct TableStore {
    storage: Arc<dyn Storage>,
    database_id: u64,
    cache: Arc<BlockCache>,
    reaper: Arc<Reaper>,
}

impl TableStore {
    /// The tables of database `database_id` in `storage`.
    pub fn new(
        storage: Arc<dyn Storage>,
        database_id: u64,
        cache: Arc<BlockCache>,
        reaper: Arc<Reaper>,
    ) -> Self {
        Self { storage, database_id, cache, reaper }
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

    /// Makes the names of all created tables durable.
    pub fn sync_dir(&self) -> Result<()> {
        self.storage.sync_dir().map_err(|e| Error::sync_failed("the directory of tables", e))
    }

    fn open_file(&self, number: FileNumber, mode: Mode) -> Result<Arc<dyn File>> {
        let name = Name::numbered(FileKind::Table, number);
        self.storage
            .open(&name, mode, Access::Random)
            .map_err(|e| Error::io("open a table", e).with("file", name))
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
    table: OnceLock<Arc<Table>>,
    obsolete: AtomicBool,
}

impl TableHandle {
    /// A handle on the table with `meta`, which is not opened yet.
    pub fn new(meta: TableMeta, store: Arc<TableStore>) -> Self {
        Self { meta, store, table: OnceLock::new(), obsolete: AtomicBool::new(false) }
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

    /// The table, opened now if it was not yet. After a failure the next call tries again.
    #[inline]
    pub fn table(&self) -> Result<&Arc<Table>> {
        match self.table.get() {
            Some(table) => Ok(table),
            None => self.open(),
        }
    }

    #[cold]
    fn open(&self) -> Result<&Arc<Table>> {
        // Two threads may both open it; one table is kept, the other unpins its memory again.
        let table = Arc::new(self.store.open(&self.meta)?);
        Ok(self.table.get_or_init(|| table))
    }

    /// Says that the edit that removed the table is durable: its file goes with the last reader.
    pub fn retire(&self) {
        if planted(Bug::BuriedUnderReaders) {
            self.bury();
        }
        self.obsolete.store(true, Ordering::Release);
    }

    fn bury(&self) {
        self.store.reaper.bury(Name::numbered(FileKind::Table, self.meta.number), self.meta.size);
    }
}

impl Drop for TableHandle {
    fn drop(&mut self) {
        // Relaxed: whoever drops it is alone.
        if self.obsolete.load(Ordering::Relaxed) {
            self.bury();
        }
    }
}
