//! RocksDB as its authors recommend it for a small machine, without compression; plain, and with
//! integrated BlobDB.
//!
//! Sources: "Setup Options and Basic Tuning" of RocksDB's wiki, and `tools/benchmark.sh` of its
//! repository, by which its authors compare releases: filters of 10 bits, dynamic level sizes,
//! background jobs as there are processors, `bytes_per_sync` of 1 MiB, a block cache of a third of
//! the memory with the rest left to the page cache. Buffers of 64 MiB are its default; a third one
//! lets the client write while two are flushed. Values of the workloads do not compress, so
//! compression would only cost it time. What is not named here is the default.
//!
//! BlobDB: `tools/run_blob_bench.sh`, by which its authors measured it. Every value is separated,
//! blob files are as large as a write buffer, collection is on with its default cutoff and without
//! force; tables and levels are scaled down to the pointers that they hold, by the script's rule
//! for values of 1 KiB. Blobs share the cache of blocks, one of the two ways that `blob_cache` of
//! `advanced_options.h` names, so that `--cache` bounds both.

mod features;
mod transactions;

use std::ffi::CStr;
use std::fs;
use std::path::Path;
use std::time::Duration;

use cleavedb_bench::capabilities::{Capabilities, Needs};
use cleavedb_bench::engine::VisitPair;
use cleavedb_bench::units;
use cleavedb_bench::{BenchError, Engine, Opener, Result};
use rocksdb::{
    BlockBasedOptions, Cache, DBAccess, DBCompressionType, DBRawIteratorWithThreadMode,
    DBWithThreadMode, MultiThreaded, Options, WaitForCompactOptions, WriteOptions, properties,
};

use crate::memory::{Advice, Fitted, Memory, WRITE_BUFFER};
use crate::settings::{self, BLOOM_BITS, Durability, PeerArgs, described};

/// Name of the plain one in results.
pub const NAME: &str = "rocksdb";
/// Name of the one that separates values.
pub const BLOB_NAME: &str = "blobdb";

const BYTES_PER_SYNC: u64 = 1 << 20;
/// Levels of a store by default.
const LEVELS: usize = 7;

/// The default of `target_file_size_base`.
const TABLE: u64 = 64 << 20;
/// The default of `max_bytes_for_level_base`.
const LEVEL_BASE: u64 = 256 << 20;
/// BlobDB's size of a table: `write_buffer_size / value_size * 32` of the script, for 1 KiB. Its
/// base level holds eight.
const BLOB_TABLE: u64 = WRITE_BUFFER / 1024 * 32;
/// Share of the blob files, oldest first, whose values a compaction moves.
const AGE_CUTOFF: f64 = 0.25;
/// Share of garbage in those from which compactions are forced; 1 is never.
const FORCE_THRESHOLD: f64 = 1.0;

/// A store whose column families may be created by any thread.
type Store = DBWithThreadMode<MultiThreaded>;

/// What differs between runs.
#[derive(Clone, Debug)]
struct Settings {
    name: &'static str,
    cache: Option<u64>,
    write_buffers: u16,
    jobs: u16,
    /// Size from which values are separated, if they are.
    separate_from: Option<u64>,
    /// Whether it has its own defaults in place of what its authors advise.
    own_defaults: bool,
    /// Tables that are kept open with their filters and indexes; all of them if not given.
    open_files: Option<u16>,
    compression: DBCompressionType,
    /// What divides buffers, cache, tables and levels.
    miniature: u64,
    durability: Durability,
}

/// Opens RocksDB with the same settings each time.
pub struct RocksOpener {
    settings: Settings,
}

impl RocksOpener {
    /// Will open stores with `args` and all values in tables.
    pub fn plain(args: &PeerArgs) -> Self {
        Self::new(NAME, args, None)
    }

    /// Will open stores with `args` and values in blob files.
    pub fn blob(args: &PeerArgs) -> Self {
        Self::new(BLOB_NAME, args, Some(args.separate_from.unwrap_or(0)))
    }

    fn new(name: &'static str, args: &PeerArgs, separate_from: Option<u64>) -> Self {
        let settings = Settings {
            name,
            cache: args.cache,
            write_buffers: args.rocksdb_write_buffers,
            jobs: args.background(),
            separate_from,
            own_defaults: false,
            open_files: None,
            compression: DBCompressionType::None,
            miniature: 1,
            durability: args.durability,
        };
        Self { settings }
    }

    /// Options of the stores that it opens, for what opens one by itself.
    pub fn options(&self) -> Options {
        self.settings.options(&self.settings.fitted(Memory::here()))
    }
}

