//! Segments: files of records, written once, read by pointer.
//!
//! A log file is a segment whose newest part may still lie in the window. A reader verifies what it
//! reads: a record is returned only if its checksums hold and it has the keyspace, key and sequence
//! number of the caller's index entry (invariant 6).

pub mod blob;
mod far;

use std::sync::Arc;

use cleavedb_base::limits::BLOCK;
use cleavedb_base::planted::{Bug, planted};
use cleavedb_base::record::{FileIdentity, Header, Record, RecordKind};
use cleavedb_base::sync::atomic::{AtomicBool, Ordering};
use cleavedb_base::{Error, FileNumber, KeyspaceId, Result, SeqNo, ValuePointer};

use crate::aligned::AlignedBuf;
use crate::api::{File, Reach, read_exact_within, write_all_at};
use crate::log::{BufferPin, FileHeader, LogBuffer};
use crate::name::{FileKind, Name};
use crate::obsolete::ObsoleteFiles;

pub use far::{FarRecord, PIECE, is_far};

/// Bytes of one write of a [`SegmentWriter`].
const WRITE_LEN: usize = 1 << 20;

/// A file of records, open for reading.
pub struct Segment {
    name: Name,
    identity: FileIdentity,
    file: Arc<dyn File>,
    /// The window, and the log position of this file's first byte, if part of it may lie there.
    young: Option<(Arc<LogBuffer>, u64)>,
    /// The segment through which the file was read before, if readers may still have that.
    earlier: Option<Arc<Self>>,
    obsolete: AtomicBool,
    obsolete_files: Arc<ObsoleteFiles>,
}

impl Segment {
    /// A segment read through `file`. `young` is the window and the file's log position, for log
    /// files that are still written.
    pub fn new(
        name: Name,
        identity: FileIdentity,
        file: Arc<dyn File>,
        young: Option<(Arc<LogBuffer>, u64)>,
        obsolete_files: Arc<ObsoleteFiles>,
    ) -> Self {
        let (earlier, obsolete) = (None, AtomicBool::new(false));
        Self { name, identity, file, young, earlier, obsolete, obsolete_files }
    }

    /// The segment in the place of `earlier`, through which readers may still read the file: it is
    /// removed once neither has any.
    #[must_use]
    pub fn in_place_of(mut self, earlier: Option<Arc<Self>>) -> Self {
        self.earlier = earlier;
        self
    }

    /// The number of the segment.
    pub fn number(&self) -> FileNumber {
        self.name.number()
    }

    /// The name of the segment.
    pub fn name(&self) -> Name {
        self.name
    }

    /// Seeds the checksums of its records.
    pub fn identity(&self) -> FileIdentity {
        self.identity
    }

    /// The file behind it.
    pub fn file(&self) -> &Arc<dyn File> {
        &self.file
    }

    /// Marks the segment as dropped by a durable edit: its last reader queues the file for removal.
    pub fn mark_obsolete(&self) {
        if planted(Bug::BuriedUnderReaders) {
            self.enqueue();
        }
        self.obsolete.store(true, Ordering::Release);
    }

    fn enqueue(&self) {
        // An unknown length only makes the removal less smooth.
        self.obsolete_files.enqueue(self.name, self.file.len().unwrap_or(0));
    }

    /// Fills `buf` with the file's bytes at `offset`.
    pub fn read(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
        self.read_within(Reach::Device, offset, buf)
    }

    /// As [`Segment::read`], from within `reach`; fails with `ErrorKind::WouldWait` where that does
    /// not do.
    pub fn read_within(&self, reach: Reach, offset: u64, buf: &mut [u8]) -> Result<()> {
        let in_file = match &self.young {
            Some((ring, base)) => ring.read_tail(base + offset, buf),
            None => buf.len(),
        };
        if in_file == 0 {
            return Ok(());
        }
        read_exact_within(reach, &*self.file, &mut buf[..in_file], offset).map_err(|e| {
            // A pointer beyond the end means that bytes are lost, not that a call failed.
            if e.kind() == std::io::ErrorKind::UnexpectedEof {
                self.damaged(offset, "the file ends before the record that a pointer names")
            } else {
                reach.failed("read a value", e).with("file", self.name).with("offset", offset)
            }
        })
    }

