//! SQLite: a table of keys and values, behind a write-ahead log.
//!
//! Sources: sqlite.org, "Write-Ahead Logging" and "PRAGMA synchronous". With a write-ahead log and
//! `synchronous = NORMAL` a commit survives the death of the process, and a loss of power takes the
//! last ones; with `FULL` it survives that, too. One put is one transaction, on one connection that
//! all threads share; the commit that fills a thousand pages of its log copies them into the
//! database, which is the default. The table has row ids: "WITHOUT ROWID" is for rows of less than
//! 200 bytes.

use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use cleavedb_bench::engine::VisitPair;
use cleavedb_bench::{BenchError, Engine, Opener, Result};
use rusqlite::{Connection, OptionalExtension, params};

use crate::memory::{Advice, Fitted, Memory};
use crate::settings::{Durability, PeerArgs, counted, described};

/// Name in results.
pub const NAME: &str = "sqlite";

const FILE: &str = "sqlite";

/// The default of SQLite is 2 MiB, and the documentation of `cache_size` gives no share.
const ADVICE: Advice = Advice {
    cache_parts: 4,
    source: "our choice, its default is 2 MiB",
    write_buffers: 0,
    write_buffer_eighths: 0,
    least_write_buffer: 0,
};

/// Opens SQLite with the same settings each time.
pub struct SqliteOpener {
    cache: Option<u64>,
    durability: Durability,
}

impl SqliteOpener {
    /// Will open stores with `args`.
    pub fn new(args: &PeerArgs) -> Self {
        Self { cache: args.cache, durability: args.durability }
    }
}

impl Opener for SqliteOpener {
    fn name(&self) -> &str {
        NAME
    }

    fn open(&self, directory: &Path) -> Result<Box<dyn Engine>> {
        let fitted = ADVICE.fit(Memory::here(), self.cache, 1);
        let connection = Connection::open(directory.join(FILE)).map_err(failed("open"))?;
        let set = |name: &str, value: &str| connection.pragma_update(None, name, value);
        set("journal_mode", "WAL").map_err(failed("open"))?;
        set("synchronous", synchronous(self.durability)).map_err(failed("open"))?;
        // In KiB, where it is negative.
        set("cache_size", &format!("-{}", fitted.cache >> 10)).map_err(failed("open"))?;
        let table = "CREATE TABLE IF NOT EXISTS pairs (key BLOB PRIMARY KEY, value BLOB NOT NULL)";
        connection.execute(table, []).map_err(failed("open"))?;
        let durability = self.durability;
        Ok(Box::new(Sqlite { connection: Mutex::new(connection), fitted, durability }))
    }
}

fn synchronous(durability: Durability) -> &'static str {
    match durability {
        Durability::Os => "NORMAL",
        Durability::Sync => "FULL",
    }
}

struct Sqlite {
    connection: Mutex<Connection>,
    fitted: Fitted,
    durability: Durability,
}

impl Sqlite {
    fn connection(&self) -> MutexGuard<'_, Connection> {
        self.connection.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn execute(
        &self,
        action: &'static str,
        statement: &str,
        parameters: impl rusqlite::Params,
    ) -> Result<()> {
        let connection = self.connection();
        let mut prepared = connection.prepare_cached(statement).map_err(failed(action))?;
        prepared.execute(parameters).map(drop).map_err(failed(action))
    }
}

impl Engine for Sqlite {
    fn name(&self) -> &str {
        NAME
    }

    fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        let insert = "INSERT INTO pairs VALUES (?1, ?2) \
                      ON CONFLICT (key) DO UPDATE SET value = excluded.value";
        self.execute("put", insert, params![key, value])
    }

    fn get(&self, key: &[u8], visit: &mut dyn FnMut(&[u8])) -> Result<bool> {
        let connection = self.connection();
        let select = "SELECT value FROM pairs WHERE key = ?1";
        let mut prepared = connection.prepare_cached(select).map_err(failed("get"))?;
        let shown = prepared.query_row([key], |row| {
            visit(row.get_ref(0)?.as_blob()?);
            Ok(())
        });
        Ok(shown.optional().map_err(failed("get"))?.is_some())
    }

    fn delete(&self, key: &[u8]) -> Result<()> {
        self.execute("delete", "DELETE FROM pairs WHERE key = ?1", [key])
    }

    fn scan(&self, from: &[u8], limit: usize, visit: VisitPair<'_>) -> Result<usize> {
        let connection = self.connection();
        let select = "SELECT key, value FROM pairs WHERE key >= ?1 ORDER BY key LIMIT ?2";
        let mut prepared = connection.prepare_cached(select).map_err(failed("scan"))?;
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let mut rows = prepared.query(params![from, limit]).map_err(failed("scan"))?;
        let mut visited = 0;
        while let Some(row) = rows.next().map_err(failed("scan"))? {
            let blob = |at| Ok(row.get_ref(at)?.as_blob()?);
            let pair = blob(0).and_then(|key| Ok((key, blob(1)?)));
            let (key, value) = pair.map_err(failed::<rusqlite::Error>("scan"))?;
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
            ("version", rusqlite::version().to_owned()),
            ("journal", format!("WAL, synchronous = {}", synchronous(self.durability))),
            ("transactions", "one for each operation; one connection".to_owned()),
            ("cache", self.fitted.describe_cache()),
            ("by default", "pages of 4 KiB, a checkpoint at 1,000 pages of log".to_owned()),
            ("settled", "nothing runs in the background".to_owned()),
        ])
    }

    fn counters(&self) -> Vec<(String, f64)> {
        let connection = self.connection();
        let pages = |name| connection.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
        let [all, free] = ["page_count", "freelist_count"].map(|name| pages(name).unwrap_or(0));
        counted([("pages", all as f64), ("free_pages", free as f64)])
    }

    fn close(self: Box<Self>) -> Result<()> {
        let connection = self.connection.into_inner().unwrap_or_else(PoisonError::into_inner);
        connection.close().map_err(|(_, error)| failed("close")(error))
    }
}

fn failed<E: std::fmt::Display>(action: &'static str) -> impl FnOnce(E) -> BenchError {
    move |error| BenchError::engine(NAME, action, error)
}
