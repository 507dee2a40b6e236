//! The part of a flush that evacuates segments of a full hot store: their records are copied to new
//! segments, or go to their groups.

use std::collections::BTreeSet;
use std::sync::Arc;

use bytes::Bytes;
use cleavedb_base::checksum::hash64;
use cleavedb_base::limits::SEQ_MAX;
use cleavedb_base::planted::{Bug, planted};
use cleavedb_base::record::{Header, RecordKind};
use cleavedb_base::{
    EncodedKey, EntryKind, Error, FileNumber, Location, Result, SeqNo, ValuePointer,
};
use cleavedb_hot::change::HotReason;
use cleavedb_hot::evacuation::{self, Room, SegmentFacts};
use cleavedb_hot::segment::HotKey;
use cleavedb_hot::store::HotStore;
use cleavedb_index::Entry;
use cleavedb_storage::Reach;
use cleavedb_storage::mapped::Arena;
use cleavedb_storage::segment::Segment;
use cleavedb_values::GroupTable;
use cleavedb_values::collect::record::Content;
use cleavedb_values::groups::{Extent, key_block};

use super::super::lost;
use super::super::pending::{PendingRecord, ValueSource};
use super::super::plan::FlushPlan;
use super::{HotArrival, HotFlush};
use crate::background::victims::Choice;
use crate::store::state::MemSlot;

/// Says that a key is not hot from a sequence number on.
pub(super) struct Stub<'e> {
    pub(super) key: &'e [u8],
    pub(super) seq: SeqNo,
    pub(super) kind: RecordKind,
}

impl<'e> Stub<'e> {
    /// The stub of a key whose newest version is `newest`, and lies elsewhere or is a delete.
    pub(super) fn of(newest: &Entry<'e>) -> Self {
        let deleted = newest.kind == EntryKind::Delete;
        let kind = if deleted { RecordKind::Delete } else { RecordKind::Tag };
        Self { key: newest.key, seq: newest.seq, kind }
    }
}

/// The hot segments of `table`, in files up to `upto`, that an evacuation frees of dead records and
/// of stubs. A segment that holds nothing alive but versions that snapshots see stays until these
/// are dropped, and one that is damaged until the next open.
pub(crate) fn unclean(
    store: &HotStore,
    table: &GroupTable,
    left_alone: &BTreeSet<Location>,
    upto: FileNumber,
) -> BTreeSet<Location> {
    let mut newest = BTreeSet::new();
    store.for_each(|pointer| newest.extend(table.extent_of(pointer).map(|extent| extent.place)));
    let may_leave = |extent: &&Extent| {
        let unclean = extent.live < extent.separated || extent.stubs + extent.tags > 0;
        unclean && (extent.live == 0 || newest.contains(&extent.place))
    };
    let known = table.extents_apart().filter(|extent| extent.place.file <= upto);
    let places = known.filter(may_leave).map(|extent| extent.place);
    places.filter(|place| !left_alone.contains(place)).collect()
}

