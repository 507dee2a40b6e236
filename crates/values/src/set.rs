//! The segments that one read state can reach, and reading values by pointer.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use cleavedb_base::key::split_encoded_key;
use cleavedb_base::limits::VALUE_LEN_MAX;
use cleavedb_base::record::{Header, Record, RecordKind};
use cleavedb_base::{Error, ErrorKind, FileNumber, Result, SeqNo, ValuePointer};
use cleavedb_storage::log::BufferPin;
use cleavedb_storage::pages::PagePool;
use cleavedb_storage::segment::{FarRecord, Segment, is_far};
use cleavedb_storage::{FileKind, Reach};

use crate::coalesced_read::{Chunk, prefetch_records};
use crate::dictionary::Dictionaries;
use crate::groups::{ExtentHandle, Location};
use crate::owned_record::OwnedRecord;
use crate::place_map::PlaceMap;

/// Immutable set of segments, ordered by number, and the extents of those that are group files.
#[derive(Clone, Default)]
pub struct SegmentSet {
    segments: Vec<Arc<Segment>>,
    /// Held so that no range is punched that this read state can reach.
    extents: PlaceMap<Arc<ExtentHandle>>,
    /// The dictionaries of the database, which compressed values name.
    dictionaries: Dictionaries,
}

impl SegmentSet {
    /// An empty set, for values that name these dictionaries.
    pub fn new(dictionaries: Dictionaries) -> Self {
        Self { dictionaries, ..Self::default() }
    }

    /// The set with `added` and without `removed`; the removed segments' files are queued by their
    /// last reader.
    #[must_use]
    pub fn with(&self, added: &[Arc<Segment>], removed: &[FileNumber]) -> Self {
        let mut segments = self.segments.clone();
        segments.retain(|segment| !removed.contains(&segment.number()));
        segments.extend_from_slice(added);
        segments.sort_by_key(|segment| segment.number());
        Self { segments, ..self.clone() }
    }

    /// The set with the extents `added` and without `removed`.
    #[must_use]
    pub fn with_extents(&self, added: &[Arc<ExtentHandle>], removed: &[Location]) -> Self {
        let mut set = self.clone();
        added.iter().for_each(|extent| set.extents.insert(extent.place(), extent.clone()));
        removed.iter().for_each(|place| _ = set.extents.remove(*place));
        set
    }

    /// The segments of one kind, without extents: a small set for frequent look-ups.
    #[must_use]
    pub fn of_kind(&self, kind: FileKind) -> Self {
        let of_kind = self.segments.iter().filter(|segment| segment.name().kind() == kind);
        let segments = of_kind.cloned().collect();
        Self { segments, extents: PlaceMap::default(), dictionaries: self.dictionaries.clone() }
    }

    /// The union of this set and `other`, with the dictionaries of this one.
    #[must_use]
    pub fn joined(&self, other: &Self) -> Self {
        let extents: Vec<_> = other.extents.values().cloned().collect();
        self.with(&other.segments, &[]).with_extents(&extents, &[])
    }

    /// The extent that begins at `place`.
    pub fn extent(&self, place: Location) -> Result<&Arc<ExtentHandle>> {
        self.extents.get(place).ok_or_else(|| {
            Error::corruption("an extent of a group is not open")
                .with("file", place.file)
                .with("offset", place.offset)
        })
    }

    /// The extent of a pointer, if it still exists.
    fn extent_of(&self, pointer: ValuePointer) -> Option<&Arc<ExtentHandle>> {
        let place = Location { file: pointer.file, offset: pointer.offset };
        self.extents.upto(place).filter(|extent| extent.holds(place))
    }

    /// Whether the record of a pointer is still in its place, if it ever was. Files other than
    /// group files stay as long as a pointer into them is visible, an extent does not.
    #[inline]
    pub fn is_there(&self, pointer: ValuePointer) -> bool {
        match self.get(pointer.file) {
            Some(segment) if segment.name().kind() == FileKind::Group => {
                self.extent_of(pointer).is_some()
            }
            known => known.is_some(),
        }
    }

    /// The segment of this number.
    #[inline]
    pub fn get(&self, number: FileNumber) -> Option<&Arc<Segment>> {
        let at = self.segments.binary_search_by_key(&number, |segment| segment.number()).ok()?;
        Some(&self.segments[at])
    }

