//! LMDB through heed, as its author recommends it for data larger than memory.
//!
//! Sources: `lmdb.h` (`mdb_env_open`, "Caveats"). `MDB_NORDAHEAD`: "read-ahead may be a problem if
//! the database is larger than memory". `MDB_NOSYNC`: a commit writes its pages to the system's
//! cache and does not sync, so it survives the death of the process; a power loss may leave a file
//! that cannot be read at all. `MDB_WRITEMAP` stays off: pages are written with write calls, and a
//! stray store of the program cannot damage them. One put is one transaction.

use std::ops::Bound;
use std::path::Path;

use cleavedb_bench::engine::VisitPair;
use cleavedb_bench::units;
use cleavedb_bench::{BenchError, Engine, Opener, Result};
use heed::types::Bytes;
use heed::{Database, Env};

use crate::native::lmdb;
use crate::settings::{counted, described};

/// Name in results.
pub const NAME: &str = "lmdb";

/// Address space of the map: above any run; the file grows with its data only.
const MAP_SIZE: usize = 256 << 30;
/// Threads that read at once: the harness has at most 256.
const READERS: u32 = 512;

/// Opens LMDB with the same settings each time.
pub struct LmdbOpener;

impl Opener for LmdbOpener {
    fn name(&self) -> &str {
        NAME
    }

    fn open(&self, directory: &Path) -> Result<Box<dyn Engine>> {
        let env = lmdb::open(directory, MAP_SIZE, READERS).map_err(failed("open"))?;
        let mut transaction = env.write_txn().map_err(failed("open"))?;
        let pairs = env.create_database(&mut transaction, None).map_err(failed("open"))?;
        transaction.commit().map_err(failed("open"))?;
        Ok(Box::new(Lmdb { env, pairs }))
    }
}

struct Lmdb {
    env: Env,
    pairs: Database<Bytes, Bytes>,
}

impl Engine for Lmdb {
    fn name(&self) -> &str {
        NAME
    }

    fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        let mut transaction = self.env.write_txn().map_err(failed("put"))?;
        self.pairs.put(&mut transaction, key, value).map_err(failed("put"))?;
        transaction.commit().map_err(failed("put"))
    }

    fn get(&self, key: &[u8], visit: &mut dyn FnMut(&[u8])) -> Result<bool> {
        let transaction = self.env.read_txn().map_err(failed("get"))?;
        let value = self.pairs.get(&transaction, key).map_err(failed("get"))?;
        value.map(visit);
        Ok(value.is_some())
    }

    fn delete(&self, key: &[u8]) -> Result<()> {
        let mut transaction = self.env.write_txn().map_err(failed("delete"))?;
        self.pairs.delete(&mut transaction, key).map_err(failed("delete"))?;
        transaction.commit().map_err(failed("delete"))
    }

    fn scan(&self, from: &[u8], limit: usize, visit: VisitPair<'_>) -> Result<usize> {
        // LMDB refuses an empty key, also as a bound.
        let from = if from.is_empty() { Bound::Unbounded } else { Bound::Included(from) };
        let transaction = self.env.read_txn().map_err(failed("scan"))?;
        let range = (from, Bound::Unbounded);
        let pairs = self.pairs.range(&transaction, &range).map_err(failed("scan"))?;
        let mut visited = 0;
        for pair in pairs.take(limit) {
            let (key, value) = pair.map_err(failed("scan"))?;
            visit(key, value);
            visited += 1;
        }
        Ok(visited)
    }

    fn wait_idle(&self) -> Result<()> {
        Ok(())
    }

    fn describe(&self) -> Vec<(String, String)> {
        described([
            ("version", heed::lmdb_version().string.to_owned()),
            ("flags", "MDB_NOSYNC, MDB_NORDAHEAD".to_owned()),
            ("durability", "commits reach the system's cache, not the disk".to_owned()),
            ("transactions", "one for each operation; one writer at a time".to_owned()),
            ("map size", units::bytes(MAP_SIZE as u64)),
            ("cache", "none of its own: mapped pages".to_owned()),
            ("by default", "pages of 4 KiB, values above 2 KiB in pages of their own".to_owned()),
            ("settled", "nothing runs in the background".to_owned()),
        ])
    }

    fn counters(&self) -> Vec<(String, f64)> {
        let info = self.env.info();
        counted([
            ("last_page", info.last_page_number as f64),
            ("transactions_committed", info.last_txn_id as f64),
        ])
    }

    fn close(self: Box<Self>) -> Result<()> {
        self.env.prepare_for_closing().wait();
        Ok(())
    }
}

fn failed(action: &'static str) -> impl FnOnce(heed::Error) -> BenchError {
    move |error| BenchError::engine(NAME, action, error)
}
