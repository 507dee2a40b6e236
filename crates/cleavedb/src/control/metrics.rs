//! Counters and metrics of the database: bytes by cause, operations, and waits of writers.

mod decisions;
mod prometheus;

use std::time::{Duration, Instant};

use cleavedb_base::sync::atomic::{AtomicU64, Ordering};
use cleavedb_hot::HotStats;
use cleavedb_storage::FileClass;

use crate::control::latency::OperationLatency;
use crate::control::totals::Totals;

pub use decisions::Decisions;

/// A counter that is only ever added to.
#[derive(Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    #[inline]
    pub(crate) fn add(&self, n: u64) {
        self.0.fetch_add(n, Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Why a writer waited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StallCause {
    /// Full MemTables wait for their flush.
    Flush,
    /// Level 0 is too large: compaction is slower than the writers.
    Compaction,
    /// Dead values take too much space: collection is slower than the writers.
    Space,
}

impl StallCause {
    /// All causes.
    pub const ALL: [Self; 3] = [Self::Flush, Self::Compaction, Self::Space];

    /// Name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Flush => "flush",
            Self::Compaction => "compaction",
            Self::Space => "space",
        }
    }
}

/// A timed step of flushes and collections: the steps of HashKV's experiment 2 (Figure 7c). The
/// rest of an update's time is its own work in memory, and waiting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Writing values from memory to groups ("Flush").
    FlushValues,
    /// Writing a MemTable's run to the index, and publishing it ("Meta-Flush").
    FlushIndex,
    /// Reading victims and writing survivors ("GC-RW").
    CollectValues,
    /// Liveness checks: look-ups in the index, or comparing the records of a group with one another
    /// ("GC-Lookup").
    CollectLookup,
    /// Writing a run of new pointers to the index, and publishing it ("Meta-GC").
    CollectIndex,
}

impl Step {
    /// All steps.
    pub const ALL: [Self; 5] = [
        Self::FlushValues,
        Self::FlushIndex,
        Self::CollectValues,
        Self::CollectLookup,
        Self::CollectIndex,
    ];

    /// Name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::FlushValues => "flush_values",
            Self::FlushIndex => "flush_index",
            Self::CollectValues => "collect_values",
            Self::CollectLookup => "collect_lookup",
            Self::CollectIndex => "collect_index",
        }
    }
}

/// Measures one step after another.
pub(crate) struct StopWatch(Instant);

impl StopWatch {
    pub(crate) fn start() -> Self {
        Self(Instant::now())
    }

    /// Time since the start or the last lap.
    pub(crate) fn lap(&mut self) -> Duration {
        let now = Instant::now();
        now.duration_since(std::mem::replace(&mut self.0, now))
    }
}

/// Counters of an open database.
#[derive(Default)]
pub(crate) struct Counters {
    pub(crate) user_bytes: Counter,
    pub(crate) writes: Counter,
    pub(crate) operations: Counter,
    pub(crate) sessions: Counter,
    pub(crate) flushes: Counter,
    pub(crate) flush_written: Counter,
    pub(crate) compactions: Counter,
    pub(crate) compaction_moves: Counter,
    pub(crate) compaction_read: Counter,
    pub(crate) compaction_written: Counter,
    pub(crate) collections: Counter,
    pub(crate) futile_jobs: Counter,
    pub(crate) splits: Counter,
    pub(crate) merges: Counter,
    pub(crate) collection_read: Counter,
    pub(crate) collection_written: Counter,
    pub(crate) bytes_punched: Counter,
    pub(crate) files_removed: Counter,
    pub(crate) blob_bytes: Counter,
    pub(crate) blob_written: Counter,
    pub(crate) dead_read: Counter,
    stalls: [(Counter, Counter); StallCause::ALL.len()],
    /// Nanoseconds.
    steps: [Counter; Step::ALL.len()],
}

impl Counters {
    pub(crate) fn stalled(&self, cause: StallCause, time: Duration) {
        let (count, nanos) = &self.stalls[cause as usize];
        count.add(1);
        nanos.add(time.as_nanos() as u64);
    }

    pub(crate) fn spent(&self, step: Step, time: Duration) {
        self.steps[step as usize].add(time.as_nanos() as u64);
    }

    pub(crate) fn steps(&self) -> Vec<(Step, Duration)> {
        let time = |step: Step| Duration::from_nanos(self.steps[step as usize].get());
        Step::ALL.into_iter().map(|step| (step, time(step))).collect()
    }