    /// All segments, oldest first.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Segment>> {
        self.segments.iter()
    }

    /// The segment of a pointer.
    pub fn find(&self, pointer: ValuePointer) -> Result<&Arc<Segment>> {
        self.get(pointer.file).ok_or_else(|| {
            Error::corruption("a pointer names a value file that does not exist")
                .with("file", pointer.file)
                .with("offset", pointer.offset)
        })
    }

    /// Announces that the record at `pointer` will be read soon, so that the device fetches many in
    /// parallel: WiscKey's parallel range reads (section 3.2), without threads that wait for them.
    pub fn will_need(&self, pointer: ValuePointer) {
        if let Some(segment) = self.get(pointer.file) {
            segment.will_need(pointer.offset, pointer.len as usize);
        }
    }

    /// Announces that the records at `wanted` will be read soon, and combines neighbours: returns
    /// the chunk of each, in the order of `wanted`, or none for a record that is read by itself.
    /// Chunks are read into pieces of `pool`; a value that its user keeps holds such a piece.
    pub fn prefetch_records(
        &self,
        wanted: &[ValuePointer],
        pool: &Arc<PagePool>,
    ) -> Vec<Option<Arc<Chunk>>> {
        let mut chunks = vec![None; wanted.len()];
        let mut order: Vec<u32> = (0..wanted.len() as u32).collect();
        let of = |at: &u32| wanted[*at as usize];
        order.sort_unstable_by_key(|at| (of(at).file, of(at).offset));
        for in_file in order.chunk_by(|a, b| of(a).file == of(b).file) {
            let Some(segment) = self.get(of(&in_file[0]).file) else { continue };
            let sorted: Vec<ValuePointer> = in_file.iter().map(of).collect();
            for (at, chunk) in in_file.iter().zip(prefetch_records(segment, &sorted, pool)) {
                chunks[*at as usize] = chunk;
            }
        }
        chunks
    }

    /// The bytes of the record at `pointer`, not verified.
    pub fn bytes(&self, pointer: ValuePointer) -> Result<Vec<u8>> {
        let mut bytes = Vec::new();
        self.read_into(pointer, &mut bytes)?;
        Ok(bytes)
    }

    /// Prefetches the memory of the record at `pointer`, if the log's window holds it.
    pub fn prefetch(&self, pointer: ValuePointer) {
        if let Some(segment) = self.get(pointer.file) {
            segment.prefetch(pointer.offset, pointer.len as usize);
        }
    }

    /// The record of (`encoded_key`, `seq`) at `pointer`, if the log's window, which is `held`, has
    /// it in one piece: see [`Segment::in_window`].
    #[inline]
    pub fn in_window<'h>(
        &self,
        held: &'h BufferPin<'_>,
        pointer: ValuePointer,
        encoded_key: &[u8],
        seq: SeqNo,
    ) -> Option<Result<Record<'h>>> {
        let (keyspace, key) = split_encoded_key(encoded_key)?;
        self.get(pointer.file)?.in_window(held, pointer, keyspace, key, seq)
    }

    /// Fills `bytes` with the record at `pointer`, not verified.
    pub fn read_into(&self, pointer: ValuePointer, bytes: &mut Vec<u8>) -> Result<()> {
        read_into(Reach::Device, self.find(pointer)?, pointer, bytes)
    }

    /// The record in `bytes`, which were read at `pointer`, verified to be that of (`encoded_key`,
    /// `seq`).
    pub fn verified<'a>(
        &self,
        bytes: &'a [u8],
        pointer: ValuePointer,
        encoded_key: &[u8],
        seq: SeqNo,
    ) -> Result<Record<'a>> {
        verified(self.find(pointer)?, bytes, pointer, encoded_key, seq)
    }

    /// The far record of (`encoded_key`, `seq`) at `pointer`.
    pub fn far(
        &self,
        pointer: ValuePointer,
        encoded_key: &[u8],
        seq: SeqNo,
    ) -> Result<FarRecord<'_>> {
        let (keyspace, key) = split_encoded_key(encoded_key)
            .ok_or_else(|| Error::corruption("a tree key is too short"))?;
        let record = self.find(pointer)?.far(pointer)?;
        record.is_of(keyspace, key, seq)?;
        Ok(record)
    }

    /// Reads the value of (`encoded_key`, `seq`) at `pointer`, verifies that it is that very
    /// record, and decompresses it.
    pub fn read(&self, pointer: ValuePointer, encoded_key: &[u8], seq: SeqNo) -> Result<Bytes> {
        self.record(Reach::Device, pointer, encoded_key, seq).map(OwnedRecord::into_value)
    }

    /// As [`SegmentSet::read`], with the record around the value, from within `reach`; fails with
    /// [`ErrorKind::WouldWait`] where that does not do. A blob is always read from its file.
    #[inline]
    pub fn record(
        &self,
        reach: Reach,
        pointer: ValuePointer,
        encoded_key: &[u8],
        seq: SeqNo,
    ) -> Result<OwnedRecord> {
        let segment = self.find(pointer)?;
        let mut bytes = Vec::new();
        if reach == Reach::Memory && segment.name().kind() == FileKind::Blob {
            let what = "a value with a file of its own is not read from memory alone";
            return Err(Error::new(ErrorKind::WouldWait, what));
        }
        read_into(reach, segment, pointer, &mut bytes)?;
        self.owned(segment, bytes.into(), pointer, encoded_key, seq)
    }

    /// Verifies the record that [`SegmentSet::read`] would read, and returns the length of its
    /// value; that of a far record is not held whole in memory, unless it is compressed.
    pub fn check(&self, pointer: ValuePointer, encoded_key: &[u8], seq: SeqNo) -> Result<u64> {
        if let Some(blob) = self.blob(pointer, encoded_key, seq)? {
            blob.read(0..blob.len, |_| Ok(()))?;
            return Ok(blob.len);
        }
        if !is_far(pointer) {
            return Ok(self.read(pointer, encoded_key, seq)?.len() as u64);
        }
        let record = self.far(pointer, encoded_key, seq)?;
        if record.header.compressed {
            return Ok(self.read(pointer, encoded_key, seq)?.len() as u64);
        }
        record.visit(|_| Ok(()))?;
        Ok(record.header.stored_value_len() as u64)
    }

    /// As [`SegmentSet::read`], from a chunk that holds the record.
    pub fn read_in(
        &self,
        chunk: &Chunk,
        pointer: ValuePointer,
        encoded_key: &[u8],
        seq: SeqNo,
    ) -> Result<Bytes> {
        match chunk.record(pointer) {
            Some(bytes) => {
                let segment = self.find(pointer)?;
                let record = self.owned(segment, bytes, pointer, encoded_key, seq)?;
                Ok(record.into_value())
            }
            None => self.read(pointer, encoded_key, seq),
        }
    }

    /// The sequence number and the value of the record at `pointer`, from `chunk` if that has it,
    /// or from within `reach`; none if it is one of another key than `encoded_key`.
    pub fn read_version(
        &self,
        reach: Reach,
        chunk: Option<&Chunk>,
        pointer: ValuePointer,
        encoded_key: &[u8],
    ) -> Result<Option<(SeqNo, Bytes)>> {
        let bytes = match chunk.and_then(|chunk| chunk.record(pointer)) {
            Some(bytes) => bytes,
            None => {
                let mut bytes = Vec::new();
                read_into(reach, self.find(pointer)?, pointer, &mut bytes)?;
                bytes.into()
            }
        };
        let (keyspace, key) = split_encoded_key(encoded_key)
            .ok_or_else(|| Error::corruption("a tree key is too short"))?;
        let record = self.find(pointer)?.verify_key(&bytes, pointer, keyspace, key)?;
        let Some(header) = record.map(|record| record.header) else { return Ok(None) };
        Ok(Some((header.seq, self.own(bytes, pointer, &header)?.into_value())))
    }

    #[inline]
    fn owned(
        &self,
        segment: &Segment,
        bytes: Bytes,
        pointer: ValuePointer,
        encoded_key: &[u8],
        seq: SeqNo,
    ) -> Result<OwnedRecord> {
        let header = verified(segment, &bytes, pointer, encoded_key, seq)?.header;
        self.own(bytes, pointer, &header)
    }

    /// The record of this header in `bytes`, which were read at `pointer` and verified.
    #[inline]
    fn own(&self, bytes: Bytes, pointer: ValuePointer, header: &Header) -> Result<OwnedRecord> {
        if header.kind == RecordKind::BlobEnd {
            return self.whole_blob(&bytes, pointer);
        }
        let record = OwnedRecord::new(bytes, header);
        if header.compressed { self.decompressed(&record, pointer) } else { Ok(record) }
    }

    #[cold]
    fn decompressed(&self, record: &OwnedRecord, pointer: ValuePointer) -> Result<OwnedRecord> {
        record
            .decompressed(&self.dictionaries)
            .map_err(|e| e.with("file", pointer.file).with("offset", pointer.offset))
    }

    /// The blob of (`encoded_key`, `seq`) that ends at `pointer`; `None` if there is another value,
    /// or nothing.
    pub fn blob(
        &self,
        pointer: ValuePointer,
        encoded_key: &[u8],
        seq: SeqNo,
    ) -> Result<Option<Blob>> {
        let of_kind = |segment: &&Arc<Segment>| segment.name().kind() == FileKind::Blob;
        let Some(segment) = self.get(pointer.file).filter(of_kind) else { return Ok(None) };
        let bytes = self.bytes(pointer)?;
        let end = self.verified(&bytes, pointer, encoded_key, seq)?;
        let len = segment.blob_of(&end, pointer)?;
        Ok(Some(Blob { segment: segment.clone(), pointer, len }))
    }

    /// The blob whose end `bytes` are, which were read at `pointer` and verified, as a record.
    #[cold]
    fn whole_blob(&self, bytes: &[u8], pointer: ValuePointer) -> Result<OwnedRecord> {
        let segment = self.find(pointer)?;
        let end = Record::parse_own(bytes, segment.identity(), pointer.offset)?;
        let len = segment.blob_of(&end, pointer)?;
        if len > VALUE_LEN_MAX as u64 {
            let what = "a value of more than 1 GiB is not read as a whole; read it in pieces";
            return Err(Error::new(ErrorKind::InvalidArgument, what).with("len", len));
        }
        let front = bytes.len() - end.value.len();
        let mut whole = Vec::with_capacity(front + len as usize);
        whole.extend_from_slice(&bytes[..front]);
        segment.read_blob(len, 0..len, |piece| {
            whole.extend_from_slice(piece);
            Ok(())
        })?;
        Ok(OwnedRecord::of_blob(whole.into(), &end.header))
    }
}

