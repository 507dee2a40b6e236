//! A full disk: what is kept for it, and who is refused while it lasts.
//!
//! The reserve ([`cleavedb_storage::Reserve`]) is an eighth of the database's bytes, what flushes
//! of all that is in MemTables may take, and a manifest, within bounds. What jobs, manifests
//! and deletes write when the disk is full comes from it. While it is short ordinary writes are
//! refused, and what is freed goes to it first: so a database without a free byte can always be
//! read, deleted from, compacted and collected.

use cleavedb_base::limits::BLOCK;
use cleavedb_base::sync::atomic::Ordering;
use cleavedb_base::{Error, ErrorKind, Result};
use cleavedb_storage::{Borrower, Storage, Wanted};

use crate::commit::{Prepared, need};
use crate::engine::Engine;
use crate::limit::Need;
use crate::manifest::Manifest;

/// Bounds of the reserve, in bytes, and the part of the database's bytes that it is, one in so
/// many.
const LEAST: u64 = 48 << 10;
const MOST: u64 = 64 << 20;
const SHARE: u64 = 8;

/// Most log that is written before the reserve is looked at again, in bytes: one step of its file.
const STEP: u64 = 16 << 20;

/// How many times as long as it should be the reserve may be before a close.
const TOO_LONG: u64 = 4;

/// Tables that a reserve has room for.
const TABLES: u64 = 64;

/// What is kept for names besides a manifest, in bytes: `current`, and what directories take.
const NAMES: u64 = 16 << 10;

impl Engine {
    /// Notes how many bytes the database has.
    pub(crate) fn note_bytes(&self, manifest: &Manifest) {
        let live = manifest.live();
        self.full.manifest.store(manifest.next_len_max(), Ordering::Relaxed);
        let index: u64 = live.version.tables().map(|(_, table)| table.meta().size).sum();
        self.full.bytes.store(index + self.value_bytes(live), Ordering::Relaxed);
    }

    /// What the reserve should have, and how many times as long it may be.
    fn reserve_wanted(&self, times: u64) -> Wanted {
        let share = match &self.limit {
            // Below a limit jobs have room of their own.
            Some(_) => LEAST,
            None => {
                let unflushed = self.unflushed();
                self.full.bytes.load(Ordering::Relaxed) / SHARE + unflushed + unflushed.min(STEP)
            }
        };
        let names = self.full.manifest.load(Ordering::Relaxed) + NAMES;
        let len = (share.max(LEAST) + names).min(MOST);
        Wanted { len, names: names.min(len / 2), most: len * times }
    }

    /// Bytes that flushes may write of what is in MemTables.
    fn unflushed(&self) -> u64 {
        let state = self.state.load();
        let start = state.memtables.iter().map(|slot| slot.start).min();
        let covered = self.commit.log.ring().filled().saturating_sub(start.unwrap_or_default());
        let memory = state.memtables.iter().map(|slot| slot.table.memory() as u64).sum();
        let taken = if self.options.values_stay_in_log() { covered.min(memory) } else { covered };
        if self.has_nothing_to_flush() { 0 } else { taken }
    }

    /// Makes the reserve as long as it should be, if the disk has room.
    pub(crate) fn keep_reserve(&self) {
        self.full.reserve.keep(self.reserve_wanted(TOO_LONG));
    }

    /// Makes the reserve as long as a closed database should have it.
    pub(crate) fn cut_reserve(&self) {
        self.full.reserve.keep(self.reserve_wanted(1));
    }

    /// Takes back what the reserve has lent, if there is room again.
    pub(crate) fn take_back(&self) {
        if self.full.is_short() {
            self.keep_reserve();
        }
    }

    /// Whether the disk has no room for what must be written.
    pub(crate) fn is_full(&self) -> bool {
        self.full.is_short() || self.jobs.lacks_space()
    }

    /// Bytes that a job which begins now may write before it gives any back; flushes go first,
    /// since deletes wait for them.
    pub(crate) fn room_on_disk(&self) -> u64 {
        let free = self.storage.free_space().unwrap_or_default();
        let room = free.saturating_add(self.full.reserve.left_for(Borrower::Data));
        room.saturating_sub(self.full.room_taken()).saturating_sub(self.unflushed())
    }

    /// What a writer is told for whose log there is no room.
    pub(crate) fn no_room_for_log(&self, ops: &[Prepared<'_>], error: Error) -> Error {
        if error.kind() != ErrorKind::NoSpace || self.limit.is_some() || need(ops) != Need::Deletes
        {
            return error;
        }
        let message = "the disk is full, and what is reserved on it for deletes is used up; \
                       compact and collect give back what was deleted so far";
        Error::new(ErrorKind::NoSpace, message).with("reserve", self.full.reserve.len())
    }

    /// Length at which a table ends. On a full disk many of them fit what is reserved: then
    /// compactions can go in pieces.
    pub(crate) fn table_bytes(&self) -> u64 {
        let most = self.options.table_bytes;
        match self.full.is_short() {
            true => most.min((self.full.reserve.wanted() / TABLES).max(BLOCK as u64)),
            false => most,
        }
    }

    /// Refuses writes but for deletes while the reserve is in use.
    #[inline]
    pub(crate) fn check_disk(&self, ops: &[Prepared<'_>]) -> Result<()> {
        if !self.full.is_short() || need(ops) == Need::Deletes {
            return Ok(());
        }
        self.check_disk_now()
    }

    #[cold]
    fn check_disk_now(&self) -> Result<()> {
        // What no reader holds any more goes first.
        self.reap();
        self.keep_reserve();
        if !self.full.is_short() {
            return Ok(());
        }
        let message = "the disk is full, and what is reserved on it is kept for deletes, compact \
                       and collect; delete something, or make room on the disk";
        Err(Error::new(ErrorKind::NoSpace, message).with("reserve", self.full.reserve.len()))
    }
}
