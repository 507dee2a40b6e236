//! A full disk: what is kept for it, and who is refused while it lasts.
//!
//! The reserve ([`cleavedb_storage::Reserve`]) is a quarter of the database's bytes, what flushes
//! of all that is in MemTables may take, and a manifest, within bounds, or more if level 0 has a
//! longer table. What jobs, manifests and deletes write when the disk is full comes from it. While
//! it is short ordinary writes are refused, and what is freed goes to it first: so a database
//! without a free byte can always be read, deleted from, compacted and collected.
//!
//! Log files, segments and tables are rewritten as a whole, so they end where the reserve has room
//! for them, however large the disk is: others may fill it later. Deletes that find no room for
//! their log wait until jobs have made some.

use std::sync::Arc;
use std::time::Instant;

use cleavedb_base::limits::BLOCK;
use cleavedb_base::sync::atomic::Ordering;
use cleavedb_base::{Error, ErrorKind, Result};
use cleavedb_index::table_handle::TableHandle;
use cleavedb_storage::{Borrower, Storage, Wanted};

use crate::commit::{Prepared, need};
use crate::engine::Engine;
use crate::full_disk::LOG_LEAST;
use crate::limit::Need;
use crate::manifest::Manifest;

/// Bounds of the reserve, in bytes, and the part of the database's bytes that it is, one in so
/// many.
const LEAST: u64 = 48 << 10;
const MOST: u64 = 64 << 20;
const SHARE: u64 = 4;

/// Part of a small store, which has as much again in reserve up to so many bytes, and least length
/// at which files end.
const SHARE_LEAST: u64 = 512 << 10;

/// Most log that is written before the reserve is looked at again, in bytes: one step of its file.
const STEP: u64 = 16 << 20;

/// How often deletes look for room before they fail.
const ATTEMPTS: u32 = 8;

/// Part of the reserve, one in so many, that is much to have for flushes.
const MUCH: u64 = 8;

/// A search for space that found none is made again after so many times what it took, or when
/// something was written.
const SEARCH_REST: u32 = 8;

/// How many times as long as it should be the reserve may be before a close.
const TOO_LONG: u64 = 4;

/// Tables that a reserve has room for.
const TABLES: u64 = 64;

/// What is kept for names besides a manifest, in bytes: `current`, and what directories take.
const NAMES: u64 = 16 << 10;

/// What the reserve has for the jobs of a database of so many bytes.
fn share(bytes: u64) -> u64 {
    (bytes / SHARE).max(bytes.min(SHARE_LEAST)).min(MOST)
}

impl Engine {
    /// Notes how many bytes the database has.
    pub(crate) fn note_bytes(&self, manifest: &Manifest) {
        let live = manifest.live();
        self.full.seen.manifest.store(manifest.next_len_max(), Ordering::Relaxed);
        let size = |(_, table): (u8, &Arc<TableHandle>)| table.meta().size;
        let index: u64 = live.version.tables().map(size).sum();
        let young = live.version.tables().filter(|(level, _)| *level == 0).map(size).max();
        self.full.seen.young.store(young.unwrap_or_default(), Ordering::Relaxed);
        let stubs = (live.groups.told_of_deaths() * BLOCK) as u64;
        self.full.seen.stub_blocks.store(stubs, Ordering::Relaxed);
        self.full.seen.files.store(index + self.value_bytes(live), Ordering::Relaxed);
        self.full.seen.written.store(self.written(), Ordering::Relaxed);
    }

    /// Bytes that the database has, what was written since the last look included.
    fn bytes(&self) -> u64 {
        let since = self.written().saturating_sub(self.full.seen.written.load(Ordering::Relaxed));
        self.full.seen.files.load(Ordering::Relaxed) + since
    }

    /// Bytes written so far that count as data.
    fn written(&self) -> u64 {
        let log = self.commit.log.ring().filled();
        self.options.log().data_written(log, self.counters.user_bytes.get())
    }

    /// Most bytes of a file that is rewritten as a whole: the reserve has room for what is alive of
    /// it. Below a limit jobs have room of their own.
    pub(crate) fn file_bytes_max(&self) -> u64 {
        if self.limit.is_some() { u64::MAX } else { share(self.bytes()).max(SHARE_LEAST) }
    }

    /// Length at which a log file ends.
    pub(crate) fn log_file_bytes(&self) -> u64 {
        self.options.log().file_bytes(&self.options, self.file_bytes_max())
    }

    /// Length at which a segment of survivors ends.
    pub(crate) fn segment_bytes(&self) -> u64 {
        self.options.segment_bytes.min(self.file_bytes_max())
    }

