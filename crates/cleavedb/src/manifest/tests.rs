//! When a manifest is replaced, and what it has promised by then.

use cleavedb_index::cache::BlockCache;
use cleavedb_storage::{FileKind, Reaper, Sim};
use cleavedb_values::LedgerEdit;

use super::*;
use crate::options::Preset;

/// Files of an edit that makes a manifest long.
const FILES: u64 = 20_000;

fn begun(sim: &Sim) -> (Manifest, Arc<TableStore>) {
    sim.stop_recording();
    let storage: Arc<dyn Storage> = Arc::new(sim.clone());
    let cache = Arc::new(BlockCache::new(1 << 20));
    let tables = TableStore::new(storage.clone(), 1, cache, Arc::new(Reaper::default()));
    let tables = Arc::new(tables);
    let placed = Placed::new(cleavedb_storage::Directory::whole(storage), Vec::new()).unwrap();
    let (manifest, preset) = (FileNumber(1), Preset::Lsm);
    let current = Current { manifest, database_id: 1, preset, volumes: Vec::new() };
    let live = LiveFiles::empty(&tables);
    (Manifest::begin(Arc::new(placed), current, live).unwrap(), tables)
}

/// An edit of many log files, from number `first` on.
fn edit_of(first: u64, change: impl Fn(FileNumber) -> LedgerEdit) -> Edit {
    let ledger = (first..first + FILES).map(|number| change(FileNumber(number))).collect();
    Edit { ledger, ..Edit::default() }
}

fn add(first: u64) -> Edit {
    edit_of(first, |number| LedgerEdit::Add(number, FileKind::Log))
}

/// The edit behind a replacement took back the numbers that this had reserved: once they had been
/// handed out, none was reserved any more, and after a crash numbers came twice.
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
        manifest.commit(&edit_of(1 << 40, LedgerEdit::Remove)).unwrap();
    }
    let mut last = FileNumber(0);
    for _ in 0..3 * NUMBERS_RESERVED {
        last = manifest.allocate().unwrap();
    }
    let read = Manifest::load(&sim, &manifest.current, &tables).unwrap().live;
    assert!(read.next_file > last.0, "{} is reserved, {} handed out", read.next_file, last.0);
}

/// A state of 2 MiB, which stands in the manifest twice, made every edit replace the manifest.
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
