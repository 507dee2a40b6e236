//! The space limit of a database: its budget, upper bounds of what jobs write, and the results of
//! searches for space.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use cleavedb_base::limits::BLOCK;
use cleavedb_base::sync::Mutex;
use cleavedb_base::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use cleavedb_base::{Error, ErrorKind, Result, SeqNo};
use cleavedb_hot::evacuation::EXCESS;
use cleavedb_hot::segment::record_max;
use cleavedb_storage::Storage;
use cleavedb_storage::quota::{Budget, QuotaStorage};
use cleavedb_values::groups::Extent;
use cleavedb_values::{GroupId, GroupTable, ValueFileMeta};

use crate::control::gate::Intent;
use crate::settings::options::Options;
use crate::store::manifest::LEN_MAX as MANIFEST_MAX;

/// Estimated bytes of a record without a value.
const SMALL_RECORD: u64 = 64;

/// The state that a fruitless search for space saw.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct ReclaimSnapshot {
    pub(crate) visible: SeqNo,
    pub(crate) snapshots: Vec<SeqNo>,
    pub(crate) data: u64,
}

/// A fruitless search for space.
pub(crate) struct ReclaimAttempt {
    pub(crate) reclaim_snapshot: ReclaimSnapshot,
    pub(crate) end: Instant,
    pub(crate) took: Duration,
}

/// The purpose of space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Need {
    /// A write.
    Write,
    /// Deletes: they take little, and without them no space could be freed.
    Deletes,
    /// A batch of this many bytes, longer than a log file.
    Long(u64),
}

/// The space limit of a database.
pub(crate) struct Limit {
    pub(crate) budget: Arc<Budget>,
    /// Bytes of files at which writers are stopped.
    pub(crate) stop: AtomicU64,
    /// Bytes of files at which deletes are stopped too: the rest is for jobs alone.
    pub(crate) full: AtomicU64,
    /// Whether writers are stopped for it, as last checked.
    pub(crate) writes_blocked: AtomicBool,
    /// Whether the last job that was due had no room, and no job that may free some was running.
    pub(crate) jobs_blocked: AtomicBool,
    /// Whether a search for space is running.
    pub(crate) searching: AtomicBool,
    pub(crate) searched: Mutex<Option<ReclaimAttempt>>,
    pub(crate) collected: Mutex<ReclaimHistory>,
}

/// Results of collections since writers last began a log file or a search.
#[derive(Default)]
pub(crate) struct ReclaimHistory {
    /// Fewest bytes of files after one of them.
    least: Option<u64>,
    /// Bytes that were rewritten since then without reducing it.
    pub(crate) futile_bytes: u64,
}

impl Limit {
    /// Whether all of the index must sink, for the sake of what is dead in it.
    pub(crate) fn forces_full_compaction(&self) -> bool {
        self.searching.load(Ordering::Relaxed)
    }

    /// The limit that `options` set. Reading needs no room in it.
    pub(crate) fn of(options: &Options, intent: Intent) -> Result<Option<Self>> {
        let Some(limit) = options.space_limit else { return Ok(None) };
        let least = options.space_limit_min();
        if limit < least && intent == Intent::Write {
            let message = "space_limit, asked for or stored with the database, is less than what \
                           the smallest MemTables, log files, and segments that jobs rewrite need; \
                           raise it, or lift it (u64::MAX; --space-limit none)";
            return Err(Error::new(ErrorKind::InvalidOptions, message).with("least", least));
        }
        Ok(Some(Self {
            budget: Arc::new(Budget::new(limit, for_metadata(options))),
            stop: AtomicU64::new(u64::MAX),
            full: AtomicU64::new(u64::MAX),
            writes_blocked: AtomicBool::new(false),
            jobs_blocked: AtomicBool::new(false),
            searching: AtomicBool::new(false),
            searched: Mutex::new(None),
            collected: Mutex::default(),
        }))
    }

    /// Records that a collection has rewritten `bytes`.
    pub(crate) fn collected(&self, bytes: u64) {
        let (data, mut collected) = (self.budget.data(), self.collected.lock());
        if collected.least.is_some_and(|least| least <= data) {
            collected.futile_bytes += bytes;
        } else {
            *collected = ReclaimHistory { least: Some(data), futile_bytes: 0 };
        }
    }

    /// Whether writers with this need must be stopped.
    pub(crate) fn is_reached(&self, need: Need) -> bool {
        let at = if need == Need::Deletes { &self.full } else { &self.stop };
        self.budget.data() >= at.load(Ordering::Relaxed)
    }

    /// Records that a due job has no room, unless other jobs run that may free some.
    pub(crate) fn block_jobs(&self) {
        self.jobs_blocked.store(self.budget.planned() == 0, Ordering::Relaxed);
    }

    /// `storage`, within the limit.
    pub(crate) fn over(&self, storage: Arc<dyn Storage>) -> io::Result<Arc<dyn Storage>> {
        Ok(Arc::new(QuotaStorage::new(storage, Arc::clone(&self.budget))?))
    }
}

