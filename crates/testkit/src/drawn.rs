//! Options drawn at random, including sizes and ratios; and stores that are reopened with other
//! options, whose background work must end each time.

use std::collections::BTreeMap;
use std::sync::Arc;

use std::time::Duration;

use cleavedb::layout::{GroupLayout, Partition, SurvivorRoute};
use cleavedb::tuning::{GroupOptions, Level0};
use cleavedb::{
    Background, Compression, Db, Durability, ErrorKind, Metrics, Options, Preset, Snapshot, Tuning,
    ValueCompression,
};
use cleavedb_storage::FileKind;
use cleavedb_storage_sim::Sim;
use cleavedb_storage_sim::sim::Rng;

use crate::endless::damage;
use crate::read::Checked;
use crate::setup::tiny;

/// Options that are fixed when a store is created.
pub fn created(rng: &mut Rng) -> Options {
    let preset = Preset::ALL[rng.index(Preset::ALL.len())];
    created_as(preset, rng)
}

fn created_as(preset: Preset, rng: &mut Rng) -> Options {
    let mut options = tiny(preset);
    let mut layout = options.layout();
    if let Some(groups) = &mut layout.groups {
        let by_hash = groups.partition == Partition::Hash;
        if by_hash && rng.chance(50) {
            groups.survivors = SurvivorRoute::Tagged;
        }
        #[cfg(feature = "experiments")]
        if !by_hash && rng.chance(30) {
            groups.partition = Partition::Prefix(1 + rng.index(3) as u8);
        }
        options.tuning.groups = groups_redrawn(*groups, rng);
    }
    options.layout = Some(layout);
    options
}

/// The ways to keep level 0.
const LEVEL0: &[Level0] = &[
    Level0::Whole,
    Level0::Partitions(3),
    #[cfg(feature = "experiments")]
    Level0::HyperLevelDb,
];

/// `least` times a power of two below `2^doublings`.
fn size(rng: &mut Rng, least: u64, doublings: u64) -> u64 {
    least << rng.below(doublings)
}

/// Space for flushes to many short groups, in bytes: a block for each.
const GROUPS_ROOM: u64 = 4 << 20;

/// All options that may change at each open, for a store of at most `live` bytes. Every field is
/// named, so that a new option cannot be forgotten.
pub fn redrawn(base: &Options, live: u64, rng: &mut Rng) -> Options {
    let separates = base.layout().separates();
    let least = [0, 64, 500, 4000][rng.index(4)];
    let min_separated = match rng.below(4) {
        0 => None,
        _ => Some(least).filter(|_| separates),
    };
    let record_cache_bytes = [0, 64 << 10, 1 << 20][rng.index(3)];
    let mut options = Options {
        preset: base.preset,
        layout: base.layout,
        create_if_missing: base.create_if_missing,
        error_if_exists: base.error_if_exists,
        durability: [Durability::Os, Durability::Sync][rng.index(2)],
        min_separated,
        memory_bytes: size(rng, 48 << 20, 5) as usize + record_cache_bytes,
        record_cache_bytes,
        hot_bytes: match base.layout().has_hot_store() {
            true => size(rng, 4 << 10, 4),
            false => base.hot_bytes,
        },
        compression: [Compression::None, Compression::Lz4, Compression::Zstd][rng.index(3)],
        value_compression: ValueCompression::ALL[rng.index(4)].1,
        space_amplification: 1.05 + rng.below(100) as f64 / 100.0,
        // No limit but the disk's, whatever the last open had.
        space_limit: Some(u64::MAX),
        change_retention_bytes: [None, Some(0), Some(1), Some(64 << 10)][rng.index(4)],
        accept_lost_window: base.accept_lost_window,
        expired_within: Duration::from_millis([0, 100, 100_000][rng.index(3)]),
        time: base.time.clone(),
        filter: None,
        merge_operators: base.merge_operators.clone(),
        resources: base.resources.clone(),
        background_bytes_per_second: [None, Some(64 << 20), Some(1 << 40)][rng.index(3)],
        listeners: base.listeners.clone(),
        latency_sampling: [0, 1, 10][rng.index(3)],
        volumes: base.volumes.clone(),
        background: match rng.below(4) {
            0 => Background::Manual,
            threads => Background::Threads(threads as usize),
        },
        tuning: tuning_redrawn(base.layout().groups, rng),
        more: (),
    };
    if rng.chance(30) {
        let room = live * size(rng, 2, 3) + GROUPS_ROOM;
        options.space_limit = Some(options.space_limit_min() + room);
    }
    options
}

