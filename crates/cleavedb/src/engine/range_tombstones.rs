//! How range tombstones enter the read state, and leave it once nothing that they cover is left.
//!
//! A tombstone is forgotten when no job and no reader needs it any more:
//!
//! * Everything up to it is in tables: no MemTable has a version that it covers.
//! * No snapshot is older: every reader sees it.
//! * Each table that shares keys with it was written with it applied, or has only newer entries.
//! * No hot segment is left. A flush takes values from hot segments without asking for tombstones.
//! * A running collection has applied it: its run of new pointers has nothing that it covers.
//!
//! None of this changes back. Later snapshots, flushes and collections are newer than the
//! tombstone, and compactions read tables of the read state only. So it is looked up without locks.
//!
//! Groups whose records themselves tell what lives may still have records that the tombstone has
//! deleted. For these the read state keeps the greatest number that was forgotten: an older record
//! lives only if the index has it (`jobs/liveness.rs`).

use std::collections::BTreeSet;

use cleavedb_base::SeqNo;
use cleavedb_base::planted::{Bug, planted};
use cleavedb_base::sync::Mutex;
use cleavedb_base::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use cleavedb_index::edit::LEVEL_MAX;
use cleavedb_index::{RangeTombstone, Version};

use crate::engine::Engine;

/// Range tombstones among which a search goes after every job.
const SEARCHED_AT_ONCE: usize = 1 << 14;

/// Memory of a range tombstone and its fragments, about, in bytes; and the part of the memory that
/// all of them may take, as a divisor.
const BYTES: usize = 256;
const MEMORY_PART: usize = 16;

/// Numbers of range tombstones.
#[derive(Default)]
pub(crate) struct RangeNumbers {
    /// A number above those of all.
    next: AtomicU64,
    /// Numbers of those that were forgotten, until a commit deletes their records. A leaf lock.
    pub(crate) forgotten: Mutex<Vec<u64>>,
    /// Searches for some to forget that were left out, since there are very many.
    searches_left_out: AtomicUsize,
}

impl RangeNumbers {
    /// A number for a new range tombstone.
    pub(crate) fn take(&self) -> u64 {
        // Relaxed: the number need only differ from all others.
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    /// At an open: there is a range tombstone with this number.
    pub(crate) fn found(&self, number: u64) {
        self.next.fetch_max(number.saturating_add(1), Ordering::Relaxed);
    }
}

/// Adds range tombstones to the read state, before they become visible.
pub(crate) fn add_range_tombstones(engine: &Engine, added: Vec<RangeTombstone>) {
    let durable = engine.commit.durable();
    let (snapshots, visible) = engine.snapshots.fix(|| engine.commit.visible());
    let settled = snapshots.first().copied().unwrap_or(visible).min(durable);
    engine.state.swap(|state| state.with_deleted(state.deleted.with(added.clone(), settled)));
}

/// At an open: the greatest sequence number of a range tombstone that was ever forgotten.
pub(crate) fn set_forgotten_upto(engine: &Engine, forgotten_upto: SeqNo) {
    engine.state.swap(|state| state.with_deleted(state.deleted.with_forgotten(forgotten_upto)));
}

/// Removes the range tombstones from the read state that are needed no more, and adds their numbers
/// to [`RangeNumbers::forgotten`].
pub(crate) fn forget(engine: &Engine) {
    let count = engine.state.load().deleted.len();
    if count == 0 || is_left_out(engine, count) {
        return;
    }
    let upto = needless_upto(engine);
    // Loaded after the limit, so that everything up to there is in its tables.
    let state = engine.state.load_full();
    let needless = |it: &&RangeTombstone| it.seq <= upto && !may_be_left(&state.version, it);
    let needless: BTreeSet<u64> = state.deleted.iter().filter(needless).map(|it| it.id).collect();
    if needless.is_empty() {
        return;
    }
    // Only under this lock tombstones leave, so none is counted twice.
    let mut forgotten = engine.range_numbers.forgotten.lock();
    let there = engine.state.load().deleted.clone();
    engine.state.swap(|state| state.with_deleted(state.deleted.without(&needless)));
    forgotten.extend(there.iter().map(|it| it.id).filter(|id| needless.contains(id)));
}

/// Whether a search among `count` range tombstones is left out: it takes time for each, and comes
/// after each job.
fn is_left_out(engine: &Engine, count: usize) -> bool {
    // Relaxed: a search more or less does not matter.
    let before = engine.range_numbers.searches_left_out.fetch_add(1, Ordering::Relaxed);
    let enough = before >= count / SEARCHED_AT_ONCE;
    if enough {
        engine.range_numbers.searches_left_out.store(0, Ordering::Relaxed);
    }
    !enough
}

/// The number up to which tables are rewritten for every range tombstone: if all of them take more
/// memory than they should, that of most of them, so that these can be forgotten; 0 otherwise.
pub(crate) fn eager_upto(engine: &Engine) -> SeqNo {
    let state = engine.state.load();
    let takes = state.deleted.len().saturating_mul(BYTES);
    if takes > engine.options.memory_bytes / MEMORY_PART { state.deleted.most_upto() } else { 0 }
}

/// The sequence number up to which only tables can still need a range tombstone.
fn needless_upto(engine: &Engine) -> SeqNo {
    let (flushed, has_apart) = {
        let manifest = engine.manifest.lock();
        let live = manifest.live();
        (live.flushed, live.groups.extents_apart().next().is_some())
    };
    if has_apart {
        return 0;
    }
    let (snapshots, visible) = engine.snapshots.fix(|| engine.commit.visible());
    let seen_by_all = snapshots.first().copied().unwrap_or(visible);
    let collection = engine.jobs.lock().collection_applies.unwrap_or(SeqNo::MAX);
    flushed.min(seen_by_all).min(collection)
}

/// Whether a table may have a version that `tombstone` covers.
fn may_be_left(version: &Version, tombstone: &RangeTombstone) -> bool {
    let RangeTombstone { begin, end, seq, .. } = tombstone;
    let runs = version.runs().iter().map(|run| &run.set);
    let mut places = runs.chain((1..=LEVEL_MAX).map(|level| version.level(level)));
    !planted(Bug::TombstoneForgottenEarly)
        && begin < end
        && places.any(|place| {
            let mut tables = place.within(Some(begin), Some(end)).iter().map(|table| table.meta());
            tables.any(|meta| meta.min_seq < *seq && meta.uncovered_upto < *seq)
        })
}
