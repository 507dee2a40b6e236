//! What a flush has for the hot store (HoaKV, section 3.3, algorithm 1).
//!
//! The flush decides, for the newest version of each key, whether it goes to a hot segment: because
//! its key is hot already, or because it was accessed often enough. Its length only divides cold
//! values, among the run and groups (algorithm 2). Such a version has no entry in the run. The
//! first time a key becomes hot the run gets a *marker* for it, so that scans and collections find
//! it in its place in the order of keys; updates of a hot key cost the index nothing. The newest
//! entry of a hot key in the tables is always a marker: where the run has any other entry of it,
//! such as an older version that a snapshot sees, it gets a marker as well.
//!
//! If the store is full, the flush evacuates segments ([`evacuation`]) in the same edit, so that no
//! other job changes what is hot.
//!
//! A record of a key that is hot no more may remain in an older segment. So that the next open does
//! not take it for the newest, the flush leaves a *stub* in a hot segment, which every evacuation
//! copies for as long as a segment has a record of the key: a group tombstone if the key was
//! deleted, or else a tag, since the value of that version is elsewhere.

mod evacuate;
mod novelty;
mod promote;
mod install;

use std::collections::BTreeMap;

use cleavedb_base::checksum::hash64;
use cleavedb_base::key::split_encoded_key;
use cleavedb_base::limits::SEQ_MAX;
use cleavedb_base::planted::{Bug, planted};
use cleavedb_base::record::{HEADER_LEN, Header, RecordKind};
use cleavedb_base::{
    EntryKind, Error, ErrorKind, KeyspaceId, Location, Result, SeqNo, ValuePointer,
};
use cleavedb_hot::change::{HotChange, HotPut, HotReason};
use cleavedb_hot::evacuation;
use cleavedb_hot::segment::{HotKey, HotSegmentBuilder};
use cleavedb_hot::store::{Fill, HotStore};
use cleavedb_index::{Entry, Fragments, Retention};
use cleavedb_values::collect::record::Content;
use cleavedb_values::groups::writer::Written;
use cleavedb_values::groups::{Extent, ExtentWriter};
use cleavedb_values::{GroupEdit, GroupId, GroupTable, SegmentFactory, SegmentSet};

use self::evacuate::Stub;
pub(crate) use self::evacuate::unclean;
pub(crate) use self::install::ApartInstall;
use self::novelty::Novelty;
use super::copy::FlushShard;
use super::pending::{PendingRecord, ValueSource, prefetch_records};
use super::plan::{Destination, FlushPlan, Newest};
use super::{Places, lost, place};
use crate::engine::Engine;
use crate::store::state::ReadState;

/// The store takes no new keys when it is longer than its capacity by a quarter, and no values at
/// all when it is longer by half: evacuations move no more than comes in, so they may be late.
const LATE: u64 = 4;

/// Most segments, by far, of the numbers that there are.
const SEGMENTS_MAX: usize = 60_000;

/// Most segments of a file: with fewer, more descriptors would be needed.
const FILE_SEGMENTS: u64 = 32;

/// An entry of a hot key in the run.
pub(crate) struct ApartEntry {
    pub(crate) key: Box<[u8]>,
    pub(crate) seq: SeqNo,
    /// A marker, or the place of a version that readers find by the index from now on.
    pub(crate) content: Content,
    /// The number of the record that has the value, if the flush moves it.
    moved: Option<u32>,
}

impl ApartEntry {
    /// Whether it stands before this entry in the order of the index.
    pub(crate) fn stands_before(&self, entry: &Entry<'_>) -> bool {
        (&*self.key, entry.seq) < (entry.key, self.seq)
    }
}

/// What a flush wrote to the hot store.
pub(crate) struct HotFlushed {
    pub(crate) written: Written,
    pub(crate) change: HotChange,
    /// Live bytes that the flush takes from older segments, and segments that it removes.
    pub(crate) edits: Vec<GroupEdit>,
    /// How full it is then.
    pub(crate) fill: Fill,
    /// Bytes of records in older places of keys that became hot: their entries own them until a
    /// compaction drops these.
    pub(crate) replaced: u64,
}

