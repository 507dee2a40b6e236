//! The log's own records: the header of a file, and the mark that joins two parts of one.
//!
//! See `docs/format.md`, "Log file".

use cleavedb_base::codec::Cursor;
use cleavedb_base::record::{FileIdentity, HEADER_LEN, Header, RecordKind, put_record};
use cleavedb_base::{Error, FileNumber, KeyspaceId, Result};

/// Version of the formats of logs, segments and the manifest.
pub const FORMAT_VERSION: u32 = 1;

/// First bytes of the payload of a file header.
const MAGIC: [u8; 8] = *b"CleaveDB";

/// Payload of the first record of a log file or segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileHeader {
    /// Database that the file belongs to.
    pub database_id: u64,
    /// The number of the file.
    pub number: FileNumber,
    /// Log position of the file's first byte; 0 in segments.
    pub base: u64,
    /// Log position at which the log file before this one ends.
    pub previous_end: u64,
    /// Every log position below was durable when the header was made.
    pub durable: u64,
}

impl FileHeader {
    const PAYLOAD_LEN: usize = 8 + 4 + 5 * 8;
    /// Length of the header record, in bytes.
    pub const RECORD_LEN: usize = HEADER_LEN + Self::PAYLOAD_LEN;

    /// The whole header record.
    pub fn encode(&self) -> Vec<u8> {
        let mut payload = Vec::with_capacity(Self::PAYLOAD_LEN);
        payload.extend_from_slice(&MAGIC);
        payload.extend_from_slice(&FORMAT_VERSION.to_le_bytes());
        for field in [self.database_id, self.number.0, self.base, self.previous_end, self.durable] {
            payload.extend_from_slice(&field.to_le_bytes());
        }
        let identity = FileIdentity::new(self.database_id, self.number);
        let header = Header::new(RecordKind::FileHeader, KeyspaceId(0), 0, &[], &payload);
        let mut out = Vec::with_capacity(Self::RECORD_LEN);
        put_record(&mut out, &header, &[], &payload, identity, 0);
        out
    }

    /// Reads the payload of a header record.
    pub fn decode(payload: &[u8]) -> Result<Self> {
        let mut cursor = Cursor::new(payload, "file header");
        if cursor.take(MAGIC.len())? != MAGIC {
            return Err(Error::corruption("file header does not begin with CleaveDB's magic"));
        }
        let version = cursor.u32()?;
        if version != FORMAT_VERSION {
            return Err(newer_format(version));
        }
        let header = Self {
            database_id: cursor.u64()?,
            number: FileNumber(cursor.u64()?),
            base: cursor.u64()?,
            previous_end: cursor.u64()?,
            durable: cursor.u64()?,
        };
        cursor.end()?;
        Ok(header)
    }
}

/// The error for data of a newer format version.
pub fn newer_format(version: u32) -> Error {
    Error::new(
        cleavedb_base::ErrorKind::NewerFormat,
        format!(
            "the data has format version {version}, this release reads version {FORMAT_VERSION}; \
             open it with the release that wrote it"
        ),
    )
}

/// Alignment of marks: divides every alignment that a disk may require.
pub(super) const MARK_ALIGNMENT: u64 = 512;

/// Payload of a mark: stands at a multiple of `MARK_ALIGNMENT`, behind the gap that a sync left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SyncMarker {
    /// Log position at which the part before the mark ends.
    pub previous_end: u64,
    /// Every log position below was durable when the mark was made.
    pub durable: u64,
}

impl SyncMarker {
    const PAYLOAD_LEN: usize = 2 * 8;
    /// Length of the mark's record, in bytes.
    pub const RECORD_LEN: usize = HEADER_LEN + Self::PAYLOAD_LEN;

    /// The whole record, for `offset` of the file `identity`.
    pub fn encode(&self, identity: FileIdentity, offset: u64) -> Vec<u8> {
        let mut payload = [0; Self::PAYLOAD_LEN];
        payload[..8].copy_from_slice(&self.previous_end.to_le_bytes());
        payload[8..].copy_from_slice(&self.durable.to_le_bytes());
        let header = Header::new(RecordKind::SyncMarker, KeyspaceId(0), 0, &[], &payload);
        let mut out = Vec::with_capacity(Self::RECORD_LEN);
        put_record(&mut out, &header, &[], &payload, identity, offset);
        out
    }

    /// Reads the payload of a mark.
    pub fn decode(payload: &[u8]) -> Result<Self> {
        let mut cursor = Cursor::new(payload, "log mark");
        let mark = Self { previous_end: cursor.u64()?, durable: cursor.u64()? };
        cursor.end()?;
        Ok(mark)
    }
}
