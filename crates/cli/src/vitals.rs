//! Work, resources and problems of a database.

use std::fmt;
use std::time::Duration;

use cleavedb::{JobFailure, Metrics, OperationLatency, Totals, open_files};
use cleavedb_units::{self as units, counted};
use serde::Serialize;

use crate::space::cost;

/// Work and state of an open database.
#[derive(Serialize)]
pub struct Vitals {
    /// Its work since it was created.
    pub totals: Written,
    /// Its work since this open.
    session: Session,
    latencies: Vec<Latency>,
    memory: Memory,
    records: Records,
    window: Window,
    /// Files that are open for reading, and the most that this process keeps open.
    open_files: usize,
    open_files_max: usize,
    /// Dead entries that ranges skipped since the open.
    dead_read: u64,
    snapshots: usize,
    /// Age of the oldest of them.
    oldest_snapshot_seconds: Option<f64>,
    poisoned: Option<String>,
    background_error: Option<String>,
    /// Kinds of jobs that fail and are retried.
    failures: Vec<Failing>,
    /// Files and groups in which damage was met.
    damaged: Vec<String>,
}

impl Vitals {
    /// The vitals in `metrics`.
    pub fn of(metrics: &Metrics) -> Self {
        Self {
            totals: metrics.totals.into(),
            session: Session::of(metrics),
            latencies: metrics.latencies.iter().map(Latency::of).collect(),
            memory: Memory::of(metrics),
            records: Records::of(metrics),
            window: Window::of(metrics),
            open_files: metrics.open_files,
            open_files_max: open_files::max(),
            dead_read: metrics.dead_read,
            snapshots: metrics.snapshots,
            oldest_snapshot_seconds: metrics.oldest_snapshot.map(|age| age.as_secs_f64()),
            poisoned: metrics.poisoned.clone(),
            background_error: metrics.background_error.clone(),
            failures: metrics.failures.iter().map(Failing::of).collect(),
            damaged: metrics.damaged.clone(),
        }
    }

    /// Its use of the machine now.
    pub fn machine(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let size = units::bytes;
        let Memory { memtables, cache, records, window, group_filters, spare, bound, .. } =
            self.memory;
        writeln!(
            f,
            "memory {} of at most {}: new entries {}, cache {}, records {}, window {}, filters of \
             groups {}, spare {}",
            size(self.memory.used()),
            size(bound),
            size(memtables),
            size(cache),
            size(records),
            size(window),
            size(group_filters),
            size(spare),
        )?;
        write!(f, "{}", self.records)?;
        writeln!(
            f,
            "{}; {} open for reading, of at most {}",
            self.window,
            units::counted(self.open_files as u64, "file"),
            units::thousands(self.open_files_max as f64),
        )?;
        if self.dead_read > 0 {
            writeln!(f, "ranges skipped {}", units::counted(self.dead_read, "dead entry"))?;
        }
        Ok(())
    }

    /// What was done since this open, if anything was written.
    pub fn session(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Session { writes, operations, written_bytes, stalls, .. } = self.session;
        if writes == 0 {
            return Ok(());
        }
        let (operations, writes) = (counted(operations, "operation"), counted(writes, "write"));
        let bytes = units::bytes(written_bytes);
        writeln!(
            f,
            "  since this open: {operations} in {writes}, {bytes} written; writers waited {}",
            counted(stalls, "time")
        )
    }

    /// How long its operations took, if that was measured.
    pub fn latencies(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.latencies.is_empty() {
            return Ok(());
        }
        writeln!(f, "\nlatencies: microseconds that a part of the operations took at most")?;
        let titles = ["operation", "number", "half", "90%", "99%", "99.9%", "all"];
        let line = |f: &mut fmt::Formatter<'_>, cells: [&str; 7]| {
            let [name, number, times @ ..] = cells;
            write!(f, "  {name:<12} {number:>12}")?;
            times.into_iter().try_for_each(|time| write!(f, " {time:>10}"))?;
            writeln!(f)
        };
        line(f, titles)?;
        for Latency { operation, count, p50_us, p90_us, p99_us, p999_us, max_us, .. } in
            &self.latencies
        {
            let count = units::thousands(*count as f64);
            let times = [p50_us, p90_us, p99_us, p999_us, max_us].map(|us| format!("{us:.1}"));
            let [p50, p90, p99, p999, max] = &times;
            line(f, [operation, &count, p50, p90, p99, p999, max])?;
        }
        Ok(())
    }

    /// Its problems.
    pub fn problems(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(cause) = &self.poisoned {
            writeln!(f, "\nPROBLEM: writes are refused: {cause}")?;
        }
        for Failing { job, error, tries, seconds } in &self.failures {
            writeln!(f, "\nPROBLEM: {job} fails for {seconds:.0} s, {tries} times: {error}")?;
        }
        if let (Some(error), []) = (&self.background_error, &self.failures[..]) {
            writeln!(f, "\nPROBLEM in the background: {error}")?;
        }
        for name in &self.damaged {
            writeln!(f, "PROBLEM: damage in {name}; it can be read, but jobs skip it")?;
        }
        Ok(())
    }
}

