//! Copies records of the log, or of evacuated hot segments, into extents.

use cleavedb_base::key::split_encoded_key;
use cleavedb_base::record::{Header, Record, RecordKind};
use cleavedb_base::{Error, KeyspaceId, Result, SeqNo, ValuePointer};
use cleavedb_index::Entry;
use cleavedb_storage::log::{BufferPin, LogBuffer};
use cleavedb_storage::segment::is_far;
use cleavedb_values::groups::ExtentWriter;
use cleavedb_values::{GroupId, SegmentSet};

use super::pending::{PendingRecord, ValueSource};

/// Most records that are copied while the window is pinned, some tens of microseconds. A pin for
/// each record would wait each time until the stores of the copy before it have left the processor.
const HELD_MAX: usize = 64;

/// Distance, in records, from the record being copied to the one whose memory is prefetched.
const AHEAD: usize = 8;

/// The input that the threads of a flush share; each of them writes files of its own.
pub(super) struct FlushShard<'a> {
    pub(super) items: &'a [PendingRecord<'a>],
    /// The group of the record at this position.
    pub(super) group_of: &'a (dyn Fn(u32) -> GroupId + Sync),
    pub(super) log: &'a SegmentSet,
    pub(super) buffer: &'a LogBuffer,
}

impl FlushShard<'_> {
    /// Appends the items that `order` lists; returns the new places of values, each with the number
    /// of its record.
    pub(super) fn write(
        &self,
        order: &[u32],
        writer: &mut ExtentWriter<'_>,
    ) -> Result<Vec<(u32, ValuePointer)>> {
        let mut places = Vec::with_capacity(order.len());
        let mut held = None;
        for (turn, at) in order.iter().enumerate() {
            if let Some(later) = order.get(turn + AHEAD) {
                self.items[*later as usize].prefetch(self.log);
            }
            let item = &self.items[*at as usize];
            let PendingRecord { entry, source, id, .. } = item;
            let group = (self.group_of)(*at);
            let (pointer, chunk) = match source {
                ValueSource::Log(pointer, chunk) => (*pointer, chunk),
                ValueSource::Stub(kind) => {
                    held = None;
                    write_stub(entry, *kind, group, writer)?;
                    continue;
                }
                ValueSource::Memory(header) => {
                    let (_, key) = split_tree_key(entry.key)?;
                    places.push((*id, writer.append(group, header, key, entry.value)?));
                    continue;
                }
            };
            if turn.is_multiple_of(HELD_MAX) || chunk.is_some() || is_far(pointer) {
                held = None;
            }
            if is_far(pointer) {
                let record = self.log.far(pointer, entry.key, entry.seq)?;
                places.push((*id, writer.append_far(group, &record)?));
                continue;
            }
            let place = match chunk.as_ref().and_then(|chunk| chunk.bytes_of(pointer)) {
                Some(bytes) => self.copy(item, pointer, bytes, group, writer),
                None => self.copy_alone(item, pointer, group, writer, &mut held),
            };
            places.push((*id, place?));
        }
        Ok(places)
    }

    /// Copies a record from the log to its group; its payload checksum stays the same.
    fn copy(
        &self,
        item: &PendingRecord<'_>,
        pointer: ValuePointer,
        bytes: &[u8],
        group: GroupId,
        writer: &mut ExtentWriter<'_>,
    ) -> Result<ValuePointer> {
        let Entry { key, seq, .. } = item.entry;
        append(&self.log.verified(bytes, pointer, key, seq)?, item.seq, group, writer)
    }

    /// Copies a record that is read alone: straight from the window, if it is still there.
    #[inline]
    fn copy_alone<'h>(
        &'h self,
        item: &PendingRecord<'_>,
        pointer: ValuePointer,
        group: GroupId,
        writer: &mut ExtentWriter<'_>,
        held: &mut Option<BufferPin<'h>>,
    ) -> Result<ValuePointer> {
        if writer.has_room(group, pointer.len as usize) {
            let held = held.get_or_insert_with(|| self.buffer.pin());
            let Entry { key, seq, .. } = item.entry;
            if let Some(record) = self.log.in_window(held, pointer, key, seq) {
                return append(&record?, item.seq, group, writer);
            }
        }
        // A read and a write may take long, so the window is released first.
        *held = None;
        self.copy(item, pointer, &self.log.bytes(pointer)?, group, writer)
    }
}

/// Appends a record of the log to its group, with this sequence number.
#[inline]
fn append(
    record: &Record<'_>,
    seq: SeqNo,
    group: GroupId,
    writer: &mut ExtentWriter<'_>,
) -> Result<ValuePointer> {
    let Record { header, key, value } = *record;
    // No reader of a group asks which records were committed together, so the flag is dropped.
    writer.append(group, &Header { more: false, seq, ..header }, key, value)
}

/// The keyspace and the user key of a tree key.
pub(crate) fn split_tree_key(key: &[u8]) -> Result<(KeyspaceId, &[u8])> {
    split_encoded_key(key).ok_or_else(|| Error::corruption("a tree key is too short"))
}

fn write_stub(
    entry: &Entry<'_>,
    kind: RecordKind,
    group: GroupId,
    writer: &mut ExtentWriter<'_>,
) -> Result<()> {
    let (keyspace, key) = split_tree_key(entry.key)?;
    let header = Header::new(kind, keyspace, entry.seq, key, entry.value);
    writer.append(group, &header, key, entry.value).map(|_| ())
}