impl<'e> HotFlush<'_, 'e> {
    /// Chooses the segments that leave, and gives their records to the hot store again or to their
    /// groups. Returns the files to read them from.
    pub(crate) fn evacuate(
        &mut self,
        slot: &MemSlot,
        arena: &'e Arena,
        plan: &mut FlushPlan<'e>,
    ) -> Result<Vec<Arc<Segment>>> {
        let incoming = self.items.iter().map(PendingRecord::len).sum();
        let segments = self.table.extents_apart();
        let (left_alone, upto, wanted, reclaims) = {
            let jobs = self.engine.jobs.lock();
            let manifest = self.engine.manifest.lock();
            let over =
                Choice::of(self.engine, manifest.live(), &jobs.damaged, &jobs.survivors).is_over();
            let upto = jobs.leaving.iter().copied().max();
            (jobs.damaged.extents.clone(), upto, jobs.wanted.extents.clone(), over)
        };
        let asked = upto.map(|upto| unclean(self.store, self.table, &left_alone, upto));
        let asked = asked.unwrap_or_default();
        let segments = segments.filter(|extent| !left_alone.contains(&extent.place));
        let facts = segments.map(|extent| SegmentFacts {
            place: extent.place,
            len: extent.len(),
            live: self.left(extent),
            asked: asked.contains(&extent.place) || wanted.contains(&extent.place),
        });
        let capacity = self.capacity;
        let staying = self.store.staying();
        let segment = self.engine.options.tuning.groups.hot_segment_bytes;
        let room = Room { capacity, incoming, segment, reclaims, staying };
        let victims = evacuation::victims(facts.collect(), room);
        self.store.evacuates(&victims);
        let (mut files, mut old_stubs) = (Vec::new(), Vec::new());
        let (demoted_from, mut short) = (plan.items.len(), Vec::new());
        for place in &victims {
            let segment = self.leave(*place, slot, arena, plan, &mut old_stubs, &mut short)?;
            files.push(segment);
            let extent = self.table.extents_apart().find(|e| e.place == *place);
            if extent.is_some_and(|extent| self.left(extent) == 0) {
                self.change.gone.push(*place);
            }
        }
        self.demote_short(&short)?;
        // A flush hands its records to groups in the order of the index.
        if plan.items.len() > demoted_from {
            plan.items.sort_by(|a, b| (a.entry.key, b.entry.seq).cmp(&(b.entry.key, a.entry.seq)));
        }
        self.keep_stubs(old_stubs, plan);
        Ok(files)
    }

    /// Lets the records of one segment leave it.
    fn leave(
        &mut self,
        place: Location,
        slot: &MemSlot,
        arena: &'e Arena,
        plan: &mut FlushPlan<'e>,
        old_stubs: &mut Vec<Stub<'e>>,
        short: &mut Vec<(&'e [u8], ValuePointer)>,
    ) -> Result<Arc<Segment>> {
        let handle = self.state.segments.extent(place)?.clone();
        let segment = handle.segment().clone();
        let end = place.offset + handle.records_len();
        let listing = handle.read_key_block()?.ok_or_else(|| {
            let error = Error::corruption("a hot segment has no key block");
            error.with("file", place.file).with("offset", place.offset)
        })?;
        key_block::visit(&listing, segment.identity(), place, end, |record, pointer| {
            let encoded_key = EncodedKey::new(record.header.keyspace, record.key);
            let encoded_key = encoded_key.as_bytes();
            let seq = record.header.seq;
            let key = self.store.key(encoded_key);
            let kind = record.header.kind;
            if kind != RecordKind::Separated {
                // A record of a key that became hot again is newer than its stub.
                if self.store.find(key).is_none() {
                    let key = arena.copy(&[encoded_key]);
                    old_stubs.push(Stub { key, seq, kind });
                }
                return Ok(());
            }
            // A version in the MemTable has decided about the record already.
            let newer = slot.table.get(encoded_key, hash64(encoded_key, 0), SEQ_MAX).is_some();
            if newer || self.store.find(key) != Some(pointer) {
                return Ok(());
            }
            let kept = arena.copy(&[encoded_key]);
            let entry =
                Entry { key: kept, seq, kind: EntryKind::Pointer, repeat: false, value: &[] };
            let item =
                |plan: &mut FlushPlan<'e>| plan.record(entry, ValueSource::Log(pointer, None), seq);
            self.dies(pointer);
            // What a range tombstone covers is left to the next compaction, by an entry.
            if self.store.keeps(key) && !self.deleted.covers(kept, seq) {
                let arrival = HotArrival { key, heat: 0, reason: HotReason::Kept };
                self.add(item(plan), arrival);
                return Ok(());
            }
            self.change.demoted.push(key);
            self.stubs.push(Stub { key: kept, seq, kind: RecordKind::Tag });
            if self.is_short(kept, &record.header) {
                short.push((kept, pointer));
            } else {
                let item = item(plan);
                self.entry(kept, seq, Content::pointer(pointer), Some(item.id));
                plan.items.push(item);
            }
            Ok(())
        })?;
        Ok(segment)
    }

    /// Whether the value of a record lies in the index when its key is cold (algorithm 2).
    pub(super) fn is_short(&self, encoded_key: &[u8], header: &Header) -> bool {
        let keyspace = self.engine.catalog.find(encoded_key);
        // The values of a dropped keyspace go wherever they are.
        let from = keyspace.map_or(0, |(keyspace, _)| keyspace.separated_from);
        header.plain_len().is_some_and(|len| len < from)
    }

    /// Gives the values of these records, in segments that leave, back to the index.
    fn demote_short(&mut self, short: &[(&'e [u8], ValuePointer)]) -> Result<()> {
        let wanted: Vec<ValuePointer> = short.iter().map(|(_, pointer)| *pointer).collect();
        let (segments, pages) = (&self.state.segments, &self.engine.spare_pages.flush);
        let chunks = segments.prefetch_records(&wanted, pages);
        for ((key, pointer), chunk) in short.iter().zip(chunks) {
            let version = segments.read_version(Reach::Device, chunk.as_deref(), *pointer, key)?;
            let (seq, value) = version.ok_or_else(lost)?;
            let value = if planted(Bug::ShortDemotedEmpty) { Bytes::new() } else { value };
            self.entry(key, seq, Content::Inline(EntryKind::Inline, (*value).into()), None);
        }
        Ok(())
    }

    /// Adds the stubs that are needed: those of keys of which an older segment may have a record.
    fn keep_stubs(&mut self, old_stubs: Vec<Stub<'e>>, plan: &mut FlushPlan<'e>) {
        let gone: BTreeSet<Location> = self.change.gone.iter().copied().collect();
        let mut stubs = std::mem::take(&mut self.stubs);
        stubs.extend(old_stubs);
        let keys: Vec<HotKey> = stubs.iter().map(|stub| self.store.key(stub.key)).collect();
        let needed = self.store.remembered(&keys, &gone);
        for (Stub { key, seq, kind }, needed) in stubs.into_iter().zip(needed) {
            if !needed || planted(Bug::HotStubForgotten) {
                continue;
            }
            let entry = Entry { key, seq, kind: EntryKind::Delete, repeat: false, value: &[] };
            self.items.push(plan.record(entry, ValueSource::Stub(kind), seq));
        }
    }
}
