//! Reads an extent: front to back in pieces, or only its key block, and then its survivors in the
//! same order.
//!
//! A group is as long as several main segments, so a collection does not hold it in memory: it
//! reads an extent once to find its records, and then its survivors again. Survivors are read in
//! the order of their places or, where groups keep the order of keys, of their keys, which is the
//! order within each extent: the second pass also goes front to back in every extent.

use std::ops::Range;
use std::sync::Arc;

use cleavedb_base::record::{HEADER_LEN, Header, Record};
use cleavedb_base::{Error, Result, ValuePointer};
use cleavedb_storage::segment::{FarRecord, is_far};

use super::extent::Location;
use super::handle::ExtentHandle;
use super::key_block;

/// Bytes that a scan reads at once.
const PIECE: u64 = 256 << 10;

/// A collection holds a piece of each extent of its victim while it copies survivors: the bytes of
/// all pieces together, and the least of one.
const PIECES: u64 = 8 << 20;
const PIECE_MIN: u64 = 16 << 10;

/// Reads records of one extent.
pub struct ExtentReader {
    handle: Arc<ExtentHandle>,
    /// Bytes of survivors that are read at once.
    piece_bytes: u64,
    piece: Vec<u8>,
    /// Offset of the piece in the file.
    at: u64,
}

impl ExtentReader {
    /// A reader of the records of `handle`'s extent, which is one of `extents` that are read
    /// together.
    pub fn new(handle: Arc<ExtentHandle>, extents: usize) -> Self {
        let piece_bytes = (PIECES / extents.max(1) as u64).clamp(PIECE_MIN, PIECE);
        Self { at: handle.place().offset, handle, piece_bytes, piece: Vec::new() }
    }

    /// The beginning of the extent.
    pub fn place(&self) -> Location {
        self.handle.place()
    }

    /// Offset behind the last record.
    fn end(&self) -> u64 {
        self.handle.place().offset + self.handle.records_len()
    }

    /// Whether the record at this place belongs to the extent.
    pub fn holds(&self, place: Location) -> bool {
        self.handle.holds(place)
    }

    /// Whether the extent has a key block, so that only its survivors are read.
    pub fn has_key_block(&self) -> bool {
        self.handle.key_block_len() > 0
    }

    /// Announces that these bytes of surviving records will be read soon, unless a scan has read
    /// them.
    pub fn will_need(&self, range: Range<u64>) {
        if self.has_key_block() {
            self.handle.segment().will_need(range.start, (range.end - range.start) as usize);
        }
    }

    /// Passes every record to `visit`, front to back, and frees what was read. Listed records and
    /// far ones come without their separated values. Returns the bytes that were read.
    pub fn scan(
        &mut self,
        mut visit: impl FnMut(&Record<'_>, ValuePointer) -> Result<()>,
    ) -> Result<u64> {
        let (place, end) = (self.place(), self.end());
        if let Some(bytes) = self.handle.read_key_block()? {
            key_block::visit(&bytes, self.handle.segment().identity(), place, end, visit)?;
            return Ok(self.handle.key_block_len());
        }
        let Location { file, mut offset } = place;
        while offset < end {
            let pointer =
                |header: &Header| ValuePointer { file, offset, len: header.record_len() as u32 };
            let far = self
                .header_at(offset)?
                .filter(|header| header.kind.is_separated() && is_far(pointer(header)));
            if let Some(header) = far {
                let record = self.far(pointer(&header))?;
                record.visit(|_| Ok(()))?;
                visit(
                    &Record { header, key: &record.key, value: &record.front },
                    pointer(&header),
                )?;
                offset += header.record_len() as u64;
                continue;
            }
            let record = self.record_at(offset, PIECE)?;
            visit(&record, pointer(&record.header))?;
            offset += record.header.record_len() as u64;
        }
        self.piece = Vec::new();
        Ok(self.handle.records_len())
    }

    /// The record of a survivor, verified.
    pub fn record(&mut self, survivor: ValuePointer) -> Result<Record<'_>> {
        let whole = self.has_key_block();
        let piece = if whole { u64::from(survivor.len) } else { self.piece_bytes };
        self.record_at(survivor.offset, piece)
    }

    /// The record of a survivor, to be copied in pieces.
    pub fn far(&self, survivor: ValuePointer) -> Result<FarRecord<'_>> {
        self.handle.segment().far(survivor)
    }

    /// The header at `offset`, if it is valid.
    fn header_at(&mut self, offset: u64) -> Result<Option<Header>> {
        self.fill(offset, HEADER_LEN as u64, PIECE)?;
        Ok(Header::decode(self.from(offset), self.handle.segment().identity(), offset))
    }

    /// The record at `offset` of the file, verified; reads `piece` bytes, or more.
    fn record_at(&mut self, offset: u64, piece: u64) -> Result<Record<'_>> {
        self.fill(offset, HEADER_LEN as u64, piece)?;
        let identity = self.handle.segment().identity();
        // An invalid header is reported by the check of the record.
        if let Some(header) = Header::decode(self.from(offset), identity, offset) {
            self.fill(offset, header.record_len() as u64, piece)?;
        }
        Record::parse(self.from(offset), identity, offset)
            .map_err(|e| e.with("file", self.handle.segment().name()))
    }

    fn from(&self, offset: u64) -> &[u8] {
        &self.piece[(offset - self.at) as usize..]
    }

    /// Loads `len` bytes at `offset`, and following ones up to `piece` bytes.
    fn fill(&mut self, offset: u64, len: u64, piece: u64) -> Result<()> {
        let held = self.at..self.at + self.piece.len() as u64;
        if held.start <= offset && offset + len <= held.end {
            return Ok(());
        }
        if offset + len > self.end() {
            let what = "a record is longer than its extent";
            let error = Error::corruption(what).with("file", self.handle.segment().name());
            return Err(error.with("offset", offset));
        }
        self.piece.resize(len.max(piece).min(self.end() - offset) as usize, 0);
        self.at = offset;
        self.handle.segment().read(offset, &mut self.piece)
    }
}
