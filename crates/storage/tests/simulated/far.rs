//! Records that are copied in pieces: what is copied is checked.

use std::sync::Arc;

use cleavedb_base::record::{FileIdentity, Header, RecordKind};
use cleavedb_base::{ErrorKind, FileNumber, KeyspaceId, ValuePointer};
use cleavedb_storage::segment::{PIECE, Segment, SegmentWriter, is_far};
use cleavedb_storage::{Access, FileKind, Mode, Name, ObsoleteFiles, Storage};
use cleavedb_storage_sim::Sim;

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

/// A record of two and a half pieces in file 1, damaged at `damaged` of its value, and its
/// place.
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
    assert!(far.is_of(KEYSPACE, b"key", 5).is_ok());
    assert!(far.is_of(KEYSPACE, b"kez", 5).is_err());
    assert!(far.is_of(KEYSPACE, b"key", 6).is_err());
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
