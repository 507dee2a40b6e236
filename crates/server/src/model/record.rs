//! The record of a key: what type of value it has, until when, and the value of a string.
//!
//! | bytes | what |
//! | --- | --- |
//! | 1 | type; its highest bit says that a deadline follows |
//! | 8, little-endian | the deadline, in milliseconds since 1970 |
//! | the rest | of a string its bytes; of a collection what follows |
//! | 8, little-endian | the id under which its elements lie |
//! | 8, little-endian | number of elements |
//! | 8, little-endian | of a list alone: the position of the first element |
//! | 16, little-endian | of a stream alone: the id of the first entry, 0 without one |
//! | 16, little-endian | of a stream alone: the last id that an entry has had |
//! | 8, little-endian | of a stream alone: number of entries that were ever added |
//! | 16, little-endian | of a stream alone: the greatest id that was deleted by its name |
//!
//! The engine drops the record at the same deadline. It stands here, too, so that whatever rewrites
//! a record keeps it without another read, and so that a command sees one moment.

use bytes::{Buf, Bytes};
use smallvec::SmallVec;

use super::element::{MEMBERS, SCORES};
use super::stream::StreamState;

/// The bit of the first byte that says that a deadline follows.
const HAS_DEADLINE: u8 = 0x80;

/// The type of a string, in the first byte.
const STRING: u8 = 0;

/// The types of values that have elements, with their numbers in the first byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CollectionKind {
    /// Fields with values.
    Hash = 1,
    /// Members.
    Set = 2,
    /// Members with scores.
    SortedSet = 3,
    /// Values in an order.
    List = 4,
    /// Entries with ids, and groups that read them.
    Stream = 5,
}

impl CollectionKind {
    const ALL: [Self; 5] = [Self::Hash, Self::Set, Self::SortedSet, Self::List, Self::Stream];

    /// The part of the elements whose names have the order of the collection.
    pub fn ordered(self) -> u8 {
        match self {
            Self::SortedSet => SCORES,
            Self::Hash | Self::Set | Self::List | Self::Stream => MEMBERS,
        }
    }

    /// The name of the type, as `TYPE` has it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Hash => "hash",
            Self::Set => "set",
            Self::SortedSet => "zset",
            Self::List => "list",
            Self::Stream => "stream",
        }
    }
}

/// A value that has elements, which lie under its id and not under the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Collection {
    /// The type.
    pub kind: CollectionKind,
    /// Id of the elements, which no other collection has had.
    pub id: u64,
    /// Number of elements.
    pub len: u64,
    /// The position of the first element of a list; 0 of others.
    pub head: i64,
    /// What a stream has besides; nothing of others.
    pub stream: StreamState,
    /// Whether the register of collections does not have its key yet. It is not stored.
    pub is_unregistered: bool,
}

/// What a key has: its type and its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyContent {
    /// A string.
    String(Bytes),
    /// A value that has elements.
    Collection(Collection),
}

impl KeyContent {
    /// The name of the type, as `TYPE` has it.
    pub fn type_name(&self) -> &'static str {
        match self {
            Self::String(_) => "string",
            Self::Collection(collection) => collection.kind.name(),
        }
    }
}

/// The record of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyRecord {
    /// The end of its life, in milliseconds since 1970.
    pub until: Option<u64>,
    /// What the key has.
    pub content: KeyContent,
}

/// Why bytes are no record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DamagedRecord {
    /// The record ends too early.
    Short,
    /// The record is longer than what it has.
    Long,
    /// The type is not known.
    Type(u8),
}