impl Opener for RocksOpener {
    fn name(&self) -> &str {
        self.settings.name
    }

    fn open(&self, directory: &Path) -> Result<Box<dyn Engine>> {
        self.settings.open(directory, &Needs::default())
    }

    fn open_for(&self, directory: &Path, needs: &Needs) -> Result<Option<Box<dyn Engine>>> {
        let compression = features::compression(needs.codec);
        let settings =
            compression.map(|compression| Settings { compression, ..self.settings.clone() });
        settings.map(|settings| settings.open(directory, needs)).transpose()
    }

    fn configured(&self, options: &[(String, String)]) -> Result<Box<dyn Opener>> {
        let (own_defaults, options) = settings::own_defaults(options)?;
        let (open_files, options) = settings::open_files(&options)?;
        let miniature = settings::miniature(self.name(), &options)?;
        let settings = Settings { miniature, own_defaults, open_files, ..self.settings.clone() };
        Ok(Box::new(Self { settings }))
    }
}

impl Settings {
    /// Cache and write buffers. There is no least size of the latter: theirs is a default only.
    fn fitted(&self, memory: Memory) -> Fitted {
        let advice = Advice {
            cache_parts: 3,
            source: "\"about 1/3 of your total memory budget\"",
            write_buffers: self.write_buffers.into(),
            write_buffer_eighths: 3,
            least_write_buffer: 0,
        };
        advice.fit(memory, self.cache, self.miniature)
    }

    /// Opens the store in `directory` with what `needs` asks for beside the compression.
    fn open(&self, directory: &Path, needs: &Needs) -> Result<Box<dyn Engine>> {
        let fitted = self.fitted(Memory::here());
        let mut options = self.options(&fitted);
        self.open_files.into_iter().for_each(|it| options.set_max_open_files(it.into()));
        features::set_merge_operator(&mut options);
        let mut write = WriteOptions::default();
        write.set_sync(self.durability == Durability::Sync);
        if needs.transactions {
            return transactions::open(self.name, &options, write, directory);
        }
        if let Some(lifetime) = needs.lifetime {
            options.set_periodic_compaction_seconds(lifetime.as_secs());
        }
        // A new store fails to list its families: it has none.
        let listed = needs.keyspaces.then(|| Store::list_cf(&options, directory).ok());
        let families = listed.flatten().unwrap_or_default();
        let opened = match needs.lifetime {
            Some(lifetime) => Store::open_with_ttl(&options, directory, lifetime),
            None if families.len() > 1 => {
                let families = families.iter().map(|name| (name, options.clone()));
                Store::open_cf_with_opts(&options, directory, families)
            }
            None => Store::open(&options, directory),
        };
        let db = opened.map_err(failed(self.name, "open"))?;
        let (settings, lifetime) = (self.clone(), needs.lifetime);
        let checksums = checksum_support(directory);
        Ok(Box::new(Rocks { db, options, write, lifetime, fitted, settings, checksums }))
    }

    fn options(&self, fitted: &Fitted) -> Options {
        if self.own_defaults {
            let mut options = Options::default();
            options.create_if_missing(true);
            return options;
        }
        let cache = Cache::new_lru_cache(fitted.cache as usize);
        let mut table = BlockBasedOptions::default();
        table.set_bloom_filter(BLOOM_BITS.into(), false);
        table.set_block_cache(&cache);
        let mut options = Options::default();
        options.create_if_missing(true);
        options.set_block_based_table_factory(&table);
        options.set_compression_type(self.compression);
        options.set_write_buffer_size(fitted.write_buffer as usize);
        options.set_max_write_buffer_number(self.write_buffers.into());
        options.set_max_background_jobs(self.jobs.into());
        options.set_bytes_per_sync(BYTES_PER_SYNC);
        if let Some(bytes) = self.separate_from {
            options.set_enable_blob_files(true);
            options.set_min_blob_size(bytes);
            options.set_blob_file_size(self.blob_file());
            options.set_blob_compression_type(self.compression);
            options.set_enable_blob_gc(true);
            options.set_blob_gc_age_cutoff(AGE_CUTOFF);
            options.set_blob_gc_force_threshold(FORCE_THRESHOLD);
            options.set_blob_cache(&cache);
        }
        let (table, level_base) = self.table_and_level_base();
        options.set_target_file_size_base(table);
        options.set_max_bytes_for_level_base(level_base);
        options
    }

