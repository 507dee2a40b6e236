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
mod plan;
mod copy;
mod hot;
pub(crate) mod loaded;

use std::collections::BTreeMap;
use std::iter;
use std::sync::Arc;
use std::time::{Duration, Instant};

use cleavedb_base::planted::{Bug, planted};
use cleavedb_base::record::RecordKind;
use cleavedb_base::sync::side_by_side;
use cleavedb_base::{EntryKind, Error, Result, ValuePointer};
use cleavedb_index::{Entry, Retention};
use cleavedb_storage::mapped::Arena;
use cleavedb_storage::prefetch::prefetch_bytes;
use cleavedb_storage::processor_time::timed;
use cleavedb_storage::{FileClass, FileKind};
use cleavedb_values::groups::sizing::Slice;
use cleavedb_values::groups::writer::Written;
use cleavedb_values::groups::{ExtentWriter, GroupCursor, sizing};
use cleavedb_values::{GroupEdit, GroupTable, SegmentFactory, SegmentSet};

use self::copy::FlushShard;
use self::hot::{HotFlush, HotFlushed};
use self::pending::{PendingRecord, ValueSource, prefetch_records};
use self::plan::{FlushPlan, Newest};
use super::held_keys::{HeldKeys, no_group};
use super::kept_versions::{FlushPass, KeptVersions};
use super::new_files::NewFiles;
use crate::control::flush_parts::PARTS;
use crate::control::pace::Pace;
use crate::engine::Engine;
use crate::settings::options::Background;
use crate::store::blobs::UnflushedLone;
use crate::store::state::{MemSlot, ReadState};

pub(crate) use self::hot::{ApartEntry, ApartInstall, unclean};
pub(crate) use self::plan::Destination;

/// Most files that one flush writes: each file costs a sync.
const FILES_MAX: u64 = 8;

/// Each part of a flush has at least the length of a file divided by this, so that a short flush
/// writes only one file.
const PART_OF_FILE: u64 = 16;

/// Distance, in records, from the record being handled to the one whose memory is prefetched.
const AHEAD: usize = 8;

/// What a flush wrote to groups and hot segments, and what its run must say of it.
pub(crate) struct SeparatedValues {
    pub(crate) written: Written,
    /// Groups that the flush creates.
    pub(crate) begins: Vec<GroupEdit>,
    /// What the flush wrote to the hot store, and changes in it.
    pub(crate) apart: Option<HotFlushed>,
    /// Entries for the run of keys that are apart, in its order. They may be old versions that
    /// range tombstones cover: the next compaction drops these.
    pub(crate) entries: Vec<ApartEntry>,
    /// Of each version that the flush keeps, in their order; none if there are no groups.
    destinations: Vec<Destination>,
    places: Places,
}

/// The new places of values, by the numbers of their records.
type Places = Vec<Option<ValuePointer>>;

impl SeparatedValues {
    /// Of a flush that has written nothing yet.
    fn none() -> Self {
        Self {
            written: Written::default(),
            begins: Vec::new(),
            apart: None,
            entries: Vec::new(),
            destinations: Vec::new(),
            places: Vec::new(),
        }
    }

    /// Files for what goes to stores apart.
    pub(crate) fn apart_files(engine: &Engine, pace: Pace) -> NewFiles<'_> {
        NewFiles::new(engine, FileClass::Hot, pace)
    }

    /// What was written, and what of it goes to stores apart.
    pub(crate) fn all_written(&self) -> impl Iterator<Item = &Written> {
        iter::once(&self.written).chain(self.apart.iter().map(|apart| &apart.written))
    }

    /// Bytes of records that tables own, and newer ones in stores apart replace.
    pub(crate) fn replaced_by_apart(&self) -> u64 {
        self.apart.as_ref().map_or(0, |apart| apart.replaced)
    }

    /// Where the version at this position goes, among those that the flush keeps.
    #[inline]
    pub(crate) fn destination(&self, position: usize) -> Destination {
        self.destinations.get(position).copied().unwrap_or(Destination::Index)
    }

    /// The place of the record of this number.
    #[inline]
    pub(crate) fn place(&self, record: u32) -> Result<ValuePointer> {
        place(&self.places, record)
    }
}

#[inline]
fn place(places: &Places, record: u32) -> Result<ValuePointer> {
    places.get(record as usize).copied().flatten().ok_or_else(lost)
}

/// Plans where the versions of a MemTable go, key by key.
struct Separator<'a, 'e> {
    plan: FlushPlan<'e>,
    held: HeldKeys<'a>,
    needs_stubs: bool,
    /// The newest version of the current key that the flush keeps.
    newest: Option<Newest<'e>>,
    /// Versions of the current key that lie in no group.
    unseparated: Vec<Entry<'e>>,
    /// Whether a version of the current key goes to a group.
    separated: bool,
    hot: Option<HotFlush<'a, 'e>>,
    /// The lone files of the MemTable, which stay as they are.
    lone: UnflushedLone,
}

