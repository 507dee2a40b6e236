//! Where a record lies: the number of its file, its offset there, and its length.
//!
//! A pointer names a *record*, not bare value bytes: a reader fetches the whole record and verifies
//! that keyspace, key and sequence number are those of the index entry (invariant 6).

use crate::codec::{Cursor, put_varint, write_varint};
use crate::error::Result;
use crate::expiry::{Expiry, Lasting};
use crate::key::EntryKind;

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
    /// Longest encoding of an index entry, in bytes, an expiry included.
    pub const ENCODED_LEN_MAX: usize = Expiry::LEN + 25;

    /// The encoding of an index entry, three varints, at the front of `out`; returns its length.
    /// See `docs/format.md`, "Pointer". It needs no allocation, since every commit makes one.
    #[inline]
    pub fn encode(&self, out: &mut EntryRoom) -> usize {
        self.encode_at(0, out)
    }

    /// Kind and length of the index entry of a value, which is written to the front of `out`.
    #[inline]
    pub fn encode_entry(pointer: Lasting<Self>, out: &mut EntryRoom) -> (EntryKind, usize) {
        if pointer.until.is_never() {
            return (EntryKind::Pointer, pointer.value.encode(out));
        }
        Self::encode_expiring(pointer, out)
    }

    /// A function of its own, so that values without an expiry do not carry its code.
    #[inline(never)]
    fn encode_expiring(pointer: Lasting<Self>, out: &mut EntryRoom) -> (EntryKind, usize) {
        out[..Expiry::LEN].copy_from_slice(&pointer.until.encode());
        (EntryKind::Pointer.expiring(true), pointer.value.encode_at(Expiry::LEN, out))
    }

    #[inline]
    fn encode_at(&self, from: usize, out: &mut EntryRoom) -> usize {
        let fields = [self.file.0, self.offset, u64::from(self.len)];
        fields.into_iter().fold(from, |at, field| at + write_varint(&mut out[at..], field))
    }

    /// As [`ValuePointer::encode_entry`], for a value that has moved here from where an entry of
    /// this kind and value says.
    #[inline]
    pub fn encode_moved(
        &self,
        kind: EntryKind,
        value: &[u8],
        out: &mut EntryRoom,
    ) -> Result<(EntryKind, usize)> {
        Ok(Self::encode_entry(kind.split(value)?.map(|_| *self), out))
    }

    /// The pointer of an index entry of this kind.
    #[inline]
    pub fn of_entry(kind: EntryKind, value: &[u8]) -> Result<Lasting<Self>> {
        debug_assert!(kind.is_pointer(), "an entry of another kind has no pointer");
        let Lasting { value, until } = kind.split(value)?;
        Ok(Lasting { value: Self::decode(value)?, until })
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

/// Buffer for the encoding of an index entry.
pub type EntryRoom = [u8; ValuePointer::ENCODED_LEN_MAX];

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
        let len = pointer.encode(&mut out);
        assert_eq!(ValuePointer::decode(&out[..len]).unwrap(), pointer);
        assert!(ValuePointer::decode(&out[..=len]).is_err());
        for until in [Expiry::NEVER, Expiry::at(0), Expiry::at(1_800_000_000_000)] {
            let value = Lasting { value: pointer, until };
            let (kind, len) = ValuePointer::encode_entry(value, &mut out);
            assert_eq!(kind.expires(), !until.is_never());
            assert_eq!(ValuePointer::of_entry(kind, &out[..len]).unwrap(), value);
            assert!(ValuePointer::of_entry(kind, &out[..len - 1]).is_err());
        }
    }
}
