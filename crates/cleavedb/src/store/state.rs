//! The read state: MemTables, index version and segments, swapped atomically.

use std::sync::{Arc, OnceLock};

use cleavedb_base::planted::{Bug, planted};
use cleavedb_base::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use cleavedb_base::sync::swap::{ArcSwap, Guard};
use cleavedb_base::{FileNumber, Location, SeqNo};
use cleavedb_index::{DeletedRanges, MemTable, Version};
use cleavedb_storage::log::Log;
use cleavedb_storage::pages::PagePool;
use cleavedb_values::{GroupTable, SegmentSet};

use super::blobs::SlotLone;
use super::expiry::Lifetimes;

/// A MemTable and the part of the log that it covers.
pub(crate) struct MemSlot {
    pub(crate) table: Arc<MemTable>,
    /// First log position whose operations it holds.
    pub(crate) start: u64,
    /// Bytes of keys and values that replay inserted.
    pub(crate) replayed: AtomicU64,
    /// Whether replay inserted records of the system keyspace.
    pub(crate) has_system: AtomicBool,
    /// Bytes of keys and values that the session had written before this MemTable.
    pub(crate) written_before: u64,
    /// Tombstones in it.
    pub(crate) deletes: AtomicU64,
    /// Whether it has versions that do not hide older ones.
    pub(crate) needs_older: AtomicBool,
    /// Until when its values are there.
    pub(crate) lifetimes: Lifetimes,
    /// Bytes of batches in it that were longer than a log file.
    pub(crate) long_bytes: AtomicU64,
    /// The log file of the newest of its long values; 0 if it has none.
    long_in: AtomicU64,
    pub(crate) lone: SlotLone,
    sealed: OnceLock<Sealed>,
    /// The log, set once the content is durable elsewhere.
    flushed: OnceLock<Arc<Log>>,
}

/// The end of a full MemTable.
#[derive(Clone, Copy)]
pub(crate) struct Sealed {
    /// Log position behind its last operation.
    pub(crate) end: u64,
    /// The greatest sequence number of the MemTable's operations.
    pub(crate) last_seq: SeqNo,
}

impl MemSlot {
    pub(crate) fn new(memory: usize, start: u64) -> Self {
        Self::with_table(MemTable::new(memory), start)
    }

    /// The slot that follows a full one and begins at `start`, after `written_before` bytes of keys
    /// and values in the session. It is expected to take as much memory, or a little more.
    pub(crate) fn next(
        &self,
        memory: usize,
        start: u64,
        written_before: u64,
        pages: &Arc<PagePool>,
    ) -> Self {
        let taken = self.table.memory();
        let table = MemTable::sized_for(memory, taken + taken / 4, Some(pages.clone()));
        let mut next = Self::with_table(table, start);
        next.written_before = written_before;
        next
    }

    fn with_table(table: MemTable, start: u64) -> Self {
        Self {
            table: Arc::new(table),
            start,
            replayed: AtomicU64::new(0),
            has_system: AtomicBool::new(false),
            written_before: 0,
            deletes: AtomicU64::new(0),
            needs_older: AtomicBool::new(false),
            lifetimes: Lifetimes::default(),
            long_bytes: AtomicU64::new(0),
            long_in: AtomicU64::new(0),
            lone: SlotLone::default(),
            sealed: OnceLock::new(),
            flushed: OnceLock::new(),
        }
    }

    /// Entries that reads step over: tombstones, and values that are over by `now`, estimated.
    pub(crate) fn dead(&self, now: u64) -> u64 {
        self.deletes.load(Ordering::Relaxed) + self.lifetimes.over(&self.table, now)
    }

    /// Marks its content as durable elsewhere: its last reader releases its part of `log`.
    pub(crate) fn mark_flushed(&self, log: &Arc<Log>) {
        let _ = self.flushed.set(log.clone());
    }

    /// Records that it has a long value in this log file, or covers a part of the file behind one.
    pub(crate) fn has_long_in(&self, file: FileNumber) {
        self.long_in.store(file.0, Ordering::Release);
    }

    /// Whether tables will point into the part of the log that it covers, or into the same file: a
    /// reader of a file from its start must find all of it.
    pub(crate) fn has_long(&self) -> bool {
        self.long_in.load(Ordering::Acquire) != 0
    }

    /// Whether its newest long value lies in this log file.
    pub(crate) fn is_long_in(&self, file: FileNumber) -> bool {
        self.long_in.load(Ordering::Acquire) == file.0
    }

    /// Ends the slot: nothing more is reserved for it, though commits may still be inserting.
    pub(crate) fn seal(&self, end: u64, last_seq: SeqNo) {
        assert!(self.sealed.set(Sealed { end, last_seq }).is_ok(), "a MemTable is sealed once");
    }

    pub(crate) fn sealed(&self) -> Option<Sealed> {
        self.sealed.get().copied()
    }
}

impl Drop for MemSlot {
    fn drop(&mut self) {
        if let (Some(log), Some(sealed)) = (self.flushed.get(), self.sealed()) {
            log.release_range(self.start..sealed.end);
        }
    }
}

