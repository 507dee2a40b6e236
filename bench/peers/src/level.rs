//! LevelDB as its authors recommend it, without compression and without mapped reads.
//!
//! Sources: `doc/index.md` and `include/leveldb/options.h` of 1.23. A filter of 10 bits and a
//! larger write buffer are their advice, and so is `max_open_files`, one for 2 MiB of working set.
//! The size of a table stays at 2 MiB: "most clients should leave this parameter alone". Of the
//! cache they say only that it is 8 MiB if none is given, and show one of 100 MB.

mod features;

use std::ffi::CStr;
use std::path::Path;

use cleavedb_bench::capabilities::Capabilities;
use cleavedb_bench::engine::VisitPair;
use cleavedb_bench::units;
use cleavedb_bench::{BenchError, Engine, Opener, Result};

use crate::idle;
use crate::memory::{Advice, Fitted, Memory};
use crate::native::leveldb::{self, LevelDb, Settings};
use crate::settings::{self, BLOOM_BITS, PeerArgs, described};

/// Name in results.
pub const NAME: &str = "leveldb";

/// 16 GiB in tables of 2 MiB.
const OPEN_FILES: u16 = 8192;

/// A buffer is filled while another one is flushed.
const ADVICE: Advice = Advice {
    cache_parts: 4,
    source: "our choice, its authors give no share and 8 MiB by default",
    write_buffers: 2,
    write_buffer_eighths: 3,
    least_write_buffer: 4 << 20,
};

/// `kL0_CompactionTrigger` of `db/dbformat.h`, in files.
const LEVEL_0_FILES: usize = 4;
/// `MaxBytesForLevel` of `db/version_set.cc`: of level 1; each level has ten times the one above.
const LEVEL_1_BYTES: u64 = 10 << 20;
/// The last level is never compacted for its size.
const LEVELS: usize = 7;

/// Opens LevelDB with the same settings each time.
pub struct LevelOpener {
    cache: Option<u64>,
    /// What divides buffers and cache.
    miniature: u64,
    /// Whether it has its own defaults in place of what its authors advise.
    own_defaults: bool,
    /// Tables that are kept open, in place of what its authors advise; no fewer than 64.
    open_files: Option<u16>,
}

impl LevelOpener {
    /// Will open stores with `args`.
    pub fn new(args: &PeerArgs) -> Self {
        Self { cache: args.cache, miniature: 1, own_defaults: false, open_files: None }
    }
}

impl Opener for LevelOpener {
    fn name(&self) -> &str {
        NAME
    }

    fn open(&self, directory: &Path) -> Result<Box<dyn Engine>> {
        let fitted = ADVICE.fit(Memory::here(), self.cache, self.miniature);
        let open_files = self.open_files.unwrap_or(OPEN_FILES);
        let settings = Settings {
            cache: fitted.cache as usize,
            write_buffer: fitted.write_buffer as usize,
            bloom_bits: BLOOM_BITS,
            open_files,
        };
        let settings = (!self.own_defaults).then_some(&settings);
        let db = LevelDb::open(directory, settings).map_err(failed("open"))?;
        Ok(Box::new(Level { db, fitted, own_defaults: self.own_defaults, open_files }))
    }

    /// In miniature too its tables have 2 MiB and its first level 10 MiB: the latter is built in.
    fn configured(&self, options: &[(String, String)]) -> Result<Box<dyn Opener>> {
        let (own_defaults, options) = settings::own_defaults(options)?;
        let (open_files, options) = settings::open_files(&options)?;
        if own_defaults && open_files.is_some() {
            let message = "its own defaults have 1,000 open files: leave open-files out";
            return Err(BenchError::Usage(message.to_owned()));
        }
        let miniature = settings::miniature(NAME, &options)?;
        Ok(Box::new(Self { cache: self.cache, miniature, own_defaults, open_files }))
    }
}

struct Level {
    db: LevelDb,
    fitted: Fitted,
    own_defaults: bool,
    open_files: u16,
}

