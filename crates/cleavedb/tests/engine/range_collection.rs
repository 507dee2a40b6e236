//! What was deleted in a range, and collected, is in no file: by every design, after kills and
//! losses of power, on a real disk while others write, and not before the last reader has ended.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use cleavedb::{Background, Db, Durability, ErrorKind, Options};
use cleavedb_storage::{Access, File, FileLayer, Mode, Name, Storage, StorageLayer};
use cleavedb_storage_sim::Faulty;
use cleavedb_storage_sim::faulty::Fault;
use cleavedb_storage_sim::sim::PowerLoss;
use cleavedb_testkit::held_collections::{End, a_collection_beside};
use cleavedb_testkit::needles::{
    ENDS, WRITES, an_old_reader_is_named, collect_all, deletes_leave_too, no_needle,
    nothing_is_left,
};
use cleavedb_testkit::{Disks, Needles, Setup, session};

#[test]
fn what_was_deleted_is_in_no_file_under_every_setup() {
    for setup in &Setup::some() {
        (0..2).for_each(|seed| nothing_is_left(setup, seed));
    }
}

#[test]
fn deletes_among_living_values_leave_too() {
    Setup::some().iter().for_each(|setup| deletes_leave_too(setup, 1));
}

#[test]
fn no_loss_of_power_brings_it_back() {
    for setup in &Setup::designs() {
        let mut needles = Needles::new(7);
        let disks = Disks::new(setup);
        let db = session::open_all(&disks.storages(), setup).unwrap();
        needles.work(&db, 200);
        collect_all(&mut needles, (&db, setup), &disks);
        let mut replay = disks.replay();
        replay.advance(disks.time());
        let losses = PowerLoss { states_max: 20, ..PowerLoss::default() };
        for images in replay.power_loss(&losses) {
            if let Err(found) = needles.are_gone_from_images(&images) {
                panic!("{setup}: {found:?}");
            }
        }
    }
}

/// A kill at moments of the call.
#[test]
fn a_kill_in_the_midst_loses_nothing_and_the_next_call_does_the_rest() {
    const MOMENTS: usize = 25;
    for setup in Setup::designs().iter().chain(&Setup::two_disks()) {
        let mut needles = Needles::new(6);
        let disks = Disks::new(setup);
        let db = session::open_all(&disks.storages(), setup).unwrap();
        needles.work(&db, 250);
        needles.delete_most(&db, setup);
        needles.drop_one(&db);
        let begin = disks.time();
        let collect = |db: &Db| {
            db.default_keyspace().collect_range(ENDS).unwrap();
            db.keyspace("other").unwrap().collect_range(ENDS).unwrap();
            db.collect_dropped().unwrap();
        };
        collect(&db);
        let end = disks.time();
        let mut replay = disks.replay();
        for moment in 0..MOMENTS {
            replay.advance(begin + (end - begin) * moment / MOMENTS);
            let left = Disks::from_images(&replay.process_kill(), setup);
            left.stop_recording();
            let db = session::open_all(&left.storages(), setup).unwrap();
            needles.check(&db);
            collect(&db);
            no_needle(&needles, &left, &format!("{setup}, killed at {moment}"));
            needles.check(&db);
        }
    }
}

/// A call of the storage that fails once: nothing is lost, and a later call does the rest.
#[test]
fn a_failed_call_loses_nothing_and_the_next_one_does_the_rest() {
    const MOMENTS: u64 = 25;
    for setup in &Setup::designs() {
        let calls_of = |failing: Option<u64>| {
            let mut needles = Needles::new(6);
            let disks = Disks::forgetful(setup);
            let faulty = Arc::new(Faulty::over(&disks.sims()[0]));
            let db = session::open(faulty.clone(), setup).unwrap();
            needles.work(&db, 250);
            needles.delete_most(&db, setup);
            let before = faulty.calls();
            if let Some(call) = failing {
                faulty.fail_call(before + call, Fault::Io);
            }
            let done = db.default_keyspace().collect_range(ENDS);
            let calls = faulty.calls() - before;
            if done.is_ok() && failing.is_none() {
                return calls;
            }
            drop(db);
            let disks = disks.kill();
            let db = session::open_all(&disks.storages(), setup).unwrap();
            needles.check(&db);
            for name in ["default", "other", "dropped"] {
                db.keyspace(name).unwrap().collect_range(ENDS).unwrap();
            }
            no_needle(&needles, &disks, &format!("{setup}, failed call {failing:?}"));
            needles.check(&db);
            calls
        };
        let calls = calls_of(None);
        (0..MOMENTS).for_each(|moment| _ = calls_of(Some(calls * moment / MOMENTS)));
    }
}