/// Bytes written, and what else was done, since a database was created.
#[derive(Serialize)]
pub struct Written {
    user_bytes: u64,
    writes: u64,
    written_bytes: u64,
    log: u64,
    flush: u64,
    compaction: u64,
    collection: u64,
    manifest: u64,
    flushes: u64,
    compactions: u64,
    collections: u64,
    sessions: u64,
    operations: u64,
    compaction_read: u64,
    collection_read: u64,
    cache_hits: u64,
    cache_misses: u64,
    record_cache_hits: u64,
    record_cache_misses: u64,
    dead_read: u64,
    stalls: u64,
    stall_seconds: f64,
    bytes_punched: u64,
    files_removed: u64,
    /// Unknown before anything was written.
    write_amplification: Option<f64>,
}

impl From<Totals> for Written {
    fn from(from: Totals) -> Self {
        Self {
            user_bytes: from.user_bytes,
            writes: from.writes,
            written_bytes: from.written(),
            log: from.log_written,
            flush: from.flush_written,
            compaction: from.compaction_written,
            collection: from.collection_written,
            manifest: from.manifest_written,
            flushes: from.flushes,
            compactions: from.compactions,
            collections: from.collections,
            sessions: from.sessions,
            operations: from.operations,
            compaction_read: from.compaction_read,
            collection_read: from.collection_read,
            cache_hits: from.cache_hits,
            cache_misses: from.cache_misses,
            record_cache_hits: from.record_cache_hits,
            record_cache_misses: from.record_cache_misses,
            dead_read: from.dead_read,
            stalls: from.stalls,
            stall_seconds: from.stall_nanos as f64 / 1e9,
            bytes_punched: from.bytes_punched,
            files_removed: from.files_removed,
            write_amplification: (from.user_bytes > 0).then(|| from.write_amplification()),
        }
    }
}

impl fmt::Display for Written {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.ratio(f)?;
        if self.write_amplification.is_none() {
            return Ok(());
        }
        let size = units::bytes;
        let Written { log, flush, compaction, collection, .. } = *self;
        writeln!(
            f,
            "                log {}, flushes {}, compaction {}, collection {}",
            size(log),
            size(flush),
            size(compaction),
            size(collection)
        )?;
        let since = "since it was created; of a session that a crash ended, up to its last flush";
        writeln!(f, "                {since}")?;
        self.history(f)
    }
}

impl Written {
    /// What was written for what was put.
    pub fn ratio(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(ratio) = self.write_amplification else {
            return writeln!(f, "  write      -  nothing was written yet");
        };
        writeln!(
            f,
            "  write {:>6}  bytes written for each of {} of keys and values that were put",
            cost(ratio, self.user_bytes),
            units::bytes(self.user_bytes)
        )
    }

    /// Counts of what was done, of the same time.
    fn history(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = |n: u64| units::thousands(n as f64);
        writeln!(f, "\nhistory: what was done since then")?;
        writeln!(
            f,
            "  {} with writes; {} in {}",
            counted(self.sessions, "session"),
            counted(self.operations, "operation"),
            counted(self.writes, "write")
        )?;
        writeln!(
            f,
            "  flushes {}, compactions {}, collections {}, files removed {}",
            count(self.flushes),
            count(self.compactions),
            count(self.collections),
            count(self.files_removed)
        )?;
        writeln!(
            f,
            "  block look-ups: {} in the cache, {} in files",
            count(self.cache_hits),
            count(self.cache_misses)
        )?;
        if self.stalls > 0 {
            let (times, seconds) = (counted(self.stalls, "time"), self.stall_seconds);
            writeln!(f, "  writers waited {times} for background work, {seconds:.3} s")?;
        }
        Ok(())
    }
}

