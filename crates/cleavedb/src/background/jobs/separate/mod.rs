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
//! So does each operand of a merge, since the collection writes what it moves above the index.
//! The collection of a range of keys asks the index, and needs no group tombstones.

mod pending;
mod copy;
mod hot;
pub(crate) mod loaded;

use std::collections::BTreeMap;
use std::iter::Peekable;
use std::sync::Arc;
use std::time::{Duration, Instant};
use std::vec::IntoIter;

use cleavedb_base::planted::{Bug, planted};
use cleavedb_base::record::RecordKind;
use cleavedb_base::sync::side_by_side;
use cleavedb_base::{EntryKind, FileNumber, Result, ValuePointer};
use cleavedb_index::{Entry, FoldedOperands, Retention};
use cleavedb_storage::FileKind;
use cleavedb_storage::mapped::Arena;
use cleavedb_storage::prefetch::prefetch_bytes;
use cleavedb_storage::processor_time::timed;
use cleavedb_values::groups::sizing::Slice;
use cleavedb_values::groups::writer::Written;
use cleavedb_values::groups::{ExtentWriter, GroupCursor, sizing};
use cleavedb_values::{GroupEdit, GroupTable, SegmentFactory, SegmentSet};

use self::copy::FlushShard;
use self::hot::HotFlush;
use self::pending::{PendingRecord, ValueSource, prefetch_records};
use super::held_keys::{HeldKeys, no_group};
use crate::control::flush_parts::PARTS;
use crate::engine::Engine;
use crate::engine::read_points::ReadPoints;
use crate::settings::options::Background;
use crate::store::state::{MemSlot, ReadState};

pub(crate) use self::hot::{HotEntry, HotFlushed, unclean};

/// Most files that one flush writes: each file costs a sync.
const FILES_MAX: u64 = 8;

/// Each part of a flush has at least the length of a file divided by this, so that a short flush
/// writes only one file.
const PART_OF_FILE: u64 = 16;

/// Distance, in records, from the record being handled to the one whose memory is prefetched.
const AHEAD: usize = 8;

/// Where a flush has moved a separated value.
#[derive(Clone, Copy)]
enum Outcome {
    /// To a group: the number of its record.
    Group(u32),
    /// To a hot segment.
    Hot,
}

/// Where the value of an entry of the MemTable is now.
pub(crate) enum Moved {
    /// In its group.
    Group(ValuePointer),
    /// In a hot segment; the entry is not written.
    Hot,
}

/// What a flush wrote to groups and hot segments, and what its run must say of it.
pub(crate) struct SeparatedValues {
    pub(crate) written: Written,
    /// Groups that the flush creates.
    pub(crate) begins: Vec<GroupEdit>,
    /// What the flush wrote to the hot store, and changes in it.
    pub(crate) hot: Option<HotFlushed>,
    /// Of each separated value of the MemTable, in its order.
    outcomes: Peekable<IntoIter<Outcome>>,
    places: Places,
    /// Entries of hot keys for the run, in its order.
    entries: Peekable<IntoIter<HotEntry>>,
    /// The blobs of the MemTable, which stay in their files.
    blobs: Blobs,
}

/// The files of the blobs of a MemTable.
#[derive(Clone)]
struct Blobs(BTreeMap<FileNumber, u64>);

impl Blobs {
    /// Whether the value of an entry is outside of the index, and goes to a group or the hot store.
    #[inline]
    fn separates(&self, entry: &Entry<'_>) -> bool {
        let any_blob = !self.0.is_empty() && !planted(Bug::BlobTakenForValue);
        entry.kind.is_pointer() && !(any_blob && self.has(entry))
    }

    #[cold]
    fn has(&self, entry: &Entry<'_>) -> bool {
        let found = ValuePointer::of_entry(entry.kind, entry.value);
        found.is_ok_and(|(pointer, _)| self.0.contains_key(&pointer.file))
    }
}

/// The new places of values, by the numbers of their records.
type Places = Vec<Option<ValuePointer>>;

impl SeparatedValues {
    /// Of a flush of `slot` that has written nothing yet.
    fn before(slot: &MemSlot) -> Self {
        Self {
            written: Written::default(),
            begins: Vec::new(),
            hot: None,
            outcomes: Vec::new().into_iter().peekable(),
            places: Vec::new(),
            entries: Vec::new().into_iter().peekable(),
            blobs: Blobs(slot.blobs()),
        }
    }