fn tuning_redrawn(layout: Option<GroupLayout>, rng: &mut Rng) -> Tuning {
    Tuning {
        long_value_bytes: [None, Some(1 << 10), Some(4 << 10)][rng.index(3)],
        blob_bytes: [1, 300, 4 << 10][rng.index(3)],
        memtable_bytes: Some(size(rng, 64 << 10, 3) as usize),
        memtables_max: Some(1 + rng.index(3)),
        memtable_log_bytes: size(rng, 32 << 10, 4),
        log_file_bytes: size(rng, 32 << 10, 5),
        segment_bytes: size(rng, 32 << 10, 4),
        window_bytes: Some(size(rng, 64 << 10, 4) as usize),
        cache_bytes: Some(size(rng, 16 << 10, 5) as usize),
        read_ahead_bytes: [0, 4 << 10, 64 << 10][rng.index(3)],
        // Also blocks longer than a table: compressed, each is short.
        block_bytes: size(rng, 256, 9) as usize,
        filter_bits: rng.index(12),
        table_bytes: size(rng, 4 << 10, 5),
        level0: Some(LEVEL0[rng.index(LEVEL0.len())]),
        level0_bytes: Some(size(rng, 4 << 10, 6)),
        level1_bytes: Some(size(rng, 4 << 10, 6)),
        space_floor: [0, 16 << 10, 64 << 10, 256 << 10][rng.index(4)],
        #[cfg(feature = "experiments")]
        open_tables_max: None,
        groups: layout.map(|groups| groups_redrawn(groups, rng)).unwrap_or_default(),
        more: (),
    }
}

fn groups_redrawn(layout: GroupLayout, rng: &mut Rng) -> GroupOptions {
    let usual = GroupOptions::default();
    let shared = (size(rng, 4 << 10, 2), 0.05 + rng.below(100) as f64 / 100.0);
    let (log_segment_bytes, reserved_space) = match layout.shares_segments() {
        true => shared,
        false => (usual.log_segment_bytes, usual.reserved_space),
    };
    GroupOptions {
        capacity_bytes: size(rng, 16 << 10, 4),
        main_segment_bytes: size(rng, 8 << 10, 4),
        log_segment_bytes,
        reserved_space,
        key_block_record_bytes: [0, 1000, u64::MAX][rng.index(3)],
        hot_segment_bytes: if layout.hot {
            size(rng, 16 << 10, 3)
        } else {
            usual.hot_segment_bytes
        },
        heat_limit: if layout.hot { [None, Some(1), Some(3)][rng.index(3)] } else { None },
        #[cfg(feature = "experiments")]
        experiments: experiments_redrawn(layout, rng),
    }
}

#[cfg(feature = "experiments")]
fn experiments_redrawn(layout: GroupLayout, rng: &mut Rng) -> cleavedb::tuning::GroupExperiments {
    use cleavedb::tuning::VictimPolicy::{CostBenefit, Greedy, GreedyRandom, Random};

    cleavedb::tuning::GroupExperiments {
        one_at_first: layout.partition == Partition::Range && rng.chance(30),
        victim: [Greedy, CostBenefit, GreedyRandom(2), Random][rng.index(4)],
        cold_log_counts: rng.chance(80) || layout.survivors != SurvivorRoute::Tagged,
    }
}

