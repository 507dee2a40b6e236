//! Where a flush sends each version that it keeps.

use std::collections::BTreeMap;

use cleavedb_base::planted::{Bug, planted};
use cleavedb_base::{FileNumber, SeqNo, ValuePointer};
use cleavedb_index::Entry;

use super::pending::{PendingRecord, ValueSource};
use crate::store::state::MemSlot;

/// Where a version goes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Destination {
    /// To the run, as it is: a delete, an operand, a value, or a pointer into a log that stays.
    Index,
    /// To the run, as it is: a pointer to a blob, which stays where it is.
    Blob,
    /// To a group: the number of its record. The run points there.
    Group(u32),
    /// To a store with an index of its own. The run has at most a marker.
    Apart,
}

/// The files of the blobs of a MemTable.
pub(super) struct Blobs(BTreeMap<FileNumber, u64>);

impl Blobs {
    pub(super) fn of(slot: &MemSlot) -> Self {
        Self(slot.blobs())
    }

    /// Where an entry goes if nothing moves its value.
    #[inline]
    pub(super) fn destination(&self, entry: &Entry<'_>) -> Destination {
        let any_blob = !self.0.is_empty() && !planted(Bug::BlobTakenForValue);
        if any_blob && entry.kind.is_pointer() && self.has(entry) {
            Destination::Blob
        } else {
            Destination::Index
        }
    }

    #[cold]
    fn has(&self, entry: &Entry<'_>) -> bool {
        let found = ValuePointer::of_entry(entry.kind, entry.value);
        found.is_ok_and(|(pointer, _)| self.0.contains_key(&pointer.file))
    }
}

/// What a flush with groups has decided so far.
#[derive(Default)]
pub(super) struct FlushPlan<'e> {
    /// Of each version that the flush keeps, in their order.
    pub(super) destinations: Vec<Destination>,
    /// Records for groups, in the order of the index.
    pub(super) items: Vec<PendingRecord<'e>>,
    /// How many records have a number, those for hot segments included.
    pub(super) records: u32,
}

/// The newest version of a key that a flush keeps.
pub(super) struct Newest<'e> {
    pub(super) entry: Entry<'e>,
    /// The position of its destination.
    pub(super) position: usize,
    /// The position of its record for a group, if it has one and may become hot.
    pub(super) item: Option<usize>,
}

impl<'e> FlushPlan<'e> {
    /// A record of `entry` for a group or a hot segment, under the next number.
    pub(super) fn record(
        &mut self,
        entry: Entry<'e>,
        source: ValueSource,
        seq: SeqNo,
    ) -> PendingRecord<'e> {
        self.records += 1;
        PendingRecord { entry, source, id: self.records - 1, seq }
    }
}