    pub(crate) fn stalls(&self) -> Vec<Stall> {
        StallCause::ALL
            .into_iter()
            .map(|cause| {
                let (count, nanos) = &self.stalls[cause as usize];
                Stall { cause, count: count.get(), time: Duration::from_nanos(nanos.get()) }
            })
            .collect()
    }

    /// The totals that these count.
    pub(crate) fn totals(&self) -> Totals {
        let stalls = self.stalls();
        let nanos: u128 = stalls.iter().map(|stall| stall.time.as_nanos()).sum();
        Totals {
            user_bytes: self.user_bytes.get() + self.blob_bytes.get(),
            writes: self.writes.get(),
            flush_written: self.flush_written.get(),
            compaction_written: self.compaction_written.get(),
            collection_written: self.collection_written.get(),
            flushes: self.flushes.get(),
            compactions: self.compactions.get(),
            collections: self.collections.get(),
            sessions: self.sessions.get(),
            operations: self.operations.get(),
            compaction_read: self.compaction_read.get(),
            collection_read: self.collection_read.get(),
            dead_read: self.dead_read.get(),
            stalls: stalls.iter().map(|stall| stall.count).sum(),
            stall_nanos: u64::try_from(nanos).unwrap_or(u64::MAX),
            bytes_punched: self.bytes_punched.get(),
            files_removed: self.files_removed.get(),
            blob_written: self.blob_written.get(),
            ..Totals::default()
        }
    }
}

/// The hot store: its content, its memory, and what flushes and reads have done with it since the
/// open (HoaKV, section 3.3).
#[derive(Clone, Copy, Debug)]
pub struct HotMetrics {
    /// Bytes of its segments on disk.
    pub bytes: u64,
    /// Bytes of records in them that are some key's newest version, or that a snapshot sees.
    pub live_bytes: u64,
    /// Bytes of the other records in them; stubs, which have no value, do not count.
    pub dead_bytes: u64,
    /// Hot keys, memory, and counters.
    pub stats: HotStats,
}

/// Number and total time of writers' waits for one cause.
#[derive(Clone, Debug)]
pub struct Stall {
    /// The cause.
    pub cause: StallCause,
    /// Number of waits.
    pub count: u64,
    /// Total time.
    pub time: Duration,
}

/// One level of the index.
#[derive(Clone, Debug)]
pub struct LevelMetrics {
    /// Number of the level; 0 is the youngest.
    pub level: usize,
    /// Tables in it.
    pub tables: usize,
    /// Sorted runs in it: level 0 may have several, others have one.
    pub runs: usize,
    /// Bytes on disk.
    pub bytes: u64,
    /// Entries, counting all versions.
    pub entries: u64,
    /// Entries that are tombstones.
    pub tombstones: u64,
}

/// One log file or segment.
#[derive(Clone, Debug)]
pub struct ValueFileMetrics {
    /// Name of the file.
    pub name: String,
    /// Bytes up to the last record; unknown for the file in use until it is full.
    pub bytes: Option<u64>,
    /// Bytes of records that the index owns.
    pub live: u64,
}

/// One of the directories of a database.
#[derive(Clone, Debug)]
pub struct DirectoryMetrics {
    /// The path of the directory; empty if the caller brought the storage.
    pub path: String,
    /// The classes of files placed there.
    pub classes: Vec<FileClass>,
    /// Bytes of files at which new ones go to the database's own directory.
    pub capacity: Option<u64>,
    /// Files of the database in it.
    pub files: usize,
    /// Sum of their lengths, regardless of space reserved ahead or holes.
    pub bytes: u64,
    /// Free bytes of its disk.
    pub free: u64,
}

