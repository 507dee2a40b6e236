//! Streams: the ids of their entries, and what elements of streams have as values.

use std::fmt;

use bytes::{Buf, BufMut, Bytes};

/// The id of an entry: a time in milliseconds since 1970, and a number within it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct StreamId(u128);

impl StreamId {
    /// The least one, which no entry has.
    pub const MIN: Self = Self(0);
    /// The greatest one.
    pub const MAX: Self = Self(u128::MAX);

    /// The id of a time and a number.
    pub fn new(ms: u64, seq: u64) -> Self {
        Self(u128::from(ms) << u64::BITS | u128::from(seq))
    }

    /// The time.
    pub fn ms(self) -> u64 {
        (self.0 >> u64::BITS) as u64
    }

    /// The number within the time.
    pub fn seq(self) -> u64 {
        self.0 as u64
    }

    /// The next one, if there is one.
    pub fn next(self) -> Option<Self> {
        self.0.checked_add(1).map(Self)
    }

    /// The one in front of it, if there is one.
    pub fn previous(self) -> Option<Self> {
        self.0.checked_sub(1).map(Self)
    }

    /// The bytes, in the order of ids.
    pub fn to_bytes(self) -> [u8; 16] {
        self.0.to_be_bytes()
    }

    /// Takes the id at the begin of bytes; none if they are too few.
    pub fn take(bytes: &mut Bytes) -> Option<Self> {
        bytes.try_get_u128().ok().map(Self)
    }

    /// The id of its bytes.
    pub fn of_bytes(bytes: &[u8]) -> Option<Self> {
        bytes.try_into().ok().map(|bytes| Self(u128::from_be_bytes(bytes)))
    }
}

impl fmt::Display for StreamId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.ms(), self.seq())
    }
}

/// What the record of a stream has, besides the number of its entries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StreamState {
    /// The first entry; [`StreamId::MIN`] without one.
    pub first: StreamId,
    /// The last id that an entry has had.
    pub last: StreamId,
    /// Number of entries that were ever added.
    pub added: u64,
    /// The greatest id that was deleted by its name.
    pub max_deleted: StreamId,
}

impl StreamState {
    /// The bytes of it.
    pub fn to_bytes(self) -> [u8; 56] {
        let mut bytes = [0; 56];
        let mut rest = &mut bytes[..];
        rest.put_u128_le(self.first.0);
        rest.put_u128_le(self.last.0);
        rest.put_u64_le(self.added);
        rest.put_u128_le(self.max_deleted.0);
        bytes
    }

    /// Takes it from `bytes`; none if they are too few.
    pub fn take(bytes: &mut Bytes) -> Option<Self> {
        Some(Self {
            first: StreamId(bytes.try_get_u128_le().ok()?),
            last: StreamId(bytes.try_get_u128_le().ok()?),
            added: bytes.try_get_u64_le().ok()?,
            max_deleted: StreamId(bytes.try_get_u128_le().ok()?),
        })
    }
}

/// The value of an entry: its fields and their values in turn, each behind its length.
pub fn of_fields(fields: &[&[u8]]) -> Vec<u8> {
    let mut value = Vec::with_capacity(fields.iter().map(|field| 4 + field.len()).sum());
    for field in fields {
        value.put_u32_le(field.len() as u32);
        value.extend_from_slice(field);
    }
    value
}

/// The fields and values in the value of an entry; none if it is damaged.
pub fn fields(mut value: Bytes) -> Option<Vec<Bytes>> {
    let mut found = Vec::new();
    while !value.is_empty() {
        let len = value.try_get_u32_le().ok()? as usize;
        found.push(if len <= value.len() { value.split_to(len) } else { return None });
    }
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_keep_their_order() {
        let ids = [(0, 0), (0, 1), (0, u64::MAX), (1, 0), (255, 0), (256, 3), (u64::MAX, u64::MAX)];
        let ids = ids.map(|(ms, seq)| StreamId::new(ms, seq));
        assert!(ids.is_sorted_by_key(|id| id.to_bytes()) && ids.is_sorted());
        assert!(ids.iter().all(|id| StreamId::of_bytes(&id.to_bytes()) == Some(*id)));
        assert_eq!((ids[2].next(), ids[3].previous()), (Some(ids[3]), Some(ids[2])));
        assert_eq!((StreamId::MAX.next(), StreamId::MIN.previous()), (None, None));
        assert_eq!(StreamId::new(7, 8).to_string(), "7-8");
        assert_eq!(StreamId::of_bytes(b"short"), None);
    }

    #[test]
    fn fields_are_what_was_written() {
        let written = of_fields(&[b"a", b"", b"\0\xff"]);
        assert_eq!(fields(written.clone().into()).unwrap(), [&b"a"[..], b"", b"\0\xff"]);
        assert_eq!(fields(written[..written.len() - 1].to_vec().into()), None);
        assert_eq!(fields(Bytes::from_static(b"\x01\0\0")), None);
    }
}
