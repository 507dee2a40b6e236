//! The record of a key: what type of value it has, until when, and the value of a string.
//!
//! | bytes | what |
//! | --- | --- |
//! | 1 | type; its highest bit says that a deadline follows |
//! | 8, little-endian | the deadline, in milliseconds since 1970 |
//! | the rest | of a string its bytes |
//!
//! The engine drops the record at the same deadline. It stands here, too, so that whatever rewrites
//! a record keeps it without another read, and so that a command sees one moment.

use bytes::{Buf, Bytes};

/// The bit of the first byte that says that a deadline follows.
const HAS_DEADLINE: u8 = 0x80;

/// What a key has: its type and its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyContent {
    /// A string.
    String(Bytes),
}

impl KeyContent {
    /// The name of the type, as `TYPE` has it.
    pub fn type_name(&self) -> &'static str {
        match self {
            Self::String(_) => "string",
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
    /// The record ends within its head.
    Short,
    /// The type is not known.
    Type(u8),
}

impl KeyRecord {
    /// The record in `bytes`.
    pub fn decode(mut bytes: Bytes) -> Result<Self, DamagedRecord> {
        let first = bytes.try_get_u8().map_err(|_| DamagedRecord::Short)?;
        let until = match first & HAS_DEADLINE {
            0 => None,
            _ => Some(bytes.try_get_u64_le().map_err(|_| DamagedRecord::Short)?),
        };
        match first & !HAS_DEADLINE {
            0 => Ok(Self { until, content: KeyContent::String(bytes) }),
            other => Err(DamagedRecord::Type(other)),
        }
    }

    /// Whether it is over at a time, in milliseconds since 1970.
    pub fn is_over(&self, now: u64) -> bool {
        self.until.is_some_and(|until| until <= now)
    }
}

/// The head of the record of a string, whose bytes follow.
#[derive(Clone, Copy, Debug)]
pub struct RecordHead {
    bytes: [u8; 9],
    len: usize,
}

impl RecordHead {
    /// The head of a string that lives until a time.
    pub fn of_string(until: Option<u64>) -> Self {
        let mut bytes = [0; 9];
        let Some(until) = until else { return Self { bytes, len: 1 } };
        bytes[0] = HAS_DEADLINE;
        bytes[1..].copy_from_slice(&until.to_le_bytes());
        Self { bytes, len: 9 }
    }

    /// The bytes of the head.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_what_was_written() {
        for until in [None, Some(0), Some(u64::MAX)] {
            let written = [RecordHead::of_string(until).as_bytes(), b"value"].concat();
            let content = KeyContent::String(Bytes::from_static(b"value"));
            assert_eq!(KeyRecord::decode(written.into()), Ok(KeyRecord { until, content }));
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