/// Bytes of the limit for metadata, which is never refused: two manifests, one of which replaces
/// the other, the window, and small files such as `current`.
pub(crate) fn for_metadata(options: &Options) -> u64 {
    2 * MANIFEST_MAX + options.window() as u64 + (1 << 20)
}

/// Divisor of the hot store for the records that one flush promotes.
pub(crate) const PROMOTED: u64 = 8;

/// Divisor of the hot store for the stubs that a flush may copy: records of 1 KiB have stubs of a
/// tenth of that.
const STUBS: u64 = 8;

/// Upper bound of the bytes that the flush of a MemTable writes to `groups` groups, each of which
/// gets whole blocks.
pub(crate) fn flush_max(options: &Options, groups: usize) -> u64 {
    let bytes = (options.memtable() as u64).max(options.log().flushed_values(options));
    flushed_max(bytes) + (groups * BLOCK) as u64 + hot_max(options, bytes)
}

/// Upper bound of the bytes that the flush of `bytes` writes to a hot store besides: promoted
/// records, stubs, and records of evacuated segments. These are as many as come in and those by
/// which the store was too long, or which a caller asked for, but no more than the longest store
/// has that takes values.
fn hot_max(options: &Options, bytes: u64) -> u64 {
    if !options.layout().has_hot_store() {
        return 0;
    }
    let (hot, segment) = (options.hot_bytes, options.tuning.groups.hot_segment_bytes);
    let promoted = hot / PROMOTED;
    let evacuated = bytes + promoted + moved_beyond(options);
    let longest = hot + hot / 2 + hot.min(record_max(segment));
    flushed_max(promoted + evacuated.min(longest)) + hot / STUBS
}

/// Upper bound of the bytes that an evacuation of a hot store moves, beyond those that come in.
pub(crate) fn moved_beyond(options: &Options) -> u64 {
    let segment = options.tuning.groups.hot_segment_bytes;
    options.hot_bytes / EXCESS + segment.min(options.hot_bytes)
}

/// Upper bound of the bytes that a collection of a group writes: records not known to be dead, in
/// two groups if it splits, with filters, key directories and new entries.
pub(crate) fn rewritten_max(groups: &GroupTable, group: GroupId) -> u64 {
    extents_rewritten_max(groups.extents_of(group))
}

/// Upper bound of the bytes that a collection writes for a subset of the extents of a group.
pub(crate) fn extents_rewritten_max<'e>(extents: impl Iterator<Item = &'e Extent>) -> u64 {
    rewritten(extents_alive_max(extents))
}

/// Bytes of records in these extents that are not known to be dead.
pub(crate) fn extents_alive_max<'e>(extents: impl IntoIterator<Item = &'e Extent>) -> u64 {
    let small = |extent: &Extent| (extent.stubs + extent.tags) * SMALL_RECORD;
    extents.into_iter().map(|extent| extent.live + small(extent)).sum()
}

/// Upper bound of the bytes that a collection of a file writes.
pub(crate) fn file_rewritten_max(facts: &ValueFileMeta) -> u64 {
    rewritten(facts.live.min(facts.len.unwrap_or_default()))
}

fn rewritten(alive: u64) -> u64 {
    alive + alive / 8 + 2 * BLOCK as u64
}

/// Upper bound of the bytes that a flush of `bytes` writes.
pub(crate) fn flushed_max(bytes: u64) -> u64 {
    bytes.saturating_add(bytes / 8)
}

/// Bytes of log that can begin before a writer is stopped: the file in use, and the next one.
pub(crate) fn logs(options: &Options) -> u64 {
    options.tuning.log_file_bytes.saturating_mul(2)
}

/// Space for deletes when nothing else is written any more: log files and flushes, until the dead
/// records are collected.
pub(crate) fn for_deletes(options: &Options, groups: usize) -> u64 {
    flush_max(options, groups).saturating_add(options.tuning.log_file_bytes).saturating_mul(2)
}

/// Bytes to plan for a job that may write `bytes`.
pub(crate) fn planned(bytes: u64) -> u64 {
    bytes.saturating_add(bytes / 16)
}

impl Options {
    /// The options, small enough for their space limit, if there is one.
    pub(crate) fn within_limit(self) -> Self {
        let limit = self.space_limit.unwrap_or(u64::MAX);
        self.made_to_fit(|options| options.space_limit_min() <= limit)
    }

    /// The least [`Options::space_limit`] for which no size is made smaller, in bytes: as much for
    /// data as is kept for jobs.
    pub fn space_limit_min(&self) -> u64 {
        let collection = self.tuning.segment_bytes.max(self.tuning.log_file_bytes);
        let flushes = flush_max(self, 0).saturating_mul(self.memtables_max() as u64 + 1);
        let job = collection
            .max(self.log().collected_bytes(self))
            .saturating_add(self.tuning.table_bytes);
        let parts = [logs(self), planned(job), for_deletes(self, 0)];
        let jobs = parts.into_iter().fold(flushes, u64::saturating_add);
        for_metadata(self).saturating_add(jobs.saturating_mul(2))
    }
}
