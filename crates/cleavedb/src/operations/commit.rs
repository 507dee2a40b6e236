//! The commit path: numbers an operation, writes it to the log and the MemTable, publishes it.
//!
//! ```text
//! own thread: checksum ─► [append lock: number, reserve, ticket] ─► store ─► insert ─► publish
//! ```
//!
//! Only a few additions are serial; threads checksum their own records, store them in the log
//! window and insert them into the MemTable in parallel, and the commits become visible in commit
//! order. A write returns once it is visible and as durable as requested.

mod noted;

use std::sync::Arc;

use cleavedb_base::planted::{Bug, planted};
use cleavedb_base::record::{Header, RecordKind};
use cleavedb_base::sync::atomic::{AtomicU64, Ordering};
use cleavedb_base::sync::swap::Guard;
use cleavedb_base::sync::{Mutex, MutexGuard, hint};
use cleavedb_base::{EntryKind, FileNumber, Lasting, Result, SeqNo, ValuePointer};
use cleavedb_storage::log::{Appender, Log, Reserved, ReservedSlot};
use cleavedb_storage::{Storage, Watermark};

use crate::control::gate;
use crate::control::poison::Poison;
use crate::control::publish::Publisher;
use crate::operations::fronts::Fronts;
use crate::operations::ops::Ops;
use crate::operations::recent_writes::{RecentWrites, WrittenKeys};
use crate::settings::options::Durability;
use crate::store::state::{MemSlot, ReadState};

/// Most operations of a batch whose MemTable buckets are prefetched.
const PREFETCHED_MAX: usize = 8;

/// How often a writer that must not wait looks whether the append lock is free: for a microsecond
/// or two, some times as long as a commit holds it.
const LOOKS: u32 = if cfg!(feature = "test-checked") { 1 } else { 100 };

/// State that the append lock protects.
pub(crate) struct Append {
    pub(crate) appender: Appender,
    next_seq: SeqNo,
    next_ticket: u64,
    pub(crate) memtable: Arc<MemSlot>,
    closed: bool,
    held: bool,
}

impl Append {
    /// Has every commit that has not taken the append lock yet wait, or go on again.
    pub(crate) fn hold(&mut self, held: bool) {
        self.held = held;
    }

    /// Whether commits must wait.
    #[inline]
    pub(crate) fn is_held(&self) -> bool {
        self.held
    }

    /// Refuses every commit that has not taken the append lock yet.
    pub(crate) fn close(&mut self) {
        self.closed = true;
    }

    /// The greatest sequence number in use.
    pub(crate) fn last_seq(&self) -> SeqNo {
        self.next_seq - 1
    }

    /// Reserves `ops` sequence numbers and a ticket.
    fn number(&mut self, ops: u64) -> (SeqNo, u64) {
        let (seq, ticket) = (self.next_seq, self.next_ticket);
        self.next_seq += ops;
        self.next_ticket += 1;
        (seq, ticket)
    }
}

/// The commit path.
pub(crate) struct Commit {
    pub(crate) log: Arc<Log>,
    append: Mutex<Append>,
    publisher: Publisher,
    /// Held by the writer that syncs for all waiting ones.
    syncing: Mutex<()>,
    /// Every operation up to this sequence number survives a loss of power.
    durable: AtomicU64,
    /// What open transactions compare with what they have read.
    pub(crate) recent_writes: RecentWrites,
    /// Where the first keys of queues are.
    pub(crate) fronts: Fronts,
    poison: Arc<Poison>,
}

impl Commit {
    pub(crate) fn new(
        log: Log,
        appender: Appender,
        memtable: Arc<MemSlot>,
        next_seq: SeqNo,
        recent_writes: RecentWrites,
        poison: &Arc<Poison>,
    ) -> Self {
        Self {
            log: Arc::new(log),
            append: Mutex::new(Append {
                appender,
                next_seq,
                next_ticket: 0,
                memtable,
                closed: false,
                held: false,
            }),
            publisher: Publisher::new(next_seq - 1),
            syncing: Mutex::new(()),
            // Recovery synced the operations that it replayed.
            durable: AtomicU64::new(next_seq - 1),
            recent_writes,
            fronts: Fronts::default(),
            poison: poison.clone(),
        }
    }

    /// Greatest visible sequence number.
    #[inline]
    pub(crate) fn visible(&self) -> SeqNo {
        self.publisher.visible()
    }

    /// Makes what a reader beside the writer has read from the log visible, up to `seq`. The log
    /// was read up to `position`, and survives a loss of power up to `durable`.
    pub(crate) fn follow(&self, seq: SeqNo, position: u64, durable: SeqNo) {
        self.log.set_written_upto(position);
        self.durable.store(durable, Ordering::Release);
        self.publisher.follow(seq);
    }