    /// Where the value of `entry` has gone, if it is separated. The caller must pass the entries in
    /// the order in which the groups were given them.
    #[inline]
    pub(crate) fn moved(&mut self, entry: &Entry<'_>) -> Option<Moved> {
        if !self.separates(entry) {
            return None;
        }
        match self.outcomes.next()? {
            Outcome::Hot => Some(Moved::Hot),
            Outcome::Group(id) => self.places.get(id as usize).copied().flatten().map(Moved::Group),
        }
    }

    /// Whether the value of `entry` is separated, and no blob.
    pub(crate) fn separates(&self, entry: &Entry<'_>) -> bool {
        self.blobs.separates(entry)
    }

    /// Whether the next separated value has gone to a hot segment.
    pub(crate) fn is_hot_next(&mut self) -> bool {
        matches!(self.outcomes.peek(), Some(Outcome::Hot))
    }

    /// Whether the run gets entries of hot keys. They may be old versions that range tombstones
    /// cover: the next compaction drops these.
    pub(crate) fn has_hot_entries(&mut self) -> bool {
        self.entries.peek().is_some()
    }

    /// The next entry of a hot key that stands before `entry` in the run; any, if there is none.
    #[inline]
    pub(crate) fn hot_before(&mut self, entry: Option<&Entry<'_>>) -> Option<HotEntry> {
        self.entries.next_if(|hot| entry.is_none_or(|entry| hot.stands_before(entry)))
    }
}

/// Sorts the entries of a MemTable into groups, key by key.
struct Separator<'a, 'e> {
    held: HeldKeys<'a>,
    needs_tombstones: bool,
    items: Vec<PendingRecord<'e>>,
    /// Versions of the current key that lie in no group.
    unseparated: Vec<Entry<'e>>,
    /// Whether a version of the current key goes to a group.
    separated: bool,
    outcomes: Vec<Outcome>,
    /// Number of the next record.
    next_id: u32,
    /// The newest version of the current key, and the number of its versions in the MemTable.
    newest: Option<Entry<'e>>,
    versions: u64,
    /// Versions of the current key that readers can see.
    kept: usize,
    hot: Option<HotFlush<'a, 'e>>,
    blobs: Blobs,
}

impl<'e> Separator<'_, 'e> {
    fn id(&mut self) -> u32 {
        self.next_id += 1;
        self.next_id - 1
    }

    #[inline]
    fn add(&mut self, entry: Entry<'e>) -> Result<()> {
        self.newest = self.newest.or(Some(entry));
        self.kept += 1;
        if self.blobs.separates(&entry) {
            let (pointer, _) = ValuePointer::of_entry(entry.kind, entry.value)?;
            let source = ValueSource::Log(pointer, None);
            let id = self.id();
            self.items.push(PendingRecord { entry, source, id, seq: entry.seq });
            self.outcomes.push(Outcome::Group(id));
            self.separated = true;
        } else if self.needs_tombstones
            && !(entry.kind == EntryKind::Operand && planted(Bug::OperandStubForgotten))
            && !(entry.kind.is_pointer() && planted(Bug::BlobWithoutTombstone))
        {
            self.unseparated.push(entry);
        }
        Ok(())
    }

    /// Called after the last version of a key.
    fn end_key(&mut self, retention: &mut Retention<'_>) -> Result<()> {
        self.tell_hot_store(retention)?;
        (self.newest, self.versions, self.kept) = (None, 0, 0);
        self.tell_group()
    }

    /// Tells the hot store of the newest version of the key.
    fn tell_hot_store(&mut self, retention: &mut Retention<'_>) -> Result<()> {
        let (Some(hot), Some(newest)) = (&mut self.hot, self.newest) else { return Ok(()) };
        let is_of = |item: &&PendingRecord<'_>| item.entry.key == newest.key;
        // The items of the key are the last ones, its newest version the first of them.
        let count = self.items.iter().rev().take_while(is_of).count();
        // A value that expires does not become hot.
        let separated = newest.kind == EntryKind::Pointer && self.blobs.separates(&newest);
        let place = separated.then(|| (self.items.len() - count, self.outcomes.len() - count));
        let records = (&mut self.items, &mut self.outcomes[..]);
        hot.meet(&newest, place, (self.versions, self.kept), records, retention)
    }

    /// Adds the group tombstones of a key, if its group has, or may have, a record of it.
    fn tell_group(&mut self) -> Result<()> {
        let separated = std::mem::take(&mut self.separated);
        let Some(first) = self.unseparated.first() else { return Ok(()) };
        if (separated || self.held.may_contain(first.key)?) && !planted(Bug::StubForgotten) {
            for at in 0..self.unseparated.len() {
                let entry = self.unseparated[at];
                let kind = match entry.kind {
                    EntryKind::Delete => RecordKind::Delete,
                    EntryKind::ExpiringInline => RecordKind::ExpiringInline,
                    EntryKind::Operand => RecordKind::Operand,
                    EntryKind::Pointer => RecordKind::Blob,
                    EntryKind::ExpiringPointer => RecordKind::ExpiringBlob,
                    _ => RecordKind::Inline,
                };
                let id = self.id();
                let (source, seq) = (ValueSource::Stub(kind), entry.seq);
                self.items.push(PendingRecord { entry, source, id, seq });
            }
        }
        self.unseparated.clear();
        Ok(())
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

/// Items in the order of their groups.
struct InGroups<'t> {
    groups: GroupCursor<'t>,
    /// The ordinals of the groups of items.
    ordinals: Vec<u32>,
    /// Positions of items, group by group.
    order: Vec<u32>,
}