    /// Announces that these bytes are not needed in memory; see [`File::wont_need`].
    pub fn wont_need(&self, offset: u64, len: usize) {
        self.file.wont_need(offset, len);
    }

    /// Announces that these bytes will be read soon; see [`File::will_need`].
    pub fn will_need(&self, offset: u64, len: usize) {
        self.file.will_need(offset, len);
    }

    /// Prefetches the memory of these bytes, if the log's window holds them.
    #[inline]
    pub fn prefetch(&self, offset: u64, len: usize) {
        if let Some((ring, base)) = &self.young {
            ring.prefetch(base + offset, len);
        }
    }

    #[cold]
    fn damaged(&self, offset: u64, what: &str) -> Error {
        Error::corruption(what).with("file", self.name).with("offset", offset)
    }

    /// The error of damage in the value of `key`.
    #[cold]
    fn damaged_value(&self, offset: u64, what: &str, key: &[u8]) -> Error {
        self.damaged(offset, what).with("key", key.escape_ascii())
    }

    /// Verifies that `bytes`, read at `pointer`, are the record of (`keyspace`, `key`, `seq`), and
    /// returns it.
    pub fn verify<'a>(
        &self,
        bytes: &'a [u8],
        pointer: ValuePointer,
        keyspace: KeyspaceId,
        key: &[u8],
        seq: SeqNo,
    ) -> Result<Record<'a>> {
        let record = Record::parse(bytes, self.identity, pointer.offset);
        self.matching(record, pointer, keyspace, key, seq)
    }

    /// Verifies that `bytes`, read at `pointer`, are a record of (`keyspace`, `key`), with any
    /// sequence number; none if it is one of another key.
    pub fn verify_key<'a>(
        &self,
        bytes: &'a [u8],
        pointer: ValuePointer,
        keyspace: KeyspaceId,
        key: &[u8],
    ) -> Result<Option<Record<'a>>> {
        let record = Record::parse(bytes, self.identity, pointer.offset)
            .map_err(|e| self.damaged(pointer.offset, e.message()))?;
        let same = record.key == key && record.header.keyspace == keyspace;
        if same && record.header.record_len() != pointer.len as usize {
            return Err(self.damaged(pointer.offset, "a record has another length than is known"));
        }
        Ok(same.then_some(record))
    }

    /// The record at `pointer`, verified to be that of (`keyspace`, `key`, `seq`), if the log's
    /// window, which is `held`, has it in one piece. Its payload checksum is not compared: the
    /// bytes have not left memory since they were stored.
    #[inline]
    pub fn in_window<'h>(
        &self,
        held: &'h BufferPin<'_>,
        pointer: ValuePointer,
        keyspace: KeyspaceId,
        key: &[u8],
        seq: SeqNo,
    ) -> Option<Result<Record<'h>>> {
        let (_, base) = self.young.as_ref()?;
        let bytes = held.bytes(base + pointer.offset, pointer.len as usize)?;
        let record = Record::parse_own(bytes, self.identity, pointer.offset);
        Some(self.matching(record, pointer, keyspace, key, seq))
    }

    /// `record`, if it is the one that the index entry names.
    #[inline]
    fn matching<'a>(
        &self,
        record: Result<Record<'a>>,
        pointer: ValuePointer,
        keyspace: KeyspaceId,
        key: &[u8],
        seq: SeqNo,
    ) -> Result<Record<'a>> {
        let record = record.map_err(|e| self.damaged_value(pointer.offset, e.message(), key))?;
        let header = &record.header;
        // The file of a blob is written before its commit has a sequence number. It has one value.
        let same_seq = header.seq == seq || header.kind == RecordKind::BlobEnd;
        let same = record.key == key && same_seq && header.keyspace == keyspace;
        if !same || header.record_len() != pointer.len as usize {
            let what = "a pointer leads to another key's record";
            return Err(self.damaged_value(pointer.offset, what, key));
        }
        Ok(record)
    }
}

