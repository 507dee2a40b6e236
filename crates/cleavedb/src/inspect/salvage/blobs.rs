//! Blobs of a damaged database. To its callers each has a *lone* file.

use std::collections::BTreeSet;
use std::sync::Arc;

use cleavedb_base::record::{Record, RecordKind};
use cleavedb_base::{FileNumber, Result, ValuePointer};
use cleavedb_index::Entry;
use cleavedb_storage::segment::Segment;
use cleavedb_storage::{FileKind, Name};
use cleavedb_values::SegmentSet;

use super::Salvage;
use crate::inspect::unopened::Unopened;
use crate::store::blobs::file_of;

/// The lone files that are there.
pub(super) struct FoundLone(BTreeSet<FileNumber>);

impl FoundLone {
    pub(super) fn of(files: &Unopened) -> Result<Self> {
        Ok(Self(files.names(FileKind::Blob)?.iter().map(Name::number).collect()))
    }

    /// Whether an entry points to one of them.
    pub(super) fn have(&self, entry: &Entry<'_>) -> bool {
        file_of(entry.kind, entry.value).is_some_and(|file| self.0.contains(&file))
    }
}

/// The end of the lone file with the value of a record at `place`: the record names it, or is it.
/// `None` if the record has the value.
pub(super) fn lone_end(record: &Record<'_>, place: ValuePointer) -> Result<Option<ValuePointer>> {
    let kind = record.header.kind;
    if kind.is_blob() {
        return Ok(Some(ValuePointer::of_entry(kind.as_entry(), record.value)?.value));
    }
    Ok((kind == RecordKind::BlobEnd).then_some(place))
}

impl Salvage {
    /// The value of a tree key in the lone file that ends at `pointer`.
    pub(super) fn read_lone(&self, pointer: ValuePointer, encoded_key: &[u8]) -> Result<Vec<u8>> {
        let name = Name::numbered(FileKind::Blob, pointer.file);
        let (file, identity) = (self.files.open(&name)?, self.identity(pointer.file));
        let segment = Segment::new(name, identity, file, None, Arc::default());
        let blobs = SegmentSet::default().with(&[Arc::new(segment)], &[]);
        blobs.read(pointer, encoded_key, 0).map(|value| value.to_vec())
    }
}