impl Level {
    fn text(&self, property: &CStr) -> String {
        self.db.property(property).unwrap_or_default()
    }

    fn levels(&self) -> [Files; LEVELS] {
        parse_tables(&self.text(c"leveldb.sstables"))
    }
}

impl Engine for Level {
    fn name(&self) -> &str {
        NAME
    }

    fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        self.db.put(key, value).map_err(failed("put"))
    }

    fn get(&self, key: &[u8], visit: &mut dyn FnMut(&[u8])) -> Result<bool> {
        self.db.get(key, visit).map_err(failed("get"))
    }

    fn delete(&self, key: &[u8]) -> Result<()> {
        self.db.delete(key).map_err(failed("delete"))
    }

    fn scan(&self, from: &[u8], limit: usize, visit: VisitPair<'_>) -> Result<usize> {
        self.db.scan(from, limit, visit).map_err(failed("scan"))
    }

    fn wait_idle(&self) -> Result<()> {
        self.db.flush();
        idle::wait(|| {
            // A compaction that failed is not tried again, and this reports it.
            self.db.check().map_err(failed("settle"))?;
            Ok(needs_compaction(&self.levels()))
        })
    }

    fn describe(&self) -> Vec<(String, String)> {
        let settled = format!("flushed, then no level above its limit, {}", idle::HOW);
        if self.own_defaults {
            let options = "its own defaults: Snappy, no filter, mapped reads; buffer of 4 MiB, \
                           cache of 8 MiB, 1,000 files";
            return described([
                ("version", leveldb::version()),
                ("options", options.to_owned()),
                ("settled", settled),
            ]);
        }
        described([
            ("version", leveldb::version()),
            ("compression", "none (values do not compress)".to_owned()),
            ("log", "on, not synced".to_owned()),
            ("write_buffer_size", units::bytes(self.fitted.write_buffer)),
            ("filter", format!("bloom, {BLOOM_BITS} bits a key")),
            ("block_cache", format!("LRU, {}", self.fitted.describe_cache())),
            ("max_open_files", self.open_files.to_string()),
            ("mapped reads", "off (a switch of its tests): pread".to_owned()),
            ("by default", DEFAULTS.to_owned()),
            ("settled", settled),
        ])
    }

    fn capabilities(&self) -> Capabilities<'_> {
        features::of(self)
    }

    fn counters(&self) -> Vec<(String, f64)> {
        let levels = self.levels();
        let files = levels.iter().enumerate();
        let files =
            files.map(|(level, files)| (format!("files_at_level_{level}"), files.count as f64));
        let table_bytes = levels.iter().map(|files| files.bytes).sum::<u64>();
        let work = parse_work(&self.text(c"leveldb.stats"));
        let memory = self.text(c"leveldb.approximate-memory-usage").parse().ok();
        let memory = memory.map(|bytes| ("memory_bytes".to_owned(), bytes));
        files
            .chain([("table_file_bytes".to_owned(), table_bytes as f64)])
            .chain(memory)
            .chain(work.map(|(name, number)| (name.to_owned(), number)))
            .collect()
    }
}

/// What matters to a reader of results, from `options.h`, `dbformat.h` and Debian's build of 1.23.
const DEFAULTS: &str = "leveled, 10 MiB base, factor 10, files of 2 MiB, one background thread, \
                        level 0 compacts at 4 files, slows at 8, stops at 12; blocks of 4 KiB; \
                        CRC32C in software; checksums not verified by reads of blocks";

/// The tables of a level.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Files {
    count: usize,
    bytes: u64,
}

/// Reads the property `leveldb.sstables`: a line `--- level N ---`, then ` number:bytes[..]` each.
fn parse_tables(text: &str) -> [Files; LEVELS] {
    let mut levels = [Files::default(); LEVELS];
    let mut level = None;
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("--- level ") {
            level = rest.split(' ').next().and_then(|number| number.parse::<usize>().ok());
        } else if let Some(files) = level.and_then(|level| levels.get_mut(level)) {
            let bytes = line.split_once(':').and_then(|(_, rest)| rest.split('[').next());
            if let Some(bytes) = bytes.and_then(|bytes| bytes.parse::<u64>().ok()) {
                files.count += 1;
                files.bytes += bytes;
            }
        }
    }
    levels
}