/// Opens of one store, rounds of each, and writes of one round.
const OPENS: u32 = 6;
const ROUNDS: u32 = 4;
const WRITES: usize = 120;

/// Keys, and lengths of values.
const KEYS: usize = 150;
const LENS: [usize; 5] = [5, 60, 300, 1500, 6000];

/// Most live bytes.
const LIVE: u64 = KEYS as u64 * 2000;

/// Most jobs after a round until none is due.
const JOBS_MAX: u64 = 2000;

/// Content of a store.
type Model = BTreeMap<Vec<u8>, Vec<u8>>;

/// Bytes that these jobs may write for each existing byte, and in addition: jobs that repeat
/// without gain write more.
const WRITTEN_MAX: u64 = 8;
const WRITTEN_FEW: u64 = 256 << 10;

/// A store and its expected content.
struct Store {
    db: Db,
    model: Model,
    snapshots: Vec<(Snapshot, Model)>,
    /// Whether its files were damaged: then reads may fail, but must not return wrong values.
    damaged: bool,
}

impl Store {
    /// Whether there may be garbage that no job can reclaim.
    fn holds_garbage(&self) -> bool {
        self.damaged || !self.snapshots.is_empty()
    }

    fn write(&mut self, rng: &mut Rng) -> Checked<()> {
        let key = format!("key {:03}", rng.index(KEYS).min(rng.index(KEYS))).into_bytes();
        let done = match rng.chance(20) {
            true => self.db.delete(&key).map(|()| self.model.remove(&key)),
            false => {
                let mut value = vec![0; LENS[rng.index(LENS.len())]];
                if rng.chance(50) {
                    rng.fill(&mut value);
                }
                self.db.put(&key, &value).map(|()| self.model.insert(key, value))
            }
        };
        match done {
            // Dead records cannot be reclaimed: a snapshot holds them, or damage.
            Err(e) if e.kind() == ErrorKind::NoSpace && self.holds_garbage() => Ok(()),
            done => done.map(drop).map_err(|e| format!("a write: {e} {:?}", self.db.metrics())),
        }
    }

    /// Runs jobs until none is due; returns their number. Damage is reported once.
    fn wait_idle(&self) -> Checked<u64> {
        let threads = self.db.options().background != Background::Manual;
        for jobs in 0..JOBS_MAX {
            // With threads, the store itself runs the jobs.
            let step = if threads { self.db.wait_idle().map(|()| false) } else { self.db.step() };
            match step {
                Ok(false) => return Ok(jobs),
                Ok(true) => {}
                Err(e) if self.damaged && e.kind() == ErrorKind::Corruption => {}
                Err(e) if e.kind() == ErrorKind::NoSpace => return Ok(jobs),
                Err(e) => return Err(format!("a job: {e}")),
            }
        }
        Err(format!("{JOBS_MAX} jobs have run, and one is due still: {:?}", self.db.metrics()))
    }

    fn compare(&self) -> Checked<()> {
        let same = |found: cleavedb::Result<Option<Vec<u8>>>, wanted: Option<&Vec<u8>>| match found
        {
            Err(e) if self.damaged && e.kind() == ErrorKind::Corruption => Ok(()),
            Err(e) => Err(format!("a read: {e}")),
            Ok(found) if found.as_ref() == wanted => Ok(()),
            Ok(_) => Err("a wrong value".to_owned()),
        };
        for at in 0..KEYS {
            let key = format!("key {at:03}").into_bytes();
            let found = self.db.get(&key).map(|value| value.map(|value| value.to_vec()));
            same(found, self.model.get(&key)).map_err(|e| format!("key {at}: {e}"))?;
            for (snapshot, model) in &self.snapshots {
                let found = snapshot.get(&key).map(|value| value.map(|value| value.to_vec()));
                same(found, model.get(&key)).map_err(|e| format!("a snapshot, key {at}: {e}"))?;
            }
        }
        Ok(())
    }

