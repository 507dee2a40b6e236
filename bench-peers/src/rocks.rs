//! RocksDB as its authors recommend it for a small machine, without compression.
//!
//! Sources: "Setup Options and Basic Tuning" of RocksDB's wiki, and `tools/benchmark.sh` of its
//! repository, by which its authors compare releases: filters of 10 bits, dynamic level sizes,
//! background jobs as there are processors, `bytes_per_sync` of 1 MiB. Buffers of 64 MiB are its
//! default; a third one lets the client write while two are flushed. Values of the workloads do not
//! compress, so compression would only cost it time. What is not named here is the default.

use std::fs;
use std::path::Path;

use clap::Args;
use cleavedb_bench::engine::VisitPair;
use cleavedb_bench::units;
use cleavedb_bench::{BenchError, Engine, Opener, Result};
use rocksdb::{
    BlockBasedOptions, Cache, DB, DBCompressionType, Options, ReadOptions, WaitForCompactOptions,
    WriteOptions, properties,
};

const NAME: &str = "rocksdb";
const MIB: usize = 1 << 20;
const WRITE_BUFFER: usize = 64 * MIB;
const BYTES_PER_SYNC: u64 = MIB as u64;
const BLOOM_BITS: f64 = 10.0;
/// Levels of a store by default.
const LEVELS: usize = 7;

/// Settings of RocksDB that a run may vary.
#[derive(Args, Clone, Debug)]
pub struct RocksArgs {
    /// RocksDB: memory for its own cache of blocks, beside the page cache (32MiB is its default)
    #[arg(long, value_parser = units::parse, default_value = "32MiB")]
    rocksdb_block_cache: u64,
    /// RocksDB: write buffers, one of them active
    #[arg(long, default_value_t = 3)]
    rocksdb_write_buffers: i32,
    /// RocksDB: background jobs
    #[arg(long, default_value_t = 2)]
    rocksdb_jobs: i32,
}

/// Opens RocksDB with the same settings each time.
pub struct RocksOpener {
    settings: RocksArgs,
}

impl RocksOpener {
    /// Will open stores with `settings`.
    pub fn new(settings: RocksArgs) -> Self {
        Self { settings }
    }
}

impl Opener for RocksOpener {
    fn name(&self) -> &str {
        NAME
    }

    fn open(&self, directory: &Path) -> Result<Box<dyn Engine>> {
        let cache = Cache::new_lru_cache(self.settings.rocksdb_block_cache as usize);
        let mut table = BlockBasedOptions::default();
        table.set_bloom_filter(BLOOM_BITS, false);
        table.set_block_cache(&cache);
        let mut options = Options::default();
        options.create_if_missing(true);
        options.set_block_based_table_factory(&table);
        options.set_compression_type(DBCompressionType::None);
        options.set_write_buffer_size(WRITE_BUFFER);
        options.set_max_write_buffer_number(self.settings.rocksdb_write_buffers);
        options.set_max_background_jobs(self.settings.rocksdb_jobs);
        options.set_bytes_per_sync(BYTES_PER_SYNC);
        let db = DB::open(&options, directory).map_err(failed("open"))?;
        let mut write = WriteOptions::default();
        write.set_sync(false);
        let checksums = checksum_support(directory);
        Ok(Box::new(Rocks { db, write, settings: self.settings.clone(), checksums }))
    }
}

/// An open RocksDB.
struct Rocks {
    db: DB,
    write: WriteOptions,
    settings: RocksArgs,
    checksums: String,
}

impl Engine for Rocks {
    fn name(&self) -> &str {
        NAME
    }

    fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        self.db.put_opt(key, value, &self.write).map_err(failed("put"))
    }

    fn get(&self, key: &[u8], visit: &mut dyn FnMut(&[u8])) -> Result<bool> {
        let value = self.db.get_pinned(key).map_err(failed("get"))?;
        value.as_deref().map(visit);
        Ok(value.is_some())
    }

    fn delete(&self, key: &[u8]) -> Result<()> {
        self.db.delete_opt(key, &self.write).map_err(failed("delete"))
    }

    fn scan(&self, from: &[u8], limit: usize, visit: VisitPair<'_>) -> Result<usize> {
        let mut iterator = self.db.raw_iterator_opt(ReadOptions::default());
        iterator.seek(from);
        let mut visited = 0;
        while visited < limit {
            let Some((key, value)) = iterator.item() else { break };
            visit(key, value);
            visited += 1;
            // The step beyond the last record asked for may cost a read: it is not taken.
            if visited < limit {
                iterator.next();
            }
        }
        iterator.status().map_err(failed("scan"))?;
        Ok(visited)
    }

    fn settle(&self) -> Result<()> {
        let mut wait = WaitForCompactOptions::default();
        wait.set_flush(true);
        self.db.wait_for_compact(&wait).map_err(failed("wait for compaction"))
    }

    fn describe(&self) -> Vec<(String, String)> {
        let RocksArgs { rocksdb_block_cache, rocksdb_write_buffers, rocksdb_jobs } = &self.settings;
        let bytes = |bytes: usize| units::bytes(bytes as u64);
        [
            ("compression", "none (values do not compress)".to_owned()),
            ("write-ahead log", "on, not synced".to_owned()),
            ("write_buffer_size", bytes(WRITE_BUFFER)),
            ("max_write_buffer_number", rocksdb_write_buffers.to_string()),
            ("max_background_jobs", rocksdb_jobs.to_string()),
            ("bytes_per_sync", bytes(BYTES_PER_SYNC as usize)),
            ("filter", format!("bloom, {BLOOM_BITS} bits a key")),
            ("block_cache", format!("LRU, {}", bytes(*rocksdb_block_cache as usize))),
            ("log checksums", self.checksums.clone()),
            ("by default", DEFAULTS.to_owned()),
            ("settled", "memtables flushed, WaitForCompact returned".to_owned()),
        ]
        .map(|(name, value)| (name.to_owned(), value))
        .into()
    }

    fn counters(&self) -> Vec<(String, f64)> {
        let number = |name: &str, property: &properties::PropName| {
            let value = self.db.property_int_value(property).ok().flatten();
            Some((name.to_owned(), value? as f64))
        };
        let named = [
            ("pending_compaction_bytes", properties::ESTIMATE_PENDING_COMPACTION_BYTES),
            ("memtable_bytes", properties::SIZE_ALL_MEM_TABLES),
            ("table_reader_bytes", properties::ESTIMATE_TABLE_READERS_MEM),
            ("block_cache_bytes", properties::BLOCK_CACHE_USAGE),
            ("table_file_bytes", properties::TOTAL_SST_FILES_SIZE),
        ];
        let levels = (0..LEVELS).filter_map(|level| {
            let property = properties::num_files_at_level(level);
            let files = self.db.property_value(&property).ok().flatten()?;
            Some((format!("files_at_level_{level}"), files.parse().ok()?))
        });
        named
            .into_iter()
            .filter_map(|(name, property)| number(name, property))
            .chain(levels)
            .collect()
    }

    fn close(self: Box<Self>) -> Result<()> {
        self.db.cancel_all_background_work(true);
        Ok(())
    }
}

/// The defaults that matter to a reader of results, from `options.h` and `table.h` of 11.8.
const DEFAULTS: &str = "leveled, dynamic level sizes, 256 MiB base, factor 10, files of 64 MiB, \
                        level 0 compacts at 4 files, slows at 20, stops at 36; blocks of 4 KiB, \
                        XXH3; index and filters in memory; buffered I/O; glibc's malloc";

/// What RocksDB says in its log about checksum instructions: a build for old processors has none.
fn checksum_support(directory: &Path) -> String {
    let log = fs::read(directory.join("LOG")).unwrap_or_default();
    let log = String::from_utf8_lossy(&log);
    let said = log.lines().find_map(|line| line.split_once("Fast CRC32 supported: "));
    said.map_or("unknown", |(_, said)| said).to_owned()
}

fn failed(action: &'static str) -> impl FnOnce(rocksdb::Error) -> BenchError {
    move |error| BenchError::engine(NAME, action, error)
}
