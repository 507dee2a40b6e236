//! Hot segments in memory: which records each has, and where (the vTables of HoaKV, section 3.3).
//!
//! A segment is an extent of the group [`Location`] names, with up to [`SEGMENT_MAX`] bytes of
//! records and a key block, from which an open reads them. In memory a record takes 16 bytes: a
//! *fingerprint* of its key of 86 bits, its offset and its length. Two keys with equal fingerprints
//! would be taken for one when a flush asks whether a key is hot; fingerprints are seeded with the
//! id of the database, which is random, so the chance is one in 10^14 for a billion flushed keys
//! and a hot store of 4 GiB. A read compares the key of the record itself.

use std::sync::Arc;

use cleavedb_base::checksum::hash64;
use cleavedb_base::planted::{Bug, planted};
use cleavedb_base::{Location, ValuePointer};

use crate::slot::Slot;

/// Most bytes of the records of a segment: 2 MiB, as in the paper.
pub const SEGMENT_MAX: u64 = 1 << LEN_BITS;

/// Shortest record that may be hot, in bytes, so that a [`Slot`] can number those of a segment.
pub const RECORD_MIN: u32 = 64;

/// Longest record that may be hot in segments of `segment` bytes: an eighth, so that few bytes are
/// left over at the end of one.
pub const fn record_max(segment: u64) -> u64 {
    segment / 8
}

/// Longest record that may be hot in any segments, in bytes.
const RECORD_MAX: u32 = record_max(SEGMENT_MAX) as u32;

const LEN_BITS: u32 = 21;
const LEN_MASK: u64 = (1 << LEN_BITS) - 1;
const CHECK_SHIFT: u32 = 2 * LEN_BITS;

/// The fingerprint of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct HotKey {
    /// The hash by which the index finds it.
    pub hash: u64,
    /// More bits of it.
    check: u32,
}

impl HotKey {
    /// The fingerprint of a tree key in the database with this id.
    #[inline]
    pub fn new(encoded_key: &[u8], database_id: u64) -> Self {
        let check = (hash64(encoded_key, !database_id) >> CHECK_SHIFT) as u32;
        Self { hash: hash64(encoded_key, database_id), check }
    }
}

/// A record of a segment in memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SegmentRecord {
    hash: u64,
    /// Rest of the fingerprint, offset in the segment, and length.
    place: u64,
}

impl SegmentRecord {
    /// The record of `key` at `pointer`, in the segment at `place`.
    pub(crate) fn new(place: Location, key: HotKey, pointer: ValuePointer) -> Self {
        let offset = pointer.offset - place.offset;
        let place = u64::from(key.check) << CHECK_SHIFT | offset << LEN_BITS;
        Self { hash: key.hash, place: place | u64::from(pointer.len) }
    }

    #[inline]
    pub(crate) fn hash(&self) -> u64 {
        self.hash
    }

    /// By what the records of a segment are sorted.
    pub(crate) fn order(&self) -> (u64, u64) {
        (self.hash, self.place)
    }

    /// Whether both are records of one key.
    #[inline]
    pub(crate) fn is_alike(&self, other: &Self) -> bool {
        self.hash == other.hash && self.place >> CHECK_SHIFT == other.place >> CHECK_SHIFT
    }

    #[inline]
    pub(crate) fn is_of(&self, key: HotKey) -> bool {
        self.hash == key.hash && self.place >> CHECK_SHIFT == u64::from(key.check)
    }
}

/// A segment in memory.
#[derive(Debug)]
pub struct HotSegment {
    place: Location,
    /// The records of the segment, by the hashes of their keys.
    records: Box<[SegmentRecord]>,
}

impl HotSegment {
    /// A segment of these records, which are sorted.
    pub(crate) fn new(place: Location, records: Box<[SegmentRecord]>) -> Self {
        Self { place, records }
    }

    /// The records of the segment, sorted.
    pub(crate) fn records(&self) -> &[SegmentRecord] {
        &self.records
    }

    /// The beginning of the segment.
    pub fn place(&self) -> Location {
        self.place
    }

