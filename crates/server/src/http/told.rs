//! What the page is told: figures of the server and its store, as JSON.

use std::time::Duration;

use cleavedb::metrics::StallCause;
use cleavedb_named::decisions;
use serde_json::{Value, json};

use super::Page;
use crate::observe::ServerFigures;
use crate::observe::advice::advice;
use crate::observe::history::CommandGroup;
use crate::observe::slow_log::SlowCall;
use crate::observe::times::CallSums;
use crate::observe::work::{BackgroundJob, EndedJob};

/// Most clients, value files and slow commands that are listed.
const CLIENTS_MAX: usize = 100;
const FILES_MAX: usize = 200;
const SLOW_MAX: usize = 12;

/// What the server and its store are like now.
pub(super) fn now(page: &Page) -> Value {
    let figures = page.shared.figures();
    let (browses, edits) = (page.browses(), page.edits());
    let now = page.shared.observer.uptime().as_secs();
    json!({
        "server": {
            "version": env!("CARGO_PKG_VERSION"),
            "uptime": now,
            "dir": figures.config.dir,
            "preset": figures.options.chosen_preset().name(),
            "databases": figures.config.databases,
            "browses": browses,
            "edits": edits,
        },
        "advice": advice(&figures),
        "calls": calls(&figures),
        "p99": micros(&figures.recent_calls(), 0.99),
        "clients": clients(&figures, now),
        "memory": memory(&figures),
        "amplification": amplification(&figures),
        "space": space(&figures),
        "files": files(&figures),
        "jobs": figures.observer.work.jobs().iter().map(job).collect::<Vec<_>>(),
        "stalls": stalls(&figures),
        "decided": decisions::text(&figures.metrics.decisions),
        "caches": caches(&figures),
        "slow": figures.observer.slow_log.last(SLOW_MAX).iter()
            .map(|call| slow(call, browses)).collect::<Vec<_>>(),
    })
}

/// Each group of commands: calls a second, the oldest first, and the times of five minutes.
fn calls(figures: &ServerFigures<'_>) -> Value {
    let of = |(at, group): (usize, CommandGroup)| {
        let (seconds, recent) = figures.observer.history(|history| {
            let seconds: Vec<u64> = history.seconds().map(|groups| groups[at]).collect();
            (seconds, history.recent()[at].clone())
        });
        json!({
            "group": group.name(),
            "seconds": seconds,
            "recent": recent.calls(),
            "p50": micros(&recent, 0.5),
            "p99": micros(&recent, 0.99),
            "p999": micros(&recent, 0.999),
        })
    };
    CommandGroup::ALL.into_iter().enumerate().map(of).collect()
}

fn micros(calls: &CallSums, part: f64) -> Option<f64> {
    calls.quantile(part).map(|time| time.as_secs_f64() * 1e6)
}

fn clients(figures: &ServerFigures<'_>, now: u64) -> Value {
    let list = figures.clients.iter().take(CLIENTS_MAX).map(|client| {
        let chosen = client.chosen();
        json!({
            "id": client.id,
            "address": client.address,
            "name": String::from_utf8_lossy(&chosen.name),
            "database": chosen.database,
            "age": client.age().as_secs(),
            "idle": client.waited(now as u32),
        })
    });
    json!({
        "count": figures.clients.len(),
        "most": figures.config.max_clients,
        "list": list.collect::<Vec<_>>(),
    })
}

fn memory(figures: &ServerFigures<'_>) -> Value {
    let metrics = &figures.metrics;
    json!({
        "resident": figures.process.map(|process| process.resident),
        "machine": figures.process.map(|process| process.machine_memory),
        "limit": metrics.memory_limit,
        "parts": {
            "new entries": metrics.memtable_memory,
            "log window": metrics.window_memory,
            "blocks": metrics.cache_memory,
            "records": metrics.record_cache_memory,
            "filters of groups": metrics.group_filter_memory,
            "spare": metrics.spare_memory,
        },
    })
}

