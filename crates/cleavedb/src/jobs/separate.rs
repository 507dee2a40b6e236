//! How a flush moves values into their groups.
//!
//! A value that is to be separated is in the log when it is committed, and the MemTable points
//! there. The flush reads its part of the log once, in chunks of many records, and appends the
//! values to their groups, several groups at once. The run of level 0 points to the groups: no
//! table ever points into the log.
//!
//! The collection of a hash group does not ask the index, so the flush must write to the group
//! every death of one of its records: if the filters say that a group may hold a key, each delete
//! and each inline value of the key leaves a record of its own in the group, a *group tombstone*.
//! The collection of a range of keys asks the index, and needs no group tombstones.

use std::collections::BTreeMap;
use std::iter::Flatten;
use std::sync::Arc;
use std::time::{Duration, Instant};
use std::vec::IntoIter;

use cleavedb_base::checksum::hash64;
use cleavedb_base::key::split_encoded_key;
use cleavedb_base::planted::{Bug, planted};
use cleavedb_base::record::{HEADER_LEN, Header, Record, RecordKind};
use cleavedb_base::sync::side_by_side;
use cleavedb_base::{EntryKind, Error, ErrorKind, Result, SeqNo, ValuePointer};
use cleavedb_index::{Entry, Retention};
use cleavedb_storage::FileKind;
use cleavedb_storage::log::{BufferPin, LogBuffer};
use cleavedb_storage::pages::PagePool;
use cleavedb_storage::prefetch::prefetch_bytes;
use cleavedb_storage::processor_time::timed;
use cleavedb_storage::segment::is_far;
use cleavedb_values::groups::sizing::Slice;
use cleavedb_values::groups::writer::Written;
use cleavedb_values::groups::{ExtentWriter, GroupCursor, sizing};
use cleavedb_values::{
    Chunk, GroupEdit, GroupId, GroupTable, ReadBuffers, SegmentFactory, SegmentSet,
};

use crate::engine::Engine;
use crate::flush_parts::PARTS;
use crate::options::Background;
use crate::state::{MemSlot, ReadState};

/// Most files that one flush writes: each file costs a sync.
const FILES_MAX: u64 = 8;

/// Each part of a flush has at least the length of a file divided by this, so that a short flush
/// writes only one file.
const PART_OF_FILE: u64 = 16;

/// Most records that are copied while the window is pinned, some tens of microseconds. A pin for
/// each record would wait each time until the stores of the copy before it have left the processor.
const HELD_MAX: usize = 64;

/// Distance, in records, from the record being copied to the one whose memory is prefetched.
const AHEAD: usize = 8;

/// A record that the flush will append to a group.
struct PendingRecord<'a> {
    entry: Entry<'a>,
    source: ValueSource,
}

/// The source of such a record.
enum ValueSource {
    /// The log. The chunk is present if the record is read together with others.
    Log(ValuePointer, Option<Arc<Chunk>>),
    /// The entry itself: a group tombstone of this kind.
    Stub(RecordKind),
}

impl PendingRecord<'_> {
    fn len(&self) -> u64 {
        match self.source {
            ValueSource::Log(pointer, _) => u64::from(pointer.len),
            ValueSource::Stub(_) => {
                (HEADER_LEN + self.entry.key.len() + self.entry.value.len()) as u64
            }
        }
    }

    fn pointer(&self) -> Option<ValuePointer> {
        match self.source {
            ValueSource::Log(pointer, _) => Some(pointer),
            ValueSource::Stub(_) => None,
        }
    }

    /// Prefetches the memory that copying the record will need.
    #[inline]
    fn prefetch(&self, log: &SegmentSet) {
        prefetch_bytes(self.entry.key);
        match &self.source {
            ValueSource::Log(pointer, Some(chunk)) => {
                chunk.known(*pointer).into_iter().for_each(prefetch_bytes);
            }
            ValueSource::Log(pointer, None) => log.prefetch(*pointer),
            ValueSource::Stub(_) => {}
        }
    }
}

