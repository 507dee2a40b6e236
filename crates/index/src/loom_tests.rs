//! The end of a table under every schedule: it is queued for removal once, by its last reader.

use std::iter;

use cleavedb_base::FileNumber;
use cleavedb_base::sync::atomic::{AtomicBool, Ordering};
use cleavedb_base::sync::checker::sync::Arc;
use cleavedb_base::sync::checker::{model, thread};
use cleavedb_storage::ObsoleteFiles;
use cleavedb_storage_sim::Sim;

use crate::cache::BlockCache;
use crate::table_format::TableMeta;
use crate::table_handle::{TableHandle, TableStore};

/// The references of readers to a table; the reference count is the checker's, which orders drops.
struct Held {
    handle: TableHandle,
    obsolete_files: std::sync::Arc<ObsoleteFiles>,
}

impl Held {
    fn new() -> Arc<Self> {
        let (obsolete_files, cache) =
            (std::sync::Arc::default(), std::sync::Arc::new(BlockCache::new(0)));
        let storage = std::sync::Arc::new(Sim::new());
        let store = TableStore::new(storage, 1, cache, std::sync::Arc::clone(&obsolete_files));
        let handle = TableHandle::new(TableMeta::empty(FileNumber(3)), std::sync::Arc::new(store));
        Arc::new(Self { handle, obsolete_files })
    }
}

/// A version drops a table that an edit removed, a reader still uses it, and a job removes queued
/// files.
fn a_reader_holds_a_retired_table() {
    let in_version = Held::new();
    let obsolete_files = in_version.obsolete_files.clone();
    let removed = Arc::new(AtomicBool::new(false));
    let reader = {
        let (held, removed) = (in_version.clone(), removed.clone());
        thread::spawn(move || {
            let gone = removed.load(Ordering::Acquire);
            assert!(!gone, "the file of table {} is gone", held.handle.number());
        })
    };
    let job = {
        let (obsolete_files, removed) = (obsolete_files.clone(), removed.clone());
        thread::spawn(move || {
            let found = obsolete_files.take_name().is_some();
            removed.store(found, Ordering::Release);
            usize::from(found)
        })
    };
    in_version.handle.retire();
    drop(in_version);
    reader.join().unwrap();
    let found = job.join().unwrap();
    let left = iter::from_fn(|| obsolete_files.take_name()).count();
    assert_eq!(found + left, 1, "a table is queued once");
}

/// At close a version drops a table that no edit removed.
fn a_table_that_stays() {
    let held = Held::new();
    let obsolete_files = held.obsolete_files.clone();
    let reader = {
        let held = held.clone();
        thread::spawn(move || drop(held))
    };
    drop(held);
    reader.join().unwrap();
    assert!(obsolete_files.take_name().is_none(), "a table that was not retired is queued");
}

#[test]
fn a_table_goes_with_its_last_reader() {
    model(a_reader_holds_a_retired_table);
}

#[test]
fn a_table_that_no_edit_dropped_stays() {
    model(a_table_that_stays);
}

#[cfg(feature = "test-planted-bugs")]
#[test]
fn planted_a_table_that_goes_under_its_readers() {
    use cleavedb_base::planted::{Bug, must_notice};
    must_notice(Bug::BuriedUnderReaders, || model(a_reader_holds_a_retired_table));
}
