//! Sinks: write survivors to segments, and to extents of groups.

use cleavedb_base::record::{Header, Record, RecordKind};
use cleavedb_base::{Result, ValuePointer};
use cleavedb_storage::segment::FarRecord;

use super::route::Target;
use super::survivors::SurvivorWriter;
use crate::groups::ExtentWriter;
use crate::partition::GroupId;

/// The files that a collection writes.
pub(super) struct Sinks<'w> {
    pub(super) segments: SurvivorWriter<'w>,
    pub(super) extents: ExtentWriter<'w>,
}

impl Sinks<'_> {
    /// Writes a survivor, of `group` if it has one; returns the new place of its value.
    pub(super) fn write(
        &mut self,
        record: &Record<'_>,
        to: Target,
        group: GroupId,
    ) -> Result<ValuePointer> {
        let header = Header { more: false, ..record.header };
        if to == Target::Group {
            return self.extents.append(group, &header, record.key, record.value);
        }
        if to == Target::Tombstone {
            return self.leave(RecordKind::Delete, group, &header, record.key);
        }
        let place = self.segments.append(&header, record.key, record.value)?;
        self.leave_tag(to, group, &header, record.key)?;
        Ok(place)
    }

    /// As [`Sinks::write`], for a record that is copied in pieces.
    pub(super) fn write_far(
        &mut self,
        record: &FarRecord<'_>,
        to: Target,
        group: GroupId,
    ) -> Result<ValuePointer> {
        if to == Target::Group {
            return self.extents.append_far(group, record);
        }
        if to == Target::Tombstone {
            return self.leave(RecordKind::Delete, group, &record.header, &record.key);
        }
        let place = self.segments.append_far(record)?;
        self.leave_tag(to, group, &record.header, &record.key)?;
        Ok(place)
    }

    /// Writes a tag in place of a cold record.
    fn leave_tag(&mut self, to: Target, group: GroupId, header: &Header, key: &[u8]) -> Result<()> {
        if to == Target::ColdLog {
            self.leave(RecordKind::Tag, group, header, key)?;
        }
        Ok(())
    }

    /// Writes a record of the key alone in place of a record; returns where it lies.
    fn leave(
        &mut self,
        kind: RecordKind,
        group: GroupId,
        header: &Header,
        key: &[u8],
    ) -> Result<ValuePointer> {
        let left = Header::new(kind, header.keyspace, header.seq, key, &[]);
        self.extents.append(group, &left, key, &[])
    }
}
