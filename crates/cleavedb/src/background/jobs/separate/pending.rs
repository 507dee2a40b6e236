//! The records that a flush will append to groups or hot segments, and the reading ahead of them.

use std::sync::Arc;

use cleavedb_base::record::{HEADER_LEN, Header, RecordKind};
use cleavedb_base::{SeqNo, ValuePointer};
use cleavedb_index::Entry;
use cleavedb_storage::pages::PagePool;
use cleavedb_storage::prefetch::prefetch_bytes;
use cleavedb_values::{Chunk, SegmentSet};

/// A record that the flush will append to a group.
pub(super) struct PendingRecord<'a> {
    pub(super) entry: Entry<'a>,
    pub(super) source: ValueSource,
    /// The number of the record among the records of the flush.
    pub(super) id: u32,
    /// The sequence number that its copy gets: that of the entry, unless it is promoted.
    pub(super) seq: SeqNo,
}

/// The source of such a record.
pub(super) enum ValueSource {
    /// A file, mostly the log. The chunk is present if the record is read together with others.
    Log(ValuePointer, Option<Arc<Chunk>>),
    /// The entry itself: a group tombstone of this kind.
    Stub(RecordKind),
    /// The entry itself, with its stored value in memory.
    Memory(Header),
}

impl PendingRecord<'_> {
    pub(super) fn len(&self) -> u64 {
        match self.source {
            ValueSource::Log(pointer, _) => u64::from(pointer.len),
            ValueSource::Stub(_) | ValueSource::Memory(_) => {
                (HEADER_LEN + self.entry.key.len() + self.entry.value.len()) as u64
            }
        }
    }

    pub(super) fn pointer(&self) -> Option<ValuePointer> {
        match self.source {
            ValueSource::Log(pointer, _) => Some(pointer),
            ValueSource::Stub(_) | ValueSource::Memory(_) => None,
        }
    }

    /// Prefetches the memory that copying the record will need.
    #[inline]
    pub(super) fn prefetch(&self, log: &SegmentSet) {
        prefetch_bytes(self.entry.key);
        match &self.source {
            ValueSource::Log(pointer, Some(chunk)) => {
                chunk.known(*pointer).into_iter().for_each(prefetch_bytes);
            }
            ValueSource::Log(pointer, None) => log.prefetch(*pointer),
            ValueSource::Stub(_) | ValueSource::Memory(_) => {}
        }
    }
}

/// Announces to the device the log records of `items` for which `in_files` holds, and gives each of
/// them the chunk with which it is read.
pub(super) fn prefetch_records(
    log: &SegmentSet,
    items: &mut [PendingRecord<'_>],
    in_files: impl Fn(&ValuePointer) -> bool,
    pages: &Arc<PagePool>,
) {
    let wanted: Vec<ValuePointer> =
        items.iter().filter_map(PendingRecord::pointer).filter(&in_files).collect();
    let mut chunks = log.prefetch_records(&wanted, pages).into_iter();
    for item in items {
        match &mut item.source {
            ValueSource::Log(pointer, chunk) if in_files(pointer) => {
                *chunk = chunks.next().flatten()
            }
            _ => {}
        }
    }
}
