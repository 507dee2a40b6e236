//! Metrics as text in the exposition format of Prometheus, version 0.0.4.
//!
//! The text is a pure function of one snapshot of figures, which needs no registry, no lock and
//! no state: so it is written here, and no crate is needed. Counters begin with the open, as
//! Prometheus expects of a process; what a database did over its life are gauges, since a counter
//! that a crash sets back a little would look like one that begins anew.

use std::fmt::{Display, Write};
use std::time::Duration;

use super::Metrics;
use crate::control::latency::OperationLatency;

/// Upper bounds of the buckets of latencies, in nanoseconds: three for each power of ten.
const BOUNDS: [u64; 24] = [
    250,
    500,
    1_000,
    2_500,
    5_000,
    10_000,
    25_000,
    50_000,
    100_000,
    250_000,
    500_000,
    1_000_000,
    2_500_000,
    5_000_000,
    10_000_000,
    25_000_000,
    50_000_000,
    100_000_000,
    250_000_000,
    500_000_000,
    1_000_000_000,
    2_500_000_000,
    5_000_000_000,
    10_000_000_000,
];

impl Metrics {
    /// The metrics in the text format of Prometheus, each figure with `labels`: names and values,
    /// such as the name of the database, to tell several apart. Times are in seconds, sizes in
    /// bytes. A name is made of letters, digits and underscores, and begins with a letter; other
    /// characters become underscores.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// let db = cleavedb::Db::open(dir.path().join("db"), Default::default())?;
    /// db.put("key", "value")?;
    /// let text = db.metrics().to_prometheus(&[("db", "sessions")]);
    /// assert!(text.contains("\ncleavedb_writes_total{db=\"sessions\"} 1\n"));
    /// # Ok::<(), cleavedb::Error>(())
    /// ```
    pub fn to_prometheus(&self, labels: &[(&str, &str)]) -> String {
        let mut text = Exposition::new(labels);
        self.counters(&mut text);
        self.life(&mut text);
        self.content(&mut text);
        self.memory(&mut text);
        self.health(&mut text);
        latencies(&mut text, &self.latencies);
        text.out
    }

    /// What was done since the open.
    fn counters(&self, text: &mut Exposition) {
        text.counter("writes", "Write calls.", self.writes);
        text.counter("operations", "Operations of write calls.", self.operations);
        text.counter("user_bytes", "Bytes of keys and values that users wrote.", self.user_bytes);
        text.begin("written_bytes_total", "counter", "Bytes written to files, by cause.");
        for (cause, bytes) in [
            ("log", self.log_written),
            ("flush", self.flush_written),
            ("compaction", self.compaction_written),
            ("collection", self.collection_written),
            ("manifest", self.manifest_written),
            ("blobs", self.blob_written),
        ] {
            text.figure(&[("cause", cause)], bytes);
        }
        text.begin("read_bytes_total", "counter", "Bytes read by background jobs, by job.");
        text.figure(&[("job", "compaction")], self.compaction_read);
        text.figure(&[("job", "collection")], self.collection_read);
        text.begin("jobs_total", "counter", "Background jobs done, by job.");
        for (job, count) in [
            ("flush", self.flushes),
            ("compaction", self.compactions),
            ("move", self.compaction_moves),
            ("collection", self.collections),
        ] {
            text.figure(&[("job", job)], count);
        }
        text.begin("futile_jobs_total", "counter", "Background jobs that won nothing.");
        text.figure(&[], self.futile_jobs);
        text.begin("job_step_seconds_total", "counter", "Time of background jobs, by step.");
        for (step, time) in &self.steps {
            text.figure(&[("step", step.name())], time.as_secs_f64());
        }
        text.begin("paced_seconds_total", "counter", "Waits of jobs for their limit.");
        text.figure(&[], self.paced.as_secs_f64());
        let help = "Time in which flushes let reads go first, since no writer waited.";
        text.begin("flushes_paced_seconds_total", "counter", help);
        text.figure(&[], self.flushes_paced.as_secs_f64());
        text.begin("stalls_total", "counter", "Waits of writers for background work, by cause.");
        for stall in &self.stalls {
            text.figure(&[("cause", stall.cause.name())], stall.count);
        }
        text.begin("stall_seconds_total", "counter", "Time of these waits, by cause.");
        for stall in &self.stalls {
            text.figure(&[("cause", stall.cause.name())], stall.time.as_secs_f64());
        }
        let look_ups = [
            ("blocks", self.cache_hits, self.cache_misses),
            ("records", self.record_cache_hits, self.record_cache_misses),
        ];
        text.begin("cache_hits_total", "counter", "Look-ups that a cache answered.");
        look_ups.iter().for_each(|(cache, hits, _)| text.figure(&[("cache", cache)], hits));
        text.begin("cache_misses_total", "counter", "Look-ups that read a file.");
        look_ups.iter().for_each(|(cache, _, misses)| text.figure(&[("cache", cache)], misses));
        let compressed = self.compressed_values;
        text.counter("compressed_values", "Values compressed by writers.", compressed);
        let from = self.compressed_from;
        text.counter("compressed_from_bytes", "Bytes of these values before.", from);
        text.counter("compressed_to_bytes", "Bytes of these values since.", self.compressed_to);
        text.counter("dead_read", "Dead entries that ranges skipped.", self.dead_read);
        let help = "Jumps of the clock by which values expire.";
        text.counter("clock_jumps", help, self.clock_jumps);
        text.counter("files_removed", "Files removed.", self.files_removed);
        text.counter("punched_bytes", "Bytes of dead extents given back.", self.bytes_punched);
        text.counter("group_splits", "Groups of values that split.", self.splits);
        text.counter("group_merges", "Pairs of groups that were merged.", self.merges);
    }

