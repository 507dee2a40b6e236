//! Every figure of `stats` for programs: the names, and where each comes from.

use std::time::Duration;

use cleavedb::metrics::{Decisions, HotMetrics, OperationLatency, Totals};
use cleavedb::{FileClass, Metrics, Options, open_files};
use serde_json::{Map, Value, json};

use super::Stats;

/// All figures of `stats` as one object.
pub fn object(stats: &Stats<'_>) -> Value {
    let parts = [content(stats), values(stats), work(&stats.metrics), state(&stats.metrics)];
    let of = |part| if let Value::Object(map) = part { map } else { Map::new() };
    parts.into_iter().flat_map(of).collect()
}

/// What there is, and how much space it takes.
fn content(stats: &Stats<'_>) -> Value {
    let Stats { metrics, options, opened, space, .. } = stats;
    let directories = stats.directories.iter().map(|directory| {
        let classes: Vec<_> = directory.classes.iter().copied().map(FileClass::name).collect();
        json!({
            "path": directory.path,
            "classes": classes,
            "capacity": directory.capacity,
            "files": directory.files,
            "bytes": directory.bytes,
            "free": directory.free,
        })
    });
    let levels = metrics.levels.iter().map(|level| {
        json!({
            "level": level.level,
            "tables": level.tables,
            "runs": level.runs,
            "bytes": level.bytes,
            "entries": level.entries,
            "tombstones": level.tombstones,
        })
    });
    json!({
        "path": stats.path,
        "preset": options.chosen_preset().name(),
        "layout": options.layout().to_string(),
        "replayed_operations": opened.operations,
        "bytes_cut": opened.bytes_cut,
        "directories": Vec::from_iter(directories),
        "levels": Vec::from_iter(levels),
        "decided": decided(&metrics.decisions),
        "runs": stats.runs(),
        "filter_bits": options.tuning.filter_bits,
        "space": space,
        "dead_bytes": space.dead_bytes(),
        "space_goal": options.space_amplification,
        "space_floor": options.tuning.space_floor,
        "space_limit": metrics.space_limit,
        "space_used": metrics.space_used,
        "retained_log_bytes": metrics.retained_log_bytes,
        "retained_log_files": metrics.retained_log_files,
        "oldest_change": metrics.oldest_change,
    })
}

/// What the database has decided by itself.
fn decided(made: &Decisions) -> Value {
    json!({
        "entry_bytes": made.entry_bytes,
        "level0_bytes": made.level0_bytes,
        "level1_bytes": made.level1_bytes,
        "memtable_log_bytes": made.memtable_log_bytes,
        "writers_bytes_per_second": made.slowed.map(|(pace, _)| pace),
        "writers_wait_for": made.slowed.map(|(_, cause)| cause.name()),
    })
}

/// Values outside the index.
fn values(stats: &Stats<'_>) -> Value {
    let Stats { metrics, options: Options { min_separated, .. }, .. } = stats;
    let files = metrics.value_files.iter();
    let files =
        files.map(|file| json!({ "name": file.name, "bytes": file.bytes, "live": file.live }));
    json!({
        "separates": min_separated.is_some(),
        "separated_from": min_separated,
        "value_files": Vec::from_iter(files),
        "groups": metrics.groups,
        "group_records": metrics.group_records,
        "reserve_used": metrics.reserve_used,
        "reserve_bytes": metrics.reserve_bytes,
        "tags": metrics.tags,
        "cold_log_bytes": metrics.cold_log_bytes,
        "hot": metrics.hot.as_ref().map(hot),
    })
}

fn hot(metrics: &HotMetrics) -> Value {
    let HotMetrics { bytes, live_bytes, dead_bytes, stats } = metrics;
    json!({
        "keys": stats.keys,
        "segments": stats.segments,
        "bytes": bytes,
        "live_bytes": live_bytes,
        "dead_bytes": dead_bytes,
        "index_memory": stats.index_memory,
        "memory": stats.memory,
        "heat_limit": stats.limit,
        "reads": stats.reads,
        "hits": stats.hits,
        "admitted": stats.admitted,
        "promoted": stats.promoted,
        "updates": stats.updates,
        "kept": stats.kept,
        "demoted": stats.demoted,
    })
}

