//! When a manifest is replaced, and the numbers that it has reserved by then.

use cleavedb_index::cache::BlockCache;
use cleavedb_storage::{FileKind, ObsoleteFiles};
use cleavedb_storage_sim::Sim;
use cleavedb_storage_sim::faulty::{Fault, Faulty, Op};
use cleavedb_values::{ValueFileEdit, ValueLayout};

use super::*;
use crate::settings::options::Preset;

/// Number of files in an edit that makes a manifest long.
const FILES: u64 = 20_000;

fn begun(sim: &Sim) -> (Manifest, Arc<TableStore>) {
    begun_in(Arc::new(sim.clone()))
}

fn begun_in(storage: Arc<dyn Storage>) -> (Manifest, Arc<TableStore>) {
    let cache = Arc::new(BlockCache::new(1 << 20));
    let tables = TableStore::new(storage.clone(), 1, cache, Arc::new(ObsoleteFiles::default()));
    let tables = Arc::new(tables);
    let placed =
        MultiDirStorage::new(cleavedb_storage::Directory::whole(storage), Vec::new()).unwrap();
    let (manifest, preset) = (FileNumber(1), Preset::Lsm);
    let current = Current { manifest, database_id: 1, preset, volumes: Vec::new() };
    let live = LiveFiles { layout: Some(ValueLayout::INLINE), ..LiveFiles::empty(&tables) };
    (Manifest::begin(Arc::new(placed), current, live).unwrap(), tables)
}

/// An edit of many log files, from number `first` on.
fn edit_of(first: u64, change: impl Fn(FileNumber) -> ValueFileEdit) -> Edit {
    let value_files = (first..first + FILES).map(|number| change(FileNumber(number))).collect();
    Edit { value_files, ..Edit::default() }
}

fn add(first: u64) -> Edit {
    edit_of(first, |number| ValueFileEdit::Add(number, FileKind::Log))
}

/// A regression: the edit after a replacement took back the numbers that the replacement had
/// reserved. Once they were used up, none was reserved any more, and after a crash numbers were
/// used twice.
#[test]
fn numbers_stay_reserved_when_the_manifest_is_replaced() {
    let sim = Sim::new();
    let (mut manifest, tables) = begun(&sim);
    while manifest.next_file < manifest.live.next_file {
        manifest.allocate().unwrap();
    }
    let first = manifest.name();
    while manifest.name() == first {
        manifest.commit(&add(1 << 40)).unwrap();
        manifest.commit(&edit_of(1 << 40, ValueFileEdit::Remove)).unwrap();
    }
    let mut last = FileNumber(0);
    for _ in 0..3 * NUMBERS_RESERVED {
        last = manifest.allocate().unwrap();
    }
    let read = Manifest::load(&sim, &manifest.current, &tables).unwrap().live;
    assert!(read.next_file > last.0, "{} is reserved, {} handed out", read.next_file, last.0);
}

/// A regression: a state of 2 MiB, which is stored twice, made every edit replace the manifest.
#[test]
fn a_long_state_is_not_written_with_every_edit() {
    let sim = Sim::new();
    let (mut manifest, _) = begun(&sim);
    let mut first = 1 << 40;
    while manifest.len_max <= LEN_MAX {
        manifest.commit(&add(first)).unwrap();
        first += FILES;
    }
    let name = manifest.name();
    for epoch in 1..20 {
        manifest.commit(&Edit { epoch: Some(epoch), ..Edit::default() }).unwrap();
    }
    assert_eq!(manifest.name(), name, "replaced at {} bytes", manifest.len_max);
}

/// A regression: a manifest that could not be replaced refused all edits, and so all writes, and
/// each attempt left a file behind.
#[test]
fn a_manifest_that_cannot_be_replaced_goes_on() {
    let due = || {
        let sim = Sim::new();
        let faulty = Arc::new(Faulty::over(&sim));
        let (mut manifest, tables) = begun_in(faulty.clone());
        manifest.commit(&add(1 << 40)).unwrap();
        assert!(manifest.offset > manifest.len_max);
        (sim, faulty, manifest, tables)
    };
    let edit = |epoch| Edit { epoch: Some(epoch), ..Edit::default() };
    let (_, faulty, mut manifest, _) = due();
    let (first, before) = (manifest.name(), faulty.calls());
    manifest.commit(&edit(1)).unwrap();
    let calls: Vec<_> = faulty.trace().into_iter().filter(|it| it.number >= before).collect();
    let effect = calls.iter().position(|call| call.op == Op::SyncDir).unwrap();
    assert!(effect > 4, "{calls:?}");
    for call in &calls[..effect] {
        for fault in [Fault::TooManyFiles, Fault::NoSpace, Fault::Io] {
            let (sim, faulty, mut manifest, tables) = due();
            faulty.fail_call(call.number, fault);
            manifest.commit(&edit(1)).unwrap();
            assert_eq!((manifest.name(), manifest.is_in_doubt()), (first, false), "{call}");
            let manifests = || {
                let files = sim.list().unwrap().into_iter();
                files.filter(|(name, _)| name.kind() == FileKind::Manifest).count()
            };
            assert_eq!(manifests(), 1, "{call} fails with {fault:?}");
            while manifest.name() == first {
                manifest.commit(&add(1 << 50)).unwrap();
                manifest.commit(&edit_of(1 << 50, ValueFileEdit::Remove)).unwrap();
            }
            assert_eq!(manifests(), 1);
            let read = Manifest::load(&sim, &manifest.current, &tables).unwrap().live;
            assert_eq!(read.epoch, 1);
        }
    }
}

/// A regression: a close that began a new manifest released its number for another file.
#[test]
fn the_number_of_a_manifest_is_not_given_out_again() {
    let sim = Sim::new();
    let (mut manifest, tables) = begun(&sim);
    manifest.commit(&add(1 << 40)).unwrap();
    let next_file = Some(manifest.next_number());
    manifest.commit(&Edit { next_file, ..Edit::default() }).unwrap();
    let current = manifest.current.clone();
    let loaded = Manifest::load(&sim, &current, &tables).unwrap();
    let mut again = Manifest::resume(manifest.storage.clone(), current.clone(), loaded);
    assert!(again.take_number() > current.manifest);
}
