//! Collects the metrics from their sources.

use std::collections::BTreeSet;
use std::time::Duration;

use cleavedb_base::sync::atomic::Ordering;
use cleavedb_base::{Error, FileNumber, Result};
use cleavedb_storage::log::Log;
use cleavedb_storage::{Directory, FileClass, FileKind, MultiDirStorage, Name, open_files};
use cleavedb_values::groups::{Extent, Group};
use cleavedb_values::{GroupId, RecordCache};

use crate::background::victims;
use crate::control::failures::{JobKind, LastFailure};
use crate::control::latency::{Latencies, OperationLatency};
use crate::control::metrics::{
    DirectoryMetrics, HotMetrics, JobFailure, LevelMetrics, Metrics, ValueFileMetrics,
};
use crate::engine::Engine;
use crate::engine::job_state::JobState;
use crate::engine::value_files;
use crate::settings::options::Options;
use crate::store::manifest::LiveFiles;
use crate::store::state::ReadState;

/// Content and counters of the database.
pub(crate) fn metrics(engine: &Engine) -> Metrics {
    let (live, manifest_written) = {
        let manifest = engine.manifest.lock();
        (manifest.live().clone(), manifest.written())
    };
    let counters = &engine.counters;
    let now = engine.since_open(manifest_written);
    let (background_error, failures, damaged) = troubles(&live, &engine.jobs.lock());
    let (reserve_used, reserve_bytes) = reserve(&engine.options, &live);
    Metrics {
        totals: engine.totals_before.then(now),
        user_bytes: now.user_bytes,
        writes: now.writes,
        operations: now.operations,
        log_written: now.log_written,
        flush_written: now.flush_written,
        compaction_written: now.compaction_written,
        compaction_read: counters.compaction_read.get(),
        collection_written: now.collection_written,
        collection_read: counters.collection_read.get(),
        manifest_written,
        flushes: now.flushes,
        compactions: now.compactions,
        compaction_moves: counters.compaction_moves.get(),
        collections: now.collections,
        futile_jobs: counters.futile_jobs.get(),
        hot: hot(engine, &live),
        groups: live.groups.groups().count(),
        group_records: group_records(&live),
        splits: counters.splits.get(),
        merges: counters.merges.get(),
        reserve_used,
        reserve_bytes,
        group_tombstones: live.groups.sums().stubs,
        tags: live.groups.sums().tags,
        cold_log_bytes: u64::from(live.groups.has_cold_log()) * live.value_files.segment_bytes(),
        bytes_punched: counters.bytes_punched.get(),
        files_removed: counters.files_removed.get(),
        dead_read: counters.dead_read.get(),
        clock_jumps: engine.time.jumps(),
        stalls: counters.stalls(),
        paced: Duration::from_nanos(engine.pacer.paused.get()),
        flushes_paced: engine.pacer.flushes_waited(),
        steps: counters.steps(),
        latencies: latencies(&engine.latencies, false),
        levels: levels(&live.version),
        value_bytes: value_files::value_bytes(&engine.jobs, &engine.commit.log, &live),
        live_bytes: live.owned() + lone_bytes(engine, &live),
        hidden_bytes: live.unexposed,
        values_allowed: victims::space_goal(&engine.options, &live).allowed(live.estimated_live()),
        index_bytes: live.version.tables().map(|(_, table)| table.meta().size).sum(),
        space_limit: engine.options.space_limit,
        retained_log_bytes: live.value_files.retained().map(|(_, file)| file.len).sum(),
        retained_log_files: live.value_files.retained().count(),
        oldest_change: engine.first_told(),
        entry_bytes: live.version.tables().map(|(_, table)| table.meta().raw_bytes).sum(),
        space_used: engine.limit.as_ref().map(|limit| limit.budget.used()),
        open_files: open_files::count(),
        visible_seq: engine.commit.visible(),
        snapshots: engine.snapshots.len(),
        oldest_snapshot: engine.snapshots.oldest_for(&engine.time),
        poisoned: engine.poison.cause().map(ToString::to_string),
        background_error,
        failures,
        damaged,
        value_files: value_files(engine, &live),
        ..memory(engine, &engine.state.load(), values(engine, &live))
    }
}

