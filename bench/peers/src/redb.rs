//! redb over a file that is never synced, unless every put is to survive the loss of power.
//!
//! redb has two durabilities: a commit with `Durability::None` lies in the memory of the process
//! and dies with it, one with `Durability::Immediate` is synced. Neither is what the others promise
//! here, to survive the death of the process but not a power loss. So commits are `Immediate`, and
//! the storage below redb passes reads and writes on and leaves the syncs out: `StorageBackend` is
//! redb's own interface for that. One put is one transaction, as for every engine.

mod features;

use std::fs::OpenOptions;
use std::io;
use std::path::Path;

use cleavedb_bench::capabilities::Capabilities;
use cleavedb_bench::engine::VisitPair;
use cleavedb_bench::{BenchError, Engine, Opener, Result};
use redb::backends::FileBackend;
use redb::{Database, ReadableDatabase, StorageBackend, TableDefinition, WriteTransaction};

use crate::memory::{Advice, Fitted, Memory};
use crate::settings::{Durability, PeerArgs, counted, described};

/// Name in results.
pub const NAME: &str = "redb";

const FILE: &str = "redb";
const PAIRS: TableDefinition<&[u8], &[u8]> = TableDefinition::new("pairs");

/// The default of redb is 1 GiB whatever the machine has, which a limit may not hold, and the
/// documentation of `set_cache_size` gives no share.
const ADVICE: Advice = Advice {
    cache_parts: 4,
    source: "our choice, its default is 1 GiB",
    write_buffers: 0,
    write_buffer_eighths: 0,
    least_write_buffer: 0,
};

/// Opens redb with the same settings each time.
pub struct RedbOpener {
    cache: Option<u64>,
    durability: Durability,
}

impl RedbOpener {
    /// Will open stores with `args`.
    pub fn new(args: &PeerArgs) -> Self {
        Self { cache: args.cache, durability: args.durability }
    }
}

impl Opener for RedbOpener {
    fn name(&self) -> &str {
        NAME
    }

    fn open(&self, directory: &Path) -> Result<Box<dyn Engine>> {
        let path = directory.join(FILE);
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        let file = options.open(&path).map_err(BenchError::io("open", &path))?;
        let file = FileBackend::new(file).map_err(failed("open"))?;
        let backend = Backend { file, durability: self.durability };
        let mut builder = Database::builder();
        let fitted = ADVICE.fit(Memory::here(), self.cache, 1);
        builder.set_cache_size(fitted.cache as usize);
        let db = builder.create_with_backend(backend).map_err(failed("open"))?;
        let redb = Redb { db, fitted, durability: self.durability };
        redb.change("open", |_| Ok(()))?;
        Ok(Box::new(redb))
    }
}

/// A file whose syncs do nothing unless the durability asks for them.
#[derive(Debug)]
struct Backend {
    file: FileBackend,
    durability: Durability,
}

impl StorageBackend for Backend {
    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.file.read(offset, out)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.file.set_len(len)
    }

    fn sync_data(&self) -> io::Result<()> {
        match self.durability {
            Durability::Os => Ok(()),
            Durability::Sync => self.file.sync_data(),
        }
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.file.write(offset, data)
    }

    fn close(&self) -> io::Result<()> {
        self.file.close()
    }
}

struct Redb {
    db: Database,
    fitted: Fitted,
    durability: Durability,
}

/// The table of all pairs in a transaction that writes.
type Pairs<'a> = redb::Table<'a, &'static [u8], &'static [u8]>;

impl Redb {
    /// Commits what `change` does to the table, which it creates if there is none.
    fn change(
        &self,
        action: &'static str,
        change: impl FnOnce(&mut Pairs<'_>) -> redb::Result<(), redb::StorageError>,
    ) -> Result<()> {
        let transaction: WriteTransaction = self.db.begin_write().map_err(failed(action))?;
        {
            let mut table = transaction.open_table(PAIRS).map_err(failed(action))?;
            change(&mut table).map_err(failed(action))?;
        }
        transaction.commit().map_err(failed(action))
    }
}

impl Engine for Redb {
    fn name(&self) -> &str {
        NAME
    }

    fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        self.change("put", |table| table.insert(key, value).map(drop))
    }

    fn get(&self, key: &[u8], visit: &mut dyn FnMut(&[u8])) -> Result<bool> {
        let transaction = self.db.begin_read().map_err(failed("get"))?;
        let table = transaction.open_table(PAIRS).map_err(failed("get"))?;
        let value = table.get(key).map_err(failed("get"))?;
        let Some(value) = value else { return Ok(false) };
        visit(value.value());
        Ok(true)
    }

    fn delete(&self, key: &[u8]) -> Result<()> {
        self.change("delete", |table| table.remove(key).map(drop))
    }

    fn scan(&self, from: &[u8], limit: usize, visit: VisitPair<'_>) -> Result<usize> {
        let transaction = self.db.begin_read().map_err(failed("scan"))?;
        let table = transaction.open_table(PAIRS).map_err(failed("scan"))?;
        let mut visited = 0;
        for pair in table.range(from..).map_err(failed("scan"))?.take(limit) {
            let (key, value) = pair.map_err(failed("scan"))?;
            visit(key.value(), value.value());
            visited += 1;
        }
        Ok(visited)
    }

    fn wait_idle(&self) -> Result<()> {
        Ok(())
    }

    fn describe(&self) -> Vec<(String, String)> {
        described([
            ("version", env!("REDB_VERSION").to_owned()),
            ("durability", format!("Immediate, on a file that is {}", self.durability.words())),
            ("transactions", "one for each operation; one writer at a time".to_owned()),
            ("cache", self.fitted.describe_cache()),
            ("by default", "pages of 4 KiB, XXH3".to_owned()),
            ("settled", "nothing runs in the background".to_owned()),
        ])
    }

    fn counters(&self) -> Vec<(String, f64)> {
        let cache = self.db.cache_stats();
        counted([
            ("cache_bytes", cache.used_bytes() as f64),
            ("cache_evictions", cache.evictions() as f64),
            ("cache_read_hits", cache.read_hits() as f64),
            ("cache_read_misses", cache.read_misses() as f64),
        ])
    }

    fn capabilities(&self) -> Capabilities<'_> {
        features::of(self)
    }

    fn close(self: Box<Self>) -> Result<()> {
        self.db.close().map_err(failed("close"))
    }
}

fn failed<E: std::fmt::Display>(action: &'static str) -> impl FnOnce(E) -> BenchError {
    move |error| BenchError::engine(NAME, action, error)
}
