//! Files whose checksums hold and whose content makes no sense: what no checksum keeps from the
//! decoders.

use std::fs;
use std::ops::ControlFlow;
use std::path::Path;

use cleavedb_base::record::{FileIdentity, HEADER_LEN, Header, Record, RecordKind, payload_check};
use cleavedb_storage::{FileKind, Name};
use cleavedb_storage_sim::sim::Rng;

use super::{Dump, DumpKind, DumpRequest, Dumped};
use crate::Db;
use crate::settings::options::{Options, Preset};
use crate::store::manifest::Current;

/// A small store with tables, values and a log, closed.
fn store(options: Options, dir: &Path) {
    let db = Db::open(dir, options).unwrap();
    for round in 0..3u8 {
        for key in 0..40u32 {
            db.put(key.to_be_bytes(), vec![round; 100 + key as usize * 60]).unwrap();
        }
        db.flush().unwrap();
        db.collect().unwrap();
    }
    db.delete(b"key").unwrap();
    db.close().unwrap();
}

/// Changes something in most records of a file, and makes their checksums hold again.
fn garble(bytes: &mut [u8], identity: FileIdentity, rng: &mut Rng) {
    let mut at = 0;
    while at + HEADER_LEN <= bytes.len() {
        let Ok(record) = Record::parse(&bytes[at..], identity, at as u64) else {
            at += 1;
            continue;
        };
        let mut header = record.header;
        let len = header.record_len();
        let payload = &mut bytes[at + HEADER_LEN..at + len];
        for _ in 0..if rng.chance(20) { rng.below(4) } else { 0 } {
            if let Some(byte) = payload.get_mut(rng.below(1 + len as u64) as usize) {
                *byte = if rng.chance(50) { 0xff } else { rng.below(256) as u8 };
            }
        }
        if rng.chance(5) && header.kind != RecordKind::FileHeader {
            header.seq = rng.next_u64() >> 8;
            header.more = rng.chance(50);
        }
        let (key, value) = payload.split_at(usize::from(header.key_len));
        header.payload_check = payload_check(header.kind, header.keyspace, key, value);
        bytes[at..at + HEADER_LEN].copy_from_slice(&Header::encode(&header, identity, at as u64));
        at += len;
    }
}

#[test]
fn content_that_makes_no_sense_is_no_panic() {
    for preset in Preset::ALL {
        let dir = tempfile::tempdir().unwrap();
        store(Options::preset(preset), dir.path());
        let disk = cleavedb_storage::Disk::open(dir.path(), false).unwrap();
        let id = Current::read(&disk).unwrap().unwrap().database_id;
        let files: Vec<_> = fs::read_dir(dir.path())
            .unwrap()
            .filter_map(|entry| {
                let path = entry.unwrap().path();
                let name = Name::parse(path.file_name()?.to_str()?)?;
                Some((name, fs::read(&path).unwrap(), path))
            })
            .filter(|(name, ..)| name.number().0 > 0 && name.kind() != FileKind::Table)
            .collect();
        for seed in 0..100 {
            let mut rng = Rng::new(seed);
            for (name, whole, path) in &files {
                let mut bytes = whole.clone();
                if rng.chance(60) {
                    garble(&mut bytes, FileIdentity::new(id, name.number()), &mut rng);
                }
                fs::write(path, bytes).unwrap();
            }
            for kind in [DumpKind::Manifest, DumpKind::Log, DumpKind::Table, DumpKind::Values] {
                let request = DumpRequest { kind, file: None, values: true, state: true };
                let dump = Dump::open(dir.path(), None).unwrap();
                let visit = &mut |_: Dumped<'_>| ControlFlow::Continue(());
                dump.read(&request, visit).unwrap();
            }
        }
    }
}
