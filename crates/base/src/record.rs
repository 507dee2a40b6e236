//! The one encoding of a record: in the log, in segments, in the manifest.
//!
//! A record is a 24-byte header, then the key, then the value. Two checksums guard it:
//!
//! * the *payload checksum* covers kind, keyspace, key and value, as they are stored. The caller's
//!   thread computes it once; collection copies it with the record.
//! * the *header checksum* covers everything else in the header, the payload checksum included, and
//!   is seeded with the identity of the file and the offset in it. A stale, swapped or misplaced
//!   record therefore never passes, and all zeros is never a record.
//!
//! Layout and validity rules: `docs/format.md`, "Record".

use crate::checksum::{Hash64, check32, fold, hash64};
use crate::error::{Error, Result};
use crate::expiry::{Expiry, Lasting};
use crate::key::{EntryKind, KeyspaceId, SeqNo};
use crate::limits::{SEQ_MAX, VALUE_LEN_MAX};
use crate::planted::{Bug, planted};
use crate::pointer::FileNumber;

/// Bytes of a record in front of its key.
pub const HEADER_LEN: usize = 24;

/// What a record is. The kind decides at replay, never the current options.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum RecordKind {
    /// The key is deleted.
    Delete = 1,
    /// Key and value; the index will hold the value itself.
    Inline = 2,
    /// Key and value; the index will point to this record.
    Separated = 3,
    /// In a group: the key alone. The value of this operation is in the cold log.
    Tag = 4,
    /// As [`RecordKind::Inline`], with the expiry in front of the value.
    ExpiringInline = 5,
    /// As [`RecordKind::Separated`], with the expiry in front of the value.
    ExpiringSeparated = 6,
    /// A [`crate::StoredOperand`], which changes what is there; the index holds it.
    Operand = 7,
    /// The key, and the pointer to a value in a file of its own, which the index will hold.
    Blob = 8,
    /// As [`RecordKind::Blob`], with the expiry in front of the pointer.
    ExpiringBlob = 9,
    /// Joins two parts of a log file: says where the first ended and what was durable by then.
    SyncMarker = 16,
    /// First record of every log file and segment.
    FileHeader = 17,
    /// One edit of the manifest.
    Edit = 18,
    /// Filter of the keys of an extent, behind its records.
    Filter = 19,
    /// The records of an extent without the values that they separate, behind its filter.
    KeyBlock = 21,
    /// A part of a blob, in the file of that.
    BlobPiece = 22,
    /// Behind the parts of a blob: its key and its length. The index points to it.
    BlobEnd = 23,
}

impl RecordKind {
    fn from_bits(bits: u8) -> Option<Self> {
        Some(match bits {
            1 => Self::Delete,
            2 => Self::Inline,
            3 => Self::Separated,
            4 => Self::Tag,
            5 => Self::ExpiringInline,
            6 => Self::ExpiringSeparated,
            7 => Self::Operand,
            8 => Self::Blob,
            9 => Self::ExpiringBlob,
            16 => Self::SyncMarker,
            17 => Self::FileHeader,
            18 => Self::Edit,
            19 => Self::Filter,
            21 => Self::KeyBlock,
            22 => Self::BlobPiece,
            23 => Self::BlobEnd,
            _ => return None,
        })
    }