/// Announces to the device the log records of `items` for which `in_files` holds, and gives each of
/// them the chunk with which it is read.
fn prefetch_records(
    log: &SegmentSet,
    items: &mut [PendingRecord<'_>],
    in_files: impl Fn(&ValuePointer) -> bool,
    pages: &Arc<PagePool>,
) {
    let wanted: Vec<ValuePointer> =
        items.iter().filter_map(PendingRecord::pointer).filter(&in_files).collect();
    let mut chunks = log.prefetch_records(&wanted, ReadBuffers::Pooled(pages)).into_iter();
    for item in items {
        match &mut item.source {
            ValueSource::Log(pointer, chunk) if in_files(pointer) => {
                *chunk = chunks.next().flatten()
            }
            _ => {}
        }
    }
}

/// What a flush wrote to groups, and the new pointers in index order.
pub(crate) struct SeparatedValues {
    pub(crate) written: Written,
    /// Groups that the flush creates.
    pub(crate) begins: Vec<GroupEdit>,
    pointers: Flatten<IntoIter<Option<ValuePointer>>>,
}

impl SeparatedValues {
    fn new(written: Written, begins: Vec<GroupEdit>, pointers: Vec<Option<ValuePointer>>) -> Self {
        Self { written, begins, pointers: pointers.into_iter().flatten() }
    }

    /// The pointer that replaces `entry`'s, if its value went to a group. The caller must pass the
    /// entries in the order in which the groups were given them.
    pub(crate) fn pointer(&mut self, entry: &Entry<'_>) -> Option<ValuePointer> {
        if entry.kind == EntryKind::Pointer { self.pointers.next() } else { None }
    }
}

/// Sorts the entries of a MemTable into groups, key by key.
struct Separator<'a, 'e> {
    state: &'a ReadState,
    table: &'a GroupTable,
    items: Vec<PendingRecord<'e>>,
    /// Versions of the current key that lie in no group.
    unseparated: Vec<Entry<'e>>,
    /// Whether a version of the current key goes to a group.
    separated: bool,
}

impl<'e> Separator<'_, 'e> {
    fn add(&mut self, entry: Entry<'e>) -> Result<()> {
        if entry.kind == EntryKind::Pointer {
            let source = ValueSource::Log(ValuePointer::decode(entry.value)?, None);
            self.items.push(PendingRecord { entry, source });
            self.separated = true;
        } else if self.table.needs_tombstones() {
            self.unseparated.push(entry);
        }
        Ok(())
    }

    /// Called after the last version of a key: adds the key's group tombstones, if its group has,
    /// or may have, a record of it.
    fn end_key(&mut self) -> Result<()> {
        let separated = std::mem::take(&mut self.separated);
        let Some(first) = self.unseparated.first() else { return Ok(()) };
        if (separated || self.may_contain(first.key)?) && !planted(Bug::StubForgotten) {
            let tombstones = self.unseparated.drain(..).map(|entry| {
                let deletes = entry.kind == EntryKind::Delete;
                let kind = if deletes { RecordKind::Delete } else { RecordKind::Inline };
                PendingRecord { entry, source: ValueSource::Stub(kind) }
            });
            self.items.extend(tombstones);
        }
        self.unseparated.clear();
        Ok(())
    }

    fn may_contain(&self, key: &[u8]) -> Result<bool> {
        let hash = hash64(key, 0);
        for extent in self.table.extents_of(self.table.group_of(key).ok_or_else(no_group)?) {
            match self.state.segments.extent(extent.place)?.may_contain(hash) {
                Ok(false) => {}
                // A filter that is damaged gives no answer, so the key may be there: at worst the
                // group tombstone is superfluous.
                Err(error) if error.kind() != ErrorKind::Corruption => return Err(error),
                _ => return Ok(true),
            }
        }
        Ok(false)
    }
}

/// The positions in `ordinals`, whose values are below `count`, sorted by ordinal; positions of
/// equal ordinals ascend. This is a counting sort.
fn by_ordinal(ordinals: &[u32], count: usize) -> Vec<u32> {
    let mut next = vec![0; count];
    ordinals.iter().for_each(|ordinal| next[*ordinal as usize] += 1);
    let mut before = 0;
    for place in &mut next {
        before += std::mem::replace(place, before);
    }
    let mut order = vec![0; ordinals.len()];
    for (at, ordinal) in (0..).zip(ordinals) {
        let place = &mut next[*ordinal as usize];
        order[*place as usize] = at;
        *place += 1;
    }
    order
}

/// Divides `order`, in which items of a group are neighbours and that have `bytes` bytes together,
/// into at most `most` parts of about the same length. Each part has whole groups and, but for the
/// last one, at least `part_min` bytes.
fn parts<'o>(
    order: &'o [u32],
    items: &[PendingRecord<'_>],
    ordinals: &[u32],
    (bytes, part_min, most): (u64, u64, u64),
) -> Vec<&'o [u32]> {
    let len = |at: &u32| items[*at as usize].len();
    let part_len = bytes.div_ceil(most).max(part_min).max(1);
    let mut parts = Vec::new();
    let (mut rest, mut taken, mut so_far) = (order, 0, 0);
    for of_group in order.chunk_by(|a, b| ordinals[*a as usize] == ordinals[*b as usize]) {
        taken += of_group.len();
        so_far += of_group.iter().map(len).sum::<u64>();
        if so_far >= part_len {
            let (part, others) = rest.split_at(taken);
            parts.push(part);
            (rest, taken, so_far) = (others, 0, 0);
        }
    }
    if !rest.is_empty() {
        parts.push(rest);
    }
    parts
}

