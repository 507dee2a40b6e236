//! Blobs: values that have a file of their own, in pieces that are read and verified one by one.
//!
//! All pieces but the last have one length, so the place of each follows from its number, and the
//! length of the blob from the place of the record behind the last piece, which the index points
//! to: `docs/format.md`, "Blob".

use std::ops::Range;
use std::sync::Arc;

use cleavedb_base::record::{HEADER_LEN, Header, Record, RecordKind};
use cleavedb_base::{EncodedKey, KeyspaceId, Result, ValuePointer};

use super::{Segment, SegmentWriter};
use crate::api::File;
use crate::log::FileHeader;
use crate::name::Name;

/// Bytes of a piece, but for the last one.
pub const BLOB_PIECE: usize = 64 << 10;

/// Longest blob, in bytes: it stops a reader that has no end.
pub const LEN_MAX: u64 = 1 << 40;

/// Pieces that are read at once.
const READ_PIECES: u64 = 16;

/// Bytes of a whole piece with its header.
const RECORD: u64 = (HEADER_LEN + BLOB_PIECE) as u64;

/// Where the first piece begins.
const BEGIN: u64 = FileHeader::RECORD_LEN as u64;

/// Where the record behind the last piece of a blob of `len` bytes begins.
fn end_of(len: u64) -> u64 {
    BEGIN + len + len.div_ceil(BLOB_PIECE as u64) * HEADER_LEN as u64
}

/// Length of the blob whose end `pointer` names, in bytes; `None` if no blob ends there.
pub fn blob_len(pointer: ValuePointer) -> Option<u64> {
    // A place beyond all blobs is damage, and would overflow the sums.
    let pieces = pointer.offset.checked_sub(BEGIN).filter(|pieces| *pieces <= 2 * LEN_MAX)?;
    let headers = pieces.div_ceil(RECORD) * HEADER_LEN as u64;
    pieces.checked_sub(headers).filter(|len| end_of(*len) == pointer.offset)
}

/// Writes a blob front to back.
pub struct BlobWriter {
    writer: SegmentWriter,
    /// The piece that is not full yet.
    piece: Vec<u8>,
    len: u64,
}

impl BlobWriter {
    /// Begins the blob `name` of `database_id` in the new, empty `file`.
    pub fn create(name: Name, database_id: u64, file: Arc<dyn File>) -> Result<Self> {
        let writer = SegmentWriter::create(name, database_id, file)?;
        Ok(Self { writer, piece: Vec::with_capacity(BLOB_PIECE), len: 0 })
    }

    /// Bytes of the blob so far.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether it has no byte yet.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Appends the next bytes of the blob.
    pub fn write(&mut self, mut bytes: &[u8]) -> Result<()> {
        self.len += bytes.len() as u64;
        while !bytes.is_empty() {
            let (now, later) = bytes.split_at(bytes.len().min(BLOB_PIECE - self.piece.len()));
            self.piece.extend_from_slice(now);
            bytes = later;
            if self.piece.len() == BLOB_PIECE {
                self.end_piece()?;
            }
        }
        Ok(())
    }

    fn end_piece(&mut self) -> Result<()> {
        let header = Header::new(RecordKind::BlobPiece, KeyspaceId(0), 0, &[], &self.piece);
        self.writer.append(&header, &[], &self.piece)?;
        self.piece.clear();
        Ok(())
    }

    /// Ends the blob as the value of a key, and syncs the file. Returns what the index points to,
    /// and the length of the file.
    pub fn finish(mut self, keyspace: KeyspaceId, key: &[u8]) -> Result<(ValuePointer, u64)> {
        if !self.piece.is_empty() {
            self.end_piece()?;
        }
        let len = self.len.to_le_bytes();
        let header = Header::new(RecordKind::BlobEnd, keyspace, 0, key, &len);
        let pointer = self.writer.append(&header, key, &len)?;
        debug_assert_eq!(blob_len(pointer), Some(self.len));
        Ok((pointer, self.writer.finish()?))
    }
}

impl Segment {
    /// Fails unless `end`, the record at `pointer`, is the end of a blob; returns its length.
    pub fn blob_of(&self, end: &Record<'_>, pointer: ValuePointer) -> Result<u64> {
        let stated = end.value.try_into().map(u64::from_le_bytes).ok();
        let len = blob_len(pointer).filter(|len| stated == Some(*len));
        len.filter(|_| end.header.kind == RecordKind::BlobEnd)
            .ok_or_else(|| self.damaged(pointer.offset, "the end of a blob does not fit its place"))
    }