/// The newest version of a key that is not hot: it becomes so if it is accessed often.
struct MayBecomeHot {
    key: HotKey,
    /// The positions of its record for a group and of its destination.
    item: u32,
    position: u32,
}

/// As [`MayBecomeHot`], of a version whose value is not for a group.
struct ShortMayBecomeHot<'e> {
    key: HotKey,
    versions: u64,
    record: PendingRecord<'e>,
    position: usize,
}

/// A record that goes to a hot segment.
struct HotArrival {
    key: HotKey,
    heat: u8,
    reason: HotReason,
}

/// The decisions of one flush.
pub(super) struct HotFlush<'a, 'e> {
    engine: &'a Engine,
    store: &'a HotStore,
    state: &'a ReadState,
    table: &'a GroupTable,
    /// Range tombstones that the flush applies.
    deleted: &'a Fragments,
    capacity: u64,
    /// Live bytes of all values: those in tables with their keys.
    all_live: u64,
    /// Whether the store has numbers left for more segments.
    numbered: bool,
    /// Length of the store with all that this flush has taken so far, in bytes.
    len: u64,
    /// How many keys become hot, and the bytes of their records in older places.
    new_keys: u64,
    replaced: u64,
    /// Keys that may become hot, and the writes of each; writes of other keys that are not hot.
    candidates: Vec<MayBecomeHot>,
    written: Vec<(u64, u64)>,
    written_besides: Vec<(u64, u64)>,
    short: Vec<ShortMayBecomeHot<'e>>,
    short_len: u64,
    novelty: Novelty,
    /// Records that go to hot segments, stubs included.
    pub(super) items: Vec<PendingRecord<'e>>,
    /// What `items` but stubs are to the store, by their numbers.
    records: BTreeMap<u32, HotArrival>,
    /// Of keys that are no longer hot.
    stubs: Vec<Stub<'e>>,
    entries: Vec<ApartEntry>,
    /// Bytes of records that are dead from this flush on, by segment.
    died: BTreeMap<Location, u64>,
    change: HotChange,
}

impl<'a, 'e> HotFlush<'a, 'e> {
    pub(super) fn new(
        engine: &'a Engine,
        store: &'a HotStore,
        state: &'a ReadState,
        table: &'a GroupTable,
        deleted: &'a Fragments,
    ) -> Self {
        // Of tables dead values count, too: there is no better estimate.
        let in_tables = state.version.tables().map(|(_, table)| table.meta().size);
        let all_live = table.live() + in_tables.sum::<u64>();
        let capacity = evacuation::capacity(engine.options.hot_bytes, all_live);
        let len: u64 = table.extents_apart().map(Extent::len).sum();
        let numbered = table.extents_apart().count() < SEGMENTS_MAX;
        Self {
            engine,
            store,
            state,
            table,
            deleted,
            capacity,
            all_live,
            numbered,
            len,
            new_keys: 0,
            replaced: 0,
            candidates: Vec::new(),
            written: Vec::new(),
            written_besides: Vec::new(),
            short: Vec::new(),
            short_len: 0,
            novelty: Novelty::default(),
            items: Vec::new(),
            records: BTreeMap::new(),
            stubs: Vec::new(),
            entries: Vec::new(),
            died: BTreeMap::new(),
            change: HotChange::default(),
        }
    }