    /// The sequence number up to which every operation survives a loss of power, by a sync of the
    /// log or by a flush.
    pub(crate) fn durable(&self) -> SeqNo {
        self.durable.load(Ordering::Acquire)
    }

    /// Called when a flush made everything up to `last_seq` durable.
    pub(crate) fn flushed(&self, last_seq: SeqNo) {
        self.durable.fetch_max(last_seq, Ordering::AcqRel);
    }

    /// The append lock.
    pub(crate) fn append(&self) -> MutexGuard<'_, Append> {
        self.append.lock()
    }

    /// The append lock, unless the database is closed or refuses writes.
    #[inline]
    pub(crate) fn open_append(&self) -> Result<MutexGuard<'_, Append>> {
        self.checked(self.append.lock())
    }

    /// As [`Commit::open_append`]; `None` if another thread holds the lock for longer than a commit
    /// does.
    pub(crate) fn try_open_append(&self) -> Option<Result<MutexGuard<'_, Append>>> {
        let look = |_| {
            let append = self.append.try_lock();
            if append.is_none() {
                hint::spin_loop();
            }
            append
        };
        (0..LOOKS).find_map(look).map(|append| self.checked(append))
    }

    #[inline]
    fn checked<'a>(&self, append: MutexGuard<'a, Append>) -> Result<MutexGuard<'a, Append>> {
        self.poison.check()?;
        if append.closed { Err(gate::closed()) } else { Ok(append) }
    }

    /// Commits `ops`, of `len` bytes in all, as one batch, under the append lock that made room for
    /// them. `picture` loads the read state, whose youngest MemTable takes the entries. `numbered`
    /// is called with the first sequence number, under that lock, before the batch is visible.
    /// Returns the last one.
    pub(crate) fn write(
        &self,
        mut append: MutexGuard<'_, Append>,
        ops: Ops<'_>,
        len: u64,
        durability: Durability,
        numbered: &dyn Fn(SeqNo),
        picture: impl FnOnce() -> Guard<Arc<ReadState>>,
    ) -> Result<SeqNo> {
        let (first_seq, last_seq, ticket, reserved);
        if len <= self.log.reserve_max() as u64 {
            self.publisher.admit(append.next_ticket);
            let slot;
            (reserved, slot) =
                self.log.reserve(&mut append.appender, len).map_err(|e| self.poison.set(e))?;
            (first_seq, ticket) = append.number(ops.op_count() as u64);
            self.note(first_seq, ops);
            numbered(first_seq);
            // A guard on the read state, whose youngest MemTable is the one of the append lock:
            // every writer would write to a reference count of its own.
            let picture = picture();
            drop(append);
            let memtable = picture.youngest();
            // The bucket's memory is fetched while the record is copied into the log.
            if let Ops::Few(few) = ops {
                few.iter().take(PREFETCHED_MAX).for_each(|op| memtable.table.prefetch(op.hash));
            }
            // So is the place of the next record, since its store missed the cache.
            self.log.buffer().prefetch(reserved.end, len as usize);
            store(slot, memtable, ops, first_seq, &reserved)?;
            last_seq = first_seq + ops.op_count() as u64 - 1;
            self.complete(ticket, last_seq, reserved.end);
        } else {
            reserved = self.stream(&mut append, ops, len).map_err(|e| self.poison.set(e))?;
            (first_seq, ticket) = append.number(ops.op_count() as u64);
            self.note(first_seq, ops);
            numbered(first_seq);
            last_seq = append.last_seq();
            self.complete(ticket, last_seq, reserved.end);
            drop(append);
        }
        self.publisher.wait(ticket);
        self.make_durable(durability, reserved.end).map(|()| last_seq)
    }

    /// Waits until every commit so far is visible, for the holder of the append lock.
    pub(crate) fn settle(&self, append: &Append) {
        if let Some(ticket) = append.next_ticket.checked_sub(1) {
            self.publisher.wait(ticket);
        }
    }

    /// Makes what has sequence number `seq`, a later one than any in use, visible: tables have it,
    /// and an edit that is durable names them. Every commit so far is visible.
    pub(crate) fn publish_load(&self, append: &mut Append, seq: SeqNo, written: WrittenKeys) {
        self.recent_writes.note(seq, |noted| noted(written));
        self.fronts.forget();
        self.publisher.admit(append.next_ticket);
        append.next_seq = seq;
        let (_, ticket) = append.number(1);
        self.complete(ticket, seq, self.log.buffer().written_upto());
        self.publisher.wait(ticket);
    }

    fn complete(&self, ticket: u64, last_seq: SeqNo, filled: u64) {
        self.publisher.complete(ticket, last_seq, filled, |end, seq| {
            self.log.set_written_upto(end);
            self.log.note(Watermark::Visible, seq);
        });
    }

    /// Appends a batch too long to be reserved at once, and inserts its entries, under the append
    /// lock. After a failure no reader sees them.
    fn stream(&self, append: &mut Append, ops: Ops<'_>, len: u64) -> Result<Reserved> {
        if let Some(previous) = append.next_ticket.checked_sub(1) {
            self.publisher.wait(previous);
        }
        let reserved = self.log.begin_stream(&mut append.appender, len)?;
        let (first_seq, memtable) = (append.next_seq, append.memtable.clone());
        place(&memtable, ops, first_seq, &reserved, |part| {
            self.log.stream(&mut append.appender, part)
        })?;
        Ok(reserved)
    }

    #[inline]
    fn make_durable(&self, durability: Durability, end: u64) -> Result<()> {
        if planted(Bug::AckBeforeSync) {
            return Ok(());
        }
        match durability {
            Durability::Buffered => Ok(()),
            // A window that survives the process is as safe as a write to the kernel.
            Durability::Os if self.log.buffer().survives() => Ok(()),
            Durability::Os => self.log.drain_to(end).map_err(|e| self.poison.set(e)),
            Durability::Sync => self.sync_to(end),
        }
    }

    /// Makes everything that was committed before the call durable.
    pub(crate) fn sync(&self) -> Result<()> {
        let end = self.append.lock().appender.next();
        self.sync_to(end)
    }

    /// Makes every operation up to `seq` durable, or all of them if `seq` is beyond the last.
    pub(crate) fn sync_upto(&self, seq: SeqNo) -> Result<()> {
        if self.durable() >= seq || planted(Bug::ToldWithoutSync) {
            return Ok(());
        }
        let _syncing = self.syncing.lock();
        // Another caller's sync may have covered it.
        if self.durable() >= seq {
            return Ok(());
        }
        self.pad_and_sync(Log::pad)
    }

    /// Makes every log byte below `position` durable. Writers that arrive during a sync wait, and
    /// the next sync covers all of them.
    pub(crate) fn sync_to(&self, position: u64) -> Result<()> {
        let _syncing = self.syncing.lock();
        if self.log.synced() >= position {
            return Ok(());
        }
        self.pad_and_sync(Log::pad)
    }

    /// Ends the log, at a close: see [`Log::end`].
    pub(crate) fn end_log(&self) -> Result<()> {
        self.sync()?;
        let _syncing = self.syncing.lock();
        self.pad_and_sync(Log::end)
    }

    /// Makes the log durable up to its end after `pad`, for a caller that holds the sync lock.
    fn pad_and_sync(&self, pad: impl FnOnce(&Log, &mut Appender) -> Result<u64>) -> Result<()> {
        self.poison.check()?;
        let (ticket, last_seq, end, records_end);
        {
            let mut append = self.append.lock();
            self.publisher.admit(append.next_ticket);
            end = pad(&self.log, &mut append.appender).map_err(|e| self.poison.set(e))?;
            records_end = append.appender.end();
            (_, ticket) = append.number(0);
            last_seq = append.last_seq();
        }
        self.complete(ticket, last_seq, end);
        self.publisher.wait(ticket);
        self.log.sync_to(end, records_end).map_err(|e| self.poison.set(e))?;
        self.durable.fetch_max(last_seq, Ordering::AcqRel);
        self.log.note(Watermark::Durable, last_seq);
        Ok(())
    }

    /// Makes the window `len` bytes long, if the disk has room. Since this moves its bytes, it is
    /// drained before, behind a gap as at a sync, and no range may be reserved meanwhile.
    pub(crate) fn grow_window(
        &self,
        append: &mut Append,
        storage: &dyn Storage,
        len: usize,
    ) -> Result<()> {
        if planted(Bug::GrowsUndrained) {
            self.pad(append)?;
        } else {
            self.drain_all(append)?;
        }
        // Recovery takes the log buffer's length from the file: it must not change before the log
        // buffer is empty.
        if self.log.extend_window(storage, &append.appender, len)? {
            self.log.grow_window(&append.appender, len);
        }
        Ok(())
    }

    /// Writes all of the log to its files, behind a gap as at a sync, under the append lock: no
    /// commit is under way then.
    pub(crate) fn drain_all(&self, append: &mut Append) -> Result<()> {
        let end = self.pad(append)?;
        self.log.drain_to(end).map_err(|e| self.poison.set(e))
    }

    /// Writes all of the log to its files, and overwrites the window with zeros.
    pub(crate) fn wipe_window(&self, storage: &dyn Storage) -> Result<()> {
        let mut append = self.open_append()?;
        self.drain_all(&mut append)?;
        self.log.wipe_window(storage, &append.appender)
    }

    /// Pads the log and waits until all of it is filled; returns its end.
    fn pad(&self, append: &mut Append) -> Result<u64> {
        self.publisher.admit(append.next_ticket);
        let end = self.log.pad(&mut append.appender).map_err(|e| self.poison.set(e))?;
        let (_, ticket) = append.number(0);
        self.complete(ticket, append.last_seq(), end);
        self.publisher.wait(ticket);
        Ok(end)
    }

    /// Writes one piece of the log if there is a full one; called by the drain thread.
    pub(crate) fn drain(&self) -> Result<bool> {
        if !self.log.wants_drain() || self.poison.check().is_err() {
            return Ok(false);
        }
        self.log.drain_step(|_| false).map_err(|e| self.poison.set(e))
    }
}

