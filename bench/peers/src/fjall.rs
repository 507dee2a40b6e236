//! fjall 3 as its authors recommend it, without compression; plain, and with its values separated.
//!
//! Sources: the documentation of `DatabaseBuilder`, `KeyspaceCreateOptions` and
//! `KvSeparationOptions` on docs.rs. Filters of 10 bits below level 0 and one worker for each
//! processor are the defaults. Writes go to the system's cache before they are acknowledged
//! (`PersistMode::Buffer`), which is what they do unless persistence is manual.
//!
//! Memory: `cache_size` is recommended to be "~20-25% of the available memory", and
//! `max_memtable_size` "8 - 64 MiB, depending on how much memory is available". No option bounds
//! all memtables: writers wait once four are sealed, but it is the workers that seal them, and
//! while these flush and compact nothing bounds the active one. `max_write_buffer_size`, which was
//! to bound them, is read nowhere in 3.1. So writes wait here, as they would with that option,
//! while memtables take more than their part of a memory limit; the waits are among the stalls.
//! That part is a quarter, because glibc's malloc keeps much of what memtables of large values
//! freed. The bound on journals is one of disk.

mod features;

use std::path::Path;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::thread::sleep;
use std::time::{Duration, Instant};

use cleavedb_bench::capabilities::{Capabilities, Needs};
use cleavedb_bench::engine::VisitPair;
use cleavedb_bench::units;
use cleavedb_bench::{BenchError, Engine, Opener, Result};
use fjall::config::CompressionPolicy;
use fjall::{
    CompressionType, Database, Keyspace, KeyspaceCreateOptions, KvSeparationOptions,
    OptimisticTxDatabase, PersistMode,
};

use crate::idle;
use crate::memory::{Advice, Fitted, Memory};
use crate::settings::{Durability, PeerArgs, counted, described};

/// Name of the plain one in results.
pub const NAME: &str = "fjall";
/// Name of the one that separates values.
pub const SEPARATED_NAME: &str = "fjall-separated";

const KEYSPACE: &str = "default";
/// How often a write that waits looks for room.
const LOOK: Duration = Duration::from_millis(1);
/// The default threshold, in bytes.
const SEPARATE_FROM: u32 = 1024;
/// One memtable is written to while another is flushed and a third waits.
const ADVICE: Advice = Advice {
    cache_parts: 4,
    source: "\"~20-25% of the available memory\"",
    write_buffers: 3,
    write_buffer_eighths: 2,
    least_write_buffer: 8 << 20,
};

/// What differs between runs.
#[derive(Clone, Debug)]
struct Settings {
    name: &'static str,
    cache: Option<u64>,
    workers: u16,
    /// Size from which values are separated, if they are.
    separate_from: Option<u32>,
    compression: CompressionType,
    /// Whether there may be transactions.
    transactional: bool,
    durability: Durability,
}

/// Opens fjall with the same settings each time.
pub struct FjallOpener {
    settings: Settings,
}

impl FjallOpener {
    /// Will open stores with `args` and all values in tables.
    pub fn plain(args: &PeerArgs) -> Self {
        Self::new(NAME, args, None)
    }

    /// Will open stores with `args` and large values in blob files.
    pub fn separated(args: &PeerArgs) -> Self {
        let from = args.separate_from.map(|bytes| bytes.try_into().unwrap_or(u32::MAX));
        Self::new(SEPARATED_NAME, args, Some(from.unwrap_or(SEPARATE_FROM)))
    }

    fn new(name: &'static str, args: &PeerArgs, separate_from: Option<u32>) -> Self {
        let (workers, durability) = (args.background().max(1), args.durability);
        let settings = Settings {
            name,
            cache: args.cache,
            workers,
            separate_from,
            compression: CompressionType::None,
            transactional: false,
            durability,
        };
        Self { settings }
    }
}

impl Opener for FjallOpener {
    fn name(&self) -> &str {
        self.settings.name
    }

    fn open(&self, directory: &Path) -> Result<Box<dyn Engine>> {
        let fitted = ADVICE.fit(Memory::here(), self.settings.cache, 1);
        Ok(Box::new(self.open_fitted(directory, fitted)?))
    }

    fn open_for(&self, directory: &Path, needs: &Needs) -> Result<Option<Box<dyn Engine>>> {
        let Some(compression) = features::compression(needs.codec) else { return Ok(None) };
        let transactional = needs.transactions;
        let settings = Settings { compression, transactional, ..self.settings.clone() };
        let opener = Self { settings };
        opener.open(directory).map(Some)
    }
}

