//! The reserve for a full disk, and the room that a job has there.
//!
//! The reserve ([`cleavedb_storage::Reserve`]) has the length of a quarter of the database's bytes,
//! of the flushes of everything in MemTables, and of a manifest. It has bounds, and is longer if
//! level 0 has a longer table. Jobs, manifests and deletes write from it when the disk is full.

use cleavedb_base::sync::atomic::Ordering;
use cleavedb_storage::{Borrower, Storage, Wanted};

use crate::background::space::sizes;
use crate::engine::Engine;

/// The least share of the reserve for jobs, in bytes. [`sizes::share`] sets the share otherwise.
const LEAST: u64 = 48 << 10;

/// Most log that is written before the reserve is adjusted again, in bytes: one step of its file.
const STEP: u64 = 16 << 20;

/// Before a close, the reserve may be longer than wanted by this factor.
const TOO_LONG: u64 = 4;

/// Bytes kept for names besides a manifest: for `current`, and for what directories take.
const NAMES: u64 = 16 << 10;

/// The wanted length of the reserve and of its parts; it may be longer by the factor `times`.
pub(crate) fn reserve_wanted(engine: &Engine, times: u64) -> Wanted {
    let (share, flushes) = match &engine.limit {
        // Below a space limit, the budget keeps room for jobs.
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

/// Bytes that the flushes of everything in MemTables may write.
pub(crate) fn unflushed(engine: &Engine) -> u64 {
    let state = engine.state.load();
    let start = state.memtables.iter().map(|slot| slot.start).min();
    let covered =
        engine.commit.log.buffer().written_upto().saturating_sub(start.unwrap_or_default());
    let memory = state.memtables.iter().map(|slot| slot.table.memory() as u64).sum();
    let taken = engine.options.log().flushed_bytes(memory, covered);
    if engine.state.load().has_nothing_to_flush() { 0 } else { taken }
}

/// Gives the reserve its wanted length, if the disk has room.
pub(crate) fn keep_reserve(engine: &Engine) {
    engine.full.reserve.keep(reserve_wanted(engine, TOO_LONG));
}

/// Gives the reserve the length that it should have in a closed database.
pub(crate) fn cut_reserve(engine: &Engine) {
    engine.full.reserve.keep(reserve_wanted(engine, 1));
}

/// Refills the reserve after it has lent space, if the disk has room again.
pub(crate) fn take_back(engine: &Engine) {
    if engine.full.is_short() {
        keep_reserve(engine);
    }
}

/// Whether the disk is full: the reserve is short, or a job has failed for want of space.
pub(crate) fn is_full(engine: &Engine) -> bool {
    engine.full.is_short() || engine.jobs.lacks_space()
}

/// Bytes that a job that begins now may write before it gives any back. The room for flushes is not
/// part of it, since deletes wait for flushes.
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
