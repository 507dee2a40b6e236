//! The records that a collection finds, and the versions of their keys, in memory.
//!
//! A victim may have half a million records, so each takes little memory: keys and group
//! tombstones' values are stored side by side in an arena that is freed with the collection, and a
//! pointer is kept decoded.

use cleavedb_base::record::{Record, RecordKind};
use cleavedb_base::{
    EncodedKey, EntryKind, EntryRoom, Error, Lasting, Result, SeqNo, ValuePointer,
};
use cleavedb_storage::mapped::Arena;

/// Content of a version of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    /// The key is deleted.
    Delete,
    /// The value itself, which lies in the index, or an operand of a merge, and the kind of its
    /// entry.
    Inline(EntryKind, Box<[u8]>),
    /// The pointer to the value.
    Pointer(Lasting<ValuePointer>),
    /// The key is hot: the value is in the hot store.
    Marker,
}

impl Content {
    /// The content of an index entry of this kind.
    pub fn of(kind: EntryKind, value: &[u8]) -> Result<Self> {
        Ok(match kind {
            EntryKind::Delete => Self::Delete,
            EntryKind::Marker => Self::Marker,
            kind if kind.is_pointer() => Self::Pointer(ValuePointer::of_entry(kind, value)?),
            kind => Self::Inline(kind, value.into()),
        })
    }

    /// The pointer to a value that stays.
    pub fn pointer(pointer: ValuePointer) -> Self {
        Self::Pointer(Lasting::for_good(pointer))
    }

    /// The kind of an index entry with this content.
    pub fn kind(&self) -> EntryKind {
        match self {
            Self::Delete => EntryKind::Delete,
            Self::Marker => EntryKind::Marker,
            Self::Inline(kind, _) => *kind,
            Self::Pointer(..) => EntryKind::Pointer,
        }
    }

    /// The kind and value of an index entry with this content: an inline value, a pointer encoded
    /// in `room`, or nothing.
    pub fn as_entry<'a>(&'a self, room: &'a mut EntryRoom) -> (EntryKind, &'a [u8]) {
        match self {
            Self::Delete => (EntryKind::Delete, &[]),
            Self::Marker => (EntryKind::Marker, &[]),
            Self::Inline(kind, value) => (*kind, value),
            Self::Pointer(pointer) => {
                let (kind, len) = ValuePointer::encode_entry(*pointer, room);
                (kind, &room[..len])
            }
        }
    }
}

/// A version of a key that the read point or a live snapshot can see.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Visible {
    /// The sequence number of the version.
    pub seq: SeqNo,
    /// The content of the version.
    pub content: Content,
    /// Whether it is in a table; versions in memory are younger than any run and need no repeat.
    pub in_table: bool,
    /// Whether a filter has put this content in the place of another: then the run gets it.
    pub filtered: bool,
}

/// A record found in a victim.
#[derive(Clone, Copy, Debug)]
pub struct ScannedRecord<'a> {
    /// The tree key of the record, followed by the value if it is a group tombstone.
    bytes: &'a [u8],
    key_len: u32,
    /// The kind of the record: a value, a group tombstone or a tag.
    pub kind: RecordKind,
    /// The sequence number of the record.
    pub seq: SeqNo,
    /// The place of the record.
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
            RecordKind::Delete | RecordKind::Tag => &[],
            kind if kind.is_separated() => record
                .value
                .get(..kind.front_len())
                .ok_or_else(|| Error::corruption("a value that expires has no expiry"))?,
            kind if kind.is_operation() => record.value,
            _ => return Err(Error::corruption("a record of the store's own lies among values")),
        };
        let key = EncodedKey::new(record.header.keyspace, record.key);
        let key = key.as_bytes();
        let bytes = arena.copy(&[key, value]);
        Ok(Self { bytes, key_len: key.len() as u32, kind, seq: record.header.seq, pointer })
    }

    /// The tree key of the record.
    pub fn key(&self) -> &'a [u8] {
        &self.bytes[..self.key_len as usize]
    }

    /// What is kept of its value: all of an inline one and of an operand, the expiry of a separated
    /// one.
    fn kept(&self) -> &'a [u8] {
        &self.bytes[self.key_len as usize..]
    }

    /// Where its value lies, and until when it is there.
    pub fn value(&self) -> Lasting<ValuePointer> {
        let kept = self.kind.split(self.kept()).unwrap_or(Lasting::for_good(&[]));
        kept.map(|_| self.pointer)
    }

    /// Whether it only says what the index has above older records of its key: that they are dead,
    /// or what changes them.
    pub fn is_tombstone(&self) -> bool {
        matches!(self.kind, RecordKind::Delete | RecordKind::Operand) || self.kind.is_inline()
    }

    /// Whether its value is in the cold log.
    pub fn is_tag(&self) -> bool {
        self.kind == RecordKind::Tag
    }

    /// The version that a table of the index should hold for it. None for a tag, which does not
    /// hold the pointer of its version.
    pub fn as_visible(&self) -> Option<Visible> {
        let content = match self.kind {
            kind if kind.is_separated() => Content::Pointer(self.value()),
            kind if kind.is_operation() => Content::of(kind.as_entry(), self.kept()).ok()?,
            _ => return None,
        };
        Some(Visible { seq: self.seq, content, in_table: true, filtered: false })
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
    use cleavedb_base::Expiry;
    use cleavedb_base::record::Header;
    use cleavedb_base::{FileNumber, KeyspaceId};

    use super::*;

    const POINTER: ValuePointer = ValuePointer { file: FileNumber(9), offset: 4096, len: 60 };

    #[test]
    fn contents_are_entries_and_back() {
        let mut room = [0; ValuePointer::ENCODED_LEN_MAX];
        let inline = Content::Inline(EntryKind::Inline, b"small"[..].into());
        let pointer = |until| Content::Pointer(Lasting { value: POINTER, until });
        let pointers = [pointer(Expiry::NEVER), pointer(Expiry::at(9))];
        for content in [Content::Delete, inline, Content::Marker].into_iter().chain(pointers) {
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
        assert_eq!(says(RecordKind::Separated), Some(Content::pointer(POINTER)));
        let inline = Content::Inline(EntryKind::Inline, b"value"[..].into());
        assert_eq!(says(RecordKind::Inline), Some(inline));
        assert_eq!(says(RecordKind::Delete), Some(Content::Delete));
        let operand = Content::Inline(EntryKind::Operand, b"value"[..].into());
        assert_eq!(says(RecordKind::Operand), Some(operand));
        assert_eq!(says(RecordKind::Tag), None);
        assert!(found(RecordKind::Filter).is_err());
    }
}
