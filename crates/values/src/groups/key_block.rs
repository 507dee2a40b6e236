//! The key block of an extent: its records without their separated values, in one piece.
//!
//! A collection needs only the keys and headers of dead values. Where values are long it reads the
//! key block instead of the records, and then the survivors; where they are short, reading single
//! values is no faster than reading all of them (`docs/decisions/0010-groups-are-extents.md`).
//!
//! Each record is listed with its header, which its checksum ties to the record's place, its key
//! and, if it is a group tombstone, its value. The expiry of a value is listed, too.

use cleavedb_base::limits::{BLOCK, VALUE_LEN_MAX};
use cleavedb_base::record::{FileIdentity, HEADER_LEN, Header, Record};
use cleavedb_base::{Error, Result, ValuePointer};

use super::extent::Location;

/// Divisor of the length of an extent: the greatest length of its key block.
const SHARE: u64 = 32;

/// Records after which an extent's records can be judged short.
const TRIAL: u64 = 16;

/// The key block of some records.
#[derive(Default)]
pub struct KeyBlock(Vec<u8>);

impl KeyBlock {
    /// Adds the next record, which lies at `offset` of the file `identity`.
    pub fn add(
        &mut self,
        header: &Header,
        key: &[u8],
        value: &[u8],
        identity: FileIdentity,
        offset: u64,
    ) {
        self.0.extend_from_slice(&header.encode(identity, offset));
        self.0.extend_from_slice(key);
        self.0.extend_from_slice(&value[..listed_len(header).min(value.len())]);
    }

    /// The encoding of the key block.
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }
}

/// Bytes of its value that a record is listed with: all of a group tombstone, the expiry of others.
pub fn listed_len(header: &Header) -> usize {
    match header.kind.is_separated() {
        true => header.kind.front_len(),
        false => header.value_len as usize,
    }
}

/// Builds the key block of the extent being written, while its records are long.
pub(super) struct ListingBuilder {
    /// Mean length from which on records are listed, in bytes.
    least: u64,
    /// None, once the records were found to be short.
    listing: Option<KeyBlock>,
    records: u64,
    /// Length of the records so far, in bytes.
    len: u64,
}

impl ListingBuilder {
    /// A builder for records of at least `least` bytes on average; for all, if that is 0.
    pub(super) fn new(least: u64) -> Self {
        Self { least, listing: Some(KeyBlock::default()), records: 0, len: 0 }
    }

    /// Adds the next record of the extent: see [`KeyBlock::add`].
    pub(super) fn add(
        &mut self,
        header: &Header,
        key: &[u8],
        value: &[u8],
        identity: FileIdentity,
        offset: u64,
    ) {
        self.records += 1;
        self.len += header.record_len() as u64;
        if self.records > TRIAL && self.are_short() {
            self.listing = None;
        }
        if let Some(listing) = &mut self.listing {
            listing.add(header, key, value, identity, offset);
        }
    }

    fn are_short(&self) -> bool {
        self.len < self.least.saturating_mul(self.records)
    }

    /// The key block, if it is worth its space behind the records, which end at `end`. Resets the
    /// builder for the next extent.
    pub(super) fn finish(&mut self, end: u64) -> Option<Vec<u8>> {
        let built = std::mem::replace(self, Self::new(self.least));
        let short = built.are_short() || built.records == 0;
        let KeyBlock(bytes) = built.listing.filter(|_| !short)?;
        let blocks = |end: u64| end.div_ceil(BLOCK as u64);
        let own = (HEADER_LEN + bytes.len()) as u64;
        let taken = (blocks(end + own) - blocks(end)) * BLOCK as u64;
        let worth = built.least == 0 || own.max(taken) * SHARE <= built.len;
        (worth && bytes.len() <= VALUE_LEN_MAX).then_some(bytes)
    }
}

