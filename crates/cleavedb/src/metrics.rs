//! What the database did, counted: bytes by cause, operations, and every moment that a writer
//! waited.

use std::time::{Duration, Instant};

use cleavedb_base::sync::atomic::{AtomicU64, Ordering};
use cleavedb_storage::FileClass;

use crate::totals::Totals;

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
    /// Level 0 holds more than compaction can keep up with.
    Compaction,
    /// Dead values take more space than is allowed, and collection cannot keep up.
    Space,
}

impl StallCause {
    /// All causes.
    pub const ALL: [Self; 3] = [Self::Flush, Self::Compaction, Self::Space];

    /// Name in figures.
    pub fn name(self) -> &'static str {
        match self {
            Self::Flush => "flush",
            Self::Compaction => "compaction",
            Self::Space => "space",
        }
    }
}

/// A step of flushes and collections whose time is measured: those of HashKV's experiment 2 (Figure
/// 7c). What is left of an update's time is its own work in memory, and waiting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Writing values from memory to groups ("Flush").
    FlushValues,
    /// Writing a MemTable's run to the index, and publishing it ("Meta-Flush").
    FlushIndex,
    /// Reading victims and writing survivors ("GC-RW").
    CollectValues,
    /// Finding out what lives: look-ups in the index, or a comparison of a group's records with one
    /// another ("GC-Lookup").
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

    /// Name in figures.
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
    pub(crate) flushes: Counter,
    pub(crate) flush_written: Counter,
    pub(crate) compactions: Counter,
    pub(crate) compaction_moves: Counter,
    pub(crate) pointers_refreshed: Counter,
    pub(crate) compaction_read: Counter,
    pub(crate) compaction_written: Counter,
    pub(crate) collections: Counter,
    pub(crate) splits: Counter,
    pub(crate) merges: Counter,
    pub(crate) collection_read: Counter,
    pub(crate) collection_written: Counter,
    pub(crate) bytes_punched: Counter,
    pub(crate) files_removed: Counter,
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
}

/// How often and how long writers waited for one cause.
#[derive(Clone, Debug)]
pub struct Stall {
    /// Why.
    pub cause: StallCause,
    /// How often.
    pub count: u64,
    /// How long in all.
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
    /// Entries, all versions counted.
    pub entries: u64,
    /// Entries that are tombstones.
    pub tombstones: u64,
}

/// One log file or segment.
#[derive(Clone, Debug)]
pub struct ValueFileMetrics {
    /// Name of the file.
    pub name: String,
    /// Bytes up to the last record; those of the file in use are known once it is full.
    pub bytes: Option<u64>,
    /// Bytes of records that the index owns.
    pub live: u64,
}

/// One of the directories of a database.
#[derive(Clone, Debug)]
pub struct DirectoryMetrics {
    /// Its path; empty if the storage was brought by the caller.
    pub path: String,
    /// What is placed there.
    pub classes: Vec<FileClass>,
    /// Bytes of files at which new ones go to the database's own directory.
    pub capacity: Option<u64>,
    /// Files of the database in it.
    pub files: usize,
    /// Sum of their lengths; space that is reserved ahead, or was given back inside a file, does
    /// not change it.
    pub bytes: u64,
    /// Bytes that its disk has left.
    pub free: u64,
}