    /// What was done since the creation.
    fn life(&self, text: &mut Exposition) {
        let life = &self.totals;
        let seconds = life.stall_nanos as f64 / 1e9;
        text.gauge("lifetime_sessions", "Opens after which something was written.", life.sessions);
        text.gauge("lifetime_writes", "Write calls since the creation.", life.writes);
        text.gauge("lifetime_operations", "Their operations.", life.operations);
        text.gauge("lifetime_user_bytes", "Bytes of keys and values written.", life.user_bytes);
        text.gauge("lifetime_written_bytes", "Bytes written to all files.", life.written());
        text.gauge("lifetime_stall_seconds", "Waits of writers since the creation.", seconds);
    }

    /// What is there.
    fn content(&self, text: &mut Exposition) {
        text.gauge("data_bytes", "Estimated bytes of keys and values.", self.data_bytes());
        text.gauge("value_bytes", "Bytes of value files.", self.value_bytes);
        text.gauge("value_live_bytes", "Their bytes that the index owns.", self.live_bytes);
        text.gauge("value_hidden_bytes", "Estimate of dead ones among them.", self.hidden_bytes);
        text.gauge("value_allowed_bytes", "Bytes up to which none is due.", self.values_allowed);
        text.gauge("index_bytes", "Bytes of tables.", self.index_bytes);
        text.gauge("unflushed_bytes", "Bytes of log not in tables yet.", self.unflushed_bytes);
        text.gauge("value_files", "Log files, segments and group files.", self.value_files.len());
        text.gauge("groups", "Groups of values.", self.groups);
        text.begin("level_tables", "gauge", "Tables of a level of the index.");
        for level in &self.levels {
            text.figure(&[("level", &level.level.to_string())], level.tables);
        }
        text.begin("level_bytes", "gauge", "Bytes of a level of the index.");
        for level in &self.levels {
            text.figure(&[("level", &level.level.to_string())], level.bytes);
        }
        self.decided(text);
        if let (Some(limit), Some(used)) = (self.space_limit, self.space_used) {
            text.gauge("space_limit_bytes", "Most bytes of all files.", limit);
            text.gauge("space_used_bytes", "Bytes of all files.", used);
        }
        if let Some(oldest) = self.oldest_change {
            let kept = "Bytes of log files that are kept for changes alone.";
            text.gauge("retained_log_bytes", kept, self.retained_log_bytes);
            let about = "Sequence number of the oldest change that can be read.";
            text.gauge("oldest_change", about, oldest);
        }
        if let Some(hot) = &self.hot {
            text.gauge("hot_bytes", "Bytes of hot segments.", hot.bytes);
            text.gauge("hot_live_bytes", "Their bytes in use.", hot.live_bytes);
        }
    }

    /// What follows from what is stored, and from the work that waits.
    fn decided(&self, text: &mut Exposition) {
        let made = &self.decisions;
        text.begin("level_goal_bytes", "gauge", "Bytes that a level of the index may have.");
        text.figure(&[("level", "0")], made.level0_bytes);
        text.figure(&[("level", "1")], made.level1_bytes);
        let covers = "Most log that the next MemTable covers.";
        text.gauge("memtable_log_goal_bytes", covers, made.memtable_log_bytes);
        let pace = made.slowed.map_or(0, |(pace, _)| pace);
        let about = "Pace to which writers are slowed down; 0 if they are not.";
        text.gauge("writers_pace_bytes_per_second", about, pace);
    }

