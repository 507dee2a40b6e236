//! The parts of an engine, put together from what recovery found.

use std::sync::Arc;

use cleavedb_base::Result;
use cleavedb_base::sync::Mutex;
use cleavedb_base::sync::atomic::AtomicUsize;
use cleavedb_hot::HotStore;
use cleavedb_index::{MemTable, RangeTombstones};
use cleavedb_storage::log::Log;
use cleavedb_storage::pages::PagePool;
use cleavedb_values::groups::GroupFilters;
use cleavedb_values::{RecordCache, SegmentSet};

use crate::catalog::Catalog;
use crate::catalog_load;
use crate::commit::Commit;
use crate::dead::DeadReads;
use crate::directories::Directories;
use crate::engine::Engine;
use crate::events::Events;
use crate::flush_parts::FlushParts;
use crate::full_disk::FullDisk;
use crate::gate::{Gate, Intent};
use crate::hot_load;
use crate::job_state::Jobs;
use crate::latency::Latencies;
use crate::limit::Limit;
use crate::manifest::LiveFiles;
use crate::merge::Merges;
use crate::metrics::Counters;
use crate::options::{Background, Options};
use crate::pace::Pacer;
use crate::poison::Poison;
use crate::recovery::Recovered;
use crate::replay::RecoveryReport;
use crate::resources::Resources;
use crate::retained_log::RetainedLog;
use crate::snapshot::SnapshotList;
use crate::state::{MemSlot, ReadState, ReadStates};
use crate::throttle::Throttle;
use crate::time::Time;
use crate::value_files;

/// Puts the engine together from what recovery found.
pub(crate) fn build(
    directories: Directories,
    options: Options,
    recovered: Recovered,
    (limit, full): (Option<Limit>, FullDisk),
    (intent, salt): (Intent, u64),
) -> Result<(Engine, RecoveryReport)> {
    let Directories { placed: storage, locks, .. } = directories;
    let Recovered { manifest, database_id, tables, obsolete_files, .. } = recovered;
    let live = manifest.live().clone();
    let min_separated = options.min_separated.given(live.saved_separation());
    let options = Options { min_separated, ..options };
    let poison = Arc::new(Poison::default());
    let (log, appender) = Log::idle(database_id, recovered.position, options.log_file_bytes);
    // What was replayed is the MemTable that the next commits go to.
    let new = || MemSlot::new(options.memtable(), appender.next());
    let memtable = Arc::new(recovered.memtable.unwrap_or_else(new));
    let jobs = Jobs::default();
    jobs.set_seq_limit(live.seq_limit);
    let state = state_of(&memtable, &live);
    let commit = Commit::new(log, appender, memtable, recovered.next_seq, poison.clone());
    let store = || HotStore::new(database_id, options.groups.hot_bytes, options.groups.heat_limit);
    let hot = options.layout.has_hot_store().then(store);
    let waits = options.background != Background::Manual;
    let reserve = full.reserve.clone();
    let pacer = Pacer::new(options.background_bytes_per_second, waits, reserve);
    let retained_log = RetainedLog::of(&live, options.keeps_changes(), commit.visible());
    let engine = Engine {
        storage,
        database_id,
        time: Time::new(options.time.clone()),
        merges: Merges::new(&options.merge_operators, options.merged_value_max()),
        catalog: Catalog::new(options.separated_from()),
        commit,
        state: ReadStates::new(state),
        manifest: Mutex::new(manifest),
        snapshots: Arc::new(SnapshotList::default()),
        retained_log,
        tables,
        records: record_cache(&options),
        obsolete_files,
        hot,
        jobs,
        throttle: Throttle::default(),
        limit,
        full,
        preallocated_log: Mutex::new(None),
        memtable_pages: MemTable::pool(options.memtable()),
        flush_parts: FlushParts::default(),
        flush_pages: PagePool::new(options.flush_piece()),
        group_filters: Mutex::new(GroupFilters::new(options.group_filters())),
        poison,
        counters: Counters::default(),
        pacer,
        events: Events::new(options.listeners.clone()),
        latencies: Latencies::new(options.latency_sampling),
        totals_before: live.totals,
        salt,
        dead_reads: DeadReads::default(),
        options,
        forgotten_tombstones: Mutex::default(),
        searches_left_out: AtomicUsize::new(0),
        gate: Gate::new(intent),
        locks: Mutex::new(locks),
    };
    open_segments(&engine, &live)?;
    hot_load::load(&engine, &live)?;
    catalog_load::load(&engine)?;
    Ok((engine, recovered.report))
}

/// The read state after an open, before its segments are open and its range tombstones known.
fn state_of(memtable: &Arc<MemSlot>, live: &LiveFiles) -> ReadState {
    ReadState {
        memtables: vec![memtable.clone()],
        version: live.version.clone(),
        segments: Arc::new(SegmentSet::default()),
        groups: live.groups.clone(),
        tombstones: RangeTombstones::default(),
        forgotten_upto: 0,
    }
}

/// The cache of records that `options` ask for, of its own or in shared memory.
fn record_cache(options: &Options) -> Option<RecordCache> {
    let bytes = options.record_cache_bytes as u64;
    let own = || (bytes > 0).then(|| RecordCache::new(bytes));
    options.resources.as_ref().map_or_else(own, Resources::record_cache)
}

/// Opens every value file of the table of value files for reading.
fn open_segments(engine: &Engine, live: &LiveFiles) -> Result<()> {
    let mut segments = Vec::new();
    for (number, facts) in live.value_files.iter() {
        segments.push(engine.open_segment(facts.kind, number, None)?);
    }
    let segments = SegmentSet::default().with(&segments, &[]);
    let segments = value_files::open_groups(engine, live, &segments)?;
    engine.state.swap(|state| state.with_segments(segments.clone()));
    Ok(())
}