/// Work since an open.
#[derive(Serialize)]
struct Session {
    user_bytes: u64,
    writes: u64,
    operations: u64,
    written_bytes: u64,
    stalls: u64,
    stall_seconds: f64,
}

impl Session {
    fn of(metrics: &Metrics) -> Self {
        let time: Duration = metrics.stalls.iter().map(|stall| stall.time).sum();
        Self {
            user_bytes: metrics.user_bytes,
            writes: metrics.writes,
            operations: metrics.operations,
            written_bytes: metrics.written(),
            stalls: metrics.stalls.iter().map(|stall| stall.count).sum(),
            stall_seconds: time.as_secs_f64(),
        }
    }
}

/// How long one operation took, in microseconds.
#[derive(Serialize)]
struct Latency {
    operation: &'static str,
    count: u64,
    mean_us: f64,
    p50_us: f64,
    p90_us: f64,
    p99_us: f64,
    p999_us: f64,
    max_us: f64,
}

impl Latency {
    fn of(of: &OperationLatency) -> Self {
        let us = |time: Duration| time.as_secs_f64() * 1e6;
        Self {
            operation: of.operation.name(),
            count: of.count(),
            mean_us: us(of.mean()),
            p50_us: us(of.quantile(0.5)),
            p90_us: us(of.quantile(0.9)),
            p99_us: us(of.quantile(0.99)),
            p999_us: us(of.quantile(0.999)),
            max_us: us(of.max()),
        }
    }
}

/// Memory use in bytes, and its bound.
#[derive(Serialize)]
struct Memory {
    bound: u64,
    memtables: u64,
    cache: u64,
    /// Cached records.
    records: u64,
    /// Filters and block indexes of open tables: a part of the cache.
    tables: u64,
    window: u64,
    /// Filters of groups.
    group_filters: u64,
    /// Free memory in pools.
    spare: u64,
}

impl Memory {
    fn of(metrics: &Metrics) -> Self {
        Self {
            bound: metrics.memory_limit,
            memtables: metrics.memtable_memory,
            cache: metrics.cache_memory,
            records: metrics.record_cache_memory,
            tables: metrics.table_memory,
            window: metrics.window_memory,
            group_filters: metrics.group_filter_memory,
            spare: metrics.spare_memory,
        }
    }

    fn used(&self) -> u64 {
        self.memtables + self.cache + self.records + self.window + self.group_filters + self.spare
    }
}

/// The cache of whole records since the open.
#[derive(Serialize)]
struct Records {
    entries: u64,
    bytes: u64,
    hits: u64,
    misses: u64,
}

impl Records {
    fn of(metrics: &Metrics) -> Self {
        Self {
            entries: metrics.record_cache_entries,
            bytes: metrics.record_cache_memory,
            hits: metrics.record_cache_hits,
            misses: metrics.record_cache_misses,
        }
    }
}

impl fmt::Display for Records {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { entries, bytes, hits, misses } = *self;
        if hits + misses == 0 {
            return Ok(());
        }
        let (entries, hits) = (counted(entries, "record"), counted(hits, "hit"));
        let misses = units::thousands(misses as f64);
        let bytes = units::bytes(bytes);
        writeln!(f, "record cache of {entries}, {bytes}: {hits}, missed {misses}")
    }
}

/// The newest bytes of the log. Its memory is not locked.
#[derive(Serialize)]
struct Window {
    /// 0 before the first write of a session.
    bytes: u64,
    mapped: bool,
    locked: bool,
}

impl Window {
    fn of(metrics: &Metrics) -> Self {
        let (bytes, mapped) = (metrics.window_memory, metrics.window_is_mapped);
        Self { bytes, mapped, locked: false }
    }
}

impl fmt::Display for Window {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mapped = if self.mapped { "mapped" } else { "in memory" };
        match self.bytes {
            0 => write!(f, "no log window before the first write"),
            bytes => write!(f, "log window {}, {mapped}, not locked", units::bytes(bytes)),
        }
    }
}

#[derive(Serialize)]
struct Failing {
    job: &'static str,
    error: String,
    tries: u64,
    seconds: f64,
}

impl Failing {
    fn of(failure: &JobFailure) -> Self {
        let JobFailure { job, error, tries, since } = failure;
        Self { job, error: error.clone(), tries: *tries, seconds: since.as_secs_f64() }
    }
}
