//! Memory for caches, and threads, that several databases share.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use cleavedb::{Background, Db, Durability, ErrorKind, Options, Preset, Resources, Tuning};
use cleavedb_storage::{Access, File, FileKind, Mode, Name, Storage, StorageLayer};
use cleavedb_storage_sim::Sim;
use cleavedb_testkit::gated::{Door, eventually};
use cleavedb_testkit::sharing::databases_share_caches;
use cleavedb_testkit::{Churn, Disks, Gated, Setup, session};

/// Time after which something counts as kept waiting: far more than a busy machine takes for it.
const LIMIT: Duration = Duration::from_secs(30);

#[test]
fn databases_that_share_caches_find_their_own_under_every_design() {
    for setup in Setup::designs() {
        databases_share_caches(&setup).unwrap_or_else(|failure| panic!("{setup}: {failure}"));
    }
}

#[test]
fn caches_of_ones_own_beside_shared_ones_are_refused() {
    let resources = Some(Resources::new(1 << 20, 0));
    let usual = Options { resources, ..Options::default() };
    usual.validate().unwrap();
    for options in [
        Options {
            tuning: Tuning { cache_bytes: Some(1 << 20), ..usual.tuning.clone() },
            ..usual.clone()
        },
        Options { record_cache_bytes: 1 << 20, ..usual.clone() },
    ] {
        let refused = options.validate().unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::InvalidOptions);
        assert!(refused.message().contains("Resources::new"), "{refused}");
    }
}

/// Filters and indexes of all tables take more than the memory.
#[test]
fn many_databases_keep_the_bound_and_each_is_served() {
    const BUDGET: usize = 4 << 20;
    const KEYS: u32 = 20_000;
    let resources = Resources::new(BUDGET, 0);
    let mut setup = Setup::tiny(Preset::Lsm, true);
    setup.options.tuning.cache_bytes = None;
    setup.options.tuning.filter_bits = 64;
    (setup.options.tuning.table_bytes, setup.options.tuning.memtable_bytes) =
        (32 << 10, Some(1 << 20));
    (setup.options.tuning.memtable_log_bytes, setup.options.tuning.level0_bytes) =
        (4 << 20, Some(4 << 20));
    setup.options.resources = Some(resources.clone());
    let open = || session::open_all(&Disks::new(&setup).storages(), &setup).unwrap();
    let dbs: Vec<Db> = (0..24).map(|_| open()).collect();
    let key = |number: u32| number.wrapping_mul(0x9e37_79b9).to_be_bytes();
    for db in &dbs {
        for number in 0..KEYS {
            db.put_with(key(number), "", Durability::Os).unwrap();
        }
        db.flush().unwrap();
        db.compact().unwrap();
    }
    for number in (0..KEYS).step_by(97) {
        for db in &dbs {
            assert!(db.get(key(number)).unwrap().is_some());
            assert!(resources.used() <= BUDGET as u64, "{} bytes", resources.used());
        }
    }
    let tables: usize = dbs.iter().flat_map(|db| db.metrics().levels).map(|l| l.tables).sum();
    assert!(tables > 200, "{tables} tables");
    drop(dbs);
    assert_eq!(resources.used(), 0, "nothing is left of what was closed");
}

/// A setup whose databases share `workers` threads.
fn with_threads(setup: &Setup, workers: usize) -> Setup {
    let mut setup = setup.clone();
    (setup.options.tuning.cache_bytes, setup.options.record_cache_bytes) = (None, 0);
    setup.options.resources = Some(Resources::new(4 << 20, 0).with_threads(workers));
    setup.options.background = Background::Threads(1);
    setup
}