    /// Writes, with jobs and snapshots in between, and settles.
    fn round(&mut self, rng: &mut Rng) -> Checked<u64> {
        for _ in 0..WRITES {
            self.write(rng)?;
            if rng.chance(5) {
                let stepped = self.db.step();
                stepped.map(drop).or_else(|e| match e.kind() {
                    ErrorKind::Corruption if self.damaged => Ok(()),
                    ErrorKind::NoSpace => Ok(()),
                    _ => Err(format!("a job: {e}")),
                })?;
            }
            if rng.chance(2) {
                self.snapshots.push((self.db.snapshot(), self.model.clone()));
            }
            if rng.chance(3) && !self.snapshots.is_empty() {
                self.snapshots.swap_remove(rng.index(self.snapshots.len()));
            }
        }
        let before = self.db.metrics();
        let jobs = self.wait_idle()?;
        let after = self.db.metrics();
        let of = |metrics: &Metrics| metrics.collection_written + metrics.compaction_written;
        let written = of(&after) - of(&before);
        let all = before.value_bytes + before.index_bytes + before.unflushed_bytes;
        match written <= WRITTEN_MAX * all + WRITTEN_FEW {
            true => Ok(jobs),
            false => Err(format!("{jobs} jobs wrote {written} bytes where there are {all}")),
        }
    }
}

/// A store that is reopened with other options each time, written, and sometimes damaged: checks
/// that writers are not blocked for ever, that jobs end and are worth their cost, and that all
/// answers are right. Returns the most jobs of a round.
pub fn drawn_stores_settle(seed: u64) -> Checked<u64> {
    drawn_stores(seed, created, |_| Background::Manual)
}

/// As above, of stores with hot segments.
pub fn drawn_hot_stores_settle(seed: u64) -> Checked<()> {
    let created = |rng: &mut Rng| created_as(Preset::HoaKv, rng);
    drawn_stores(seed, created, |_| Background::Manual).map(drop)
}

/// As above, with background threads.
pub fn drawn_stores_settle_with_threads(seed: u64) -> Checked<()> {
    drawn_stores(seed, created, |rng| Background::Threads(1 + rng.index(3))).map(drop)
}

fn drawn_stores(
    seed: u64,
    created: impl Fn(&mut Rng) -> Options,
    background: fn(&mut Rng) -> Background,
) -> Checked<u64> {
    let mut rng = Rng::new(seed);
    let base = created(&mut rng);
    let (mut sim, mut model, mut most) = (Sim::new(), Model::new(), 0);
    sim.stop_recording();
    let mut damaged = false;
    for open in 0..OPENS {
        let options = redrawn(&base, LIVE, &mut rng);
        // Values are written past the page cache, through it, or both.
        sim.set_memory([0, u64::MAX, LIVE][open as usize % 3]);
        let options = Options { background: background(&mut rng), ..options };
        let failed = |e: String| format!("open {open}, {options:?}: {e}");
        let db = Db::open_in(Arc::new(sim.clone()), options.clone(), 7);
        let db = match db {
            // The damaged part was needed by replay.
            Err(e) if damaged && e.kind() == ErrorKind::Corruption => return Ok(most),
            db => db.map_err(|e| failed(e.to_string()))?,
        };
        let mut store = Store { db, model, snapshots: Vec::new(), damaged };
        for _ in 0..ROUNDS {
            most = store.round(&mut rng).map_err(failed)?.max(most);
            store.compare().map_err(failed)?;
        }
        store.snapshots.clear();
        most = store.wait_idle().map_err(failed)?.max(most);
        model = store.model;
        if rng.chance(50) {
            store.db.close().map_err(|e| failed(e.to_string()))?;
            if rng.chance(30) {
                let kinds = [FileKind::Table, FileKind::Log, FileKind::Group, FileKind::Segment];
                sim = damage(&sim, kinds[rng.index(kinds.len())]);
                sim.stop_recording();
                damaged = true;
            }
        } else {
            sim = sim.kill();
        }
    }
    Ok(most)
}
