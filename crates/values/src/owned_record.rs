//! A record as its readers keep it: whole, verified, its bytes shared.

use bytes::{Buf, Bytes};
use cleavedb_base::KeyspaceId;
use cleavedb_base::key::split_encoded_key;
use cleavedb_base::record::{HEADER_LEN, Header};

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
    /// The record of this header, which `bytes` hold and nothing else.
    pub(crate) fn new(bytes: Bytes, header: &Header) -> Self {
        debug_assert_eq!(bytes.len(), header.record_len());
        let front_len = header.kind.front_len() as u8;
        Self { bytes, keyspace: header.keyspace, key_len: header.key_len, front_len }
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

    /// Its value, without its expiry, which shares the memory of the record.
    #[inline]
    pub fn into_value(mut self) -> Bytes {
        self.bytes.advance(self.key_end() + usize::from(self.front_len));
        self.bytes
    }

    #[inline]
    fn key_end(&self) -> usize {
        HEADER_LEN + usize::from(self.key_len)
    }
}
