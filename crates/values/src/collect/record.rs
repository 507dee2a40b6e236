//! The records that a collection finds, and the versions of their keys, in memory.
//!
//! A victim may have half a million records, so each takes little memory: keys and group
//! tombstones' values are stored side by side in an arena that is freed with the collection, and a
//! pointer is kept decoded.

pub use bumpalo::Bump as Arena;

use cleavedb_base::record::{Record, RecordKind};
use cleavedb_base::{EncodedKey, EntryKind, Error, Result, SeqNo, ValuePointer};

/// Content of a version of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    /// The key is deleted.
    Delete,
    /// The value itself, which lies in the index.
    Inline(Box<[u8]>),
    /// The pointer to the value.
    Pointer(ValuePointer),
    /// The key is hot: the value is in the hot store.
    Hot,
}

impl Content {
    /// The content of an index entry of this kind.
    pub fn of(kind: EntryKind, value: &[u8]) -> Result<Self> {
        Ok(match kind {
            EntryKind::Delete => Self::Delete,
            EntryKind::Inline => Self::Inline(value.into()),
            EntryKind::Pointer => Self::Pointer(ValuePointer::decode(value)?),
            EntryKind::Hot => Self::Hot,
        })
    }

    /// The kind and value of an index entry with this content: an inline value, a pointer encoded
    /// in `room`, or nothing.
    pub fn as_entry<'a>(
        &'a self,
        room: &'a mut [u8; ValuePointer::ENCODED_LEN_MAX],
    ) -> (EntryKind, &'a [u8]) {
        match self {
            Self::Delete => (EntryKind::Delete, &[]),
            Self::Hot => (EntryKind::Hot, &[]),
            Self::Inline(value) => (EntryKind::Inline, value),
            Self::Pointer(pointer) => {
                let len = pointer.encode(room);
                (EntryKind::Pointer, &room[..len])
            }
        }
    }
}

/// A version of a key that the read point or a live snapshot can see.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Visible {
    /// Its sequence number.
    pub seq: SeqNo,
    /// Its content.
    pub content: Content,
    /// Whether it is in a table; versions in memory are younger than any run and need no repeat.
    pub in_table: bool,
}

/// A record found in a victim.
#[derive(Clone, Copy, Debug)]
pub struct ScannedRecord<'a> {
    /// Its tree key, followed by the value if it is a group tombstone.
    bytes: &'a [u8],
    key_len: u32,
    /// Its kind: a value, a group tombstone or a tag.
    pub kind: RecordKind,
    /// Its sequence number.
    pub seq: SeqNo,
    /// Its place.
    pub pointer: ValuePointer,
}

impl<'a> ScannedRecord<'a> {
    /// The record at `pointer`.
    pub(crate) fn new(
        record: &Record<'_>,
        pointer: ValuePointer,
        arena: &'a Arena,
    ) -> Result<Self> {
        let kind = record.header.kind;
        let value = match kind {
            RecordKind::Inline => record.value,
            RecordKind::Delete | RecordKind::Separated | RecordKind::Tag => &[],
            _ => return Err(Error::corruption("a record of the store's own lies among values")),
        };
        let key = EncodedKey::new(record.header.keyspace, record.key);
        let key = key.as_bytes();
        let bytes = arena.alloc_slice_fill_copy(key.len() + value.len(), 0);
        bytes[..key.len()].copy_from_slice(key);
        bytes[key.len()..].copy_from_slice(value);
        Ok(Self { bytes, key_len: key.len() as u32, kind, seq: record.header.seq, pointer })
    }

    /// Its tree key.
    pub fn key(&self) -> &'a [u8] {
        &self.bytes[..self.key_len as usize]
    }

    /// Whether it only marks older records of its key as dead.
    pub fn is_tombstone(&self) -> bool {
        matches!(self.kind, RecordKind::Delete | RecordKind::Inline)
    }

    /// Whether its value is in the cold log.
    pub fn is_tag(&self) -> bool {
        self.kind == RecordKind::Tag
    }

    /// The version that a table of the index should hold for it. None for a tag, which does not
    /// hold the pointer of its version.
    pub fn as_visible(&self) -> Option<Visible> {
        let content = match self.kind {
            RecordKind::Separated => Content::Pointer(self.pointer),
            RecordKind::Inline => Content::Inline(self.bytes[self.key_len as usize..].into()),
            RecordKind::Delete => Content::Delete,
            _ => return None,
        };
        Some(Visible { seq: self.seq, content, in_table: true })
    }
}

#[cfg(test)]
impl<'a> ScannedRecord<'a> {
    /// A record of `key`, at sequence number 5.
    pub(crate) fn sample(key: &'a [u8], kind: RecordKind, pointer: ValuePointer) -> Self {
        Self { bytes: key, key_len: key.len() as u32, kind, seq: 5, pointer }
    }
}

#[cfg(test)]
mod tests {
    use cleavedb_base::record::Header;
    use cleavedb_base::{FileNumber, KeyspaceId};

    use super::*;

    const POINTER: ValuePointer = ValuePointer { file: FileNumber(9), offset: 4096, len: 60 };

    #[test]
    fn contents_are_entries_and_back() {
        let mut room = [0; ValuePointer::ENCODED_LEN_MAX];
        let inline = Content::Inline(b"small"[..].into());
        for content in [Content::Delete, inline, Content::Hot, Content::Pointer(POINTER)] {
            let (kind, value) = content.as_entry(&mut room);
            assert_eq!(Content::of(kind, value).unwrap(), content);
        }
        assert!(Content::of(EntryKind::Pointer, b"").is_err());
    }

    #[test]
    fn a_found_record_keeps_what_the_index_should_hold() {
        let arena = Arena::new();
        let found = |kind| {
            let header = Header::new(kind, KeyspaceId(1), 7, b"key", b"value");
            let record = Record { header, key: b"key", value: b"value" };
            ScannedRecord::new(&record, POINTER, &arena)
        };
        let says = |kind| {
            let found = found(kind).unwrap();
            assert_eq!(found.key(), EncodedKey::new(KeyspaceId(1), b"key").as_bytes());
            found.as_visible().map(|visible| visible.content)
        };
        assert_eq!(says(RecordKind::Separated), Some(Content::Pointer(POINTER)));
        assert_eq!(says(RecordKind::Inline), Some(Content::Inline(b"value"[..].into())));
        assert_eq!(says(RecordKind::Delete), Some(Content::Delete));
        assert_eq!(says(RecordKind::Tag), None);
        assert!(found(RecordKind::Filter).is_err());
    }
}