/// Stores the records of `ops` in their reserved range, and inserts their entries.
#[inline]
fn store(
    mut slot: ReservedSlot<'_>,
    memtable: &MemSlot,
    ops: Ops<'_>,
    first_seq: SeqNo,
    reserved: &Reserved,
) -> Result<()> {
    place(memtable, ops, first_seq, reserved, |part| {
        slot.push(part);
        Ok(())
    })?;
    debug_assert!(slot.is_full());
    Ok(())
}

/// Hands the parts of the records of `ops`, which lie at `reserved`, to `store`, and inserts their
/// index entries.
#[inline]
fn place(
    memtable: &MemSlot,
    ops: Ops<'_>,
    first_seq: SeqNo,
    reserved: &Reserved,
    mut store: impl FnMut(&[u8]) -> Result<()>,
) -> Result<()> {
    let (mut seq, mut offset) = (first_seq, reserved.offset);
    let last_seq = first_seq + ops.op_count() as u64 - 1;
    ops.each(|op| {
        let header = Header { seq, more: seq < last_seq, ..op.header };
        store(&header.encode(reserved.identity, offset))?;
        store(op.key)?;
        store(&op.value)?;
        let place = RecordLocation { file: reserved.file, offset };
        let key = op.encoded_key.as_bytes();
        insert_record(memtable, key, op.hash, seq, &op.header, &op.value, place);
        (seq, offset) = (seq + 1, offset + op.len());
        Ok(())
    })
}