/// Readers that may still see what was deleted are named, before anything is done; a reader of the
/// present may hold files that were dropped meanwhile.
#[test]
fn readers_are_waited_for_by_the_caller() {
    for setup in &Setup::designs() {
        let mut needles = Needles::new(3);
        let disks = Disks::forgetful(setup);
        let db = session::open_all(&disks.storages(), setup).unwrap();
        needles.work(&db, WRITES);
        let refused = |what: &str| an_old_reader_is_named(&db, what);
        let snapshot = db.snapshot();
        needles.delete_most(&db, setup);
        refused("1 snapshots or transactions");
        drop(snapshot);
        let cursor = db.cursor(..);
        db.put("zzz", "").unwrap();
        refused("1 cursors or ranges");
        drop(cursor);
        let transaction = db.transaction().unwrap();
        db.delete("zzz").unwrap();
        refused("1 snapshots or transactions");
        drop(transaction);
        let mut present = db.range(..);
        let first = present.next().unwrap().unwrap();
        let error = db.default_keyspace().collect_range(ENDS).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Held, "{setup}: {error}");
        assert!(error.fact("file").is_some(), "{setup}: {error}");
        assert!(present.all(|item| item.unwrap().key > first.key), "{setup}");
        drop(present);
        db.default_keyspace().collect_range(ENDS).unwrap();
        db.keyspace("other").unwrap().collect_range(ENDS).unwrap();
        db.keyspace("dropped").unwrap().collect_range(ENDS).unwrap();
        no_needle(&needles, &disks, &setup.name);
        needles.check(&db);
    }
}

/// The raw bytes of all files in a directory.
fn files_in(dir: &Path) -> Vec<(String, Vec<u8>)> {
    let files = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap());
    let read = |entry: std::fs::DirEntry| {
        // A job may remove it meanwhile.
        let bytes = std::fs::read(entry.path()).unwrap_or_default();
        (entry.file_name().to_string_lossy().into_owned(), bytes)
    };
    files.map(read).collect()
}

#[track_caller]
fn no_needle_in(needles: &Needles, dir: &Path, what: &str) {
    let files = files_in(dir);
    let gone = needles.are_gone_from(files.iter().map(|(name, bytes)| (name.clone(), &bytes[..])));
    if let Err(found) = gone {
        panic!("{what}: {:?}", &found[..found.len().min(5)]);
    }
}