/// Fills `bytes` with the record at `pointer` in its `segment`, not verified.
#[inline]
fn read_into(
    reach: Reach,
    segment: &Segment,
    pointer: ValuePointer,
    bytes: &mut Vec<u8>,
) -> Result<()> {
    bytes.resize(pointer.len as usize, 0);
    segment.read_within(reach, pointer.offset, bytes)
}

/// As [`SegmentSet::verified`], by the segment that `pointer` names.
#[inline]
fn verified<'a>(
    segment: &Segment,
    bytes: &'a [u8],
    pointer: ValuePointer,
    encoded_key: &[u8],
    seq: SeqNo,
) -> Result<Record<'a>> {
    let (keyspace, key) = split_encoded_key(encoded_key)
        .ok_or_else(|| Error::corruption("a tree key is too short"))?;
    segment.verify(bytes, pointer, keyspace, key, seq)
}

/// A value that has a file of its own. While it is held, the file stays.
#[derive(Clone)]
pub struct Blob {
    segment: Arc<Segment>,
    /// What the index has of it.
    pub pointer: ValuePointer,
    /// The length of the value, in bytes.
    pub len: u64,
}

impl Blob {
    /// Passes the bytes of a `range` to `visit`, in pieces that were verified.
    pub fn read(&self, range: Range<u64>, visit: impl FnMut(&[u8]) -> Result<()>) -> Result<()> {
        self.segment.read_blob(self.len, range, visit)
    }

    /// Announces that a `range` will be read soon.
    pub fn will_need(&self, range: Range<u64>) {
        self.segment.will_need_blob(self.len, range);
    }
}