/// What is special about values: those that were compressed, and those with lone files.
fn values(engine: &Engine, live: &LiveFiles) -> Metrics {
    let mut values = engine.lone_metrics(live);
    engine.catalog.add_metrics(&mut values);
    values
}

/// Bytes of log segments that groups take from their reserve, and those of the reserve.
fn reserve(options: &Options, live: &LiveFiles) -> (u64, u64) {
    let segments = options.tuning.groups.segments();
    let shared = live.groups.partition().sizing().shared_segments(&segments, &live.groups);
    shared.unwrap_or_default()
}

fn hot(engine: &Engine, live: &LiveFiles) -> Option<HotMetrics> {
    let stats = engine.apart.hot.as_ref()?.stats();
    let sums = live.groups.group(GroupId::HOT).map(Group::sums).unwrap_or_default();
    Some(HotMetrics { bytes: sums.len, live_bytes: sums.live, dead_bytes: sums.dead(), stats })
}

/// Latencies so far; forgotten then if `reset`.
pub(crate) fn latencies(latencies: &Option<Box<Latencies>>, reset: bool) -> Vec<OperationLatency> {
    latencies.as_ref().map(|latencies| latencies.measured(reset)).unwrap_or_default()
}

/// The `others`, with those of memory, the hits of the caches, and what was decided.
fn memory(engine: &Engine, state: &ReadState, others: Metrics) -> Metrics {
    let cache = engine.tables.cache().stats();
    let records = engine.records.as_ref().map(RecordCache::stats).unwrap_or_default();
    Metrics {
        decisions: engine.decisions(),
        memtable_memory: state.memtables.iter().map(|s| s.table.used() as u64).sum(),
        unflushed_bytes: unflushed(&engine.commit.log, state),
        unflushed_data: unflushed_data(engine, state),
        memory_limit: engine.options.memory_bytes as u64,
        window_memory: engine.commit.log.buffer().len(),
        window_is_mapped: engine.commit.log.buffer().survives(),
        spare_memory: engine.spare_pages.waiting(),
        group_filter_memory: engine.group_filters.lock().memory() as u64,
        table_memory: cache.pinned_bytes,
        cache_memory: cache.block_bytes + cache.pinned_bytes,
        cache_hits: cache.hits,
        cache_misses: cache.misses,
        record_cache_memory: records.bytes,
        record_cache_entries: records.records,
        record_cache_hits: records.hits,
        record_cache_misses: records.misses,
        ..others
    }
}

/// The last failure of a job, or else the last damage; all failures; and all damage.
fn troubles(live: &LiveFiles, jobs: &JobState) -> (Option<String>, Vec<JobFailure>, Vec<String>) {
    let failures = jobs.failures.iter().map(|(_, failure)| failure);
    let last = failures.max_by_key(|failure| failure.last).map(|failure| &failure.error);
    let last = last.or(jobs.damaged.last.as_ref()).map(ToString::to_string);
    let told = |(kind, failure): (JobKind, &LastFailure)| JobFailure {
        job: kind.name(),
        error: failure.error.to_string(),
        tries: failure.tries,
        since: failure.since.elapsed(),
    };
    (last, jobs.failures.iter().map(told).collect(), damaged(live, jobs))
}

/// Damaged files that jobs skip, as far as they still exist.
fn damaged(live: &LiveFiles, jobs: &JobState) -> Vec<String> {
    let tables = live.version.tables().map(|(_, table)| table.number());
    let tables = tables.filter(|number| jobs.constraints.damaged.contains(number));
    let tables = tables.map(|number| Name::numbered(FileKind::Table, number).to_string());
    let files = live.value_files.iter().filter(|(number, _)| jobs.damaged.files.contains(number));
    let files = files.map(|(number, facts)| Name::numbered(facts.kind, number).to_string());
    let hot = live.groups.extents_apart().map(|extent| extent.place);
    let hot = hot.filter(|place| jobs.damaged.extents.contains(place));
    let hot = hot.map(|place| format!("hot segment at {} of file {}", place.offset, place.file));
    let groups = live.groups.groups().filter(|(id, _)| jobs.damaged.groups.contains(id));
    let groups = groups.map(|(id, _)| format!("group {}", id.0));
    tables.chain(files).chain(groups).chain(hot).collect()
}