    /// Decides about the newest version of a key, which has this number of versions in the
    /// MemTable.
    pub(super) fn meet(
        &mut self,
        newest: &Newest<'e>,
        versions: u64,
        plan: &mut FlushPlan<'e>,
        retention: &mut Retention<'_>,
    ) -> Result<()> {
        let Newest { entry, position, item } = newest;
        let key = self.store.key(entry.key);
        let Some(old) = self.store.written(key, versions) else {
            let lost = self.is_lost(entry.key);
            self.novelty.meet(|| self.state.version.may_contain(entry.key, hash64(entry.key, 0)));
            match *item {
                Some(item) if !lost => {
                    let (item, position) = (item as u32, *position as u32);
                    self.candidates.push(MayBecomeHot { key, item, position });
                    self.written.push((key.hash, versions));
                }
                _ => {
                    self.written_besides.push((key.hash, versions));
                    if !lost && entry.kind == EntryKind::Inline {
                        self.meet_short(key, newest, versions, plan);
                    }
                }
            }
            if lost && !planted(Bug::LostHotWithoutStub) {
                self.stubs.push(Stub::of(entry));
            }
            return Ok(());
        };
        let pinned = self.pin(entry, old, retention)?;
        let takes = self.store.is_on() && self.has_room(LATE / 2);
        let record = match *item {
            _ if !takes => None,
            Some(item) => {
                self.engine.fits_apart(plan.items[item].len()).then(|| plan.items.remove(item))
            }
            None => self.short_record(entry, plan),
        };
        match record {
            Some(record) => {
                let kept = plan.destinations.len() - position;
                plan.destinations[*position] = Destination::Apart;
                // A range tombstone hides the old marker, and a compaction may have dropped it.
                let marks = pinned || kept > 1 || self.deleted.covers(entry.key, 0);
                let arrival = HotArrival { key, heat: 0, reason: HotReason::Updated };
                self.take(record, arrival, marks);
            }
            None => {
                self.change.overwritten.push(key);
                self.stubs.push(Stub::of(entry));
            }
        }
        Ok(())
    }

