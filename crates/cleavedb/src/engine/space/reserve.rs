//! The reserve for a full disk, and the room that a job has there.
//!
//! The reserve ([`cleavedb_storage::Reserve`]) has the length of a quarter of the database's bytes,
//! of the flushes of everything in MemTables, and of a manifest. It has bounds, and is longer if
//! level 0 has a longer table. Jobs, manifests and deletes write from it when the disk is full.

use cleavedb_base::sync::atomic::Ordering;
use cleavedb_storage::{Borrower, Storage, Wanted};

use crate::engine::space::SpaceContext;
use crate::engine::space::sizes;

/// The least share of the reserve for jobs, in bytes. [`sizes::share`] sets the share otherwise.
const LEAST: u64 = 48 << 10;

/// Most log that is written before the reserve is adjusted again, in bytes: one step of its file.
const STEP: u64 = 16 << 20;

/// Before a close, the reserve may be longer than wanted by this factor.
const TOO_LONG: u64 = 4;

/// Bytes kept for names besides a manifest: for `current`, and for what directories take.
const NAMES: u64 = 16 << 10;

impl SpaceContext<'_> {
    /// The wanted length of the reserve and of its parts; it may be longer by the factor `times`.
    fn reserve_wanted(&self, times: u64) -> Wanted {
        let (share, flushes) = match self.limit {
            // Below a space limit, the budget keeps room for jobs.
            Some(_) => (LEAST, 0),
            None => {
                let unflushed = self.unflushed();
                let young = self.full.seen.young.load(Ordering::Relaxed);
                let share = sizes::share(self.bytes()).max(2 * young) + unflushed.min(STEP);
                (share.max(LEAST), unflushed + self.full.seen.stub_blocks.load(Ordering::Relaxed))
            }
        };
        let names = self.full.seen.manifest.load(Ordering::Relaxed) + NAMES;
        let len = (share + flushes + names).min(sizes::MOST);
        let names = names.min(len / 2);
        let flushes = flushes.min((len - names) / 2);
        Wanted { len, names, flushes, most: len * times }
    }

    /// Bytes that the flushes of everything in MemTables may write.
    pub(crate) fn unflushed(&self) -> u64 {
        let state = self.state.load();
        let start = state.memtables.iter().map(|slot| slot.start).min();
        let covered = self.log.buffer().written_upto().saturating_sub(start.unwrap_or_default());
        let memory = state.memtables.iter().map(|slot| slot.table.memory() as u64).sum();
        let taken = self.options.log().flushed_bytes(memory, covered);
        if self.state.load().has_nothing_to_flush() { 0 } else { taken }
    }

    /// Gives the reserve its wanted length, if the disk has room.
    pub(crate) fn keep_reserve(&self) {
        self.full.reserve.keep(self.reserve_wanted(TOO_LONG));
    }

    /// Gives the reserve the length that it should have in a closed database.
    pub(crate) fn cut_reserve(&self) {
        self.full.reserve.keep(self.reserve_wanted(1));
    }

    /// Refills the reserve after it has lent space, if the disk has room again.
    pub(crate) fn take_back(&self) {
        if self.full.is_short() {
            self.keep_reserve();
        }
    }

    /// Whether the disk is full: the reserve is short, or a job has failed for want of space.
    pub(crate) fn is_disk_full(&self) -> bool {
        self.full.is_short() || self.jobs.lacks_space()
    }

    /// Bytes that a job that begins now may write before it gives any back. The room for flushes is
    /// not part of it, since deletes wait for flushes.
    pub(crate) fn room_on_disk(&self) -> u64 {
        let free = self.storage.free_space().unwrap_or(u64::MAX);
        let room = free.saturating_add(self.full.reserve.left_for(Borrower::Data));
        let unflushed = self.unflushed();
        let flushes = if unflushed == 0 {
            0
        } else {
            unflushed + self.full.seen.stub_blocks.load(Ordering::Relaxed)
        };
        room.saturating_sub(self.full.room_taken()).saturating_sub(flushes)
    }
}