    /// Bytes of a table, and of the first level that has a limit.
    fn table_and_level_base(&self) -> (u64, u64) {
        let (table, base) = match self.separate_from {
            Some(_) => (BLOB_TABLE, 8 * BLOB_TABLE),
            None => (TABLE, LEVEL_BASE),
        };
        (table / self.miniature, base / self.miniature)
    }

    /// Bytes of a blob file: a write buffer, as the script has it, where memory does not bound it.
    fn blob_file(&self) -> u64 {
        WRITE_BUFFER / self.miniature
    }

    fn describe_blobs(&self, separate_from: u64) -> Vec<(String, String)> {
        described([
            ("enable_blob_files", "true".to_owned()),
            ("min_blob_size", units::bytes(separate_from)),
            ("blob_file_size", units::bytes(self.blob_file())),
            ("blob_compression_type", "none".to_owned()),
            ("enable_blob_garbage_collection", "true".to_owned()),
            ("blob_garbage_collection_age_cutoff", AGE_CUTOFF.to_string()),
            ("blob_garbage_collection_force_threshold", format!("{FORCE_THRESHOLD} (never)")),
            ("blob_cache", "the block cache".to_owned()),
        ])
    }
}

/// An open RocksDB.
struct Rocks {
    db: Store,
    options: Options,
    write: WriteOptions,
    /// How long values live, if not for good.
    lifetime: Option<Duration>,
    fitted: Fitted,
    settings: Settings,
    checksums: String,
}

impl Rocks {
    fn failed(&self, action: &'static str) -> impl FnOnce(rocksdb::Error) -> BenchError {
        failed(self.settings.name, action)
    }

    /// Numbers of the moment.
    fn properties(&self) -> impl Iterator<Item = (String, f64)> {
        let named: [(&str, &CStr); 8] = [
            ("pending_compaction_bytes", properties::ESTIMATE_PENDING_COMPACTION_BYTES),
            ("memtable_bytes", properties::SIZE_ALL_MEM_TABLES),
            ("table_reader_bytes", properties::ESTIMATE_TABLE_READERS_MEM),
            ("block_cache_bytes", properties::BLOCK_CACHE_USAGE),
            ("table_file_bytes", properties::TOTAL_SST_FILES_SIZE),
            // The crate has no names for these (`include/rocksdb/db.h`).
            ("blob_files", c"rocksdb.num-blob-files"),
            ("blob_file_bytes", c"rocksdb.total-blob-file-size"),
            ("blob_garbage_bytes", c"rocksdb.live-blob-file-garbage-size"),
        ];
        let numbers = named.into_iter().filter_map(|(name, property)| {
            let value = self.db.property_int_value(property).ok().flatten();
            Some((name.to_owned(), value? as f64))
        });
        let levels = (0..LEVELS).filter_map(|level| {
            let property = properties::num_files_at_level(level);
            let files = self.db.property_value(&property).ok().flatten()?;
            Some((format!("files_at_level_{level}"), files.parse().ok()?))
        });
        numbers.chain(levels)
    }

    /// The text of a property; nothing if RocksDB does not have it.
    fn text(&self, property: &CStr) -> String {
        self.db.property_value(property).ok().flatten().unwrap_or_default()
    }
}

impl Engine for Rocks {
    fn name(&self) -> &str {
        self.settings.name
    }

    fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        self.db.put_opt(key, value, &self.write).map_err(self.failed("put"))
    }

    fn get(&self, key: &[u8], visit: &mut dyn FnMut(&[u8])) -> Result<bool> {
        let value = self.db.get_pinned(key).map_err(self.failed("get"))?;
        value.as_deref().map(visit);
        Ok(value.is_some())
    }

    fn multi_get(&self, keys: &[&[u8]], visit: &mut dyn FnMut(usize, &[u8])) -> Result<()> {
        for (at, value) in self.db.multi_get(keys).into_iter().enumerate() {
            if let Some(value) = value.map_err(self.failed("multi_get"))? {
                visit(at, &value);
            }
        }
        Ok(())
    }

    fn delete(&self, key: &[u8]) -> Result<()> {
        self.db.delete_opt(key, &self.write).map_err(self.failed("delete"))
    }

    fn scan(&self, from: &[u8], limit: usize, visit: VisitPair<'_>) -> Result<usize> {
        scan(self.db.raw_iterator(), from, limit, visit).map_err(self.failed("scan"))
    }

    fn wait_idle(&self) -> Result<()> {
        self.db.wait_for_compact(&settle()).map_err(self.failed("wait for compaction"))
    }

    fn describe(&self) -> Vec<(String, String)> {
        let settings = &self.settings;
        let open_files = settings.open_files.map_or("all".to_owned(), |it| it.to_string());
        if settings.own_defaults {
            return described([
                ("version", env!("ROCKSDB_VERSION").to_owned()),
                ("max_open_files", open_files),
                ("options", "its own defaults: no filter; Snappy is not compiled in".to_owned()),
                ("log checksums", self.checksums.clone()),
                ("settled", "memtables flushed, WaitForCompact returned".to_owned()),
            ]);
        }
        let (table, level_base) = settings.table_and_level_base();
        let mut all = described([
            ("version", env!("ROCKSDB_VERSION").to_owned()),
            ("compression", "none (values do not compress)".to_owned()),
            ("write-ahead log", format!("on, {}", self.settings.durability.words())),
            ("write_buffer_size", units::bytes(self.fitted.write_buffer)),
            ("max_write_buffer_number", settings.write_buffers.to_string()),
            ("max_background_jobs", settings.jobs.to_string()),
            ("bytes_per_sync", units::bytes(BYTES_PER_SYNC)),
            ("target_file_size_base", units::bytes(table)),
            ("max_bytes_for_level_base", units::bytes(level_base)),
            ("filter", format!("bloom, {BLOOM_BITS} bits a key")),
            ("block_cache", format!("LRU, {}", self.fitted.describe_cache())),
            ("max_open_files", open_files),
            ("statistics", "off".to_owned()),
            ("log checksums", self.checksums.clone()),
            ("by default", DEFAULTS.to_owned()),
            ("settled", "memtables flushed, WaitForCompact returned".to_owned()),
        ]);
        all.extend(
            settings.separate_from.into_iter().flat_map(|from| settings.describe_blobs(from)),
        );
        all
    }

    fn capabilities(&self) -> Capabilities<'_> {
        features::of(self)
    }

    fn counters(&self) -> Vec<(String, f64)> {
        let tree = self.text(c"rocksdb.cfstats-no-file-histogram");
        let store = self.text(properties::DBSTATS);
        let written = written(&tree, &store);
        let stalls = stalls_of(&self.text(c"rocksdb.cf-write-stall-stats"));
        self.properties().chain(written).chain(stalls).collect()
    }

    fn close(self: Box<Self>) -> Result<()> {
        self.db.cancel_all_background_work(true);
        Ok(())
    }
}

/// Shows up to `limit` pairs of `iterator` from `from` on; returns how many.
fn scan<D: DBAccess>(
    mut iterator: DBRawIteratorWithThreadMode<'_, D>,
    from: &[u8],
    limit: usize,
    visit: VisitPair<'_>,
) -> std::result::Result<usize, rocksdb::Error> {
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
    iterator.status().map(|()| visited)
}

/// Waits until memtables are flushed and no compaction is due.
fn settle() -> WaitForCompactOptions {
    let mut wait = WaitForCompactOptions::default();
    wait.set_flush(true);
    wait
}

/// The defaults that matter to a reader of results, from `options.h` and `table.h` of 11.8.
const DEFAULTS: &str = "leveled, dynamic level sizes, factor 10, level 0 compacts at 4 files, \
                        slows at 20, stops at 36; blocks of 4 KiB, XXH3; index and filters in \
                        memory; buffered I/O; glibc's malloc";

/// What RocksDB says in its log about checksum instructions: a build for old processors has none.
fn checksum_support(directory: &Path) -> String {
    let log = fs::read(directory.join("LOG")).unwrap_or_default();
    let log = String::from_utf8_lossy(&log);
    let said = log.lines().find_map(|line| line.split_once("Fast CRC32 supported: "));
    said.map_or("unknown", |(_, said)| said).to_owned()
}

/// Sums since the store was opened, from what RocksDB always counts: `Options::enable_statistics`
/// would give them to the byte, but cost updates of 1 KiB a tenth of their speed, and as much
/// processor time of reads. `cfstats` of the tree and `dbstats` give them to 1 and to 10 MB; blob
/// files are counted, and flushes among compactions too. Writers' waits are given without a cause.
fn written(tree: &str, store: &str) -> impl Iterator<Item = (String, f64)> {
    /// `kGB` of `internal_stats.cc`.
    const GB: f64 = (1u64 << 30) as f64;
    let number = |text: &str, line: &str, before: &str| -> Option<f64> {
        let line = text.lines().find_map(|other| other.strip_prefix(line))?;
        let (_, rest) = line.split_once(before)?;
        rest.split([' ', ',']).next()?.parse().ok()
    };
    let gb = |text, line, before| Some(number(text, line, before)? * GB);
    let flushed = gb(tree, "Flush(GB)", "cumulative ");
    let all = gb(tree, "Cumulative compaction", ": ");
    let compacted = all.zip(flushed).map(|(all, flushed)| (all - flushed).max(0.0));
    let waited = store.lines().find_map(|line| line.strip_prefix("Cumulative stall: "));
    let named = [
        ("log_written", gb(store, "Cumulative WAL", "written: ")),
        ("flush_written", flushed),
        ("compaction_written", compacted),
        ("compaction_read", gb(tree, "Cumulative compaction", "MB/s write, ")),
        ("stalled_seconds_any", waited.and_then(seconds)),
    ];
    named.into_iter().filter_map(|(name, sum)| Some((name.to_owned(), sum?)))
}