/// Content and counters of the database since it was opened. All sizes are in bytes.
#[derive(Clone, Debug, Default)]
pub struct Metrics {
    /// Counters since it was created.
    pub totals: Totals,
    /// Keys and values that users wrote.
    pub user_bytes: u64,
    /// Write calls.
    pub writes: u64,
    /// Operations of write calls: puts, deletes, deletes of ranges.
    pub operations: u64,
    /// Bytes written to log files.
    pub log_written: u64,
    /// Bytes written by flushes.
    pub flush_written: u64,
    /// Bytes written by compaction.
    pub compaction_written: u64,
    /// Bytes read by compaction.
    pub compaction_read: u64,
    /// Bytes written by collection: survivors and runs of new pointers.
    pub collection_written: u64,
    /// Bytes read by collection.
    pub collection_read: u64,
    /// Bytes written to the manifest.
    pub manifest_written: u64,
    /// Bytes written to the files of blobs ([`crate::Keyspace::put_reader`]).
    pub blob_written: u64,
    /// Bytes of the files of blobs.
    pub blob_file_bytes: u64,
    /// Flushes done.
    pub flushes: u64,
    /// Compactions that rewrote data.
    pub compactions: u64,
    /// Compactions that only moved tables.
    pub compaction_moves: u64,
    /// Collections done.
    pub collections: u64,
    /// Compactions and collections for which no caller asked and that have won nothing. None is
    /// made again on the same inputs.
    pub futile_jobs: u64,
    /// The hot store, where the layout has one.
    pub hot: Option<HotMetrics>,
    /// Groups of values; 0 in presets without groups.
    pub groups: usize,
    /// Records of each group, in the order of their bounds, including dead ones and group
    /// tombstones.
    pub group_records: Vec<u64>,
    /// Groups that split.
    pub splits: u64,
    /// Pairs of small groups that were merged.
    pub merges: u64,
    /// Bytes of log segments that groups take from the reserve.
    pub reserve_used: u64,
    /// Bytes of the reserve.
    pub reserve_bytes: u64,
    /// Group tombstones in groups: deletes and inline values of keys that a group may hold.
    pub group_tombstones: u64,
    /// Tags in groups, whose values are in the cold log; some of these are dead.
    pub tags: u64,
    /// Bytes of the cold log.
    pub cold_log_bytes: u64,
    /// Bytes of dead extents that were punched.
    pub bytes_punched: u64,
    /// Files removed.
    pub files_removed: u64,
    /// Values that were compressed as they were written ([`crate::Options::value_compression`]).
    pub compressed_values: u64,
    /// Bytes of the compressed values before compression.
    pub compressed_from: u64,
    /// Bytes of the compressed values after compression.
    pub compressed_to: u64,
    /// Dead entries that ranges skipped: tombstones, and versions that newer ones hide.
    pub dead_read: u64,
    /// Jumps by more than 10 seconds that were noticed of the clock by which values expire.
    pub clock_jumps: u64,
    /// Waits of writers, by cause.
    pub stalls: Vec<Stall>,
    /// Time that compactions and collections have waited, all together, for
    /// [`crate::Options::background_bytes_per_second`].
    pub paced: Duration,
    /// Time in which flushes have waited because no writer did, so that reads go on beside them.
    pub flushes_paced: Duration,
    /// Time of background threads, by step.
    pub steps: Vec<(Step, Duration)>,
    /// Latencies of operations that occurred, if they are measured, since the open or since
    /// [`crate::Db::take_latencies`].
    pub latencies: Vec<OperationLatency>,
    /// Levels of the index.
    pub levels: Vec<LevelMetrics>,
    /// What follows from what is stored, and from the work that waits.
    pub decisions: Decisions,
    /// Log files and segments.
    pub value_files: Vec<ValueFileMetrics>,
    /// Known bytes of log files and segments, including the log in use.
    pub value_bytes: u64,
    /// Bytes of records that the index owns, including dead ones whose entries were not compacted
    /// yet.
    pub live_bytes: u64,
    /// Estimate of the dead bytes among them.
    pub hidden_bytes: u64,
    /// Bytes of values that the space goal allows now: the estimated live ones, and
    /// [`crate::Options::space_amplification`] of them more; where groups share a reserve, of the
    /// bytes of the index too.
    pub values_allowed: u64,
    /// Bytes of tables.
    pub index_bytes: u64,
    /// Most bytes of all files ([`crate::Options::space_limit`]).
    pub space_limit: Option<u64>,
    /// Bytes of all files, if there is a limit.
    pub space_used: Option<u64>,
    /// Bytes of log files that are kept for changes and for nothing else
    /// ([`crate::Options::change_retention_bytes`]).
    pub retained_log_bytes: u64,
    /// Number of these files.
    pub retained_log_files: usize,
    /// The sequence number of the oldest change that can be read ([`crate::Db::oldest_change`]).
    pub oldest_change: Option<u64>,
    /// Most memory of the database ([`crate::Options::memory_bytes`]). The part that the fields
    /// below leave is for jobs.
    pub memory_limit: u64,
    /// Memory of entries in MemTables, without memory allocated ahead.
    pub memtable_memory: u64,
    /// Bytes of the log whose operations are only in MemTables: records with key and value,
    /// including replaced ones.
    pub unflushed_bytes: u64,
    /// Estimated bytes of keys and values that are only in MemTables, including replaced ones:
    /// `unflushed_bytes` without headers of records and padding of syncs.
    pub unflushed_data: u64,
    /// Bytes of keys, and of values or pointers, of all entries in tables, before compression.
    pub entry_bytes: u64,
    /// Memory of the log window; 0 before the first write. It is not locked in memory.
    pub window_memory: u64,
    /// Whether the window is a mapped file: then commits survive the process without a system call.
    pub window_is_mapped: bool,
    /// Free memory in the pools of MemTables and flushes.
    pub spare_memory: u64,
    /// Memory of filters and block indexes of open tables: a part of [`Metrics::cache_memory`].
    pub table_memory: u64,
    /// Memory of the filters by which flushes find out which groups hold a key: at most a 32nd of
    /// [`Metrics::memory_limit`]; 0 as long as every value is separated and nothing is deleted, and
    /// in presets without hash groups.
    pub group_filter_memory: u64,
    /// Memory of cached blocks, filters and block indexes; with [`crate::Options::resources`] that
    /// of all databases that share it, as in the fields of the record cache.
    pub cache_memory: u64,
    /// Block look-ups that hit the cache.
    pub cache_hits: u64,
    /// Block look-ups that read a file.
    pub cache_misses: u64,
    /// Memory of cached records, in bytes, with what the cache needs for each
    /// ([`crate::Options::record_cache_bytes`]); not a part of [`Metrics::cache_memory`].
    pub record_cache_memory: u64,
    /// Cached records.
    pub record_cache_entries: u64,
    /// Look-ups of separated values that hit the record cache; those of scans are not counted.
    pub record_cache_hits: u64,
    /// Look-ups of separated values that read a file or the log window; 0 without a record cache.
    pub record_cache_misses: u64,
    /// Descriptors that all stores of this process hold for reading ([`crate::open_files`]).
    pub open_files: usize,
    /// Greatest visible sequence number.
    pub visible_seq: u64,
    /// Snapshots that are held; those of transactions, cursors and ranges count.
    pub snapshots: usize,
    /// How long the oldest of them has been held: what was dead before stays as long. `None` if
    /// there is none.
    pub oldest_snapshot: Option<Duration>,
    /// The failure that made the database read-only, if there was one.
    pub poisoned: Option<String>,
    /// The last failure of a background job, if none of its kind has succeeded since; otherwise the
    /// last damage.
    pub background_error: Option<String>,
    /// Kinds of background jobs that failed and will be retried.
    pub failures: Vec<JobFailure>,
    /// Tables and value files in which background jobs have met damage since the open, and damaged
    /// groups; they can still be read, but jobs leave them in place.
    pub damaged: Vec<String>,
}

