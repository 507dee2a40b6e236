//! Route: chooses the target of each survivor: a segment, its group or the part of it that will
//! have its key, or the cold log.
//!
//! With tagging (HashKV, section 3.4) a survivor that is *cold* leaves for the cold log, and a
//! *tag* with its key and sequence number takes its place. A tag says that the key was in the
//! group before: a tag together with a newer record means a hot key. It holds no pointer, since a
//! collection of the cold log updates the places of its values in the index only. Because only a
//! key with a single record is cold, a tag is always the oldest record of its key in its group; so
//! it hides no record, no run has to repeat it, and its value is not looked up in the index.

use cleavedb_base::planted::{Bug, planted};
use cleavedb_base::record::{HEADER_LEN, RecordKind};

use super::Liveness;
use super::join::Survivor;
use super::record::ScannedRecord;
use crate::groups::GroupTable;
use crate::groups::sizing::{GroupSizes, Slice};
use crate::partition::GroupId;

/// The target of a survivor.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Target {
    /// To a segment of survivors.
    Segment,
    /// To its group.
    Group,
    /// To a segment of the cold log, and a tag stays in the group.
    ColdLog,
    /// Nowhere, since its value has expired: a group tombstone takes its place.
    Tombstone,
}

/// A survivor with its target.
pub(super) struct Routed<'f, 'a> {
    pub(super) record: &'f ScannedRecord<'a>,
    /// The record's entry in the run, if it has one.
    pub(super) entry: Option<usize>,
    pub(super) to: Target,
}

impl Routed<'_, '_> {
    /// Bytes of the record that stays in the group: all of it, a tag, or a group tombstone.
    fn len(&self) -> u64 {
        match self.to {
            Target::ColdLog | Target::Tombstone => (HEADER_LEN + self.record.key().len()) as u64,
            Target::Group | Target::Segment => u64::from(self.record.pointer.len),
        }
    }
}

/// The group that is collected.
#[derive(Clone, Copy)]
pub(super) struct GroupContext<'a> {
    pub(super) group: GroupId,
    pub(super) table: &'a GroupTable,
    pub(super) sizes: GroupSizes,
}

impl<'a> GroupContext<'a> {
    /// Bounds at which the group is divided; none, unless its survivors are larger than a group may
    /// be. If the group is not split after all, the extents of the parts serve the whole group.
    pub(super) fn bounds(self, survivors: &[Routed<'_, '_>]) -> Vec<Vec<u8>> {
        let sizing = self.table.partition().sizing();
        let length = sizing.length(self.sizes, self.table);
        if survivors.iter().map(Routed::len).sum::<u64>() <= length {
            return Vec::new();
        }
        let records = Slice::new(survivors, |it| (it.record.key(), it.len()));
        sizing.split(self.sizes, self.table, self.group, &records)
    }

    /// The part of the group that a record belongs to, counted from 0.
    pub(super) fn part<B: AsRef<[u8]>>(self, record: &ScannedRecord<'_>, bounds: &[B]) -> usize {
        if bounds.is_empty() || planted(Bug::SplitIntoWrongHalf) {
            return 0;
        }
        let token = self.table.partition().token(record.key());
        bounds.partition_point(|bound| *bound.as_ref() <= *token)
    }

    /// Returns the function that chooses the target of a survivor.
    pub(super) fn route<'l>(
        self,
        liveness: &'l dyn Liveness,
    ) -> impl Fn(&Survivor<'_, '_>) -> Target + use<'a, 'l> {
        let hotness = self.table.has_cold_log().then(|| HotnessRule::new(liveness, self));
        move |survivor| match &hotness {
            _ if survivor.expired => Target::Tombstone,
            Some(hotness) if hotness.is_cold(*survivor) => Target::ColdLog,
            _ => Target::Group,
        }
    }
}

