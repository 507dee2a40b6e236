//! What is kept for a full disk, and how much room a job has there.
//!
//! The reserve ([`cleavedb_storage::Reserve`]) is a quarter of the database's bytes, what flushes
//! of all that is in MemTables may take, and a manifest, within bounds, or more if level 0 has a
//! longer table. What jobs, manifests and deletes write when the disk is full comes from it.

use cleavedb_base::sync::atomic::Ordering;
use cleavedb_storage::{Borrower, Storage, Wanted};

use crate::engine::Engine;
use crate::space::sizes;

/// Bounds of the reserve, in bytes, and the part of the database's bytes that it is, one in so
/// many.
const LEAST: u64 = 48 << 10;

/// Most log that is written before the reserve is looked at again, in bytes: one step of its file.
const STEP: u64 = 16 << 20;

/// How many times as long as it should be the reserve may be before a close.
const TOO_LONG: u64 = 4;

/// What is kept for names besides a manifest, in bytes: `current`, and what directories take.
const NAMES: u64 = 16 << 10;

/// What the reserve should have, and how many times as long it may be.
pub(crate) fn reserve_wanted(engine: &Engine, times: u64) -> Wanted {
    let (share, flushes) = match &engine.limit {
        // Below a limit jobs have room of their own.
        Some(_) => (LEAST, 0),
        None => {
            let unflushed = unflushed(engine);
            let young = engine.full.seen.young.load(Ordering::Relaxed);
            let share = sizes::share(sizes::bytes(engine)).max(2 * young) + unflushed.min(STEP);
            (
                share.max(LEAST),
                unflushed + engine.full.seen.tombstone_blocks.load(Ordering::Relaxed),
            )
        }
    };
    let names = engine.full.seen.manifest.load(Ordering::Relaxed) + NAMES;
    let len = (share + flushes + names).min(sizes::MOST);
    let names = names.min(len / 2);
    let flushes = flushes.min((len - names) / 2);
    Wanted { len, names, flushes, most: len * times }
}

/// Bytes that flushes may write of what is in MemTables.
pub(crate) fn unflushed(engine: &Engine) -> u64 {
    let state = engine.state.load();
    let start = state.memtables.iter().map(|slot| slot.start).min();
    let covered =
        engine.commit.log.buffer().written_upto().saturating_sub(start.unwrap_or_default());
    let memory = state.memtables.iter().map(|slot| slot.table.memory() as u64).sum();
    let taken = engine.options.log().flushed_bytes(memory, covered);
    if engine.state.load().has_nothing_to_flush() { 0 } else { taken }
}

/// Makes the reserve as long as it should be, if the disk has room.
pub(crate) fn keep_reserve(engine: &Engine) {
    engine.full.reserve.keep(reserve_wanted(engine, TOO_LONG));
}

/// Makes the reserve as long as a closed database should have it.
pub(crate) fn cut_reserve(engine: &Engine) {
    engine.full.reserve.keep(reserve_wanted(engine, 1));
}

/// Takes back what the reserve has lent, if there is room again.
pub(crate) fn take_back(engine: &Engine) {
    if engine.full.is_short() {
        keep_reserve(engine);
    }
}

/// Whether the disk has no room for what must be written.
pub(crate) fn is_full(engine: &Engine) -> bool {
    engine.full.is_short() || engine.jobs.lacks_space()
}

/// Bytes that a job which begins now may write before it gives any back; flushes go first,
/// since deletes wait for them.
pub(crate) fn room_on_disk(engine: &Engine) -> u64 {
    let free = engine.storage.free_space().unwrap_or(u64::MAX);
    let room = free.saturating_add(engine.full.reserve.left_for(Borrower::Data));
    let unflushed = unflushed(engine);
    let flushes = if unflushed == 0 {
        0
    } else {
        unflushed + engine.full.seen.tombstone_blocks.load(Ordering::Relaxed)
    };
    room.saturating_sub(engine.full.room_taken()).saturating_sub(flushes)
}
