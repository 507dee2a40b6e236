//! A reader of one value, which reads a blob piece by piece.

use std::fmt;
use std::io::{self, Read, Seek, SeekFrom};
use std::ops::Range;
use std::time::SystemTime;

use bytes::Bytes;
use cleavedb_base::{Expiry, Lasting, Result, SeqNo, ValuePointer};
use cleavedb_values::{Blob, SegmentSet};

/// Bytes of a blob that are read at once, and read ahead.
const CHUNK: u64 = 1 << 20;

/// A value as a read has found it.
pub(crate) enum FoundValue {
    /// All of it.
    Whole(Bytes),
    /// The file that it has for itself.
    Blob(Blob),
}

impl FoundValue {
    /// The value of (`encoded_key`, `seq`) at `pointer`, if it has a lone file, of which nothing
    /// but the end is read here.
    pub(crate) fn lone(
        segments: &SegmentSet,
        pointer: ValuePointer,
        encoded_key: &[u8],
        seq: SeqNo,
    ) -> Result<Option<Self>> {
        Ok(segments.blob(pointer, encoded_key, seq)?.map(Self::Blob))
    }

    fn len(&self) -> u64 {
        match self {
            Self::Whole(value) => value.len() as u64,
            Self::Blob(blob) => blob.len,
        }
    }

    /// The bytes of a range, as far as the value has them.
    pub(crate) fn range(&self, range: Range<u64>) -> Result<Bytes> {
        let end = range.end.min(self.len());
        let range = range.start.min(end)..end;
        match self {
            // Copied, so that a short part does not keep all of a long value in memory.
            Self::Whole(value) => {
                let part = &value[range.start as usize..range.end as usize];
                Ok(Bytes::copy_from_slice(part))
            }
            Self::Blob(blob) => {
                let mut part = Vec::with_capacity((range.end - range.start) as usize);
                blob.read(range, |piece| {
                    part.extend_from_slice(piece);
                    Ok(())
                })?;
                Ok(part.into())
            }
        }
    }
}

/// The value of a key, to be read from front to back or from any place: see
/// [`crate::Keyspace::get_reader`]. It takes about 1 MiB of memory for a value that was put by
/// [`crate::Keyspace::put_reader`], and the length of any other.
///
/// It stays what it was when it was taken, whatever is written later. While it is held, the value
/// takes space. Its errors have an [`crate::Error`] as their source.
pub struct ValueReader {
    value: FoundValue,
    until: Expiry,
    position: u64,
    /// The part of a blob that was read last, and where it begins.
    chunk: (u64, Bytes),
}

impl ValueReader {
    pub(crate) fn new(Lasting { value, until }: Lasting<FoundValue>) -> Self {
        Self { value, until, position: 0, chunk: (0, Bytes::new()) }
    }

    /// The value, unless it has a file for itself; then a reader of it.
    pub(crate) fn whole(self) -> std::result::Result<Bytes, Self> {
        match self.value {
            FoundValue::Whole(value) => Ok(value),
            FoundValue::Blob(_) => Err(self),
        }
    }

    /// When the value expires, if it does.
    pub fn expires(&self) -> Option<SystemTime> {
        self.until.time()
    }

    /// Length of the value, in bytes.
    pub fn len(&self) -> u64 {
        self.value.len()
    }

    /// Whether the value has no byte.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// What is in memory from the position on; nothing at the end.
    fn rest(&mut self) -> io::Result<&[u8]> {
        let position = self.position;
        let blob = match &self.value {
            FoundValue::Whole(value) => {
                let from = usize::try_from(position).unwrap_or(usize::MAX);
                return Ok(value.get(from..).unwrap_or_default());
            }
            FoundValue::Blob(blob) => blob,
        };
        let has = |(begin, bytes): &(u64, Bytes)| {
            (*begin..*begin + bytes.len() as u64).contains(&position)
        };
        if position >= blob.len {
            return Ok(&[]);
        }
        if !has(&self.chunk) {
            let begin = position - position % CHUNK;
            let end = begin + CHUNK;
            let is_next = self.chunk.0 + CHUNK == begin;
            let read = self.value.range(begin..end).map_err(io::Error::other)?;
            if is_next {
                blob.will_need(end..end + CHUNK);
            }
            self.chunk = (begin, read);
        }
        let (begin, bytes) = &self.chunk;
        Ok(&bytes[(position - begin) as usize..])
    }
}

impl Read for ValueReader {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let read = self.rest()?.read(buf)?;
        self.position += read as u64;
        Ok(read)
    }
}

impl io::BufRead for ValueReader {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        self.rest()
    }

    fn consume(&mut self, amount: usize) {
        self.position += amount as u64;
    }
}

impl Seek for ValueReader {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let at = match to {
            SeekFrom::Start(at) => Some(at),
            SeekFrom::End(by) => self.len().checked_add_signed(by),
            SeekFrom::Current(by) => self.position.checked_add_signed(by),
        };
        let what = "a place before the first byte of a value, or beyond all numbers";
        self.position = at.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, what))?;
        Ok(self.position)
    }
}

impl fmt::Debug for ValueReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { position, .. } = self;
        f.debug_struct("ValueReader")
            .field("len", &self.len())
            .field("position", position)
            .finish_non_exhaustive()
    }
}