    /// What dumps call it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Delete => "delete",
            Self::Inline => "put",
            Self::Separated => "put separated",
            Self::Tag => "tag",
            Self::ExpiringInline => "put expiring",
            Self::ExpiringSeparated => "put separated expiring",
            Self::Operand => "merge",
            Self::Blob => "put blob",
            Self::ExpiringBlob => "put blob expiring",
            Self::SyncMarker => "mark",
            Self::FileHeader => "file header",
            Self::Edit => "edit",
            Self::Filter => "filter",
            Self::KeyBlock => "key block",
            Self::BlobPiece => "piece",
            Self::BlobEnd => "end of blob",
        }
    }

    /// Whether a user's operation made this record; the store itself makes the others.
    pub fn is_operation(self) -> bool {
        matches!(self, Self::Delete | Self::Operand) || self.is_inline() || self.is_separated()
    }

    /// Whether this record is about a key of a user: an operation, a tag, or the end of a blob.
    pub fn is_of_key(self) -> bool {
        self.is_operation() || matches!(self, Self::Tag | Self::BlobEnd)
    }

    /// Whether the index holds the value of this record itself; that of a blob is a pointer.
    #[inline]
    pub fn is_inline(self) -> bool {
        matches!(self, Self::Inline | Self::ExpiringInline) || self.is_blob()
    }

    /// Whether the user's value lies in a file of its own, to which this record points.
    #[inline]
    pub fn is_blob(self) -> bool {
        matches!(self, Self::Blob | Self::ExpiringBlob)
    }

    /// Whether the index points to this record.
    #[inline]
    pub fn is_separated(self) -> bool {
        matches!(self, Self::Separated | Self::ExpiringSeparated)
    }

    /// Whether an [`Expiry`] stands in front of the value.
    #[inline]
    pub fn expires(self) -> bool {
        matches!(self, Self::ExpiringInline | Self::ExpiringSeparated | Self::ExpiringBlob)
    }

    /// The kind of the same record with an expiry in front of its value, if it `expires`.
    #[inline]
    pub fn expiring(self, expires: bool) -> Self {
        match self {
            Self::Inline if expires => Self::ExpiringInline,
            Self::Separated if expires => Self::ExpiringSeparated,
            Self::Blob if expires => Self::ExpiringBlob,
            kind => kind,
        }
    }

    /// The kind of the same record of a value that is there until then.
    #[inline]
    pub fn until(self, until: Expiry) -> Self {
        self.expiring(!until.is_never())
    }

    /// The kind of a record that has the value of an entry of this kind for its own; `None` for
    /// the marker of a hot key.
    pub fn of_entry(kind: EntryKind) -> Option<Self> {
        Some(match kind.without_expiry() {
            EntryKind::Delete => Self::Delete,
            EntryKind::Inline => Self::Inline.expiring(kind.expires()),
            EntryKind::Operand => Self::Operand,
            EntryKind::Pointer => Self::Blob.expiring(kind.expires()),
            _ => return None,
        })
    }

    /// The kind of the index entry of an operation.
    #[inline]
    pub fn as_entry(self) -> EntryKind {
        match self {
            Self::Operand => EntryKind::Operand,
            kind if kind.is_separated() || kind.is_blob() => {
                EntryKind::Pointer.expiring(kind.expires())
            }
            kind if kind.is_inline() => EntryKind::Inline.expiring(kind.expires()),
            _ => EntryKind::Delete,
        }
    }

    /// The kind of a record with the same value, which the index holds itself.
    #[inline]
    pub fn as_inline(self) -> Self {
        if self.is_separated() { Self::Inline.expiring(self.expires()) } else { self }
    }

    /// The value of a record of this kind, with its end, which `stored` has.
    #[inline]
    pub fn split(self, stored: &[u8]) -> Result<Lasting<&[u8]>> {
        Lasting::split(self.expires(), stored)
    }

    /// Bytes at the front of the value that stay with the key where a separated value is left out:
    /// those of the expiry.
    #[inline]
    pub fn front_len(self) -> usize {
        if self.expires() { Expiry::LEN } else { 0 }
    }
}

const KIND_BITS: u8 = 0x1f;
const FLAG_COMPRESSED: u8 = 0x20;
const FLAG_MORE: u8 = 0x40;

/// The kind of a record, and whether its value is compressed, as one byte.
#[inline]
fn kind_byte(kind: RecordKind, compressed: bool) -> u8 {
    kind as u8 | if compressed { FLAG_COMPRESSED } else { 0 }
}

/// What ties a record to one file: seeds its header checksums.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileIdentity(u64);

impl FileIdentity {
    /// Identity of file `number` of database `database_id`. Numbers are never reused, so neither
    /// are identities.
    pub fn new(database_id: u64, number: FileNumber) -> Self {
        Self(hash64(&number.0.to_le_bytes(), database_id))
    }