/// The input that the threads of a flush share; each of them writes files of its own.
struct FlushShard<'a> {
    items: &'a [PendingRecord<'a>],
    ordinals: &'a [u32],
    groups: &'a GroupCursor<'a>,
    log: &'a SegmentSet,
    buffer: &'a LogBuffer,
}

impl FlushShard<'_> {
    /// Appends the items that `order` lists; returns the new places of values, each with the number
    /// of its item.
    fn write(
        &self,
        order: &[u32],
        mut writer: ExtentWriter<'_>,
    ) -> Result<(Written, Vec<(u32, ValuePointer)>)> {
        let mut places = Vec::with_capacity(order.len());
        let mut held = None;
        for (turn, at) in order.iter().enumerate() {
            if let Some(later) = order.get(turn + AHEAD) {
                self.items[*later as usize].prefetch(self.log);
            }
            let PendingRecord { entry, source } = &self.items[*at as usize];
            let group = self.groups.group(self.ordinals[*at as usize]);
            let (pointer, chunk) = match source {
                ValueSource::Log(pointer, chunk) => (*pointer, chunk),
                ValueSource::Stub(kind) => {
                    held = None;
                    write_stub(entry, *kind, group, &mut writer)?;
                    continue;
                }
            };
            if turn.is_multiple_of(HELD_MAX) || chunk.is_some() || is_far(pointer) {
                held = None;
            }
            if is_far(pointer) {
                let record = self.log.far(pointer, entry.key, entry.seq)?;
                places.push((*at, writer.append_far(group, &record)?));
                continue;
            }
            let place = match chunk.as_ref().and_then(|chunk| chunk.bytes_of(pointer)) {
                Some(bytes) => self.copy(entry, pointer, bytes, group, &mut writer),
                None => self.copy_alone(entry, pointer, group, &mut writer, &mut held),
            };
            places.push((*at, place?));
        }
        drop(held);
        Ok((writer.finish()?, places))
    }

    /// Copies a record from the log to its group; its payload checksum stays the same.
    fn copy(
        &self,
        entry: &Entry<'_>,
        pointer: ValuePointer,
        bytes: &[u8],
        group: GroupId,
        writer: &mut ExtentWriter<'_>,
    ) -> Result<ValuePointer> {
        append(&self.log.verified(bytes, pointer, entry.key, entry.seq)?, group, writer)
    }

    /// Copies a record that is read alone: straight from the window, if it is still there.
    #[inline]
    fn copy_alone<'h>(
        &'h self,
        entry: &Entry<'_>,
        pointer: ValuePointer,
        group: GroupId,
        writer: &mut ExtentWriter<'_>,
        held: &mut Option<BufferPin<'h>>,
    ) -> Result<ValuePointer> {
        if writer.has_room(group, pointer.len as usize) {
            let held = held.get_or_insert_with(|| self.buffer.pin());
            if let Some(record) = self.log.in_window(held, pointer, entry.key, entry.seq) {
                return append(&record?, group, writer);
            }
        }
        // A read and a write may take long, so the window is released first.
        *held = None;
        self.copy(entry, pointer, &self.log.bytes(pointer)?, group, writer)
    }
}

/// Appends a record of the log to its group.
#[inline]
fn append(
    record: &Record<'_>,
    group: GroupId,
    writer: &mut ExtentWriter<'_>,
) -> Result<ValuePointer> {
    let Record { header, key, value } = *record;
    // No reader of a group asks which records were committed together, so the flag is dropped.
    writer.append(group, &Header { more: false, ..header }, key, value)
}

fn write_stub(
    entry: &Entry<'_>,
    kind: RecordKind,
    group: GroupId,
    writer: &mut ExtentWriter<'_>,
) -> Result<()> {
    let (keyspace, key) =
        split_encoded_key(entry.key).ok_or_else(|| Error::corruption("a tree key is too short"))?;
    let header = Header::new(kind, keyspace, entry.seq, key, entry.value);
    writer.append(group, &header, key, entry.value).map(|_| ())
}

fn no_group() -> Error {
    Error::corruption("no group covers a key")
}