impl Drop for Segment {
    fn drop(&mut self) {
        // Relaxed: a drop has exclusive access.
        if !self.obsolete.load(Ordering::Relaxed) {
            return;
        }
        match self.earlier.take() {
            Some(earlier) => earlier.mark_obsolete(),
            None => self.enqueue(),
        }
    }
}

/// Writes a segment front to back, in large aligned pieces.
pub struct SegmentWriter {
    name: Name,
    identity: FileIdentity,
    file: Arc<dyn File>,
    buf: AlignedBuf,
    /// Offset of `buf[0]` in the file.
    flushed: u64,
}

impl SegmentWriter {
    /// Begins the segment `name` of `database_id` in the new, empty `file`.
    pub fn create(name: Name, database_id: u64, file: Arc<dyn File>) -> Result<Self> {
        let number = name.number();
        let header = FileHeader { database_id, number, base: 0, previous_end: 0, durable: 0 };
        let mut writer = Self {
            name,
            identity: FileIdentity::new(database_id, number),
            file,
            buf: AlignedBuf::with_capacity(WRITE_LEN),
            flushed: 0,
        };
        writer.push(&header.encode())?;
        Ok(writer)
    }

    /// Seeds the checksums of its records.
    pub fn identity(&self) -> FileIdentity {
        self.identity
    }

    /// Bytes appended so far.
    pub fn len(&self) -> u64 {
        self.flushed + self.buf.len() as u64
    }

    /// Whether no record was appended.
    pub fn is_empty(&self) -> bool {
        self.len() == FileHeader::RECORD_LEN as u64
    }

    /// Whether `len` more bytes fit the buffer, so that no call of the storage is needed.
    pub fn has_room(&self, len: usize) -> bool {
        self.buf.len() + len < WRITE_LEN
    }

    /// Appends a record with its payload checksum unchanged, and returns its place.
    #[inline]
    pub fn append(&mut self, header: &Header, key: &[u8], value: &[u8]) -> Result<ValuePointer> {
        let offset = self.len();
        self.push(&header.encode(self.identity, offset))?;
        self.push(key)?;
        self.push(value)?;
        Ok(ValuePointer { file: self.name.number(), offset, len: header.record_len() as u32 })
    }

    /// Appends a record that is copied in pieces, and returns its place. If that fails, a part of
    /// it was appended: this file must not be used.
    pub fn append_far(&mut self, record: &FarRecord<'_>) -> Result<ValuePointer> {
        let header = Header { more: false, ..record.header };
        let offset = self.len();
        self.push(&header.encode(self.identity, offset))?;
        self.push(&record.key)?;
        record.visit(|piece| self.push(piece))?;
        Ok(ValuePointer { file: self.name.number(), offset, len: header.record_len() as u32 })
    }

    /// Pads with zeros to a block, where an extent begins and ends.
    pub fn align(&mut self) -> Result<()> {
        let len = self.len();
        let padding = len.next_multiple_of(BLOCK as u64) - len;
        self.push(&[0; BLOCK][..padding as usize])
    }

    fn push(&mut self, mut bytes: &[u8]) -> Result<()> {
        while !bytes.is_empty() {
            let room = WRITE_LEN - self.buf.len();
            let (now, later) = bytes.split_at(room.min(bytes.len()));
            self.buf.extend_from_slice(now);
            bytes = later;
            if self.buf.len() == WRITE_LEN {
                self.write_out()?;
            }
        }
        Ok(())
    }

    fn write_out(&mut self) -> Result<()> {
        write_all_at(&*self.file, &self.buf, self.flushed).map_err(|e| {
            Error::io("write a segment", e).with("file", self.name).with("offset", self.flushed)
        })?;
        self.flushed += self.buf.len() as u64;
        self.buf.clear();
        Ok(())
    }

    /// Writes the rest, padded with zeros to a block, and syncs; returns the length up to the last
    /// record.
    pub fn finish(mut self) -> Result<u64> {
        let len = self.len();
        self.align()?;
        if !self.buf.is_empty() {
            self.write_out()?;
        }
        if self.name.kind() == FileKind::Segment && planted(Bug::SegmentNotSynced) {
            return Ok(len);
        }
        self.file.sync().map_err(|e| Error::sync_failed("a segment", e).with("file", self.name))?;
        Ok(len)
    }
}