#[test]
fn databases_that_share_threads_do_all_their_jobs_under_every_design() {
    for setup in Setup::designs() {
        let setup = with_threads(&setup, 2);
        let open = |_| session::open_all(&Disks::new(&setup).storages(), &setup).unwrap();
        let dbs: Vec<Db> = (0..6).map(open).collect();
        std::thread::scope(|scope| {
            for (seed, db) in (0..).zip(&dbs) {
                let setup = &setup;
                scope.spawn(move || {
                    let mut churn = Churn::new(seed);
                    // Writers wait for the threads that they share.
                    (0..3).for_each(|_| churn.write(db, 300));
                    db.flush().unwrap();
                    db.wait_idle().unwrap();
                    churn.check(db);
                    assert!(
                        db.metrics().flushes > 0 && db.metrics().failures.is_empty(),
                        "{setup}"
                    );
                });
            }
        });
        for db in dbs {
            assert_eq!(db.close().unwrap(), 0, "{setup}");
        }
    }
}

fn write_some(db: &Db, round: u8) {
    for key in 0..100u8 {
        db.put_with([key], [round; 900], Durability::Os).unwrap();
    }
}

/// The only thread that collects is held in a job of one database: the flushes, the close and the
/// next open of another do not wait for it.
#[test]
fn a_job_of_one_database_keeps_no_other_from_its_close() {
    let setup = with_threads(&Setup::tiny(Preset::WiscKey, true), 1);
    let door = Arc::new(Gated::new(Arc::new(Sim::new())));
    let held = session::open(door.clone(), &setup).unwrap();
    let other = Arc::new(Sim::new());
    let free = session::open(other.clone(), &setup).unwrap();
    // Survivors of a collection go there.
    let guard = door.hold(Door::Create, FileKind::Segment, 1);
    let written = held.clone();
    let writer = std::thread::spawn(move || {
        for key in 0..u8::MAX {
            written.put([key], [key; 900]).unwrap();
        }
        (0..40).for_each(|round| write_some(&written, round));
    });
    assert!(eventually(LIMIT, || door.waiting() > 0));
    let free = {
        write_some(&free, 1);
        free.flush().unwrap();
        free.close().unwrap();
        session::open(other, &setup).unwrap()
    };
    assert_eq!(free.get([7]).unwrap().unwrap(), [1; 900].as_slice());
    assert!(door.waiting() > 0, "the job of the first is held still");
    drop(guard);
    writer.join().unwrap();
    held.close().unwrap();
    free.close().unwrap();
}

/// A storage that panics where a test wants it.
struct Panicking {
    inner: Arc<dyn Storage>,
    panics: Arc<AtomicBool>,
}

impl StorageLayer for Panicking {
    fn inner(&self) -> &dyn Storage {
        &*self.inner
    }

    fn open(&self, name: &Name, mode: Mode, access: Access) -> io::Result<Arc<dyn File>> {
        if name.kind() == FileKind::Table && self.panics.load(Ordering::Acquire) {
            std::panic::resume_unwind(Box::new("a job"));
        }
        self.inner.open(name, mode, access)
    }
}

#[test]
fn a_panic_in_a_job_of_one_database_stays_there() {
    let setup = with_threads(&Setup::tiny(Preset::Lsm, true), 1);
    let panics = Arc::new(AtomicBool::new(false));
    let inner: Arc<dyn Storage> = Arc::new(Sim::new());
    let disk = Arc::new(Panicking { inner, panics: panics.clone() });
    let broken = session::open(disk, &setup).unwrap();
    let whole = session::open(Arc::new(Sim::new()), &setup).unwrap();
    write_some(&broken, 0);
    write_some(&whole, 0);
    panics.store(true, Ordering::Release);
    assert_eq!(broken.flush().unwrap_err().kind(), ErrorKind::Poisoned);
    assert!(broken.metrics().poisoned.is_some_and(|cause| cause.contains("panicked")));
    for round in 1..5 {
        write_some(&whole, round);
        whole.flush().unwrap();
    }
    whole.wait_idle().unwrap();
    assert!(whole.metrics().flushes >= 4);
    assert!(broken.close().is_err());
    whole.close().unwrap();
}