/// Place of a record.
#[derive(Clone, Copy)]
pub(crate) struct RecordLocation {
    pub(crate) file: FileNumber,
    pub(crate) offset: u64,
}

/// Inserts the index entry of a record: the one rule for commit and replay.
#[inline]
pub(crate) fn insert_record(
    memtable: &MemSlot,
    encoded_key: &[u8],
    hash: u64,
    seq: SeqNo,
    header: &Header,
    value: &[u8],
    place: RecordLocation,
) {
    let table = &memtable.table;
    match header.kind {
        kind if kind.is_separated() => {
            let len = header.record_len() as u32;
            let pointer = ValuePointer { file: place.file, offset: place.offset, len };
            let mut encoded = [0; ValuePointer::ENCODED_LEN_MAX];
            // A record was checked to have what stands in front of its value.
            let pointer = kind.split(value).unwrap_or(Lasting::for_good(value)).map(|_| pointer);
            memtable.lifetimes.add(encoded_key, pointer.until);
            let (kind, encoded_len) = ValuePointer::encode_entry(pointer, &mut encoded);
            table.insert(encoded_key, hash, seq, kind, &encoded[..encoded_len]);
        }
        RecordKind::Inline => table.insert(encoded_key, hash, seq, EntryKind::Inline, value),
        RecordKind::Delete => {
            memtable.deletes.fetch_add(1, Ordering::Relaxed);
            table.insert(encoded_key, hash, seq, EntryKind::Delete, &[]);
        }
        kind => {
            let stored = kind.split(value).unwrap_or(Lasting::for_good(value));
            memtable.lifetimes.add(encoded_key, stored.until);
            let kind = kind.as_entry();
            if kind.is_pointer() {
                memtable.lone.add(kind, value);
            }
            if !kind.hides_older() {
                memtable.needs_older.store(true, Ordering::Relaxed);
            }
            table.insert(encoded_key, hash, seq, kind, value);
        }
    }
}