/// Passes the records of a key block to `visit`, separated values left out. The extent has them
/// from `from` of the file `identity` to exactly `end`.
pub fn visit(
    listing: &[u8],
    identity: FileIdentity,
    from: Location,
    end: u64,
    mut visit: impl FnMut(&Record<'_>, ValuePointer) -> Result<()>,
) -> Result<()> {
    let Location { file, mut offset } = from;
    let damaged = |offset: u64| {
        Error::corruption("the key block of an extent does not match its records")
            .with("file", file)
            .with("offset", offset)
    };
    let mut rest = listing;
    while !rest.is_empty() {
        let header = Header::decode(rest, identity, offset).ok_or_else(|| damaged(offset))?;
        let value_len = listed_len(&header);
        let key_end = HEADER_LEN + usize::from(header.key_len);
        let (listed, later) =
            rest.split_at_checked(key_end + value_len).ok_or_else(|| damaged(offset))?;
        let (key, value) = listed[HEADER_LEN..].split_at(usize::from(header.key_len));
        let len = header.record_len();
        visit(&Record { header, key, value }, ValuePointer { file, offset, len: len as u32 })?;
        offset += len as u64;
        rest = later;
    }
    if offset == end { Ok(()) } else { Err(damaged(offset)) }
}

#[cfg(test)]
mod tests {
    use cleavedb_base::record::RecordKind;
    use cleavedb_base::{FileNumber, KeyspaceId};

    use super::*;

    const FILE: FileNumber = FileNumber(9);

    fn identity() -> FileIdentity {
        FileIdentity::new(7, FILE)
    }

    /// Lists records of these kinds and value lengths from offset 4096 on; returns the key block,
    /// and the end of the records.
    fn listed(least: u64, records: &[(RecordKind, usize)]) -> (Option<Vec<u8>>, u64) {
        let (mut builder, mut offset) = (ListingBuilder::new(least), 4096);
        for (seq, (kind, len)) in (1..).zip(records) {
            let (key, value) = ([b'k', seq as u8], vec![7; *len]);
            let header = Header::new(*kind, KeyspaceId(2), seq, &key, &value);
            builder.add(&header, &key, &value, identity(), offset);
            offset += header.record_len() as u64;
        }
        (builder.finish(offset), offset)
    }

    fn read(listing: &[u8], end: u64) -> Result<Vec<(RecordKind, u64, usize, u64)>> {
        let mut seen = Vec::new();
        let place = Location { file: FILE, offset: 4096 };
        visit(listing, identity(), place, end, |record, at| {
            let Header { kind, seq, .. } = record.header;
            seen.push((kind, seq, record.value.len(), at.offset));
            Ok(())
        })?;
        Ok(seen)
    }

    #[test]
    fn records_are_listed_with_the_values_of_stubs_alone() {
        use RecordKind::{Delete, Inline, Separated};
        let (listing, end) = listed(2000, &[(Separated, 9000), (Inline, 50), (Delete, 0)]);
        let listing = listing.unwrap();
        let seen = read(&listing, end).unwrap();
        let expected = [(Separated, 1, 0, 4096), (Inline, 2, 50, 13_122), (Delete, 3, 0, 13_198)];
        assert_eq!(seen, expected);
        assert_eq!(listing.len(), 3 * (HEADER_LEN + 2) + 50);
    }

    #[test]
    fn what_is_not_worth_it_is_not_listed() {
        let of = |least, lens: &[usize]| {
            let records: Vec<_> = lens.iter().map(|len| (RecordKind::Separated, *len)).collect();
            listed(least, &records).0.is_some()
        };
        assert!(of(8192, &[9000; 10]));
        assert!(!of(8192, &[1000; 10]), "short on average");
        let mut last_is_long = [1000; 40];
        last_is_long[39] = 10 << 20;
        assert!(!of(8192, &last_is_long), "given up when that was plain");
        assert!(!of(1, &[100; 10]), "nearly as long as the records");
        assert!(!of(1, &[8192 - HEADER_LEN - 2]), "a block for one record of two");
        assert!(!of(8192, &[]));
    }

    #[test]
    fn damage_is_noticed() {
        let (listing, end) = listed(2000, &[(RecordKind::Separated, 9000); 3]);
        let listing = listing.unwrap();
        assert!(read(&listing, end).is_ok());
        assert!(read(&listing, end + 1).is_err(), "another end");
        for len in 0..listing.len() {
            assert!(read(&listing[..len], end).is_err(), "length {len}");
        }
        for at in 0..HEADER_LEN * 8 {
            let mut damaged = listing.clone();
            damaged[at / 8] ^= 1 << (at % 8);
            assert!(read(&damaged, end).is_err(), "bit {at}");
        }
    }
}