    /// Memory, by use.
    fn memory(&self, text: &mut Exposition) {
        text.gauge("memory_limit_bytes", "Most memory of the database.", self.memory_limit);
        text.begin("memory_bytes", "gauge", "Memory in use, by part.");
        for (part, bytes) in [
            ("memtables", self.memtable_memory),
            ("window", self.window_memory),
            ("spare", self.spare_memory),
            ("group_filters", self.group_filter_memory),
            ("blocks", self.cache_memory.saturating_sub(self.table_memory)),
            ("tables", self.table_memory),
            ("records", self.record_cache_memory),
        ] {
            text.figure(&[("part", part)], bytes);
        }
    }

    /// What needs a person.
    fn health(&self, text: &mut Exposition) {
        text.gauge("open_files", "Files of this process open for reading.", self.open_files);
        text.gauge("snapshots", "Snapshots that are held.", self.snapshots);
        let age = self.oldest_snapshot.unwrap_or_default().as_secs_f64();
        text.gauge("oldest_snapshot_seconds", "Age of the oldest of them; 0 without.", age);
        text.gauge("visible_sequence", "Greatest visible sequence number.", self.visible_seq);
        let poisoned = u8::from(self.poisoned.is_some());
        text.gauge("poisoned", "1 if writes are refused after a failed write.", poisoned);
        text.gauge("damaged", "Damaged files that jobs leave alone.", self.damaged.len());
        text.begin("job_failures", "gauge", "Tries of a failing background job, by job.");
        for failure in &self.failures {
            text.figure(&[("job", failure.job)], failure.tries);
        }
    }
}

/// Histograms of latencies.
fn latencies(text: &mut Exposition, latencies: &[OperationLatency]) {
    if latencies.is_empty() {
        return;
    }
    text.begin("operation_seconds", "histogram", "Latencies of operations.");
    let bounds = BOUNDS.map(Duration::from_nanos);
    for latency in latencies {
        let operation = ("operation", latency.operation.name());
        for (bound, count) in bounds.iter().zip(latency.up_to(&bounds)) {
            let bound = bound.as_secs_f64().to_string();
            text.part("_bucket", &[operation, ("le", &bound)], count);
        }
        let count = latency.count();
        text.part("_bucket", &[operation, ("le", "+Inf")], count);
        text.part("_sum", &[operation], latency.mean().as_secs_f64() * count as f64);
        text.part("_count", &[operation], count);
    }
}

/// The text so far.
struct Exposition {
    out: String,
    /// Labels of every figure, as they are written.
    labels: String,
    /// The name of the metric that was begun last.
    name: String,
}

impl Exposition {
    fn new(labels: &[(&str, &str)]) -> Self {
        let labels: Vec<String> = labels.iter().map(|(name, value)| label(name, value)).collect();
        Self { out: String::new(), labels: labels.join(","), name: String::new() }
    }

    /// Begins a metric of this kind; its figures follow.
    fn begin(&mut self, name: &str, kind: &str, help: &str) {
        self.name = format!("cleavedb_{name}");
        let name = &self.name;
        // Writing to a string does not fail.
        let _ = write!(self.out, "# HELP {name} {help}\n# TYPE {name} {kind}\n");
    }

    /// A figure of the metric, with labels of its own.
    fn figure(&mut self, labels: &[(&str, &str)], value: impl Display) {
        self.part("", labels, value);
    }

    /// A figure of the part of the metric whose name ends in `end`.
    fn part(&mut self, end: &str, labels: &[(&str, &str)], value: impl Display) {
        let own = labels.iter().map(|(name, value)| label(name, value));
        let all = Some(self.labels.clone()).filter(|labels| !labels.is_empty());
        let all: Vec<String> = all.into_iter().chain(own).collect();
        let labels = if all.is_empty() { String::new() } else { format!("{{{}}}", all.join(",")) };
        let _ = writeln!(self.out, "{}{end}{labels} {value}", self.name);
    }

    fn counter(&mut self, name: &str, help: &str, value: u64) {
        self.begin(&format!("{name}_total"), "counter", help);
        self.figure(&[], value);
    }

    fn gauge(&mut self, name: &str, help: &str, value: impl Display) {
        self.begin(name, "gauge", help);
        self.figure(&[], value);
    }
}

/// A label, in the characters that the format allows.
fn label(name: &str, value: &str) -> String {
    let fits = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let name: String = name.chars().map(|c| if fits(c) { c } else { '_' }).collect();
    let begins = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    let front = if begins { "" } else { "_" };
    let value = value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
    format!("{front}{name}=\"{value}\"")
}