    /// The records of keys with the hash of `key`, with their numbers. They are sorted by their
    /// hashes, which are spread evenly: so the first is not far from where it would be if all were
    /// equally far apart.
    fn alike(&self, key: HotKey) -> impl Iterator<Item = (usize, &SegmentRecord)> {
        let guess = (u128::from(key.hash) * self.records.len() as u128) >> u64::BITS;
        let (before, behind) = self.records.split_at(guess as usize);
        let from = guess as usize - before.iter().rev().take_while(|r| r.hash >= key.hash).count();
        let from = match from == guess as usize {
            true => from + behind.iter().take_while(|r| r.hash < key.hash).count(),
            false => from,
        };
        (from..).zip(&self.records[from..]).take_while(move |(_, r)| r.hash == key.hash)
    }

    /// The hash of the key of a record; 0 if there is no such record.
    #[inline]
    pub(crate) fn hash_of(&self, record: u16) -> u64 {
        self.records.get(usize::from(record)).map_or(0, |record| record.hash)
    }

    /// The number of the record of `key` at `pointer`, if there is one.
    pub fn number_of(&self, key: HotKey, pointer: ValuePointer) -> Option<u16> {
        let mut alike = self.alike(key);
        let found = alike.find(|(_, it)| it.is_of(key) && self.pointer_of(**it) == pointer);
        found.map(|(number, _)| number as u16)
    }

    /// The place of a record, if it is one of `key`.
    #[inline]
    pub(crate) fn pointer(&self, record: u16, key: HotKey) -> Option<ValuePointer> {
        let found = self.records.get(usize::from(record))?;
        found.is_of(key).then(|| self.pointer_of(*found))
    }

    /// Every record with its number: the hash of its key, and its place.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u16, u64, ValuePointer)> {
        let records = (0..).zip(&self.records);
        records.map(|(number, found)| (number, found.hash, self.pointer_of(*found)))
    }

    fn pointer_of(&self, found: SegmentRecord) -> ValuePointer {
        ValuePointer {
            file: self.place.file,
            offset: self.place.offset + (found.place >> LEN_BITS & LEN_MASK),
            len: (found.place & LEN_MASK) as u32,
        }
    }

    /// Bytes of memory.
    pub(crate) fn memory(&self) -> usize {
        size_of::<Self>() + size_of_val(&*self.records)
    }
}

/// Whether a segment at `place` that has `count` records may have the record at `pointer`.
pub(crate) fn holds(place: Location, count: usize, pointer: ValuePointer) -> bool {
    let within = |offset: &u64| *offset < SEGMENT_MAX;
    let offset = pointer.offset.checked_sub(place.offset).filter(within);
    pointer.file == place.file
        && offset.is_some()
        && (RECORD_MIN..=RECORD_MAX).contains(&pointer.len)
        && count <= usize::from(u16::MAX)
}

/// Collects the records of a segment.
#[derive(Debug)]
pub struct HotSegmentBuilder {
    place: Location,
    /// Bytes of its records: the next segment may begin less than [`SEGMENT_MAX`] behind it.
    len: u64,
    records: Vec<SegmentRecord>,
}

impl HotSegmentBuilder {
    /// A segment at `place` with `len` bytes of records.
    pub fn new(place: Location, len: u64) -> Self {
        Self { place, len, records: Vec::new() }
    }

    /// Whether it has a place for the record at `pointer`: a record of another segment has none.
    pub fn holds(&self, pointer: ValuePointer) -> bool {
        let end = match planted(Bug::RecordOfNextSegment) {
            true => SEGMENT_MAX,
            false => self.len,
        };
        holds(self.place, self.records.len(), pointer) && pointer.offset - self.place.offset < end
    }

    /// Adds the record of `key` at `pointer`, which it must hold.
    pub fn add(&mut self, key: HotKey, pointer: ValuePointer) {
        debug_assert!(self.holds(pointer));
        self.records.push(SegmentRecord::new(self.place, key, pointer));
    }

    /// The segment.
    pub fn finish(self) -> Arc<HotSegment> {
        let Self { place, mut records, .. } = self;
        records.sort_unstable_by_key(SegmentRecord::order);
        Arc::new(HotSegment::new(place, records.into()))
    }
}

/// All segments, by their numbers.
#[derive(Clone, Debug, Default)]
pub(crate) struct Segments(Vec<Option<Arc<HotSegment>>>);

impl Segments {
    #[inline]
    pub(crate) fn get(&self, number: u16) -> Option<&Arc<HotSegment>> {
        self.0.get(usize::from(number))?.as_ref()
    }

    #[inline]
    pub(crate) fn pointer(&self, slot: Slot, key: HotKey) -> Option<ValuePointer> {
        self.get(slot.segment)?.pointer(slot.record, key)
    }

