//! The first page of a window's file: its database, and how far the log has come.

use cleavedb_base::FileNumber;
use cleavedb_base::checksum::check32;
use cleavedb_base::limits::BLOCK;

/// Bytes of the file in front of the log buffer.
pub const HEADER_LEN: usize = BLOCK;

/// First bytes of a window.
const MAGIC: [u8; 8] = *b"CleaveWn";
const VERSION: u32 = 1;
/// Bytes that tell whose window it is.
pub(crate) const IDENTITY_LEN: usize = 8 + 4 + 8 + 8 + 4;

/// The first bytes of the file.
pub(crate) fn encode_identity(identity: WindowIdentity) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(IDENTITY_LEN);
    bytes.extend_from_slice(&MAGIC);
    bytes.extend_from_slice(&VERSION.to_le_bytes());
    bytes.extend_from_slice(&identity.database_id.to_le_bytes());
    bytes.extend_from_slice(&identity.number.0.to_le_bytes());
    let check = check32(&bytes, 0);
    bytes.extend_from_slice(&check.to_le_bytes());
    bytes
}

/// The check value behind a watermark that is valid even after a loss of power.
pub(crate) fn mark_check(value: u64) -> u64 {
    u64::from(check32(&value.to_le_bytes(), u64::from_le_bytes(MAGIC)))
}

/// The identity in the header; `None` if it is invalid.
pub(crate) fn decode_identity(bytes: &[u8]) -> Option<WindowIdentity> {
    let word = |at: usize| Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?));
    let identity = WindowIdentity { database_id: word(12)?, number: FileNumber(word(20)?) };
    (bytes.get(..IDENTITY_LEN)? == encode_identity(identity)).then_some(identity)
}

/// Identity of a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WindowIdentity {
    /// Id of the database.
    pub database_id: u64,
    /// The number of the window, unique among the windows of the database.
    pub number: FileNumber,
}

/// How far the log has come, as stored in the first page of a window; each value only grows. Each
/// has its own sector, so that a loss of power leaves the old value or the new one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Watermark {
    /// The greatest visible sequence number. Valid only if no power was lost since.
    Visible,
    /// Log position up to which the window was drained. Valid only if no power was lost since, by
    /// the disk alone either.
    Drained,
    /// The greatest sequence number that is durable in the log or elsewhere. It has its own check,
    /// so it is valid even after a loss of power.
    Durable,
}

impl Watermark {
    /// The offset of the mark in the file.
    pub(crate) fn offset(self) -> usize {
        match self {
            Self::Visible => 1024,
            Self::Drained => 1536,
            Self::Durable => 2048,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_identity_is_known_by_every_bit() {
        let identity = WindowIdentity { database_id: 0x0123_4567_89ab_cdef, number: FileNumber(7) };
        let bytes = encode_identity(identity);
        assert_eq!(decode_identity(&bytes), Some(identity));
        for at in 0..bytes.len() {
            for bit in 0..8 {
                let mut damaged = bytes.clone();
                damaged[at] ^= 1 << bit;
                assert_eq!(decode_identity(&damaged), None, "byte {at} bit {bit}");
            }
            assert_eq!(decode_identity(&bytes[..at]), None, "cut at {at}");
        }
    }
}
