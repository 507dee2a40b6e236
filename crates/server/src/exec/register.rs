//! The register of collections: under each id the key that has it, which a write changes in one
//! batch with the record of the key. By it the sweeper finds elements that no key has any more.
//! Databases are named by their places.

use std::ops::Range;

use bytes::{Buf, Bytes};
use cleavedb::Error;

/// The first byte of the keys of the register.
const OWNERS: u8 = b'c';

/// The key of an entry.
pub(super) fn owner_key(id: u64) -> [u8; 9] {
    let mut key = [OWNERS; 9];
    key[1..].copy_from_slice(&id.to_be_bytes());
    key
}

/// The id in the key of an entry.
pub(super) fn owner_id(key: &[u8]) -> Option<u64> {
    key.get(1..).and_then(|id| id.try_into().ok()).map(u64::from_be_bytes)
}

/// An entry: the place of the database, little-endian in 2 bytes, and the key.
pub(super) fn owner_record(place: usize, key: &[u8]) -> Vec<u8> {
    [&(place as u16).to_le_bytes()[..], key].concat()
}

/// The range of all entries from an id on.
pub(super) fn entries(from: u64) -> Range<[u8; 9]> {
    let mut end = [0; 9];
    end[0] = OWNERS + 1;
    owner_key(from)..end
}

/// The range of all entries.
pub(super) fn all() -> Range<[u8; 1]> {
    [OWNERS]..[OWNERS + 1]
}

/// An entry that was read.
pub(super) struct Owner {
    pub(super) id: u64,
    pub(super) place: usize,
    pub(super) key: Bytes,
}

impl Owner {
    pub(super) fn decode(key: &[u8], mut record: Bytes) -> cleavedb::Result<Self> {
        let damaged = || Error::corruption("an entry of the server's register of collections");
        let id = owner_id(key);
        let place = record.try_get_u16_le().map_err(|_| damaged())?;
        Ok(Self { id: id.ok_or_else(damaged)?, place: place.into(), key: record })
    }
}