/// A kind of background job that has failed and not succeeded since.
#[derive(Clone, Debug)]
pub struct JobFailure {
    /// Name of the kind.
    pub job: &'static str,
    /// The last failure of the job.
    pub error: String,
    /// Number of attempts.
    pub tries: u64,
    /// Time since the first failure.
    pub since: Duration,
}

impl Metrics {
    /// Bytes written to all files.
    pub fn written(&self) -> u64 {
        self.log_written
            + self.flush_written
            + self.compaction_written
            + self.collection_written
            + self.manifest_written
            + self.blob_written
    }

    /// Bytes written to files per byte that users wrote, since the open.
    pub fn write_amplification(&self) -> f64 {
        ratio(self.written(), self.user_bytes)
    }

    /// Bytes of value files and tables per byte of both that is estimated to be live. Data that is
    /// only in MemTables counts as live.
    pub fn space_amplification(&self) -> f64 {
        let live = self.living_bytes() + self.unflushed_bytes;
        ratio(self.value_bytes + self.index_bytes, live + self.index_bytes)
    }

    /// Estimated bytes of keys and values in the database: entries of the index, records of
    /// separated values, and data that is only in MemTables. Replaced versions count until they are
    /// compacted; headers of records and pointers count as well.
    pub fn data_bytes(&self) -> u64 {
        self.entry_bytes + self.living_bytes() + self.unflushed_data
    }

    fn living_bytes(&self) -> u64 {
        self.live_bytes.saturating_sub(self.hidden_bytes)
    }
}

fn ratio(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}