    /// Seed of a checksum over bytes at `offset` of this file: ties them to their place.
    #[inline]
    pub fn seed(self, offset: u64) -> u64 {
        if planted(Bug::ChecksumWithoutPlace) {
            return 0;
        }
        self.0 ^ offset.wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }
}

/// The checksum that moves with a record whose value is not compressed.
#[inline]
pub fn payload_check(kind: RecordKind, keyspace: KeyspaceId, key: &[u8], value: &[u8]) -> u32 {
    check_payload(kind as u8, keyspace, key, value)
}

#[inline]
fn check_payload(kind_byte: u8, keyspace: KeyspaceId, key: &[u8], value: &[u8]) -> u32 {
    with_key(key, hash64(value, value_seed(kind_byte, keyspace, key.len())))
}

fn value_seed(kind_byte: u8, keyspace: KeyspaceId, key_len: usize) -> u64 {
    u64::from(kind_byte) | u64::from(keyspace.0) << 8 | (key_len as u64) << 32
}

/// The payload checksum of `key` and a value with this hash.
fn with_key(key: &[u8], value_hash: u64) -> u32 {
    let key = if planted(Bug::ChecksumWithoutKey) { &[] } else { key };
    fold(hash64(key, value_hash))
}

/// Compares a payload with its checksum, for values that come in pieces.
pub struct PayloadCheck(Hash64);

impl PayloadCheck {
    /// Begins with the record of `header`.
    pub fn new(header: &Header) -> Self {
        let key_len = usize::from(header.key_len);
        Self(Hash64::new(value_seed(header.kind_byte(), header.keyspace, key_len)))
    }

    /// Takes the next piece of the value.
    pub fn update(&mut self, piece: &[u8]) {
        self.0.update(piece);
    }

    /// Whether `key` and the pieces are those that the checksum of `header` was computed over.
    pub fn matches(&self, header: &Header, key: &[u8]) -> bool {
        header.payload_check == with_key(key, self.0.finish())
    }
}

/// The decoded header of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// See [`payload_check`].
    pub payload_check: u32,
    /// Sequence number of the operation; records of the store itself have their own numbering.
    pub seq: SeqNo,
    /// What the record is.
    pub kind: RecordKind,
    /// Whether the value is compressed, behind its expiry if there is one.
    pub compressed: bool,
    /// Whether the next record belongs to the same batch.
    pub more: bool,
    /// Length of the value, in bytes.
    pub value_len: u32,
    /// Length of the key, in bytes.
    pub key_len: u16,
    /// Keyspace of the key.
    pub keyspace: KeyspaceId,
}

impl Header {
    /// A header for `key` and `value`, with its payload checksum computed.
    #[inline]
    pub fn new(
        kind: RecordKind,
        keyspace: KeyspaceId,
        seq: SeqNo,
        key: &[u8],
        value: &[u8],
    ) -> Self {
        debug_assert!(seq <= SEQ_MAX && value.len() <= kind.front_len() + VALUE_LEN_MAX);
        Self {
            payload_check: payload_check(kind, keyspace, key, value),
            seq,
            kind,
            compressed: false,
            more: false,
            value_len: value.len() as u32,
            key_len: key.len() as u16,
            keyspace,
        }
    }

    /// Length of the value, in bytes, if it is stored as it is.
    pub fn plain_len(&self) -> Option<usize> {
        (!self.compressed).then_some(self.value_len as usize)
    }

    /// The header for a `value` that is stored compressed.
    #[must_use]
    pub fn of_compressed(self, key: &[u8], value: &[u8]) -> Self {
        let kind_byte = kind_byte(self.kind, true);
        let payload_check = check_payload(kind_byte, self.keyspace, key, value);
        Self { payload_check, compressed: true, value_len: value.len() as u32, ..self }
    }

    /// What the checksum of the payload knows of the kind.
    #[inline]
    fn kind_byte(&self) -> u8 {
        kind_byte(self.kind, self.compressed)
    }

    /// Length of the whole record, in bytes.
    #[inline]
    pub fn record_len(&self) -> usize {
        HEADER_LEN + usize::from(self.key_len) + self.value_len as usize
    }