fn amplification(figures: &ServerFigures<'_>) -> Value {
    let totals = &figures.metrics.totals;
    json!({
        "user_bytes": totals.user_bytes,
        "write": totals.write_amplification(),
        "read": figures.runs(),
        "space": figures.metrics.space_amplification(),
        "goal": figures.options.space_amplification,
        "floor": figures.options.tuning.space_floor,
        "written": {
            "log": totals.log_written,
            "flushes": totals.flush_written,
            "compaction": totals.compaction_written,
            "collection": totals.collection_written,
        },
    })
}

fn space(figures: &ServerFigures<'_>) -> Value {
    let metrics = &figures.metrics;
    let levels = metrics.levels.iter().map(|level| {
        json!({
            "level": level.level,
            "tables": level.tables,
            "bytes": level.bytes,
            "entries": level.entries,
            "deletes": level.tombstones,
        })
    });
    let disks = figures.directories.iter();
    let disks =
        disks.map(|disk| json!({ "path": disk.path, "bytes": disk.bytes, "free": disk.free }));
    json!({
        "data": metrics.data_bytes(),
        "index": metrics.index_bytes,
        "values": metrics.value_bytes,
        "dead": figures.dead_bytes(),
        "unflushed": metrics.unflushed_bytes,
        "limit": metrics.space_limit,
        "used": metrics.space_used,
        "levels": levels.collect::<Vec<_>>(),
        "disks": disks.collect::<Vec<_>>(),
    })
}

/// Log files and segments, and how many there are; groups of values, where there are any.
fn files(figures: &ServerFigures<'_>) -> Value {
    let metrics = &figures.metrics;
    let list = metrics.value_files.iter().take(FILES_MAX);
    let list =
        list.map(|file| json!({ "name": file.name, "bytes": file.bytes, "live": file.live }));
    json!({
        "count": metrics.value_files.len(),
        "list": list.collect::<Vec<_>>(),
        "groups": metrics.groups,
        "separated_from": metrics.decisions.separated_from,
    })
}

fn job(job: &BackgroundJob) -> Value {
    let seconds = |time: Duration| time.as_secs_f64();
    let (ended, end) = (job.ended.is_some(), job.ended.as_ref());
    json!({
        "job": job.kind.name(),
        "why": job.why,
        "bytes": job.bytes_in,
        "written": end.map(|EndedJob { bytes_out, .. }| bytes_out),
        "seconds": end.map_or_else(|| seconds(job.begun.elapsed()), |end| seconds(end.took)),
        "ended": ended,
        "error": end.and_then(|end| end.error.as_ref()),
    })
}

/// Waits of writers in the last five minutes.
fn stalls(figures: &ServerFigures<'_>) -> Value {
    let of = |cause: StallCause| {
        let recent = figures.recent_stalls(cause);
        json!({
            "cause": cause.name(),
            "count": recent.count,
            "seconds": recent.time.as_secs_f64(),
        })
    };
    StallCause::ALL.into_iter().map(of).collect()
}

fn caches(figures: &ServerFigures<'_>) -> Value {
    let metrics = &figures.metrics;
    json!([
        {
            "cache": "index blocks",
            "bytes": metrics.cache_memory,
            "hits": metrics.cache_hits,
            "misses": metrics.cache_misses,
        },
        {
            "cache": "records",
            "bytes": metrics.record_cache_memory,
            "hits": metrics.record_cache_hits,
            "misses": metrics.record_cache_misses,
        },
    ])
}

/// A slow command; keys and values are shown where they may be looked at.
fn slow(call: &SlowCall, browses: bool) -> Value {
    let shown = if browses { call.args.len() } else { 1 };
    let args = call.args.iter().take(shown).map(|argument| String::from_utf8_lossy(argument));
    json!({
        "id": call.id,
        "at": call.at,
        "micros": call.time.as_micros() as u64,
        "args": args.collect::<Vec<_>>(),
        "address": call.address,
    })
}