/// A read state of what the database holds and did since it was opened. All sizes are in bytes.
#[derive(Clone, Debug, Default)]
pub struct Metrics {
    /// What it did since it was created.
    pub totals: Totals,
    /// Keys and values that users wrote.
    pub user_bytes: u64,
    /// Write calls.
    pub writes: u64,
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
    /// Flushes done.
    pub flushes: u64,
    /// Compactions that rewrote data.
    pub compactions: u64,
    /// Compactions that only moved tables.
    pub compaction_moves: u64,
    /// Soft pointers that compactions brought up to date.
    pub pointers_refreshed: u64,
    /// Collections done.
    pub collections: u64,
    /// Groups of values; 0 in presets without groups.
    pub groups: usize,
    /// Records of each group, in the order of their bounds, dead ones and group tombstones among
    /// them.
    pub group_records: Vec<u64>,
    /// Groups that split.
    pub splits: u64,
    /// Pairs of small groups that became one.
    pub merges: u64,
    /// Bytes of log segments that groups take out of the reserve.
    pub reserve_used: u64,
    /// Bytes of the reserve.
    pub reserve_bytes: u64,
    /// Tags in groups: values that lie in the cold log, some of which are dead.
    pub tags: u64,
    /// Bytes of the cold log.
    pub cold_log_bytes: u64,
    /// Bytes of dead extents that were given back inside files.
    pub bytes_punched: u64,
    /// Files removed.
    pub files_removed: u64,
    /// Dead entries that ranges stepped over: tombstones, and versions that newer ones hide.
    pub dead_read: u64,
    /// Waits of writers, by cause.
    pub stalls: Vec<Stall>,
    /// Time that background threads spent, by step.
    pub steps: Vec<(Step, Duration)>,
    /// Levels of the index.
    pub levels: Vec<LevelMetrics>,
    /// Log files and segments.
    pub value_files: Vec<ValueFileMetrics>,
    /// Bytes of log files and segments that are known, the log in use included.
    pub value_bytes: u64,
    /// Bytes of records that the index owns, dead ones that no compaction has met yet included.
    pub live_bytes: u64,
    /// Estimate of the dead ones among them.
    pub hidden_bytes: u64,
    /// Bytes of tables.
    pub index_bytes: u64,
    /// Most bytes that files may take ([`crate::Options::space_limit`]).
    pub space_limit: Option<u64>,
    /// Bytes that files take, if there is a limit.
    pub space_used: Option<u64>,
    /// Most memory that all may take ([`crate::Options::memory_bytes`]). What the parts below leave
    /// of it is for jobs.
    pub memory_limit: u64,
    /// Memory that entries of MemTables take; what was taken ahead for more does not count.
    pub memtable_memory: u64,
    /// Bytes of the log whose operations are in MemTables only: records with key and value, those
    /// that later ones replaced included.
    pub unflushed_bytes: u64,
    /// Bytes of keys and values in MemTables only, about, those that later ones replaced included:
    /// `unflushed_bytes` without headers of records, and without what syncs pad the log with.
    pub unflushed_data: u64,
    /// Bytes of keys, and of values or pointers, of all entries in tables, before compression.
    pub entry_bytes: u64,
    /// Memory of the log window; 0 before the first write. It is never locked.
    pub window_memory: u64,
    /// Whether the window is a file that is mapped: then commits outlive the process without a
    /// call of the system.
    pub window_is_mapped: bool,
    /// Memory that waits to be used again by MemTables and flushes.
    pub spare_memory: u64,
    /// Memory of filters and block indexes of open tables: a part of [`Metrics::cache_memory`].
    pub table_memory: u64,
    /// Memory of cached blocks, filters and block indexes.
    pub cache_memory: u64,
    /// Look-ups of blocks that the cache answered.
    pub cache_hits: u64,
    /// Look-ups of blocks that went to a file.
    pub cache_misses: u64,
    /// Descriptors of files that all stores of this process hold for reading
    /// ([`crate::open_files`]).
    pub open_files: usize,
    /// Greatest visible sequence number.
    pub visible_seq: u64,
    /// Snapshots that are held.
    pub snapshots: usize,
    /// The failure that made the database read-only, if there was one.
    pub poisoned: Option<String>,
    /// The last failure of a background job, if none of its kind has succeeded since; else the
    /// damage that was met last.
    pub background_error: Option<String>,
    /// Kinds of background jobs that fail, and are tried again.
    pub failures: Vec<JobFailure>,
    /// Tables and value files in which background jobs have met damage since the open, and damaged
    /// groups; they are read, and left where they are.
    pub damaged: Vec<String>,
}

/// A kind of background job that has failed and not succeeded since.
#[derive(Clone, Debug)]
pub struct JobFailure {
    /// What the job does.
    pub job: &'static str,
    /// Why it failed last.
    pub error: String,
    /// How often it was tried.
    pub tries: u64,
    /// Time since it failed first.
    pub since: Duration,
}

impl Metrics {
    /// Bytes written to files in all.
    pub fn written(&self) -> u64 {
        self.log_written
            + self.flush_written
            + self.compaction_written
            + self.collection_written
            + self.manifest_written
    }

    /// Bytes written to files per byte that users wrote, since the open.
    pub fn write_amplification(&self) -> f64 {
        ratio(self.written(), self.user_bytes)
    }

    /// Bytes of value files and tables per byte of both that is estimated to live. What is in
    /// MemTables only counts as alive.
    pub fn space_amplification(&self) -> f64 {
        let live = self.living_bytes() + self.unflushed_bytes;
        ratio(self.value_bytes + self.index_bytes, live + self.index_bytes)
    }

    /// About how many bytes of keys and values the database holds: entries of the index, records of
    /// separated values, and what is in MemTables only. Versions that were replaced count until a
    /// compaction has met them, headers of records and pointers count as well.
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