/// Of `HOURS:MINUTES:SECONDS`, followed by anything.
fn seconds(text: &str) -> Option<f64> {
    let fields = text.split(' ').next()?.split(':');
    fields
        .map(|field| field.parse::<f64>().ok())
        .try_fold(0.0, |sum, field| Some(sum * 60.0 + field?))
}

/// Reads the property `cf-write-stall-stats`, `Write Stall (count): NAME: COUNT, NAME: COUNT...`.
/// A cause is counted whenever the tree changes while it holds, so that it delays or stops writers
/// who come then; it is not a count of writers.
fn stalls_of(text: &str) -> Vec<(String, f64)> {
    const CAUSES: [(&str, &str); 3] = [
        ("flush", "memtable-limit"),
        ("level_0", "l0-file-count-limit"),
        ("pending_compaction", "pending-compaction-bytes"),
    ];
    let (_, counts) = text.split_once("(count): ").unwrap_or_default();
    let counts: Vec<_> = counts.split(", ").filter_map(|pair| pair.split_once(": ")).collect();
    let count = |name: String| {
        let found = counts.iter().find(|(other, _)| *other == name);
        found.and_then(|(_, count)| count.trim().parse::<f64>().ok())
    };
    let of = |(cause, name)| {
        let both = count(format!("{name}-delays"))? + count(format!("{name}-stops"))?;
        Some((format!("stalls_{cause}"), both))
    };
    CAUSES.into_iter().filter_map(of).collect()
}

fn failed(name: &'static str, action: &'static str) -> impl FnOnce(rocksdb::Error) -> BenchError {
    move |error| BenchError::engine(name, action, error)
}

#[cfg(test)]
mod tests {
    use super::{stalls_of, written};

    #[test]
    fn bytes_are_told_by_class() {
        let tree = "Flush(GB): cumulative 1.500, interval 0.000\n\
                    Cumulative compaction: 4.00 GB write, 210.81 MB/s write, 2.25 GB read, 99.73 \
                    MB/s read, 5.6 seconds\n";
        let store = "Cumulative WAL: 1000K writes, 0 syncs, 1000.00 writes per sync, written: \
                     0.50 GB, 55.58 MB/s\n\
                     Cumulative stall: 00:01:2.500 H:M:S, 0.0 percent\n";
        let gb = |gb: f64| gb * (1u64 << 30) as f64;
        let told: Vec<_> = written(tree, store).collect();
        let told: Vec<_> = told.iter().map(|(name, sum)| (name.as_str(), *sum)).collect();
        let wanted = [
            ("log_written", gb(0.5)),
            ("flush_written", gb(1.5)),
            ("compaction_written", gb(2.5)),
            ("compaction_read", gb(2.25)),
            ("stalled_seconds_any", 62.5),
        ];
        assert_eq!(told, wanted);
        assert_eq!(written("", "").count(), 0, "unknown is not zero");
    }

    #[test]
    fn stalls_are_told_by_cause() {
        let text = "Write Stall (count): cf-l0-file-count-limit-delays-with-ongoing-compaction: 9, \
                    cf-l0-file-count-limit-stops-with-ongoing-compaction: 8, \
                    l0-file-count-limit-delays: 1, l0-file-count-limit-stops: 2, \
                    memtable-limit-delays: 3, memtable-limit-stops: 4, \
                    pending-compaction-bytes-delays: 5, pending-compaction-bytes-stops: 6, \
                    total-delays: 9, total-stops: 12\n";
        let told = stalls_of(text);
        let told: Vec<_> = told.iter().map(|(name, count)| (name.as_str(), *count)).collect();
        let causes = ["stalls_flush", "stalls_level_0", "stalls_pending_compaction"];
        assert_eq!(told, causes.into_iter().zip([7.0, 3.0, 11.0]).collect::<Vec<_>>());
        assert!(stalls_of("").is_empty(), "unknown is not zero");
    }
}