/// Bytes of the log that non-empty MemTables cover.
fn unflushed(log: &Log, state: &ReadState) -> u64 {
    let held = state.memtables.iter().filter(|slot| !slot.table.is_empty());
    let begin = held.map(|slot| slot.start).min();
    begin.map_or(0, |begin| log.buffer().written_upto().saturating_sub(begin))
}

/// Estimated bytes of keys and values in non-empty MemTables: commits in flight count as written
/// before.
fn unflushed_data(engine: &Engine, state: &ReadState) -> u64 {
    let held = || state.memtables.iter().filter(|slot| !slot.table.is_empty());
    let replayed: u64 = held().map(|slot| slot.replayed.load(Ordering::Relaxed)).sum();
    let before = held().map(|slot| slot.written_before).min();
    let written = before.map_or(0, |before| engine.counters.user_bytes.get() - before);
    (replayed + written).min(unflushed(&engine.commit.log, state))
}

/// The content of each directory.
pub(crate) fn directories(placed: &MultiDirStorage) -> Result<Vec<DirectoryMetrics>> {
    let elsewhere = |class| placed.volumes().any(|volume| volume.classes.contains(&class));
    let own = FileClass::ALL.into_iter().filter(|class| !elsewhere(*class)).collect();
    let first = Directory { classes: own, ..placed.first().clone() };
    std::iter::once(&first).chain(placed.volumes()).map(directory).collect()
}

fn directory(directory: &Directory) -> Result<DirectoryMetrics> {
    let Directory { storage, path, classes, capacity } = directory;
    let failed = |e| Error::io("list the directory", e).with("path", path);
    let files = storage.list().map_err(failed)?;
    Ok(DirectoryMetrics {
        path: path.clone(),
        classes: classes.clone(),
        capacity: *capacity,
        files: files.len(),
        bytes: files.iter().map(|(_, len)| len).sum(),
        free: storage.free_space().map_err(failed)?,
    })
}

/// Bytes of lone files whose values are needed, besides what entries of tables own of them.
fn lone_bytes(engine: &Engine, live: &LiveFiles) -> u64 {
    let lens = live.value_files.iter().filter_map(|(number, facts)| {
        Some(engine.lone_len(number, facts)?.saturating_sub(facts.live))
    });
    lens.sum()
}

fn value_files(engine: &Engine, live: &LiveFiles) -> Vec<ValueFileMetrics> {
    live.value_files
        .iter()
        .map(|(number, facts)| ValueFileMetrics {
            name: Name::numbered(facts.kind, number).to_string(),
            bytes: match live.value_files.get_whole(number) {
                Some(whole) => whole.len,
                None => Some(extents(live, number).map(Extent::len).sum()),
            },
            live: engine.lone_len(number, facts).unwrap_or_else(|| {
                facts.live + extents(live, number).map(|extent| extent.live).sum::<u64>()
            }),
        })
        .collect()
}

fn group_records(live: &LiveFiles) -> Vec<u64> {
    let records = |id| live.groups.extents_of(id).map(|extent| extent.records).sum();
    live.groups.groups().map(|(id, _)| records(id)).collect()
}

/// The extents of a group file.
fn extents(live: &LiveFiles, file: FileNumber) -> impl Iterator<Item = &Extent> {
    live.groups.extents_in(file)
}

fn levels(version: &cleavedb_index::Version) -> Vec<LevelMetrics> {
    let present: BTreeSet<u8> = version.tables().map(|(level, _)| level).collect();
    present
        .into_iter()
        .map(|level| {
            let tables: Vec<_> =
                version.tables().filter(|(l, _)| *l == level).map(|(_, t)| t.meta()).collect();
            LevelMetrics {
                level: usize::from(level),
                tables: tables.len(),
                runs: if level == 0 { version.runs().len() } else { 1 },
                bytes: tables.iter().map(|t| t.size).sum(),
                entries: tables.iter().map(|t| t.entries).sum(),
                tombstones: tables.iter().map(|t| t.deletes).sum(),
            }
        })
        .collect()
}
