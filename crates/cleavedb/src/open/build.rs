//! The parts of an engine, put together from what recovery found.

use std::sync::Arc;

use cleavedb_base::Result;
use cleavedb_base::sync::Mutex;
use cleavedb_index::DeletedRanges;
use cleavedb_storage::log::Log;
use cleavedb_values::groups::GroupFilters;
use cleavedb_values::{RecordCache, SegmentSet};

use crate::control::events::Events;
use crate::control::flush_parts::FlushParts;
use crate::control::gate::{Gate, Intent};
use crate::control::latency::Latencies;
use crate::control::metrics::Counters;
use crate::control::pace::Pacer;
use crate::control::throttle::Throttle;
use crate::engine::job_state::Jobs;
use crate::engine::range_tombstones::RangeNumbers;
use crate::engine::space::rest::StoreAtRest;
use crate::engine::value_files;
use crate::engine::{Engine, Primary};
use crate::open::catalog_load;
use crate::open::directories::Directories;
use crate::open::hot_load::{load_apart, open_apart};
use crate::open::recovery::Recovered;
use crate::open::replay::RecoveryReport;
use crate::operations::catalog::Catalog;
use crate::operations::commit::Commit;
use crate::operations::recent_writes::RecentWrites;
use crate::settings::options::{Background, Options};
use crate::settings::resources::Resources;
use crate::settings::time::Time;
use crate::store::dead::DeadReads;
use crate::store::full_disk::FullDisk;
use crate::store::limit::Limit;
use crate::store::manifest::LiveFiles;
use crate::store::retained_log::RetainedLog;
use crate::store::snapshot::SnapshotList;
use crate::store::spare_pages::SparePages;
use crate::store::state::{MemSlot, ReadState, ReadStates};

/// What the engine of a reader beside the writer has besides.
pub(crate) struct BesideWriter<'a> {
    pub(crate) primary: Primary,
    /// The engine before it: open files, keyspaces and snapshots are shared.
    pub(crate) earlier: Option<&'a Engine>,
}

/// Puts the engine together from what recovery found.
pub(crate) fn build(
    directories: Directories,
    options: Options,
    recovered: Recovered,
    limit: Option<Limit>,
    full: FullDisk,
    intent: Intent,
    beside: Option<BesideWriter<'_>>,
) -> Result<(Engine, RecoveryReport)> {
    let Directories { placed: storage, locks, .. } = directories;
    let Recovered { manifest, database_id, tables, obsolete_files, .. } = recovered;
    let live = manifest.live().clone();
    let options = options.complete(live.saved_separation());
    let (poison, noted) = (Arc::default(), RecentWrites::new(options.recent_writes_max()));
    let (log, appender) = Log::idle(database_id, recovered.position, options.tuning.log_file_bytes);
    // What was replayed is the MemTable that the next commits go to.
    let new = || Arc::new(MemSlot::new(options.memtable(), appender.next()));
    let memtable = recovered.memtable.unwrap_or_else(new);
    let (primary, earlier) = beside.map_or((None, None), |it| (Some(it.primary), it.earlier));
    let (catalog, snapshots) = shared(earlier, &options);
    let jobs = Jobs::default();
    jobs.set_seq_limit(live.seq_limit);
    let state = ReadStates::new(state_of(&memtable, &live));
    let commit = Commit::new(log, appender, memtable, recovered.next_seq, noted, &poison);
    let pacer = pacer(&options, &full);
    let retained_log = RetainedLog::of(&live, options.keeps_changes(), commit.visible());
    let engine = Engine {
        memtable_limits: options.memtable_limits(),
        storage,
        database_id,
        time: Time::new(options.time.clone()),
        merges: options.merges(),
        catalog,
        commit,
        state,
        manifest: Mutex::new(manifest),
        primary,
        snapshots,
        retained_log,
        tables,
        records: record_cache(&options),
        obsolete_files,
        punching: Mutex::new(()),
        punches: Mutex::new(()),
        apart: open_apart(database_id, &options, &live, earlier),
        jobs,
        throttle: Throttle::covering(options.log().covered_at_first(&options)),
        limit,
        full,
        preallocated_log: Mutex::new(None),
        flush_parts: FlushParts::default(),
        spare_pages: SparePages::new(&options),
        group_filters: Mutex::new(GroupFilters::new(options.group_filters())),
        poison,
        counters: Counters::default(),
        pacer,
        events: Events::new(options.listeners.clone()),
        latencies: Latencies::new(options.latency_sampling),
        totals_before: live.totals,
        salt: recovered.salt,
        dead_reads: DeadReads::default(),
        rest: StoreAtRest::default(),
        options,
        range_numbers: RangeNumbers::default(),
        gate: Gate::new(intent),
        locks: Mutex::new(locks),
    };
    load(&engine, &live, intent, earlier)?;
    Ok((engine, recovered.report))
}

/// What an engine takes from an `earlier` one of the same database, if there is one: the catalog,
/// still without names, and the snapshots.
fn shared(earlier: Option<&Engine>, options: &Options) -> (Catalog, Arc<SnapshotList>) {
    match earlier {
        None => (Catalog::new(options), Arc::default()),
        Some(earlier) => (earlier.catalog.next(), earlier.snapshots.clone()),
    }
}

fn pacer(options: &Options, full: &FullDisk) -> Arc<Pacer> {
    // A checker has no time that passes.
    let waits = options.background != Background::Manual && !cfg!(feature = "test-checked");
    Pacer::new(options.background_bytes_per_second, waits, full.reserve.clone())
}

/// Reads what is needed of the live files before the first call.
fn load(engine: &Engine, live: &LiveFiles, intent: Intent, earlier: Option<&Engine>) -> Result<()> {
    open_segments(engine, live, earlier)?;
    load_apart(engine, live, earlier)?;
    match intent {
        // A follower has no data, so no names either.
        Intent::Follow => Ok(()),
        Intent::Read | Intent::Write => catalog_load::load(engine, earlier),
    }
}

/// The read state after an open, before its segments are open and its deletes of ranges known.
fn state_of(memtable: &Arc<MemSlot>, live: &LiveFiles) -> ReadState {
    ReadState {
        memtables: vec![memtable.clone()],
        version: live.version.clone(),
        segments: Arc::new(SegmentSet::default()),
        groups: live.groups.clone(),
        deleted: DeletedRanges::default(),
    }
}

/// The cache of records that `options` ask for, of its own or in shared memory.
fn record_cache(options: &Options) -> Option<RecordCache> {
    let bytes = options.record_cache_bytes as u64;
    let own = || (bytes > 0).then(|| RecordCache::new(bytes));
    options.resources.as_ref().map_or_else(own, Resources::record_cache)
}

/// Opens every value file of the table of value files for reading, but those that `earlier` has.
fn open_segments(engine: &Engine, live: &LiveFiles, earlier: Option<&Engine>) -> Result<()> {
    let known = earlier.map(|earlier| earlier.state.load().segments.clone()).unwrap_or_default();
    let mut segments = Vec::new();
    for (number, facts) in live.value_files.iter() {
        segments.push(match known.get(number) {
            Some(segment) => segment.clone(),
            None => engine.open_segment(facts.kind, number, None)?,
        });
    }
    let segments = engine.catalog.no_segments().with(&segments, &[]);
    let segments = value_files::open_groups(engine, live, &segments, &known)?;
    engine.state.swap(|state| state.with_segments(segments.clone()));
    Ok(())
}