impl FjallOpener {
    fn open_fitted(&self, directory: &Path, fitted: Fitted) -> Result<Fjall> {
        let name = self.settings.name;
        let settings = &self.settings;
        let transactions = settings.transactional.then(|| {
            let builder = OptimisticTxDatabase::builder(directory).cache_size(fitted.cache);
            let builder = builder.worker_threads(settings.workers.into());
            builder.journal_compression(settings.compression).open()
        });
        let transactions = transactions.transpose().map_err(failed(name, "open"))?;
        let db = match &transactions {
            Some(transactions) => transactions.inner().clone(),
            None => Database::builder(directory)
                .cache_size(fitted.cache)
                .worker_threads(settings.workers.into())
                .journal_compression(settings.compression)
                .open()
                .map_err(failed(name, "open"))?,
        };
        let keyspace = db
            .keyspace(KEYSPACE, || self.settings.keyspace(fitted.write_buffer))
            .map_err(failed(name, "open a keyspace"))?;
        let (settings, waits) = (self.settings.clone(), Waits::default());
        Ok(Fjall { keyspace, db, transactions, fitted, settings, waits })
    }
}

impl Settings {
    fn keyspace(&self, memtable: u64) -> KeyspaceCreateOptions {
        let min_separated = self.separate_from.map(|bytes| {
            KvSeparationOptions::default().separation_threshold(bytes).compression(self.compression)
        });
        KeyspaceCreateOptions::default()
            .max_memtable_size(memtable)
            .data_block_compression_policy(CompressionPolicy::all(self.compression))
            .with_kv_separation(min_separated)
    }
}

/// An open fjall. The keyspace goes before its database.
struct Fjall {
    keyspace: Keyspace,
    db: Database,
    /// The database as a transactional one, if there may be transactions.
    transactions: Option<OptimisticTxDatabase>,
    fitted: Fitted,
    settings: Settings,
    waits: Waits,
}

/// Writes that waited for memtables to be flushed.
#[derive(Default)]
struct Waits {
    count: AtomicU64,
    nanoseconds: AtomicU64,
}

impl Waits {
    fn add(&self, time: Duration) {
        self.count.fetch_add(1, Relaxed);
        self.nanoseconds.fetch_add(time.as_nanos() as u64, Relaxed);
    }

    fn seconds(&self) -> f64 {
        self.nanoseconds.load(Relaxed) as f64 / 1e9
    }
}

impl Fjall {
    fn failed(&self, action: &'static str) -> impl FnOnce(fjall::Error) -> BenchError {
        failed(self.settings.name, action)
    }

    /// Makes what was written survive what it must.
    fn synced(&self, action: &'static str) -> Result<()> {
        match self.settings.durability {
            Durability::Os => Ok(()),
            Durability::Sync => self.db.persist(PersistMode::SyncData).map_err(self.failed(action)),
        }
    }

    /// Returns once memtables take no more than their part of the memory limit.
    fn wait_for_room(&self) -> Result<()> {
        let full = || self.db.write_buffer_size() > self.fitted.room;
        if !full() {
            return Ok(());
        }
        let begin = Instant::now();
        while full() {
            // A worker that failed flushes no more, and this reports it.
            self.db.persist(PersistMode::Buffer).map_err(self.failed("wait for room"))?;
            if self.keyspace.sealed_memtable_count() == 0 {
                self.keyspace.rotate_memtable().map_err(self.failed("wait for room"))?;
            }
            sleep(LOOK);
        }
        self.waits.add(begin.elapsed());
        Ok(())
    }
}

impl Engine for Fjall {
    fn name(&self) -> &str {
        self.settings.name
    }

    fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        self.wait_for_room()?;
        self.keyspace.insert(key, value).map_err(self.failed("put"))?;
        self.synced("put")
    }

    fn get(&self, key: &[u8], visit: &mut dyn FnMut(&[u8])) -> Result<bool> {
        let value = self.keyspace.get(key).map_err(self.failed("get"))?;
        value.as_deref().map(visit);
        Ok(value.is_some())
    }

    fn delete(&self, key: &[u8]) -> Result<()> {
        self.wait_for_room()?;
        self.keyspace.remove(key).map_err(self.failed("delete"))?;
        self.synced("delete")
    }

    fn scan(&self, from: &[u8], limit: usize, visit: VisitPair<'_>) -> Result<usize> {
        let mut visited = 0;
        for pair in self.keyspace.range(from..).take(limit) {
            let (key, value) = pair.into_inner().map_err(self.failed("scan"))?;
            visit(&key, &value);
            visited += 1;
        }
        Ok(visited)
    }

    fn wait_idle(&self) -> Result<()> {
        self.keyspace.rotate_memtable().map_err(self.failed("flush"))?;
        let mut compactions = self.db.compactions_completed();
        idle::wait(|| {
            // A worker that failed poisons the database, and this reports it.
            self.db.persist(PersistMode::Buffer).map_err(self.failed("settle"))?;
            let before = compactions;
            compactions = self.db.compactions_completed();
            let running = self.db.active_compactions() + self.keyspace.sealed_memtable_count();
            Ok(running > 0 || compactions != before)
        })
    }

    fn describe(&self) -> Vec<(String, String)> {
        let values = match self.settings.separate_from {
            Some(bytes) => format!(
                "in blob files of 64 MiB from {}, rewritten by compactions if 25% stale and among \
                 the oldest 25%",
                units::bytes(bytes.into())
            ),
            None => "in tables".to_owned(),
        };
        let room = match self.fitted.room {
            u64::MAX => "no bound".to_owned(),
            bytes => {
                format!("{} (1/4 of the memory limit), above it writes wait", units::bytes(bytes))
            }
        };
        described([
            ("version", env!("FJALL_VERSION").to_owned()),
            ("compression", "none (values do not compress)".to_owned()),
            ("journal", format!("on, {}", self.settings.durability.words())),
            ("cache", self.fitted.describe_cache()),
            ("max_memtable_size", units::bytes(self.fitted.write_buffer)),
            ("all memtables", room),
            ("worker threads", self.settings.workers.to_string()),
            ("values", values),
            ("by default", DEFAULTS.to_owned()),
            ("settled", format!("flushed, then no compaction runs, {}; {LEFT}", idle::HOW)),
        ])
    }

    fn capabilities(&self) -> Capabilities<'_> {
        features::of(self)
    }

    fn counters(&self) -> Vec<(String, f64)> {
        counted([
            ("stalls_flush", self.waits.count.load(Relaxed) as f64),
            ("stalled_seconds_flush", self.waits.seconds()),
            ("compactions", self.db.compactions_completed() as f64),
            ("compaction_seconds", self.db.time_compacting().as_secs_f64()),
            ("journals", self.db.journal_count() as f64),
            ("journal_bytes", self.db.journal_disk_space().unwrap_or(0) as f64),
            ("cache_bytes", self.db.cache_size() as f64),
            ("write_buffer_bytes", self.db.write_buffer_size() as f64),
            ("tables", self.keyspace.table_count() as f64),
            ("tables_at_level_0", self.keyspace.l0_table_count() as f64),
            ("blob_files", self.keyspace.blob_file_count() as f64),
            ("blob_garbage_bytes", self.keyspace.fragmented_blob_bytes() as f64),
        ])
    }

    fn close(self: Box<Self>) -> Result<()> {
        self.db.persist(PersistMode::Buffer).map_err(self.failed("close"))
    }
}

/// The defaults that matter to a reader of results, from `KeyspaceCreateOptions` of 3.1.
const DEFAULTS: &str = "leveled, tables of 64 MiB, factor 10; blocks of 4 KiB; \
                        filters of 0.01% at level 0, 10 bits a key below; at most 900 open files; \
                        journals up to 512 MiB";

/// What `flush::worker` and `worker_pool` of 3.1 leave undone.
const LEFT: &str = "a flush asks for one compaction of each worker, the rest waits for the next";

fn failed(name: &'static str, action: &'static str) -> impl FnOnce(fjall::Error) -> BenchError {
    move |error| BenchError::engine(name, action, error)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering::Relaxed;

    use cleavedb_bench::Engine;

    use super::{ADVICE, CompressionType, Durability, FjallOpener, Memory, NAME, Settings};

    #[test]
    fn writes_wait_for_room_and_go_on() {
        let durability = Durability::Os;
        let settings = Settings {
            name: NAME,
            cache: None,
            workers: 1,
            separate_from: None,
            compression: CompressionType::None,
            transactional: false,
            durability,
        };
        let directory = tempfile::tempdir().unwrap();
        // Less room than a memtable: it must be sealed before it is full.
        let mut fitted = ADVICE.fit(Memory::here(), None, 1);
        fitted.room = 1 << 20;
        let fjall = FjallOpener { settings }.open_fitted(directory.path(), fitted).unwrap();
        for number in 0..64_u32 {
            fjall.put(&number.to_be_bytes(), &[7; 64 << 10]).unwrap();
            assert!(fjall.db.write_buffer_size() < (1 << 20) + (65 << 10));
        }
        assert!(fjall.waits.count.load(Relaxed) >= 3 && fjall.waits.seconds() > 0.0);
        assert!(fjall.get(&0_u32.to_be_bytes(), &mut |_| {}).unwrap());
    }
}