/// What was done since the database was created, and since the open.
fn work(metrics: &Metrics) -> Value {
    let stall_time: Duration = metrics.stalls.iter().map(|stall| stall.time).sum();
    json!({
        "totals": totals(&metrics.totals),
        "session": {
            "user_bytes": metrics.user_bytes,
            "writes": metrics.writes,
            "operations": metrics.operations,
            "written_bytes": metrics.written(),
            "stalls": metrics.stalls.iter().map(|stall| stall.count).sum::<u64>(),
            "stall_seconds": stall_time.as_secs_f64(),
        },
        "latencies": metrics.latencies.iter().map(latency).collect::<Vec<_>>(),
        "dead_read": metrics.dead_read,
        "records": {
            "entries": metrics.record_cache_entries,
            "bytes": metrics.record_cache_memory,
            "hits": metrics.record_cache_hits,
            "misses": metrics.record_cache_misses,
        },
    })
}

fn totals(totals: &Totals) -> Value {
    json!({
        "user_bytes": totals.user_bytes,
        "writes": totals.writes,
        "written_bytes": totals.written(),
        "log": totals.log_written,
        "flush": totals.flush_written,
        "compaction": totals.compaction_written,
        "collection": totals.collection_written,
        "manifest": totals.manifest_written,
        "flushes": totals.flushes,
        "compactions": totals.compactions,
        "collections": totals.collections,
        "sessions": totals.sessions,
        "operations": totals.operations,
        "compaction_read": totals.compaction_read,
        "collection_read": totals.collection_read,
        "cache_hits": totals.cache_hits,
        "cache_misses": totals.cache_misses,
        "record_cache_hits": totals.record_cache_hits,
        "record_cache_misses": totals.record_cache_misses,
        "dead_read": totals.dead_read,
        "stalls": totals.stalls,
        "stall_seconds": totals.stall_nanos as f64 / 1e9,
        "bytes_punched": totals.bytes_punched,
        "files_removed": totals.files_removed,
        "write_amplification": (totals.user_bytes > 0).then(|| totals.write_amplification()),
    })
}

fn latency(of: &OperationLatency) -> Value {
    let us = |time: Duration| time.as_secs_f64() * 1e6;
    json!({
        "operation": of.operation.name(),
        "count": of.count(),
        "mean_us": us(of.mean()),
        "p50_us": us(of.quantile(0.5)),
        "p90_us": us(of.quantile(0.9)),
        "p99_us": us(of.quantile(0.99)),
        "p999_us": us(of.quantile(0.999)),
        "max_us": us(of.max()),
    })
}

/// What the database has of the machine now, and its problems.
fn state(metrics: &Metrics) -> Value {
    let failures = metrics.failures.iter().map(|failure| {
        json!({
            "job": failure.job,
            "error": failure.error,
            "tries": failure.tries,
            "seconds": failure.since.as_secs_f64(),
        })
    });
    json!({
        "memory": {
            "bound": metrics.memory_limit,
            "memtables": metrics.memtable_memory,
            "cache": metrics.cache_memory,
            "records": metrics.record_cache_memory,
            "tables": metrics.table_memory,
            "window": metrics.window_memory,
            "group_filters": metrics.group_filter_memory,
            "spare": metrics.spare_memory,
        },
        "window": {
            "bytes": metrics.window_memory,
            "mapped": metrics.window_is_mapped,
            "locked": false,
        },
        "open_files": metrics.open_files,
        "open_files_max": open_files::max(),
        "snapshots": metrics.snapshots,
        "oldest_snapshot_seconds": metrics.oldest_snapshot.map(|age| age.as_secs_f64()),
        "poisoned": metrics.poisoned,
        "background_error": metrics.background_error,
        "failures": Vec::from_iter(failures),
        "damaged": metrics.damaged,
    })
}