/// Writes to the groups what a flush has for them: values and group tombstones.
pub(crate) fn write_groups(
    engine: &Engine,
    slot: &MemSlot,
    snapshots: &[SeqNo],
    files: &dyn SegmentFactory,
) -> Result<SeparatedValues> {
    if engine.options.layout.groups.is_none() || planted(Bug::PointsIntoTheLog) {
        return Ok(SeparatedValues::new(Written::default(), Vec::new(), Vec::new()));
    }
    let (state, table) = groups_now(engine);
    let (items, unseparated) = (Vec::new(), Vec::new());
    let mut sorter =
        Separator { state: &state, table: &table, items, unseparated, separated: false };
    let mut retention = Retention::new(snapshots);
    let mut last_key: Option<&[u8]> = None;
    slot.table.for_each_sorted(|entry| {
        if last_key != Some(entry.key) {
            sorter.end_key()?;
            retention.begin_key();
            last_key = Some(entry.key);
        }
        if retention.keep(entry.seq) { sorter.add(entry) } else { Ok(()) }
    })?;
    sorter.end_key()?;
    let log = state.segments.of_kind(FileKind::Log);
    write_items(engine, &log, &table, sorter.items, files)
}

/// Returns a test of whether a log record has left the window, as of now, and must be read from its
/// file.
fn drained(engine: &Engine) -> impl Fn(&ValuePointer) -> bool + use<> {
    let floor = engine.commit.log.buffer().drained_upto();
    let begun = engine.jobs.log_files.lock();
    let bases: BTreeMap<_, _> = begun.iter().map(|(number, file)| (*number, file.base)).collect();
    move |pointer| bases.get(&pointer.file).is_none_or(|base| base + pointer.offset < floor)
}

/// Appends `items`, which are in index order, to their groups, group by group in the order of their
/// tokens: if groups are ranges of keys, the files are in key order.
fn write_items(
    engine: &Engine,
    log: &SegmentSet,
    table: &GroupTable,
    mut items: Vec<PendingRecord<'_>>,
    files: &dyn SegmentFactory,
) -> Result<SeparatedValues> {
    let records = Slice::new(&items, |item| (item.entry.key, item.len()));
    let begins = sizing::begun_by_flush(engine.options.groups.sizes(), table, &records);
    let table = sizing::after(table, &begins)?;
    let mut groups = GroupCursor::new(&table);
    let ordinals = items.iter().enumerate().map(|(at, item)| {
        if let Some(later) = items.get(at + AHEAD) {
            prefetch_bytes(later.entry.key);
        }
        groups.ordinal(item.entry.key).ok_or_else(no_group)
    });
    let ordinals = ordinals.collect::<Result<Vec<u32>>>()?;
    let order = by_ordinal(&ordinals, groups.count());
    let file_len =
        engine.options.segment_bytes.max(engine.options.memtable() as u64 / (FILES_MAX / 4));
    let writer = || {
        ExtentWriter::new(files, engine.database_id, file_len)
            .of_groups(&table)
            .key_blocks_from(engine.options.groups.key_block_record_bytes)
    };
    // The log has the records in the order of their commits, so they are read in chunks of many.
    prefetch_records(log, &mut items, drained(engine), &engine.flush_pages);
    let buffer = engine.commit.log.buffer();
    let part = FlushShard { items: &items, ordinals: &ordinals, groups: &groups, log, buffer };
    let part_min = engine.options.segment_bytes / PART_OF_FILE;
    let bytes = items.iter().map(PendingRecord::len).sum();
    let divided = |most| parts(&order, &items, &ordinals, (bytes, part_min, most));
    let write = |order| part.write(order, writer());
    // Without background threads, in which tests step through jobs, one thread does all parts.
    let done: Vec<Result<_>> = match engine.options.background {
        Background::Manual => divided(PARTS).into_iter().map(write).collect(),
        Background::Threads(_) => {
            let begun = Instant::now();
            let parts = divided(engine.flush_parts.most());
            let (done, copied): (_, Vec<Duration>) =
                side_by_side(&parts, |order| timed(|| write(order))).into_iter().unzip();
            if bytes >= PARTS * part_min {
                engine.flush_parts.learn(copied.iter().sum(), begun.elapsed());
            }
            done
        }
    };
    let mut written = Written::default();
    let mut places = Vec::with_capacity(items.len());
    for part in done {
        let (files, of_part) = part?;
        written.extents.extend(files.extents);
        written.files.extend(files.files);
        places.extend(of_part);
    }
    let mut pointers = vec![None; items.len()];
    places.into_iter().for_each(|(at, to)| pointers[at as usize] = Some(to));
    Ok(SeparatedValues::new(written, begins, pointers))
}

/// The read state and the table of groups as of one moment.
pub(crate) fn groups_now(engine: &Engine) -> (Arc<ReadState>, Arc<GroupTable>) {
    let manifest = engine.manifest.lock();
    (engine.state.load_full(), manifest.live().groups.clone())
}
