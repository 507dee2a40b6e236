//! Far records: those too long to be held whole on their way from one file to another.
//!
//! Header and key are in memory, the value stays in its file and is read in pieces of one length,
//! each of which is dropped before the next. Its checksum is compared when the last one is read: by
//! then the pieces are where they were to go, so who copies a far record must give up what he wrote
//! when it fails.

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
    /// Its header.
    pub header: Header,
    /// Its user key.
    pub key: Vec<u8>,
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
        let mut key = vec![0; usize::from(header.key_len)];
        self.read(offset + HEADER_LEN as u64, &mut key)?;
        Ok(FarRecord { segment: self, offset, header, key })
    }
}

impl FarRecord<'_> {
    /// Fails unless this is the record of (`keyspace`, `key`, `seq`).
    pub fn is_of(&self, (keyspace, key, seq): (KeyspaceId, &[u8], SeqNo)) -> Result<()> {
        if self.key == key && self.header.seq == seq && self.header.keyspace == keyspace {
            return Ok(());
        }
        Err(self.segment.damaged(self.offset, "a pointer leads to another key's record"))
    }

    /// Hands the value to `visit`, piece by piece, and then compares it with its checksum.
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
        Err(self.segment.damaged(self.offset, what))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use cleavedb_base::record::{FileIdentity, RecordKind};
    use cleavedb_base::{ErrorKind, FileNumber};

    use super::*;
    use crate::segment::SegmentWriter;
    use crate::{Access, FileKind, Mode, Name, ObsoleteFiles, Sim, Storage};

    const KEYSPACE: KeyspaceId = KeyspaceId(0);

    fn create(sim: &Sim, number: u64) -> SegmentWriter {
        let name = Name::numbered(FileKind::Segment, FileNumber(number));
        let file = sim.open(&name, Mode::CreateNew, Access::Random).unwrap();
        SegmentWriter::create(name, 7, file).unwrap()
    }

    fn open(sim: &Sim, number: u64) -> Segment {
        let name = Name::numbered(FileKind::Segment, FileNumber(number));
        let file = sim.open(&name, Mode::Read, Access::Random).unwrap();
        let identity = FileIdentity::new(7, name.number());
        Segment::new(name, identity, file, None, Arc::new(ObsoleteFiles::default()))
    }

    /// A record of two pieces and a half in file 1, damaged at `damaged` of its value, and where.
    fn written(sim: &Sim, damaged: Option<usize>) -> (ValuePointer, Vec<u8>) {
        let mut value: Vec<u8> = (0..PIECE * 5 / 2).map(|at| (at / 1000) as u8).collect();
        let header = Header::new(RecordKind::Separated, KEYSPACE, 5, b"key", &value);
        damaged.into_iter().for_each(|at| value[at] ^= 1);
        let mut writer = create(sim, 1);
        let pointer = writer.append(&header, b"key", &value).unwrap();
        writer.finish().unwrap();
        (pointer, value)
    }

    #[test]
    fn a_copy_in_pieces_is_the_record_at_its_new_place() {
        let sim = Sim::new();
        let (pointer, value) = written(&sim, None);
        assert!(is_far(pointer));
        let (from, mut writer) = (open(&sim, 1), create(&sim, 2));
        let copied = writer.append_far(&from.far(pointer).unwrap()).unwrap();
        writer.finish().unwrap();
        let to = open(&sim, 2);
        let mut bytes = vec![0; copied.len as usize];
        to.read(copied.offset, &mut bytes).unwrap();
        assert_eq!(to.verify(&bytes, copied, KEYSPACE, b"key", 5).unwrap().value, value);
        let far = to.far(copied).unwrap();
        assert!(far.is_of((KEYSPACE, b"key", 5)).is_ok());
        assert!(far.is_of((KEYSPACE, b"kez", 5)).is_err());
        assert!(far.is_of((KEYSPACE, b"key", 6)).is_err());
    }

    #[test]
    fn damage_in_any_piece_is_noticed() {
        for at in [0, PIECE - 1, PIECE, 2 * PIECE + 7, PIECE * 5 / 2 - 1] {
            let sim = Sim::new();
            let (pointer, _) = written(&sim, Some(at));
            let copied = create(&sim, 2).append_far(&open(&sim, 1).far(pointer).unwrap());
            assert_eq!(copied.unwrap_err().kind(), ErrorKind::Corruption, "byte {at}");
            let shorter = ValuePointer { len: pointer.len - 1, ..pointer };
            assert!(open(&sim, 1).far(shorter).is_err(), "another length");
        }
    }
}
