//! Checkpoints: a copy has what was written before, is a database of its own, and neither of the
//! two harms the other.

use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use cleavedb::{Background, Backups, Db, Durability, ErrorKind, Options};
use cleavedb_storage::{Disk, FileKind, Storage, StorageLayer};
use cleavedb_storage_sim::faulty::Fault;
use cleavedb_storage_sim::{Faulty, Sim};
use cleavedb_testkit::copies::a_checkpoint_has_all;
use cleavedb_testkit::{Churn, Disks, Setup, session};

/// Operations before a checkpoint.
const WRITES: usize = 300;

/// An empty directory that is not that of another database.
fn other_directory() -> Sim {
    let sim = Sim::new();
    sim.set_directory_id(77);
    sim
}

fn open_copy(copy: &Sim, setup: &Setup) -> Db {
    session::open(Arc::new(copy.clone()), &setup.clone().in_one_directory()).unwrap()
}

#[test]
fn a_checkpoint_has_all_that_was_written_under_every_setup() {
    for setup in &Setup::some() {
        for seed in 0..4 {
            a_checkpoint_has_all(setup, seed)
                .unwrap_or_else(|failure| panic!("{setup}, seed {seed}: {failure}"));
        }
    }
}

/// The original dies after the checkpoint, and the copy is used after that.
#[test]
fn original_and_copy_go_on_alone() {
    for setup in &Setup::some() {
        let disks = Disks::forgetful(setup);
        let db = session::open_all(&disks.storages(), setup).unwrap();
        let mut original = Churn::new(5);
        original.work(&db, WRITES);
        original.write(&db, WRITES);
        let target = other_directory();
        db.checkpoint_in(Arc::new(target.clone())).unwrap();
        let mut copied = original.copied(6);
        original.write(&db, WRITES);
        let disks = disks.kill();
        drop(db);
        let db = session::open_all(&disks.storages(), setup).unwrap();
        original.check(&db);
        original.work(&db, WRITES);
        let copy = open_copy(&target, setup);
        copied.check(&copy);
        copied.work(&copy, WRITES);
        copy.close().unwrap();
        copied.check(&open_copy(&target, setup));
        original.check(&db);
    }
}

/// Threads that write while copies are made.
const WRITERS: u64 = 3;

fn value_of(writer: u64, number: u64) -> String {
    format!("{writer} {number} ").repeat(60)
}

/// Fails unless a copy has all writes up to those that were acknowledged `before`, and of later
/// ones a part in their order.
#[track_caller]
fn has_a_prefix(copy: &Db, before: [u64; WRITERS as usize]) {
    for writer in 0..WRITERS {
        let last = copy.get(format!("last {writer}")).unwrap();
        let last = last.map_or(0, |bytes| u64::from_be_bytes(bytes[..].try_into().unwrap()));
        assert!(last >= before[writer as usize], "an old write is missing");
        // The write after the last one may be there as well.
        for number in last.saturating_sub(48).max(1)..=last {
            let found = copy.get(format!("{writer} {}", number % 50)).unwrap();
            let found = found.expect("a key is missing");
            let expected = [number, number + 50].map(|number| value_of(writer, number));
            assert!(expected.iter().any(|it| it.as_bytes() == &*found), "{number}");
        }
    }
    let problems = copy.verify().unwrap().problems;
    assert!(problems.is_empty(), "{problems:?}");
}

/// By links, on a real disk, while threads write and collect.
#[test]
fn writers_go_on_while_checkpoints_and_backups_are_made() {
    for setup in &Setup::designs() {
        println!("{setup}");
        let dir = tempfile::tempdir().unwrap();
        let background = Background::Threads(2);
        let options = Options { background, durability: Durability::Os, ..setup.options.clone() };
        let db = Db::open(dir.path().join("db"), options.clone()).unwrap();
        let (stop, acknowledged) = (AtomicBool::new(false), [const { AtomicU64::new(0) }; 3]);
        std::thread::scope(|scope| {
            for writer in 0..WRITERS {
                let (db, stop, acknowledged) = (&db, &stop, &acknowledged);
                scope.spawn(move || {
                    for number in 1.. {
                        if stop.load(Ordering::Relaxed) {
                            break;
                        }
                        // Each key is written again and again, and the last one is counted.
                        let key = format!("{writer} {}", number % 50);
                        db.put(key, value_of(writer, number)).unwrap();
                        db.put(format!("last {writer}"), number.to_be_bytes()).unwrap();
                        acknowledged[writer as usize].store(number, Ordering::Release);
                    }
                });
            }
            // A failed check ends the writers, too.
            let _stops = Stops(&stop);
            let has_begun = |count: &AtomicU64| count.load(Ordering::Acquire) > 20;
            let start = std::time::Instant::now();
            while !acknowledged.iter().all(has_begun) {
                assert!(start.elapsed().as_secs() < 60, "a writer has stopped");
                std::thread::yield_now();
            }
            let now = || [0, 1, 2].map(|i: usize| acknowledged[i].load(Ordering::Acquire));
            for round in 0..3 {
                std::thread::sleep(std::time::Duration::from_millis(60));
                let before = now();
                let path = dir.path().join(format!("copy {round}"));
                let report = db.checkpoint(&path).unwrap();
                assert!(report.linked + report.copied > 0);
                let copy = Db::open(&path, options.clone()).unwrap();
                has_a_prefix(&copy, before);
                copy.put("of the copy", "x").unwrap();
                copy.collect().unwrap();
                copy.close().unwrap();
                let (before, backups) = (now(), dir.path().join("backups"));
                db.backup(&backups).unwrap();
                let backups = Backups::open(&backups).unwrap();
                has_a_prefix(&backups.open_backup(None).unwrap().1, before);
            }
        });
        assert!(db.verify().unwrap().problems.is_empty(), "{setup}");
        assert_eq!(db.get("of the copy").unwrap(), None);
    }
}

