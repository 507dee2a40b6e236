//! Where a record lies: the number of its file, its offset there, and its length.
//!
//! A pointer names a *record*, not bare value bytes: a reader fetches the whole record and verifies
//! that keyspace, key and sequence number are those of the index entry (invariant 6).

use crate::codec::{Cursor, put_varint, write_varint};
use crate::error::Result;

/// Number of a file; unique for the life of a database, shared by all kinds of files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileNumber(pub u64);

impl std::fmt::Display for FileNumber {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:06}", self.0)
    }
}

/// Place of a separated value's record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ValuePointer {
    /// Log file or segment that holds the record.
    pub file: FileNumber,
    /// Offset of the record's header in that file, in bytes.
    pub offset: u64,
    /// Length of the whole record, header included, in bytes.
    pub len: u32,
}

impl ValuePointer {
    /// Longest encoding, in bytes.
    pub const ENCODED_LEN_MAX: usize = 25;

    /// The encoding of an index entry, three varints, at the front of `out`; returns its length.
    /// See `docs/format.md`, "Pointer". It needs no allocation, since every commit makes one.
    #[inline]
    pub fn encode(&self, out: &mut [u8; Self::ENCODED_LEN_MAX]) -> usize {
        let fields = [self.file.0, self.offset, u64::from(self.len)];
        fields.into_iter().fold(0, |at, field| at + write_varint(&mut out[at..], field))
    }

    /// Reads a pointer that fills `bytes` exactly.
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        let mut cursor = Cursor::new(bytes, "value pointer");
        let file = FileNumber(cursor.varint()?);
        let offset = cursor.varint()?;
        let len = cursor.varint_u32()?;
        cursor.end()?;
        Ok(Self { file, offset, len })
    }
}

/// Beginning of an extent of a group or of the hot store, which identifies it in edits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Location {
    /// The group file.
    pub file: FileNumber,
    /// Offset of its first byte, a multiple of a block.
    pub offset: u64,
}

impl Location {
    /// The place at which a log file or segment counts its live bytes: its first byte, where no
    /// extent of a group begins.
    pub fn of_file(file: FileNumber) -> Self {
        Self { file, offset: 0 }
    }

    /// Appends the encoding: two varints.
    pub fn encode(self, out: &mut Vec<u8>) {
        put_varint(out, self.file.0);
        put_varint(out, self.offset);
    }

    /// Reads a place.
    pub fn decode(cursor: &mut Cursor<'_>) -> Result<Self> {
        Ok(Self { file: FileNumber(cursor.varint()?), offset: cursor.varint()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pointers_round_trip_and_refuse_trailing_bytes() {
        let pointer = ValuePointer { file: FileNumber(u64::MAX), offset: u64::MAX, len: u32::MAX };
        let mut out = [0; ValuePointer::ENCODED_LEN_MAX];
        assert_eq!(pointer.encode(&mut out), out.len());
        assert_eq!(ValuePointer::decode(&out).unwrap(), pointer);
        assert!(ValuePointer::decode(&[&out[..], &[0]].concat()).is_err());
    }
}