    /// The tree key of the blob whose file ends at `file_len`: it stands in the last record.
    pub fn blob_key(&self, file_len: u64) -> Result<EncodedKey> {
        // A key is longer than a piece may be, so the last pieces are walked through.
        let pieces = (file_len.saturating_sub(BEGIN) / RECORD).saturating_sub(2);
        let mut offset = end_of(pieces * BLOB_PIECE as u64);
        let mut bytes = vec![0; file_len.saturating_sub(offset) as usize];
        self.read(offset, &mut bytes)?;
        let mut rest = &bytes[..];
        loop {
            let record = Record::parse(rest, self.identity(), offset);
            let record = record.map_err(|e| self.damaged(offset, e.message()))?;
            let header = &record.header;
            if header.kind == RecordKind::BlobEnd {
                return Ok(EncodedKey::new(header.keyspace, record.key));
            }
            rest = &rest[header.record_len()..];
            offset += header.record_len() as u64;
        }
    }

    /// Passes the bytes of a `range` of the blob of `len` bytes to `visit`, piece by piece; each
    /// piece is verified first.
    pub fn read_blob(
        &self,
        len: u64,
        range: Range<u64>,
        mut visit: impl FnMut(&[u8]) -> Result<()>,
    ) -> Result<()> {
        let piece = BLOB_PIECE as u64;
        let end = range.end.min(len).div_ceil(piece);
        let mut first = range.start / piece;
        let mut bytes = Vec::new();
        while first < end {
            let behind = end.min(first + READ_PIECES);
            let (from, to) = (end_of(first * piece), end_of(len.min(behind * piece)));
            bytes.resize((to - from) as usize, 0);
            self.read(from, &mut bytes)?;
            let mut at = 0;
            for number in first..behind {
                let begin = number * piece;
                let expected = piece.min(len - begin);
                let value = self.piece(&bytes[at..], from + at as u64, expected)?;
                at += HEADER_LEN + value.len();
                let skipped = range.start.saturating_sub(begin).min(expected) as usize;
                let wanted = (range.end - begin).min(expected) as usize;
                visit(&value[skipped..wanted])?;
            }
            first = behind;
        }
        Ok(())
    }

    /// The piece in front of `bytes`, which were read at `offset`.
    fn piece<'b>(&self, bytes: &'b [u8], offset: u64, len: u64) -> Result<&'b [u8]> {
        let record = Record::parse(bytes, self.identity(), offset);
        let record = record.map_err(|e| self.damaged(offset, e.message()))?;
        let is_it = record.header.kind == RecordKind::BlobPiece && record.key.is_empty();
        if !is_it || record.value.len() as u64 != len {
            return Err(self.damaged(offset, "a blob has another record in the place of a piece"));
        }
        Ok(record.value)
    }

    /// Announces that the `range` of the blob of `len` bytes will be read soon.
    pub fn will_need_blob(&self, len: u64, range: Range<u64>) {
        let piece = BLOB_PIECE as u64;
        let (first, behind) = (range.start / piece, range.end.min(len).div_ceil(piece));
        if first < behind {
            let (from, to) = (end_of(first * piece), end_of(len.min(behind * piece)));
            self.will_need(from, (to - from) as usize);
        }
    }
}

#[cfg(test)]
mod tests {
    use cleavedb_base::FileNumber;

    use super::*;

    #[test]
    fn the_length_of_a_blob_follows_from_its_end_and_no_other_place_is_an_end() {
        let piece = BLOB_PIECE as u64;
        let at = |offset| blob_len(ValuePointer { file: FileNumber(1), offset, len: 40 });
        for len in [0, 1, piece - 1, piece, piece + 1, 3 * piece, 1 << 40] {
            assert_eq!(at(end_of(len)), Some(len));
        }
        assert_eq!((at(u64::MAX), at(u64::MAX - 77)), (None, None));
        assert_eq!((at(0), at(BEGIN - 1), at(BEGIN + 1)), (None, None, None));
        assert_eq!(at(BEGIN + HEADER_LEN as u64), None, "a piece without a byte");
        assert_eq!(at(BEGIN + RECORD + HEADER_LEN as u64), None);
    }
}