impl<'e> FlushPass<'e> for Separator<'_, 'e> {
    #[inline]
    fn keep(&mut self, entry: Entry<'e>) -> Result<()> {
        let mut destination = Destination::Index;
        let position = self.plan.destinations.len();
        let newest = Newest { entry, position, item: None };
        let newest = self.newest.get_or_insert(newest);
        if entry.kind.is_pointer() && !self.lone.have(&entry) {
            // A value that expires does not become hot.
            if newest.position == position && entry.kind == EntryKind::Pointer {
                newest.item = Some(self.plan.items.len());
            }
            let pointer = ValuePointer::of_entry(entry.kind, entry.value)?.value;
            let item = self.plan.record(entry, ValueSource::Log(pointer, None), entry.seq);
            destination = Destination::Group(item.id);
            self.plan.items.push(item);
            self.separated = true;
        } else if self.needs_stubs
            && (entry.kind.hides_older() || !planted(Bug::StubOfMergeForgotten))
            && !(entry.kind.is_pointer() && planted(Bug::LoneWithoutStub))
        {
            self.unseparated.push(entry);
        }
        self.plan.destinations.push(destination);
        Ok(())
    }

    fn end_key(&mut self, versions: u64, retention: &mut Retention<'_>) -> Result<()> {
        if let (Some(hot), Some(newest)) = (&mut self.hot, self.newest.take()) {
            hot.meet(&newest, versions, &mut self.plan, retention)?;
        }
        self.tell_group()
    }
}

impl Separator<'_, '_> {
    /// Adds the group tombstones of a key, if its group has, or may have, a record of it.
    fn tell_group(&mut self) -> Result<()> {
        let separated = std::mem::take(&mut self.separated);
        let Some(first) = self.unseparated.first() else { return Ok(()) };
        if (separated || self.held.may_contain(first.key)?) && !planted(Bug::StubForgotten) {
            for entry in &self.unseparated {
                let Some(kind) = RecordKind::of_entry(entry.kind) else { continue };
                let stub = self.plan.record(*entry, ValueSource::Stub(kind), entry.seq);
                self.plan.items.push(stub);
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
    bytes: u64,
    part_min: u64,
    most: u64,
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
/// what it has for stores apart to new files of `apart_files`.
pub(super) fn write_groups(
    engine: &Engine,
    slot: &MemSlot,
    kept: &KeptVersions<'_>,
    files: &dyn SegmentFactory,
    apart_files: &dyn SegmentFactory,
) -> Result<SeparatedValues> {
    let mut separated = SeparatedValues::none();
    if engine.options.layout().groups.is_none() || planted(Bug::PointsIntoTheLog) {
        return Ok(separated);
    }
    let (state, table) = groups_now(engine);
    let deleted = &kept.points.deleted;
    let hot = engine.apart.hot.as_ref();
    let mut separator = Separator {
        plan: FlushPlan::default(),
        held: HeldKeys::new(engine, &state, &table),
        needs_stubs: table.needs_stubs(),
        newest: None,
        unseparated: Vec::new(),
        separated: false,
        hot: hot.map(|store| HotFlush::new(engine, store, &state, &table, deleted)),
        lone: slot.lone.files(),
    };
    kept.visit(&mut separator)?;
    let arena = Arena::new();
    let Separator { mut plan, held, mut hot, .. } = separator;
    let mut log = state.segments.of_kind(FileKind::Log);
    if let Some(hot) = &mut hot {
        hot.admit(&mut plan);
        hot.promote(slot, &arena, &mut plan)?;
        let evacuated = hot.evacuate(slot, &arena, &mut plan)?;
        log = log.with(&evacuated, &[]);
    }
    separated.places = vec![None; plan.records as usize];
    let FlushPlan { destinations, items, .. } = plan;
    let table = begun_by_flush(engine, &table, &items, &mut separated.begins)?;
    separated.written = write_items(engine, &log, &table, items, files, &mut separated.places)?;
    // The extents are not published yet, which does no harm: see `GroupFilters::flushed`.
    let (written, false_stubs) = (&separated.written, held.false_stubs());
    engine.group_filters.lock().flushed(&written.extents, &written.keys, &false_stubs);
    if let Some(hot) = hot {
        let (flushed, entries) = hot.write(&log, apart_files, &separated.places)?;
        (separated.apart, separated.entries) = (Some(flushed), entries);
    }
    separated.destinations = destinations;
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
    let divided = |most| parts(&order, &items, &ordinals, bytes, part_min, most);
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

fn lost() -> Error {
    Error::corruption("a flush has lost the place of a record that it wrote")
}