/// A directory in which the first link waits for a write to the original.
struct WritesFirst {
    disk: Disk,
    original: Db,
    written: AtomicBool,
}

impl StorageLayer for WritesFirst {
    fn inner(&self) -> &dyn Storage {
        &self.disk
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        if !self.written.swap(true, Ordering::Relaxed) {
            self.original.put_with("late", "x", Durability::Sync).unwrap();
        }
        self.inner().descriptor()
    }
}

#[test]
fn the_first_write_after_an_open_does_not_reach_a_copy_that_has_begun() {
    for setup in &Setup::designs() {
        let dir = tempfile::tempdir().unwrap();
        let (store, copy) = (dir.path().join("store"), dir.path().join("copy"));
        let db = Db::open(&store, setup.options.clone()).unwrap();
        db.put("early", "x").unwrap();
        db.flush().unwrap();
        db.put("last", "x").unwrap();
        db.close().unwrap();
        let original = Db::open(&store, setup.options.clone()).unwrap();
        let (disk, written) = (Disk::open(&copy, true).unwrap(), AtomicBool::new(false));
        let target = Arc::new(WritesFirst { disk, original: original.clone(), written });
        original.checkpoint_in(target.clone()).unwrap();
        assert!(target.written.load(Ordering::Relaxed), "{setup}: nothing was linked");
        let copy = Db::open(&copy, setup.options.clone()).unwrap();
        assert!(copy.contains_key("last").unwrap() && !copy.contains_key("late").unwrap());
        assert!(copy.verify().unwrap().problems.is_empty(), "{setup}");
        assert!(original.contains_key("late").unwrap());
    }
}

/// Stops the writers when it is dropped.
struct Stops<'a>(&'a AtomicBool);

impl Drop for Stops<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn a_directory_with_anything_in_it_is_refused() {
    let setup = &Setup::every_design()[0];
    let db = session::open(Arc::new(Sim::new()), setup).unwrap();
    db.put("key", "value").unwrap();
    let target = other_directory();
    target.add_foreign("notes.txt");
    let error = db.checkpoint_in(Arc::new(target.clone())).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::AlreadyExists);
    let target = other_directory();
    db.checkpoint_in(Arc::new(target.clone())).unwrap();
    let error = db.checkpoint_in(Arc::new(target)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::AlreadyExists);
    let (closed, late) = (db.clone(), db);
    closed.close().unwrap();
    let error = late.checkpoint_in(Arc::new(other_directory())).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Closed);
}

/// Log that is flushed before it is drained is never written. If such a file ended at the replay
/// head, a checkpoint found it too short, and failed.
#[test]
fn log_that_was_never_written_is_no_obstacle() {
    for setup in &Setup::designs() {
        for seed in [4, 5, 10, 39] {
            a_checkpoint_has_all(setup, seed)
                .unwrap_or_else(|failure| panic!("{setup}, seed {seed}: {failure}"));
        }
    }
}

/// Whatever call in the target fails: nothing is left there, or a whole copy; and the original goes
/// on.
#[test]
fn a_checkpoint_that_fails_leaves_nothing() {
    for setup in &Setup::designs() {
        let disks = Disks::forgetful(setup);
        let db = session::open_all(&disks.storages(), setup).unwrap();
        let mut churn = Churn::new(9);
        churn.work(&db, 60);
        churn.write(&db, 60);
        for call in 0.. {
            let target = other_directory();
            let faulty = Arc::new(Faulty::over(&target));
            faulty.fail_call(call, Fault::Io);
            let made = db.checkpoint_in(faulty.clone());
            if faulty.calls() <= call {
                made.unwrap();
                break;
            }
            match made {
                Ok(_) => churn.check(&open_copy(&target, setup)),
                Err(_) => {
                    let left = target.list().unwrap();
                    let is_current =
                        |name: &cleavedb_storage::Name| name.kind() == FileKind::Current;
                    // A removal may be the call that failed.
                    assert!(!left.iter().any(|(name, _)| is_current(name)), "{setup}: {left:?}");
                    assert!(left.len() <= 1, "{setup}, call {call}: {left:?}");
                }
            }
        }
        churn.check(&db);
    }
}