impl<'t> InGroups<'t> {
    fn of(items: &[PendingRecord<'_>], table: &'t GroupTable) -> Result<Self> {
        let mut groups = GroupCursor::new(table);
        let ordinals = items.iter().enumerate().map(|(at, item)| {
            if let Some(later) = items.get(at + AHEAD) {
                prefetch_bytes(later.entry.key);
            }
            groups.ordinal(item.entry.key).ok_or_else(no_group)
        });
        let ordinals = ordinals.collect::<Result<Vec<u32>>>()?;
        let order = by_ordinal(&ordinals, groups.count());
        Ok(Self { groups, ordinals, order })
    }
}

/// A writer of extents of groups of `table` to new files of `files`.
fn extents_of<'f>(
    engine: &Engine,
    table: &GroupTable,
    files: impl SegmentFactory + 'f,
) -> ExtentWriter<'f> {
    let file_len =
        engine.options.tuning.segment_bytes.max(engine.options.memtable() as u64 / (FILES_MAX / 4));
    ExtentWriter::new(files, engine.database_id, file_len)
        .of_groups(table)
        .key_blocks_from(engine.options.tuning.groups.key_block_record_bytes)
}

/// Writes what a flush has for groups, values and group tombstones, to new files of `files`, and
/// what it has for the hot store to new files of `hot_files`.
pub(crate) fn write_groups(
    engine: &Engine,
    (slot, folded): (&MemSlot, &FoldedOperands<'_>),
    points: &ReadPoints,
    (files, hot_files): (&dyn SegmentFactory, &dyn SegmentFactory),
) -> Result<SeparatedValues> {
    let mut separated = SeparatedValues::before(slot);
    if engine.options.layout().groups.is_none() || planted(Bug::PointsIntoTheLog) {
        return Ok(separated);
    }
    let (state, table) = groups_now(engine);
    let hot = engine
        .hot
        .as_ref()
        .map(|store| HotFlush::new(engine, store, (&state, &table), &points.tombstones));
    let mut sorter = Separator {
        held: HeldKeys::new(engine, &state, &table),
        needs_tombstones: table.needs_tombstones(),
        items: Vec::new(),
        unseparated: Vec::new(),
        separated: false,
        outcomes: Vec::new(),
        next_id: 0,
        newest: None,
        versions: 0,
        kept: 0,
        hot,
        blobs: separated.blobs.clone(),
    };
    let mut retention = points.retention();
    let mut last_key: Option<&[u8]> = None;
    slot.table.for_each_sorted(|entry| {
        let entry = retention.unexpired(entry);
        if last_key != Some(entry.key) {
            sorter.end_key(&mut retention)?;
            retention.begin_key(entry.key);
            last_key = Some(entry.key);
        }
        sorter.versions += 1;
        folded.kept(entry, &mut retention).map_or(Ok(()), |entry| sorter.add(entry))
    })?;
    sorter.end_key(&mut retention)?;
    let arena = Arena::new();
    let Separator { held, mut items, mut outcomes, mut next_id, mut hot, .. } = sorter;
    let mut log = state.segments.of_kind(FileKind::Log);
    if let Some(hot) = &mut hot {
        hot.admit(&mut items, &mut outcomes);
        let read = hot.promote(slot, &arena, &mut next_id)?;
        let evacuated = hot.evacuate(slot, &arena, &mut items, &mut next_id)?;
        log = log.with(&read, &[]).with(&evacuated, &[]);
    }
    separated.places = vec![None; next_id as usize];
    let table = begun_by_flush(engine, &table, &items, &mut separated.begins)?;
    separated.written = write_items(engine, &log, &table, items, files, &mut separated.places)?;
    // The extents are not published yet, which does no harm: see `GroupFilters::flushed`.
    let (written, false_stubs) = (&separated.written, held.false_stubs());
    engine.group_filters.lock().flushed(&written.extents, &written.keys, &false_stubs);
    if let Some(hot) = hot {
        let (flushed, entries) = hot.write(&log, hot_files, &separated.places)?;
        (separated.hot, separated.entries) = (Some(flushed), entries.into_iter().peekable());
    }
    separated.outcomes = outcomes.into_iter().peekable();
    Ok(separated)
}

/// Returns a test of whether a log record has left the window, as of now, and must be read from its
/// file.
fn drained(engine: &Engine) -> impl Fn(&ValuePointer) -> bool + use<> {
    let floor = engine.commit.log.buffer().drained_upto();
    let begun = engine.jobs.log_files.lock();
    let bases: BTreeMap<_, _> = begun.iter().map(|(number, file)| (*number, file.base)).collect();
    move |pointer| bases.get(&pointer.file).is_none_or(|base| base + pointer.offset < floor)
}

/// Adds to `begins` the groups that a flush creates before it writes `items`: none while a load is
/// under way, which has records in groups that seem to be empty, unless bounds follow from the keys
/// alone. Returns all groups.
fn begun_by_flush(
    engine: &Engine,
    table: &GroupTable,
    items: &[PendingRecord<'_>],
    begins: &mut Vec<GroupEdit>,
) -> Result<GroupTable> {
    let loads = engine.jobs.lock().load.is_some() && !planted(Bug::DividedUnderLoad);
    if !loads || table.partition().sizing().bounds_are_fixed() {
        *begins = begun(engine, table, items);
    }
    sizing::after(table, begins)
}

/// The groups to create in `table` before `items`, which are in index order, are written.
fn begun(engine: &Engine, table: &GroupTable, items: &[PendingRecord<'_>]) -> Vec<GroupEdit> {
    let records = Slice::new(items, |item: &PendingRecord<'_>| (item.entry.key, item.len()));
    sizing::begun_by_flush(engine.options.tuning.groups.sizes(), table, &records)
}

/// Appends `items`, which are in index order, to their groups, group by group in the order of their
/// tokens: if groups are ranges of keys, the files are in key order.
fn write_items(
    engine: &Engine,
    log: &SegmentSet,
    table: &GroupTable,
    mut items: Vec<PendingRecord<'_>>,
    files: &dyn SegmentFactory,
    places: &mut Places,
) -> Result<Written> {
    let InGroups { groups, ordinals, order } = InGroups::of(&items, table)?;
    let keeps_keys = engine.group_filters.lock().are_used();
    // The log has the records in the order of their commits, so they are read in chunks of many.
    prefetch_records(log, &mut items, drained(engine), &engine.spare_pages.flush);
    let buffer = engine.commit.log.buffer();
    let group_of = |at: u32| groups.group(ordinals[at as usize]);
    let part = FlushShard { items: &items, group_of: &group_of, log, buffer };
    let part_min = engine.options.tuning.segment_bytes / PART_OF_FILE;
    let bytes = items.iter().map(PendingRecord::len).sum();
    let divided = |most| parts(&order, &items, &ordinals, (bytes, part_min, most));
    let write = |order: &[u32]| {
        let mut writer = extents_of(engine, table, files).keeping_keys(keeps_keys);
        let places = part.write(order, &mut writer)?;
        Ok((writer.finish()?, places))
    };
    // Without background threads, in which tests step through jobs, one thread does all parts.
    let done: Vec<Result<_>> = match engine.options.background {
        Background::Manual => divided(PARTS).into_iter().map(write).collect(),
        Background::Threads(_) => {
            let (begun, waited) = (Instant::now(), engine.pacer.flushes_waited());
            let parts = divided(engine.flush_parts.most());
            let (done, copied): (_, Vec<Duration>) =
                side_by_side(&parts, |order| timed(|| write(order))).into_iter().unzip();
            if bytes >= PARTS * part_min && engine.pacer.flushes_waited() == waited {
                engine.flush_parts.learn(copied.iter().sum(), begun.elapsed());
            }
            done
        }
    };
    let mut written = Written::default();
    for part in done {
        let (files, of_part) = part?;
        written.add(files);
        of_part.into_iter().for_each(|(id, to)| places[id as usize] = Some(to));
    }
    Ok(written)
}

/// The read state and the table of groups as of one moment.
pub(crate) fn groups_now(engine: &Engine) -> (Arc<ReadState>, Arc<GroupTable>) {
    let manifest = engine.manifest.lock();
    (engine.state.load_full(), manifest.live().groups.clone())
}