    pub(crate) fn hash_of(&self, slot: Slot) -> u64 {
        self.get(slot.segment).map_or(0, |segment| segment.hash_of(slot.record))
    }

    /// Every segment, with its number.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u16, &Arc<HotSegment>)> {
        (0..).zip(&self.0).filter_map(|(number, segment)| Some((number, segment.as_ref()?)))
    }

    /// Adds a segment; returns its number, or none if all numbers are taken.
    pub(crate) fn add(&mut self, segment: Arc<HotSegment>) -> Option<u16> {
        let free = self.0.iter().position(Option::is_none).unwrap_or(self.0.len());
        let number = u16::try_from(free).ok()?;
        if free == self.0.len() {
            self.0.push(None);
        }
        self.0[free] = Some(segment);
        Some(number)
    }

    /// The segments in this order, numbered from 0.
    pub(crate) fn in_order(segments: impl Iterator<Item = Arc<HotSegment>>) -> Self {
        Self(segments.map(Some).collect())
    }

    pub(crate) fn remove(&mut self, place: Location) {
        for segment in &mut self.0 {
            if segment.as_ref().is_some_and(|segment| segment.place == place) {
                *segment = None;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use cleavedb_base::FileNumber;

    use super::*;

    const PLACE: Location = Location { file: FileNumber(7), offset: 4096 };

    #[test]
    fn a_record_is_found_by_its_number_and_its_key_alone() {
        let mut builder = HotSegmentBuilder::new(PLACE, SEGMENT_MAX);
        let last = ValuePointer { file: PLACE.file, offset: 4096 + (2 << 20) - 1, len: RECORD_MAX };
        let first = ValuePointer { file: PLACE.file, offset: 4096, len: RECORD_MIN };
        let (one, other) = (HotKey::new(b"one", 5), HotKey::new(b"other", 5));
        builder.add(one, first);
        builder.add(other, last);
        builder.add(one, last);
        let beyond = [
            ValuePointer { offset: 4095, ..first },
            ValuePointer { offset: 4096 + (2 << 20), ..first },
            ValuePointer { len: RECORD_MAX + 1, ..first },
            ValuePointer { len: RECORD_MIN - 1, ..first },
            ValuePointer { file: FileNumber(8), ..first },
        ];
        assert!(beyond.iter().all(|pointer| !builder.holds(*pointer)));
        let segment = builder.finish();
        assert_eq!(segment.place(), PLACE);
        for (key, pointer) in [(one, first), (one, last), (other, last)] {
            let number = segment.number_of(key, pointer).unwrap();
            assert_eq!(segment.pointer(number, key), Some(pointer));
        }
        assert_eq!((segment.number_of(other, first), segment.pointer(3, one)), (None, None));
        let alike = HotKey { check: one.check ^ 1, ..one };
        let is_alike = segment.alike(alike).any(|(_, record)| record.is_of(alike));
        assert!(!is_alike, "all bits of a fingerprint count");
        assert_eq!(segment.number_of(alike, first), None);
        assert_ne!(HotKey::new(b"one", 6), one);
    }

    /// Long records leave much space at the end of a segment, so that the next one begins early.
    #[test]
    fn a_record_of_the_next_segment_has_no_place() {
        let builder = HotSegmentBuilder::new(PLACE, 8192);
        let at =
            |offset: u64| ValuePointer { file: PLACE.file, offset: 4096 + offset, len: RECORD_MIN };
        assert!(builder.holds(at(8191)) && !builder.holds(at(8192)));
    }

    #[test]
    fn numbers_of_removed_segments_are_taken_again() {
        let mut segments = Segments::default();
        let segment = |offset| HotSegmentBuilder::new(Location { offset, ..PLACE }, 0).finish();
        let numbers = [4096, 8192, 12288].map(|offset| segments.add(segment(offset)));
        assert_eq!(numbers, [Some(0), Some(1), Some(2)]);
        segments.remove(Location { offset: 8192, ..PLACE });
        assert!(segments.get(1).is_none());
        assert_eq!(segments.add(segment(16384)), Some(1));
        assert_eq!(segments.iter().count(), 3);
        (3..=u16::MAX).for_each(|number| assert_eq!(segments.add(segment(4096)), Some(number)));
        assert_eq!(segments.add(segment(4096)), None);
    }
}