    /// The bytes of this header at `offset` of the file `identity`.
    #[inline]
    pub fn encode(&self, identity: FileIdentity, offset: u64) -> [u8; HEADER_LEN] {
        let kind = self.kind_byte() | if self.more { FLAG_MORE } else { 0 };
        let mut bytes = [0; HEADER_LEN];
        bytes[4..8].copy_from_slice(&self.payload_check.to_le_bytes());
        bytes[8..16].copy_from_slice(&(self.seq << 8 | u64::from(kind)).to_le_bytes());
        bytes[16..20].copy_from_slice(&self.value_len.to_le_bytes());
        bytes[20..22].copy_from_slice(&self.key_len.to_le_bytes());
        bytes[22..24].copy_from_slice(&self.keyspace.0.to_le_bytes());
        let check = check32(&bytes[4..], identity.seed(offset));
        bytes[..4].copy_from_slice(&check.to_le_bytes());
        bytes
    }

    /// Reads a header; `None` unless it was written for this file and offset.
    #[inline]
    pub fn decode(bytes: &[u8], identity: FileIdentity, offset: u64) -> Option<Self> {
        let bytes: &[u8; HEADER_LEN] = bytes.first_chunk()?;
        let check = u32::from_le_bytes(bytes[..4].try_into().ok()?);
        if check != check32(&bytes[4..], identity.seed(offset)) {
            return None;
        }
        let seq_kind = u64::from_le_bytes(bytes[8..16].try_into().ok()?);
        let kind = seq_kind as u8;
        let compressed = kind & FLAG_COMPRESSED != 0;
        if kind & !(KIND_BITS | FLAG_COMPRESSED | FLAG_MORE) != 0 {
            return None;
        }
        let header = Self {
            payload_check: u32::from_le_bytes(bytes[4..8].try_into().ok()?),
            seq: seq_kind >> 8,
            kind: RecordKind::from_bits(kind & KIND_BITS)?,
            compressed,
            more: kind & FLAG_MORE != 0,
            value_len: u32::from_le_bytes(bytes[16..20].try_into().ok()?),
            key_len: u16::from_le_bytes(bytes[20..22].try_into().ok()?),
            keyspace: KeyspaceId(u16::from_le_bytes(bytes[22..24].try_into().ok()?)),
        };
        let len = (header.value_len as usize).checked_sub(header.kind.front_len());
        let fits = len.is_some_and(|len| len <= VALUE_LEN_MAX);
        (fits && (!compressed || header.kind.is_separated())).then_some(header)
    }

    /// Length of the user's value as it is stored, in bytes: the value of the record without its
    /// expiry.
    #[inline]
    pub fn stored_value_len(&self) -> usize {
        self.value_len as usize - self.kind.front_len()
    }

    /// Whether `key` and `value` are those that the payload checksum was computed over.
    #[inline]
    pub fn covers(&self, key: &[u8], value: &[u8]) -> bool {
        self.payload_check == check_payload(self.kind_byte(), self.keyspace, key, value)
    }
}

/// A whole, verified record.
#[derive(Clone, Copy, Debug)]
pub struct Record<'a> {
    /// The header of the record.
    pub header: Header,
    /// The user key.
    pub key: &'a [u8],
    /// The value, behind its expiry if the kind says so, and perhaps compressed; or the payload of
    /// a record of the store itself.
    pub value: &'a [u8],
}

impl<'a> Record<'a> {
    /// Reads and verifies the record at the front of `bytes`, which lies at `offset` of its file.
    pub fn parse(bytes: &'a [u8], identity: FileIdentity, offset: u64) -> Result<Self> {
        let record = Self::parse_own(bytes, identity, offset)?;
        if !record.header.covers(record.key, record.value) {
            let message = "record payload does not match its checksum";
            return Err(Error::corruption(message).with("offset", offset));
        }
        Ok(record)
    }