/// On a real disk, with threads, while another thread writes elsewhere, and with a checkpoint that
/// keeps its own names of the files.
#[test]
fn on_a_real_disk_too_while_others_write() {
    for setup in &Setup::designs() {
        let dir = tempfile::tempdir().unwrap();
        let (path, copy) = (dir.path().join("db"), dir.path().join("copy"));
        let background = Background::Threads(2);
        let options = Options { background, durability: Durability::Os, ..setup.options.clone() };
        let db = Db::open(&path, options.clone()).unwrap();
        let mut needles = Needles::new(5);
        needles.work(&db, WRITES / 3);
        db.checkpoint(&copy).unwrap();
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let (db, stop) = (&db, &stop);
            let writer = scope.spawn(move || {
                let busy = db.keyspace("busy").unwrap();
                for number in 0u64.. {
                    if stop.load(Ordering::Relaxed) {
                        return;
                    }
                    busy.put((number % 500).to_be_bytes(), vec![7; 300]).unwrap();
                }
            });
            needles.delete_most(db, setup);
            let dropped = needles.drop_one(db);
            let other = db.keyspace("other").unwrap();
            let collected =
                [db.default_keyspace(), &other].map(|keyspace| keyspace.collect_range(ENDS));
            let whole = dropped.collect_range(..);
            stop.store(true, Ordering::Relaxed);
            writer.join().unwrap();
            collected.into_iter().chain([whole]).for_each(|done| done.unwrap());
        });
        no_needle_in(&needles, &path, &setup.name);
        needles.check(&db);
        db.close().unwrap();
        no_needle_in(&needles, &path, &format!("{setup}, closed"));
        let db = Db::open(&path, options.clone()).unwrap();
        needles.check(&db);
        let copy = Db::open(&copy, options).unwrap();
        let problems = copy.verify().unwrap().problems;
        assert!(problems.is_empty(), "{setup}: {problems:?}");
        assert!(copy.range(..).next().is_some());
    }
}

/// A disk that cannot punch holes.
struct NoHoles(Arc<dyn Storage>);

/// A file of it.
struct NoHolesIn(Arc<dyn File>);

impl StorageLayer for NoHoles {
    fn inner(&self) -> &dyn Storage {
        &*self.0
    }

    fn open(&self, name: &Name, mode: Mode, access: Access) -> io::Result<Arc<dyn File>> {
        Ok(Arc::new(NoHolesIn(self.inner().open(name, mode, access)?)))
    }
}

impl FileLayer for NoHolesIn {
    fn inner(&self) -> &dyn File {
        &*self.0
    }

    fn punch(&self, _: u64, _: u64) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn what_cannot_be_punched_is_overwritten() {
    let with_groups = |setup: &Setup| setup.options.layout().groups.is_some();
    for setup in Setup::designs().iter().filter(|setup| with_groups(setup)) {
        let dir = tempfile::tempdir().unwrap();
        let wrap = |_: &Path, disk| -> Arc<dyn Storage> { Arc::new(NoHoles(disk)) };
        let db = Db::open_through(dir.path(), setup.options.clone(), wrap).unwrap();
        let mut needles = Needles::new(4);
        needles.work(&db, WRITES / 3);
        needles.delete_most(&db, setup);
        for name in ["default", "other", "dropped"] {
            db.keyspace(name).unwrap().collect_range(ENDS).unwrap();
        }
        no_needle_in(&needles, dir.path(), &setup.name);
        needles.check(&db);
    }
}

/// A range without anything dead costs no rewriting of values.
#[test]
fn what_is_alive_is_not_rewritten() {
    for setup in &Setup::designs() {
        let mut needles = Needles::new(9);
        let disks = Disks::forgetful(setup);
        let db = session::open_all(&disks.storages(), setup).unwrap();
        needles.work(&db, WRITES);
        db.default_keyspace().collect_range(ENDS).unwrap();
        let before = db.metrics();
        db.default_keyspace().collect_range(ENDS).unwrap();
        db.default_keyspace().collect_range("x".."y").unwrap();
        let after = db.metrics();
        assert_eq!(before.collections, after.collections, "{setup}");
        needles.check(&db);
    }
}

/// A collection that was planned while the index of the range was compacted, and ends meanwhile or
/// after it, moves what has expired, and puts entries for it into the index again.
#[test]
fn what_a_collection_puts_back_goes_again() {
    // Where keys are hot, what is asked for begins with flushes, which the door would hold.
    let none_is_hot = |mut setup: Setup| {
        if setup.options.layout().has_hot_store() {
            setup.options.tuning.groups.heat_limit = Some(15);
        }
        setup
    };
    for end in [End::During, End::After] {
        let setups: Vec<_> = Setup::every_design().into_iter().map(none_is_hot).collect();
        let met = setups.iter().filter(|it| a_collection_beside(it, end, 1));
        assert!(met.count() + 2 >= setups.len(), "all designs but two separate values");
    }
}