/// Tells cold values from hot ones.
struct HotnessRule<'a, 'l> {
    liveness: &'l dyn Liveness,
    table: &'a GroupTable,
    /// Whether the group was collected with tagging before: then survivors in it are hot.
    tagged: bool,
}

impl<'a, 'l> HotnessRule<'a, 'l> {
    fn new(liveness: &'l dyn Liveness, home: GroupContext<'a>) -> Self {
        let tagged = home.table.extents_of(home.group).any(|extent| extent.tags > 0);
        Self { liveness, table: home.table, tagged }
    }

    /// A value is cold if it was not updated since its insert: it is the only record of its key
    /// here, memory holds no newer one, and no collection has found it hot. One that expires stays
    /// where it will die.
    fn is_cold(&self, survivor: Survivor<'_, '_>) -> bool {
        let Survivor { record, alone, .. } = survivor;
        let stayed = || {
            let extent = self.table.extent_of(record.pointer);
            self.tagged && extent.is_some_and(|extent| extent.survivors)
        };
        record.kind == RecordKind::Separated
            && (alone || planted(Bug::TagAboveOlder))
            && !stayed()
            && !self.liveness.is_in_memory(record.key())
    }
}

#[cfg(test)]
mod tests {
    use cleavedb_base::{FileNumber, Result, ValuePointer};

    use super::*;
    use crate::collect::record::Visible;
    use crate::groups::{Extent, GroupEdit, Location};

    fn extent(offset: u64) -> Extent {
        let place = Location { file: FileNumber(9), offset };
        Extent { survivors: true, ..Extent::sample(GroupId(1), place) }
    }

    /// A liveness check that reports every key as in memory, or none.
    struct Memory(bool);

    impl Liveness for Memory {
        fn visible(&self, _: &[ScannedRecord<'_>], _: &mut Vec<Visible>) -> Result<()> {
            Ok(())
        }

        fn is_in_memory(&self, _: &[u8]) -> bool {
            self.0
        }
    }

    /// "We treat the KV pairs that are updated at least once since their last inserts as hot."
    #[test]
    fn a_value_is_cold_if_nothing_is_known_of_an_update() {
        let mut table = GroupTable::default();
        for edit in [
            GroupEdit::Begin(GroupId(1), Vec::new(), 0),
            GroupEdit::Add(Extent { tags: 1, records: 2, ..extent(4096) }),
        ] {
            table.apply(&edit).unwrap();
        }
        let sizes = GroupSizes { group_bytes: 1 << 20, capacity: 1 << 20, one_at_first: false };
        let home = |table| GroupContext { group: GroupId(1), table, sizes };
        let cold = |kind, alone, offset, in_memory| {
            let pointer = ValuePointer { file: FileNumber(9), offset, len: 50 };
            let record = ScannedRecord::sample(&[1; 10], kind, pointer);
            let memory = Memory(in_memory);
            let survivor = Survivor { record: &record, alone, entry: None, expired: false };
            HotnessRule::new(&memory, home(&table)).is_cold(survivor)
        };
        let flushed = 8192;
        assert!(cold(RecordKind::Separated, true, flushed, false));
        assert!(!cold(RecordKind::Separated, false, flushed, false), "another record of the key");
        assert!(!cold(RecordKind::Separated, true, flushed, true), "a newer version in memory");
        assert!(!cold(RecordKind::Separated, true, 4096, false), "a collection found it hot");
        assert!(!cold(RecordKind::Tag, true, flushed, false), "a tag has no value to leave");
        assert!(!cold(RecordKind::Inline, true, flushed, false), "nor has a group tombstone");
    }

    #[test]
    fn of_a_cold_value_header_and_key_stay() {
        let pointer = ValuePointer { file: FileNumber(9), offset: 4096, len: 1000 };
        let record = ScannedRecord::sample(&[1; 10], RecordKind::Separated, pointer);
        let len = |to| Routed { record: &record, entry: None, to }.len();
        assert_eq!((len(Target::Group), len(Target::ColdLog)), (1000, 34));
    }
}