    /// What the reserve should have, and how many times as long it may be.
    fn reserve_wanted(&self, times: u64) -> Wanted {
        let (share, flushes) = match &self.limit {
            // Below a limit jobs have room of their own.
            Some(_) => (LEAST, 0),
            None => {
                let unflushed = self.unflushed();
                let young = self.full.seen.young.load(Ordering::Relaxed);
                let share = share(self.bytes()).max(2 * young) + unflushed.min(STEP);
                (share.max(LEAST), unflushed + self.full.seen.stub_blocks.load(Ordering::Relaxed))
            }
        };
        let names = self.full.seen.manifest.load(Ordering::Relaxed) + NAMES;
        let len = (share + flushes + names).min(MOST);
        let names = names.min(len / 2);
        let flushes = flushes.min((len - names) / 2);
        Wanted { len, names, flushes, most: len * times }
    }

    /// Bytes that flushes may write of what is in MemTables.
    fn unflushed(&self) -> u64 {
        let state = self.state.load();
        let start = state.memtables.iter().map(|slot| slot.start).min();
        let covered = self.commit.log.ring().filled().saturating_sub(start.unwrap_or_default());
        let memory = state.memtables.iter().map(|slot| slot.table.memory() as u64).sum();
        let taken = self.options.log().flushed_bytes(memory, covered);
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

    /// Makes room for the log of `ops`, which found the disk full so many times, or fails with the
    /// `error` that they met. The log of what is flushed goes. Deletes wait for more, since they
    /// are what frees space: tables are merged and value files collected until they have room.
    #[cold]
    pub(crate) fn make_room_on_disk(
        &self,
        ops: &[Prepared<'_>],
        attempts: u32,
        error: Error,
    ) -> Result<()> {
        if error.kind() != ErrorKind::NoSpace || self.limit.is_some() || self.check_open().is_err()
        {
            return Err(error);
        }
        match need(ops) {
            // Jobs may take what was made room for.
            Need::Deletes if attempts <= ATTEMPTS => {
                self.make_room_for_deletes(ops.iter().map(Prepared::len).sum(), error)
            }
            Need::Write if attempts == 1 => self.make_room_by_flush(error),
            _ => Err(error),
        }
    }

    /// Flushes what is in MemTables, if a good part of the reserve is for it.
    fn make_room_by_flush(&self, error: Error) -> Result<()> {
        let much = self.unflushed() >= self.full.reserve.wanted() / MUCH;
        if !much || !self.full.is_short() || self.flush_young().is_err() {
            return Err(error);
        }
        self.reap();
        self.keep_reserve();
        if self.full.is_short() { Err(error) } else { Ok(()) }
    }

    /// Flushes what is in MemTables. Where as many as may be wait already, none is added: each call
    /// that fails would leave one more.
    fn flush_young(&self) -> Result<()> {
        let lag = self.state.load().waiting() >= self.options.memtables_max;
        if lag { self.settle() } else { self.flush_all() }
    }

    /// Searches for space for deletes: half of what they may have of the reserve, or at least what
    /// these need, `len` bytes.
    fn make_room_for_deletes(&self, len: u64, error: Error) -> Result<()> {
        let reserve = &self.full.reserve;
        let mut in_vain = self.full.in_vain.lock();
        let lacks = |len: u64| {
            self.reap();
            self.keep_reserve();
            self.full.is_short() && reserve.left_for(Borrower::Deletes) < len
        };
        let least = LOG_LEAST.max(len);
        if !lacks(least) {
            return Ok(());
        }
        let begun = Instant::now();
        let visible = self.commit.visible();
        if in_vain.is_some_and(|(at, end)| at == visible && begun < end) {
            return Err(error);
        }
        let wanted = || lacks(least.max(reserve.for_deletes() / 2));
        let steps: [&dyn Fn() -> Result<()>; 4] = [
            &|| self.flush_young(),
            &|| self.settle_while(&wanted),
            &|| self.collect_while(&wanted),
            &|| self.compact_in_pieces(&wanted, error.clone()).map(|_| ()),
        ];
        // Whatever fails, what counts is the room that was made.
        steps.iter().take_while(|_| wanted()).for_each(|step| _ = step());
        let (lacks, rest) = (lacks(least), begun.elapsed() * SEARCH_REST);
        *in_vain = lacks.then(|| (visible, Instant::now() + rest));
        if lacks { Err(error) } else { Ok(()) }
    }

    /// Length of a table: on a full disk of one that is short.
    pub(crate) fn table_bytes(&self) -> u64 {
        if self.full.is_short() { self.short_table_bytes() } else { self.options.table_bytes }
    }

    /// Length of tables of which many fit what is reserved: then compactions can go in pieces.
    pub(crate) fn short_table_bytes(&self) -> u64 {
        let short = (self.full.reserve.wanted() / TABLES).max(BLOCK as u64);
        self.options.table_bytes.min(short)
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