impl KeyRecord {
    /// The record in `bytes`.
    pub fn decode(mut bytes: Bytes) -> Result<Self, DamagedRecord> {
        let short = |_| DamagedRecord::Short;
        let first = bytes.try_get_u8().map_err(short)?;
        let until = match first & HAS_DEADLINE {
            0 => None,
            _ => Some(bytes.try_get_u64_le().map_err(short)?),
        };
        let kind = first & !HAS_DEADLINE;
        if kind == STRING {
            return Ok(Self { until, content: KeyContent::String(bytes) });
        }
        let kind = CollectionKind::ALL.into_iter().find(|known| *known as u8 == kind);
        let kind = kind.ok_or(DamagedRecord::Type(first & !HAS_DEADLINE))?;
        let id = bytes.try_get_u64_le().map_err(short)?;
        let len = bytes.try_get_u64_le().map_err(short)?;
        let head = match kind {
            CollectionKind::List => bytes.try_get_i64_le().map_err(short)?,
            _ => 0,
        };
        let stream = match kind {
            CollectionKind::Stream => StreamState::take(&mut bytes).ok_or(DamagedRecord::Short)?,
            _ => StreamState::default(),
        };
        match bytes.is_empty() {
            true => {
                let is_unregistered = false;
                let collection = Collection { kind, id, len, head, stream, is_unregistered };
                let content = KeyContent::Collection(collection);
                Ok(Self { until, content })
            }
            false => Err(DamagedRecord::Long),
        }
    }

    /// Whether it is over at a time, in milliseconds since 1970.
    pub fn is_over(&self, now: u64) -> bool {
        self.until.is_some_and(|until| until <= now)
    }
}

/// The bytes of a record, but for those of a string.
pub type RecordHead = SmallVec<[u8; 36]>;

fn head(kind: u8, until: Option<u64>) -> RecordHead {
    let mut bytes = RecordHead::new();
    match until {
        None => bytes.push(kind),
        Some(until) => {
            bytes.push(kind | HAS_DEADLINE);
            bytes.extend_from_slice(&until.to_le_bytes());
        }
    }
    bytes
}

/// The bytes in front of a string that lives until a time.
pub fn of_string(until: Option<u64>) -> RecordHead {
    head(STRING, until)
}

/// The record of a collection that lives until a time.
pub fn of_collection(collection: Collection, until: Option<u64>) -> RecordHead {
    let Collection { kind, id, len, head: first, stream, is_unregistered: _ } = collection;
    let mut bytes = head(kind as u8, until);
    bytes.extend_from_slice(&id.to_le_bytes());
    bytes.extend_from_slice(&len.to_le_bytes());
    if kind == CollectionKind::List {
        bytes.extend_from_slice(&first.to_le_bytes());
    }
    if kind == CollectionKind::Stream {
        bytes.extend_from_slice(&stream.to_bytes());
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::stream::StreamId;

    #[test]
    fn a_record_is_what_was_written() {
        for until in [None, Some(0), Some(u64::MAX)] {
            let written = [&*of_string(until), b"value"].concat();
            let content = KeyContent::String(Bytes::from_static(b"value"));
            assert_eq!(KeyRecord::decode(written.into()), Ok(KeyRecord { until, content }));
            for kind in CollectionKind::ALL {
                let head = if kind == CollectionKind::List { -7 } else { 0 };
                let stream = match kind {
                    CollectionKind::Stream => StreamState {
                        first: StreamId::new(1, 2),
                        last: StreamId::new(3, 4),
                        added: 5,
                        max_deleted: StreamId::new(6, 7),
                    },
                    _ => StreamState::default(),
                };
                let (id, is_unregistered) = (5 << 40, false);
                let collection = Collection { kind, id, len: 3, head, stream, is_unregistered };
                let written = of_collection(collection, until).to_vec();
                let content = KeyContent::Collection(collection);
                let cut = written[..written.len() - 1].to_vec();
                let long = [&*written, b"x"].concat();
                assert_eq!(KeyRecord::decode(written.into()), Ok(KeyRecord { until, content }));
                assert_eq!(KeyRecord::decode(cut.into()), Err(DamagedRecord::Short));
                assert_eq!(KeyRecord::decode(long.into()), Err(DamagedRecord::Long));
            }
        }
    }

    #[test]
    fn what_is_no_record_is_damaged() {
        let decode =
            |bytes: &'static [u8]| KeyRecord::decode(Bytes::from_static(bytes)).unwrap_err();
        assert_eq!(decode(b""), DamagedRecord::Short);
        assert_eq!(decode(b"\x80\0\0\0\0\0\0\0"), DamagedRecord::Short);
        assert_eq!(decode(b"\x7f"), DamagedRecord::Type(0x7f));
    }
}
