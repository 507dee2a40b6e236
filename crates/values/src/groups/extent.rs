//! Extents: contiguous parts of group files, each with records of one group.
//!
//! Each flush or collection appends at most one extent to a group. It is a sequence of records,
//! followed, in a group that is collected without the index, by a record with the filter of their
//! keys. It begins and ends at blocks, so that its space can be freed by itself. A segment of the
//! paper is a number of bytes of extents, not a file.
//!
//! Where records are long, their key block ([`super::key_block`]) follows.

use std::sync::Arc;

use cleavedb_base::codec::{Cursor, put_bytes, put_varint};
use cleavedb_base::limits::{BLOCK, VALUE_LEN_MAX};
pub use cleavedb_base::pointer::Location;
use cleavedb_base::record::HEADER_LEN;
use cleavedb_base::{Error, Result};

use crate::partition::GroupId;

/// Above any possible length, and so small that no sum of lengths overflows.
const LEN_MAX: u64 = 1 << 56;

/// Greatest length of the store's own records.
const OWN_MAX: u64 = (HEADER_LEN + VALUE_LEN_MAX) as u64;

/// What is encoded in the two places of fields that are no more: see `docs/format.md`.
const RESERVED: u64 = 0;

/// Facts about one extent. All lengths are in bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Extent {
    /// The group of the extent.
    pub group: GroupId,
    /// The beginning of the extent.
    pub place: Location,
    /// Length of its records; the filter's record follows, if there is one.
    pub records_len: u64,
    /// Length of the filter's record; 0 for none.
    pub filter_len: u64,
    /// Length of the record of its key block; 0 for none.
    pub key_block_len: u64,
    /// Number of records.
    pub records: u64,
    /// Number of group stubs: records that only mark older ones as dead.
    pub stubs: u64,
    /// Number of tags: their values are in the cold log.
    pub tags: u64,
    /// The tree key of its last record, the greatest one; empty if unknown.
    pub last: Arc<[u8]>,
    /// Bytes of records that index entries own when the extent is published.
    pub separated: u64,
    /// Whether a collection wrote it; otherwise a flush.
    pub survivors: bool,
    /// Bytes of records that index entries in tables own now.
    pub live: u64,
}

impl Extent {
    /// An extent of `group` at `place`, without records.
    pub(crate) fn empty(group: GroupId, place: Location) -> Self {
        Self {
            group,
            place,
            records_len: 0,
            filter_len: 0,
            key_block_len: 0,
            records: 0,
            stubs: 0,
            tags: 0,
            last: Arc::default(),
            separated: 0,
            survivors: false,
            live: 0,
        }
    }

    /// An extent with one value.
    #[cfg(test)]
    pub(crate) fn sample(group: GroupId, place: Location) -> Self {
        let empty = Self::empty(group, place);
        Self { records_len: 100, records: 1, separated: 100, live: 100, ..empty }
    }

    /// The length of the extent, rounded up to a block.
    pub fn len(&self) -> u64 {
        (self.records_len + self.filter_len + self.key_block_len).next_multiple_of(BLOCK as u64)
    }

    /// Whether it has no records, which is not valid.
    pub fn is_empty(&self) -> bool {
        self.records == 0
    }

    /// Whether `offset` of its file is within its records.
    pub fn holds(&self, offset: u64) -> bool {
        (self.place.offset..self.place.offset + self.records_len).contains(&offset)
    }

    /// Appends the encoding. See `docs/format.md`, "Manifest".
    pub fn encode(&self, out: &mut Vec<u8>) {
        put_varint(out, self.group.0);
        self.place.encode(out);
        for field in [
            self.records_len,
            self.filter_len,
            self.key_block_len,
            RESERVED,
            RESERVED,
            self.records,
            self.stubs,
            self.tags,
            self.separated,
            u64::from(self.survivors),
            self.live,
        ] {
            put_varint(out, field);
        }
        put_bytes(out, &self.last);
    }

    /// Reads an extent.
    pub fn decode(cursor: &mut Cursor<'_>) -> Result<Self> {
        let (group, place) = (GroupId(cursor.varint()?), Location::decode(cursor)?);
        let [records_len, filter_len, key_block_len] =
            [cursor.varint()?, cursor.varint()?, cursor.varint()?];
        let reserved = [cursor.varint()?, cursor.varint()?];
        let extent = Self {
            group,
            place,
            records_len,
            filter_len,
            key_block_len,
            records: cursor.varint()?,
            stubs: cursor.varint()?,
            tags: cursor.varint()?,
            separated: cursor.varint()?,
            survivors: cursor.varint()? != 0,
            live: cursor.varint()?,
            last: cursor.bytes()?.into(),
        };
        // Filter and key block are each read in one piece.
        let own = [extent.filter_len, extent.key_block_len];
        let fits = extent.records_len < LEN_MAX
            && own.into_iter().all(|len| len <= OWN_MAX)
            && reserved == [RESERVED; 2]
            && extent.place.offset < LEN_MAX;
        let sound = extent.place.offset.is_multiple_of(BLOCK as u64)
            && extent.live <= extent.separated
            && extent.separated <= extent.records_len
            && extent.stubs.saturating_add(extent.tags) <= extent.records;
        if fits && sound {
            return Ok(extent);
        }
        Err(Error::corruption("an edit adds an extent that cannot be")
            .with("file", extent.place.file)
            .with("offset", extent.place.offset))
    }
}
