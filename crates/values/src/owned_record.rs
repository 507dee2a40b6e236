//! A record as its readers keep it: whole, verified, decompressed, its bytes shared.

use bytes::{Buf, Bytes};
use cleavedb_base::key::split_encoded_key;
use cleavedb_base::record::{HEADER_LEN, Header};
use cleavedb_base::{KeyspaceId, Result};

use crate::compression;
use crate::dictionary::Dictionaries;

/// A verified record and its memory. Clones share it.
#[derive(Clone, Debug)]
pub struct OwnedRecord {
    bytes: Bytes,
    keyspace: KeyspaceId,
    key_len: u16,
    /// Length of the expiry in front of the value.
    front_len: u8,
}

impl OwnedRecord {
    /// The record of this header, which `bytes` hold and nothing else; its value as it is stored.
    #[inline]
    pub(crate) fn new(bytes: Bytes, header: &Header) -> Self {
        debug_assert_eq!(bytes.len(), header.record_len());
        let front_len = header.kind.front_len() as u8;
        Self { bytes, keyspace: header.keyspace, key_len: header.key_len, front_len }
    }

    /// A blob behind the header and the key of its end.
    pub(crate) fn of_blob(bytes: Bytes, header: &Header) -> Self {
        Self { bytes, keyspace: header.keyspace, key_len: header.key_len, front_len: 0 }
    }

    /// The record with the value decompressed; header and checksums are those of the record as
    /// it is stored.
    pub(crate) fn decompressed(&self, dictionaries: &Dictionaries) -> Result<Self> {
        let (front, value) = self.bytes.split_at(self.value_at());
        let mut bytes = Vec::with_capacity(front.len() + compression::decompressed_len(value)?);
        bytes.extend_from_slice(front);
        compression::decompress(value, dictionaries, &mut bytes)?;
        Ok(Self { bytes: bytes.into(), ..*self })
    }

    /// Whether this is a record of that key.
    #[inline]
    pub(crate) fn is_of(&self, encoded_key: &[u8]) -> bool {
        let key = &self.bytes[HEADER_LEN..self.key_end()];
        split_encoded_key(encoded_key) == Some((self.keyspace, key))
    }

    /// Length of header, key and value, in bytes.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// The value of the record, without its expiry, which shares the memory of the record.
    #[inline]
    pub fn into_value(mut self) -> Bytes {
        self.bytes.advance(self.value_at());
        self.bytes
    }

    /// Where the user's value begins.
    #[inline]
    fn value_at(&self) -> usize {
        self.key_end() + usize::from(self.front_len)
    }

    #[inline]
    fn key_end(&self) -> usize {
        HEADER_LEN + usize::from(self.key_len)
    }
}