/// Whether LevelDB has a compaction to do for the size of a level (`VersionSet::Finalize`). What it
/// does for seeks that missed cannot be seen.
fn needs_compaction(levels: &[Files; LEVELS]) -> bool {
    let mut limit = LEVEL_1_BYTES;
    let deeper = levels[1..LEVELS - 1].iter().any(|files| {
        let full = files.bytes >= limit;
        limit *= 10;
        full
    });
    deeper || levels[0].count >= LEVEL_0_FILES
}

/// Sums over the levels of the property `leveldb.stats`, whose columns are level, files, MiB,
/// seconds, MiB read and MiB written, since the store was opened. Level 0 is written by flushes
/// alone and others by compactions, but for a flush that overlaps nothing, which goes to level 1 or
/// 2 and cannot be told apart.
fn parse_work(text: &str) -> [(&'static str, f64); 4] {
    const MIB: f64 = (1 << 20) as f64;
    let rows = text.lines().filter_map(|line| {
        let cells = line.split_ascii_whitespace().map(|cell| cell.parse::<f64>().ok());
        <[f64; 6]>::try_from(cells.collect::<Option<Vec<_>>>()?).ok()
    });
    let (mut seconds, mut read, mut flushed, mut compacted) = (0.0, 0.0, 0.0, 0.0);
    for [level, _, _, took, mib_read, mib_written] in rows {
        seconds += took;
        read += mib_read * MIB;
        *(if level == 0.0 { &mut flushed } else { &mut compacted }) += mib_written * MIB;
    }
    [
        ("compaction_seconds", seconds),
        ("compaction_read", read),
        ("flush_written", flushed),
        ("compaction_written", compacted),
    ]
}

fn failed(action: &'static str) -> impl FnOnce(String) -> BenchError {
    move |error| BenchError::engine(NAME, action, error)
}

#[cfg(test)]
mod tests {
    use super::{Files, LEVELS, needs_compaction, parse_tables, parse_work};

    #[test]
    fn tables_are_counted_by_level() {
        let text = "--- level 0 ---\n 9:100['a' @ 1 : 1 .. 'b:[' @ 2 : 1]\n--- level 1 ---\n \
                    7:20['a' @ 1 : 1 .. 'b' @ 2 : 1]\n 8:30['c' @ 1 : 1 .. 'd' @ 2 : 1]\n\
                    --- level 6 ---\n";
        let levels = parse_tables(text);
        assert_eq!(levels[0], Files { count: 1, bytes: 100 });
        assert_eq!(levels[1], Files { count: 2, bytes: 50 });
        assert_eq!(levels[6], Files::default());
    }

    #[test]
    fn a_level_at_its_limit_is_compacted_but_the_last() {
        let with = |level: usize, count, bytes| {
            let mut levels = [Files::default(); LEVELS];
            levels[level] = Files { count, bytes };
            needs_compaction(&levels)
        };
        assert!(!with(0, 3, 1 << 40) && with(0, 4, 1));
        assert!(!with(1, 9, (10 << 20) - 1) && with(1, 9, 10 << 20));
        assert!(!with(2, 9, 99 << 20) && with(2, 9, 100 << 20));
        assert!(!with(6, 9, 1 << 60));
    }

    #[test]
    fn work_is_summed_over_levels_and_told_by_class() {
        let text = "Compactions\nLevel  Files Size(MB) Time(sec) Read(MB) Write(MB)\n-----\n\
                    0        1       59         1        0       240\n  1  5  10  2  30  40\n";
        let mib = |mib: u32| f64::from(mib << 20);
        let work = parse_work(text).map(|(_, number)| number);
        assert_eq!(work, [3.0, mib(30), mib(240), mib(40)]);
    }
}
