//! What a reader sees: MemTables, index version and segments, swapped as one.

use std::sync::{Arc, OnceLock};

use cleavedb_base::SeqNo;
use cleavedb_base::planted::{Bug, planted};
use cleavedb_index::{MemTable, Version};
use cleavedb_values::SegmentSet;

/// A MemTable and the part of the log that it covers.
pub(crate) struct MemSlot {
    pub(crate) table: Arc<MemTable>,
    /// First log position whose operations it holds.
    pub(crate) start: u64,
    sealed: OnceLock<Sealed>,
}

/// Where a full MemTable ends.
#[derive(Clone, Copy)]
pub(crate) struct Sealed {
    /// Log position behind its last operation.
    pub(crate) end: u64,
    /// Its greatest sequence number.
    pub(crate) last_seq: SeqNo,
}

impl MemSlot {
    pub(crate) fn new(memory: usize, start: u64) -> Self {
        Self { table: Arc::new(MemTable::new(memory)), start, sealed: OnceLock::new() }
    }

    /// Ends the slot; nothing is reserved for it any more, though commits may still be inserting.
    pub(crate) fn seal(&self, end: u64, last_seq: SeqNo) {
        assert!(self.sealed.set(Sealed { end, last_seq }).is_ok(), "a MemTable is sealed once");
    }

    pub(crate) fn sealed(&self) -> Option<Sealed> {
        self.sealed.get().copied()
    }
}

/// One immutable picture of the database.
pub(crate) struct ReadState {
    /// Newest first; the first one takes the commits.
    pub(crate) memtables: Vec<Arc<MemSlot>>,
    pub(crate) version: Arc<Version>,
    pub(crate) segments: Arc<SegmentSet>,
}

impl ReadState {
    /// The same picture with `slot` in front.
    pub(crate) fn with_memtable(&self, slot: Arc<MemSlot>) -> Self {
        let mut memtables = Vec::with_capacity(self.memtables.len() + 1);
        memtables.push(slot);
        memtables.extend_from_slice(&self.memtables);
        Self { memtables, version: self.version.clone(), segments: self.segments.clone() }
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

    /// The MemTable that is flushed next: the oldest, if it is full (memtables become durable
    /// strictly oldest first).
    pub(crate) fn oldest_sealed(&self) -> Option<(Arc<MemSlot>, Sealed)> {
        if planted(Bug::NewestMemTableFirst) {
            return self.memtables.iter().find_map(|slot| Some((slot.clone(), slot.sealed()?)));
        }
        let slot = self.memtables.last()?;
        Some((slot.clone(), slot.sealed()?))
    }
}