    /// A record of a short value, which lies in the MemTable; `None` for any other version, and for
    /// one that may not be hot: the store's own keys are asked for in the index alone, and a value
    /// that expires does not become hot.
    fn short_record(
        &self,
        entry: &Entry<'e>,
        plan: &mut FlushPlan<'e>,
    ) -> Option<PendingRecord<'e>> {
        let (keyspace, key) = split_encoded_key(entry.key)?;
        if entry.kind != EntryKind::Inline || keyspace == KeyspaceId::SYSTEM {
            return None;
        }
        let header = Header::new(RecordKind::Separated, keyspace, entry.seq, key, entry.value);
        let fits = self.engine.fits_apart(header.record_len() as u64);
        fits.then(|| plan.record(*entry, ValueSource::Memory(header), entry.seq))
    }

    /// Notes a short value of a key that is not hot. No more are noted than the store could take,
    /// and hardly any of a load.
    fn meet_short(
        &mut self,
        key: HotKey,
        newest: &Newest<'e>,
        versions: u64,
        plan: &mut FlushPlan<'e>,
    ) {
        let may_be_hot = || u64::from(self.store.heat(key)) + versions >= self.store.limit().into();
        if self.short_len > self.capacity || versions <= self.novelty.inserts() || !may_be_hot() {
            return;
        }
        if let Some(record) = self.short_record(&newest.entry, plan) {
            self.short_len += record.len();
            let position = newest.position;
            self.short.push(ShortMayBecomeHot { key, versions, record, position });
        }
    }

    /// Whether the tables say that a key is hot that the store does not have: its record lies in a
    /// segment that the open could not read, or in an older one. The key then needs a stub, lest
    /// the record come back with an open that can read it.
    fn is_lost(&self, encoded_key: &[u8]) -> bool {
        let newest = || self.state.version.get(encoded_key, hash64(encoded_key, 0), SEQ_MAX);
        // A needless stub does no harm, so a table that cannot be read stops no flush.
        let is_hot =
            || newest().map_or(true, |it| it.is_some_and(|it| it.kind == EntryKind::Marker));
        self.store.is_incomplete() && is_hot()
    }

    /// Takes those of the keys that were not hot that were accessed often enough. Called once, when
    /// all keys were met.
    pub(super) fn admit(&mut self, plan: &mut FlushPlan<'e>) {
        let (candidates, mut written) =
            (std::mem::take(&mut self.candidates), std::mem::take(&mut self.written));
        let (mut besides, short) =
            (std::mem::take(&mut self.written_besides), std::mem::take(&mut self.short));
        let inserts = self.novelty.inserts();
        written.iter_mut().chain(&mut besides).for_each(|(_, versions)| *versions -= inserts);
        let (limit, mut all, mut hot) = (self.store.limit(), candidates.iter(), Vec::new());
        self.store.written_cold(&written, |heat| {
            let candidate = all.next();
            hot.extend(candidate.filter(|_| heat >= limit).map(|candidate| (candidate, heat)));
        });
        self.store.written_cold(&besides, |_| {});
        for ShortMayBecomeHot { key, versions, record, position } in short {
            let heat = self.store.heat(key);
            if versions > inserts && heat >= limit && self.has_room_for_key() {
                plan.destinations[position] = Destination::Apart;
                let arrival = HotArrival { key, heat, reason: HotReason::Admitted };
                self.take_new(record, arrival, 0);
            }
        }
        if hot.is_empty() {
            return;
        }
        // The items of candidates ascend.
        let (mut hot, all) = (hot.into_iter().peekable(), std::mem::take(&mut plan.items));
        for (at, item) in (0..).zip(all) {
            let found = hot.next_if(|(candidate, _)| candidate.item == at);
            match found.filter(|_| self.has_room_for_key() && self.engine.fits_apart(item.len())) {
                Some((candidate, heat)) => {
                    plan.destinations[candidate.position as usize] = Destination::Apart;
                    let (key, reason) = (candidate.key, HotReason::Admitted);
                    let replaced = if inserts == 0 { item.len() } else { 0 };
                    self.take_new(item, HotArrival { key, heat, reason }, replaced);
                }
                None => plan.items.push(item),
            }
        }
    }

    /// Whether the store takes more: it is not longer than its capacity and one in `part` of it.
    fn has_room(&self, part: u64) -> bool {
        self.numbered && self.len <= self.capacity + self.capacity / part
    }

    /// Whether one more key may become hot.
    fn has_room_for_key(&self) -> bool {
        self.has_room(LATE) && !self.store.is_crowded(self.new_keys)
    }

    /// Gives a record of the MemTable to a hot segment, with a marker for its key if it `marks` it.
    fn take(&mut self, item: PendingRecord<'e>, record: HotArrival, marks: bool) {
        self.len += item.len();
        if marks && !planted(Bug::HotWithoutMarker) {
            self.entry(item.entry.key, item.entry.seq, Content::Marker, None);
        }
        self.add(item, record);
    }

    /// Gives a record of a key that becomes hot to a hot segment, with a marker for the key. Its
    /// record in an older place, if it has one, has `replaced` bytes.
    fn take_new(&mut self, item: PendingRecord<'e>, record: HotArrival, replaced: u64) {
        self.new_keys += 1;
        self.replaced += replaced;
        self.take(item, record, true);
    }

    fn add(&mut self, item: PendingRecord<'e>, record: HotArrival) {
        self.records.insert(item.id, record);
        self.items.push(item);
    }

    fn entry(&mut self, key: &[u8], seq: SeqNo, content: Content, moved: Option<u32>) {
        self.entries.push(ApartEntry { key: key.into(), seq, content, moved });
    }

    /// Counts the old record of a key as dead, unless a snapshot sees it, or operands change it:
    /// then the run gets an entry for it, which owns it from now on. Returns whether it does.
    fn pin(
        &mut self,
        newest: &Entry<'_>,
        old: ValuePointer,
        retention: &mut Retention<'_>,
    ) -> Result<bool> {
        let needed = retention.has_snapshots() || !newest.kind.hides_older();
        let asks = needed && !planted(Bug::HotNotPinned);
        let seq = match asks.then(|| self.seq_of(old)).transpose() {
            // What is damaged no snapshot can read; the flush goes on.
            Err(e) if e.kind() == ErrorKind::Corruption => None,
            seq => seq?,
        };
        let seen = seq.filter(|seq| retention.keep(*seq, EntryKind::Pointer));
        match seen {
            Some(seq) => self.entry(newest.key, seq, Content::pointer(old), None),
            None => self.dies(old),
        }
        Ok(seen.is_some())
    }

    /// The sequence number of a hot record.
    fn seq_of(&self, pointer: ValuePointer) -> Result<SeqNo> {
        let segment = self.state.segments.find(pointer)?;
        let mut bytes = [0; HEADER_LEN];
        segment.read(pointer.offset, &mut bytes)?;
        let header = Header::decode(&bytes, segment.identity(), pointer.offset);
        header.map(|header| header.seq).ok_or_else(|| {
            let error = Error::corruption("the header of a hot record is damaged");
            error.with("file", segment.name()).with("offset", pointer.offset)
        })
    }

    fn dies(&mut self, pointer: ValuePointer) {
        if let Some(extent) = self.table.extent_of(pointer) {
            *self.died.entry(extent.place).or_default() += u64::from(pointer.len);
        }
    }

    /// Bytes of live records in a segment after this flush.
    fn left(&self, extent: &Extent) -> u64 {
        extent.live.saturating_sub(self.died.get(&extent.place).copied().unwrap_or_default())
    }

    /// Writes the records to new files of `files`, and returns with them the entries of the run.
    /// `places` has the places of the demoted ones.
    pub(super) fn write(
        mut self,
        log: &SegmentSet,
        files: &dyn SegmentFactory,
        places: &Places,
    ) -> Result<(HotFlushed, Vec<ApartEntry>)> {
        let engine = self.engine;
        let segment = engine.options.tuning.groups.hot_segment_bytes;
        let file = FILE_SEGMENTS * segment;
        let mut writer = ExtentWriter::new(files, engine.database_id, file).of_hot_store(segment);
        let buffer = engine.commit.log.buffer();
        let is_old = |pointer: &ValuePointer| {
            log.get(pointer.file).is_some_and(|file| file.name().kind().is_data())
        };
        prefetch_records(log, &mut self.items, is_old, &engine.spare_pages.flush);
        let group_of = |_: u32| GroupId::HOT;
        let shard = FlushShard { items: &self.items, group_of: &group_of, log, buffer };
        let mut order: Vec<u32> = (0..self.items.len() as u32).collect();
        // A scan then finds hot keys in its range side by side, and reads them at once.
        order.sort_by_key(|at| self.items[*at as usize].entry.key);
        let moved = shard.write(&order, &mut writer)?;
        let written = writer.finish()?;
        let builder = |extent: &Extent| HotSegmentBuilder::new(extent.place, extent.records_len);
        let mut builders: Vec<HotSegmentBuilder> = written.extents.iter().map(builder).collect();
        let mut segment = 0;
        // The records lie in their order, in one segment after another.
        for (id, pointer) in &moved {
            while !builders.get(segment).ok_or_else(lost)?.holds(*pointer) {
                segment += 1;
            }
            let HotArrival { key, heat, reason } = self.records.remove(id).ok_or_else(lost)?;
            builders[segment].add(key, *pointer);
            self.change.puts.push(HotPut { key, segment, pointer: *pointer, heat, reason });
        }
        debug_assert!(self.records.is_empty());
        self.change.segments = builders.into_iter().map(HotSegmentBuilder::finish).collect();
        for entry in &mut self.entries {
            if let Some(id) = entry.moved {
                entry.content = Content::pointer(place(places, id)?);
            }
        }
        self.entries.sort_by(|a, b| (&a.key, b.seq).cmp(&(&b.key, a.seq)));
        let live = self.table.extents_apart().map(|extent| self.left(extent)).sum::<u64>()
            + written.extents.iter().map(|extent| extent.live).sum::<u64>();
        let fill = Fill { live, capacity: self.capacity, all_live: self.all_live.max(live) };
        let edits = self.edits();
        let (change, replaced) = (self.change, self.replaced);
        Ok((HotFlushed { written, change, edits, fill, replaced }, self.entries))
    }

    fn edits(&self) -> Vec<GroupEdit> {
        let gone = &self.change.gone;
        let died = self.died.iter().filter(|(place, _)| !gone.contains(place));
        let died = died.map(|(place, bytes)| GroupEdit::LiveRemoved(*place, *bytes));
        died.chain(gone.iter().map(|place| GroupEdit::Remove(*place))).collect()
    }
}