/// One immutable state of the database.
#[derive(Clone)]
pub(crate) struct ReadState {
    /// Newest first; the first one takes the commits.
    pub(crate) memtables: Vec<Arc<MemSlot>>,
    pub(crate) version: Arc<Version>,
    pub(crate) segments: Arc<SegmentSet>,
    /// The extents of the groups. Their live bytes may be out of date.
    pub(crate) groups: Arc<GroupTable>,
    /// Deletes of ranges, as long as something that they cover may be left.
    pub(crate) deleted: DeletedRanges,
}

impl ReadState {
    /// The state with `slot` in front.
    pub(crate) fn with_memtable(&self, slot: Arc<MemSlot>) -> Self {
        let mut memtables = Vec::with_capacity(self.memtables.len() + 1);
        memtables.push(slot);
        memtables.extend_from_slice(&self.memtables);
        Self { memtables, ..self.clone() }
    }

    /// Whether every operation is in a table.
    pub(crate) fn has_nothing_to_flush(&self) -> bool {
        self.memtables.iter().all(|slot| slot.table.is_empty())
    }

    /// The state without `slot`.
    fn without_memtable(&self, slot: &Arc<MemSlot>) -> Self {
        let others = self.memtables.iter().filter(|other| !Arc::ptr_eq(other, slot));
        Self { memtables: others.cloned().collect(), ..self.clone() }
    }

    /// The state with another index.
    pub(crate) fn with_version(&self, version: Arc<Version>) -> Self {
        Self { version, ..self.clone() }
    }

    /// The state with other value files.
    pub(crate) fn with_segments(&self, segments: SegmentSet) -> Self {
        Self { segments: Arc::new(segments), ..self.clone() }
    }

    /// The state with other value files, some of which have the extents of `groups`.
    pub(crate) fn with_groups(&self, segments: SegmentSet, groups: Arc<GroupTable>) -> Self {
        Self { segments: Arc::new(segments), groups, ..self.clone() }
    }

    /// The state with other deletes of ranges.
    pub(crate) fn with_deleted(&self, deleted: DeletedRanges) -> Self {
        Self { deleted, ..self.clone() }
    }

    /// The MemTable that takes the commits.
    #[inline]
    pub(crate) fn youngest(&self) -> &MemSlot {
        &self.memtables[0]
    }

    /// Full MemTables that wait for their flush.
    pub(crate) fn waiting(&self) -> usize {
        self.memtables.iter().filter(|slot| slot.sealed().is_some()).count()
    }

    /// The MemTable to flush after the next one, if it is already full.
    pub(crate) fn second_sealed(&self) -> Option<(&Arc<MemSlot>, Sealed)> {
        let slot = self.memtables.iter().rev().nth(1)?;
        Some((slot, slot.sealed()?))
    }

    /// The MemTable to flush next: the oldest, if it is full (MemTables become durable strictly
    /// oldest first).
    pub(crate) fn oldest_sealed(&self) -> Option<(Arc<MemSlot>, Sealed)> {
        if planted(Bug::NewestMemTableFirst) {
            return self.memtables.iter().find_map(|slot| Some((slot.clone(), slot.sealed()?)));
        }
        let slot = self.memtables.last()?;
        Some((slot.clone(), slot.sealed()?))
    }
}

/// The current read state. Readers load it without a lock; a change replaces it as a whole, so a
/// key that moves from a MemTable into tables is in one of them in every read state.
pub(crate) struct ReadStates(ArcSwap<ReadState>);

impl ReadStates {
    pub(crate) fn new(first: ReadState) -> Self {
        Self(ArcSwap::from_pointee(first))
    }

    /// The current read state, for a short use.
    #[inline]
    pub(crate) fn load(&self) -> Guard<Arc<ReadState>> {
        self.0.load()
    }

    /// The current read state, to be kept with everything that it names.
    pub(crate) fn load_full(&self) -> Arc<ReadState> {
        self.0.load_full()
    }

    /// The read state, and then the visible sequence number. In the other order a compaction might
    /// drop the newest version at that number in between, because a newer one exists.
    #[inline]
    pub(crate) fn look(&self, visible: impl Fn() -> SeqNo) -> (Guard<Arc<ReadState>>, SeqNo) {
        let early = planted(Bug::VisibleBeforePicture).then(&visible);
        let state = self.load();
        let visible = early.unwrap_or_else(visible);
        (state, visible)
    }

    /// Replaces the read state by the result of `change`, which is called again after a concurrent
    /// change, so that none is lost.
    pub(crate) fn swap(&self, change: impl Fn(&ReadState) -> ReadState) {
        if planted(Bug::PictureOverwritten) {
            let after = Arc::new(change(&self.load()));
            self.0.rcu(|_| after.clone());
            return;
        }
        self.0.rcu(|state| change(state));
    }

    /// Replaces `slot` by `version`, which has its run, adds the value files that the flush has
    /// `opened`, with the extents of `groups`, and removes the extents that are `gone`.
    pub(crate) fn flushed(
        &self,
        slot: &Arc<MemSlot>,
        version: &Arc<Version>,
        opened: &SegmentSet,
        gone: &[Location],
        groups: &Arc<GroupTable>,
    ) {
        if planted(Bug::MemTableBeforeItsRun) {
            self.swap(|state| state.without_memtable(slot));
        }
        self.swap(|state| {
            let state = state.without_memtable(slot).with_version(version.clone());
            let segments = state.segments.joined(opened).with_extents(&[], gone);
            state.with_groups(segments, groups.clone())
        });
    }
}