    /// As [`Record::parse`], for bytes that this process has stored and kept in memory since: the
    /// payload is not compared with its checksum. The checksum stays in the record for later
    /// readers.
    #[inline]
    pub fn parse_own(bytes: &'a [u8], identity: FileIdentity, offset: u64) -> Result<Self> {
        let header = Header::decode(bytes, identity, offset).ok_or_else(|| {
            Error::corruption("record header does not match its checksum").with("offset", offset)
        })?;
        let body = bytes.get(HEADER_LEN..header.record_len()).ok_or_else(|| {
            Error::corruption("record is longer than the bytes that hold it").with("offset", offset)
        })?;
        let (key, value) = body.split_at(usize::from(header.key_len));
        Ok(Self { header, key, value })
    }
}

/// Appends a whole record at `offset` of the file `identity` to `out`.
pub fn put_record(
    out: &mut Vec<u8>,
    header: &Header,
    key: &[u8],
    value: &[u8],
    identity: FileIdentity,
    offset: u64,
) {
    debug_assert_eq!(header.record_len(), HEADER_LEN + key.len() + value.len());
    out.extend_from_slice(&header.encode(identity, offset));
    out.extend_from_slice(key);
    out.extend_from_slice(value);
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: FileIdentity = FileIdentity(7);

    fn sample() -> Vec<u8> {
        let header = Header::new(RecordKind::Separated, KeyspaceId(2), 99, b"key", b"value");
        let mut out = Vec::new();
        put_record(&mut out, &header, b"key", b"value", ID, 4096);
        out
    }

    #[test]
    fn records_round_trip() {
        let bytes = sample();
        let record = Record::parse(&bytes, ID, 4096).unwrap();
        assert_eq!((record.key, record.value), (&b"key"[..], &b"value"[..]));
        assert_eq!((record.header.seq, record.header.keyspace), (99, KeyspaceId(2)));
    }

    #[test]
    fn a_record_is_valid_at_its_own_place_only() {
        let bytes = sample();
        assert!(Record::parse(&bytes, ID, 4097).is_err(), "another offset");
        assert!(Record::parse(&bytes, FileIdentity(8), 4096).is_err(), "another file");
        assert!(Record::parse(&[0; 64], ID, 0).is_err(), "all zeros");
    }

    #[test]
    fn a_payload_in_pieces_has_the_checksum_of_the_whole() {
        for len in [0, 1, 100, 240, 241, 5000] {
            let value: Vec<u8> = (0..len).map(|at| at as u8).collect();
            let header = Header::new(RecordKind::Separated, KeyspaceId(2), 9, b"key", &value);
            let mut check = PayloadCheck::new(&header);
            value.chunks(77).for_each(|piece| check.update(piece));
            assert!(check.matches(&header, b"key") && !check.matches(&header, b"kez"));
            check.update(&[0]);
            assert!(!check.matches(&header, b"key"), "a byte more than {len}");
        }
    }

    #[test]
    fn a_compressed_value_is_never_taken_for_another() {
        let plain = Header::new(RecordKind::Separated, KeyspaceId(2), 9, b"key", b"value");
        let compressed = plain.of_compressed(b"key", b"value");
        for (header, other) in [(plain, compressed), (compressed, plain)] {
            let mut check = PayloadCheck::new(&header);
            check.update(b"value");
            assert!(header.covers(b"key", b"value") && check.matches(&header, b"key"));
            assert_eq!(Header::decode(&header.encode(ID, 0), ID, 0), Some(header));
            let forged = Header { compressed: other.compressed, ..header };
            assert!(!forged.covers(b"key", b"value"), "{forged:?}");
        }
        let inline = Header { kind: RecordKind::Inline, ..compressed };
        assert_eq!(Header::decode(&inline.encode(ID, 0), ID, 0), None, "no such record");
    }

    #[test]
    fn every_flipped_bit_is_noticed() {
        let bytes = sample();
        for bit in 0..bytes.len() * 8 {
            let mut damaged = bytes.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert!(Record::parse(&damaged, ID, 4096).is_err(), "bit {bit}");
        }
    }

    #[test]
    fn every_truncation_is_noticed() {
        let bytes = sample();
        for len in 0..bytes.len() {
            assert!(Record::parse(&bytes[..len], ID, 4096).is_err(), "length {len}");
        }
    }
}
