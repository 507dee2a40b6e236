//! Far records: records too long to be held whole in memory while they are copied.
//!
//! Header and key are in memory; the value stays in its file and is read in pieces of one length,
//! each of which is dropped before the next. Its checksum is compared after the last piece: the
//! pieces are written by then, so a failed copy must discard its output.

use cleavedb_base::record::{HEADER_LEN, Header, PayloadCheck};
use cleavedb_base::{KeyspaceId, Result, SeqNo, ValuePointer};

use super::Segment;

/// Length of a piece, in bytes, and of the longest record that is held whole.
pub const PIECE: usize = 1 << 20;

/// Whether a record is too long to be held whole.
pub fn is_far(pointer: ValuePointer) -> bool {
    pointer.len as usize > PIECE
}

/// A record whose value is still in its file.
pub struct FarRecord<'a> {
    segment: &'a Segment,
    offset: u64,
    /// The header of the record.
    pub header: Header,
    /// The user key of the record.
    pub key: Vec<u8>,
    /// The expiry of its value, if it has one.
    pub front: Vec<u8>,
}

impl Segment {
    /// The record at `pointer`, of which header and key are read and checked.
    pub fn far(&self, pointer: ValuePointer) -> Result<FarRecord<'_>> {
        let offset = pointer.offset;
        let mut head = [0; HEADER_LEN];
        self.read(offset, &mut head)?;
        let header = Header::decode(&head, self.identity, offset)
            .ok_or_else(|| self.damaged(offset, "record header does not match its checksum"))?;
        if header.record_len() != pointer.len as usize {
            return Err(self.damaged(offset, "a pointer leads to a record of another length"));
        }
        let mut key = vec![0; usize::from(header.key_len) + header.kind.front_len()];
        self.read(offset + HEADER_LEN as u64, &mut key)?;
        let front = key.split_off(usize::from(header.key_len));
        Ok(FarRecord { segment: self, offset, header, key, front })
    }
}

impl FarRecord<'_> {
    /// Fails unless this is the record of (`keyspace`, `key`, `seq`).
    pub fn is_of(&self, keyspace: KeyspaceId, key: &[u8], seq: SeqNo) -> Result<()> {
        if self.key == key && self.header.seq == seq && self.header.keyspace == keyspace {
            return Ok(());
        }
        let what = "a pointer leads to another key's record";
        Err(self.segment.damaged_value(self.offset, what, key))
    }

    /// Passes the value to `visit`, piece by piece, and then verifies its checksum.
    pub fn visit(&self, mut visit: impl FnMut(&[u8]) -> Result<()>) -> Result<()> {
        let mut check = PayloadCheck::new(&self.header);
        let end = self.offset + self.header.record_len() as u64;
        let mut at = self.offset + (HEADER_LEN + self.key.len()) as u64;
        let mut piece = vec![0; PIECE];
        while at < end {
            let len = PIECE.min((end - at) as usize);
            self.segment.read(at, &mut piece[..len])?;
            check.update(&piece[..len]);
            visit(&piece[..len])?;
            at += len as u64;
        }
        if check.matches(&self.header, &self.key) {
            return Ok(());
        }
        let what = "record payload does not match its checksum";
        Err(self.segment.damaged_value(self.offset, what, &self.key))
    }
}
