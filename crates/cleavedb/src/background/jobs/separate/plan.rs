//! Where a flush sends each version that it keeps.

use cleavedb_base::SeqNo;
use cleavedb_index::Entry;

use super::pending::{PendingRecord, ValueSource};

/// Where a version goes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Destination {
    /// To the run, as it is: a delete, an operand, a value, or a pointer into a log that stays or
    /// to a lone file.
    Index,
    /// To a group: the number of its record. The run points there.
    Group(u32),
    /// To a store with an index of its own. The run has at most a marker.
    Apart,
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
    /// The position of its record for a group, if it has one and may become hot. A short value has
    /// none, and may become hot as well.
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
