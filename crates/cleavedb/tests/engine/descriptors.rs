//! A process with few descriptors and a store of many files: all of it works, in every design.
//!
//! Each test is a process of its own, whose limit is set, soft and hard.

use std::fs;
use std::path::Path;

use cleavedb::{Background, Db, ErrorKind, Options, Preset, open_files};
use cleavedb_testkit::budget::{in_turn, of};
use cleavedb_testkit::child::in_a_child;
use cleavedb_testkit::{Churn, Setup};
use rustix::process::{Resource, Rlimit, setrlimit};

/// Files of this process at most.
const LIMIT: u64 = 64;

fn designs() -> Vec<Setup> {
    let presets = Preset::ALL.map(|preset| Setup::tiny(preset, true));
    in_turn(presets.into_iter().chain([Setup::tagged(true)]).collect())
}

fn limit_descriptors(limit: u64) {
    setrlimit(Resource::Nofile, Rlimit { current: Some(limit), maximum: Some(limit) }).unwrap();
}

/// Descriptors that this process holds.
fn held() -> usize {
    fs::read_dir("/proc/self/fd").unwrap().count() - 1
}

/// Options of `setup`, with threads and with files so small that there are very many.
fn options(setup: &Setup) -> Options {
    Options { background: Background::Threads(2), ..setup.options.clone() }
}

/// Threads of this process.
fn threads() -> usize {
    fs::read_dir("/proc/self/task").unwrap().count()
}

fn open(path: &Path, setup: &Setup) -> Db {
    Db::open(path, options(setup)).unwrap()
}

#[test]
fn a_store_of_many_files_lives_with_few_descriptors() {
    in_a_child(|| {
        limit_descriptors(LIMIT);
        for setup in designs() {
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join("db");
            let mut churn = Churn::new(5).over(1 << 20);
            let db = open(&path, &setup);
            churn.write(&db, 4000);
            let (files, held) = (fs::read_dir(&path).unwrap().count(), held());
            println!("{setup}: {files} files, {held} descriptors while it is written");
            assert!(files as u64 > 2 * LIMIT, "{files} files are no test");
            churn.check(&db);
            churn.work(&db, 400);
            churn.check(&db);
            db.close().unwrap();
            let again = open(&path, &setup);
            churn.check(&again);
            churn.write(&again, 200);
            churn.check(&again);
        }
    });
}

#[test]
fn nothing_is_opened_before_it_is_read_and_readers_keep_to_their_bound() {
    in_a_child(|| {
        for setup in designs() {
            let dir = tempfile::tempdir().unwrap();
            let mut churn = Churn::new(6).over(1 << 20);
            let db = open(dir.path(), &setup);
            churn.write(&db, 1500);
            db.close().unwrap();
            let options = Options { background: Background::Manual, ..options(&setup) };
            let before = held();
            let db = Db::open(dir.path(), options).unwrap();
            // An open reads the key blocks of hot segments.
            let opened = open_files::count();
            assert!(opened == 0 || setup.options.layout().has_hot_store(), "{setup}: {opened}");
            let besides = held() - before - opened;
            assert!(besides <= 6, "{setup}: {besides} descriptors besides");
            churn.check(&db);
            open_files::set_max(5);
            assert_eq!(db.metrics().open_files, 5, "{setup}");
            churn.check(&db);
            assert!(open_files::count() <= 5, "{setup}");
            drop(db);
            assert_eq!((open_files::count(), held()), (0, before), "{setup}");
            open_files::set_max(0);
        }
    });
}

#[test]
fn a_process_without_descriptors_is_told_so_and_goes_on_when_it_has_some() {
    in_a_child(|| {
        limit_descriptors(LIMIT);
        for setup in designs() {
            let dir = tempfile::tempdir().unwrap();
            let mut churn = Churn::new(7).over(1 << 20);
            let db = open(dir.path(), &setup);
            churn.write(&db, 500);
            db.flush().unwrap();
            db.wait_idle().unwrap();
            open_files::set_max(1);
            let mut taken = Vec::new();
            while let Ok(file) = fs::File::open("/dev/null") {
                taken.push(file);
            }
            // Descriptors that readers share go to writers first: readers give way.
            open_files::set_max(0);
            let error = db.verify().err().or_else(|| db.flush().err());
            let error = error.or_else(|| Db::open(dir.path().join("x"), options(&setup)).err());
            let error = error.expect("no descriptor is left");
            assert_eq!(error.kind(), ErrorKind::TooManyFiles, "{setup}: {error}");
            drop(taken);
            assert_eq!(db.metrics().poisoned, None, "{setup}");
            churn.write(&db, 500);
            churn.work(&db, 300);
            churn.check(&db);
        }
    });
}

/// Descriptors of an idle store, and threads of one that was written: one that drains, one that
/// flushes, one that removes, and the workers that the options ask for.
const IDLE_MAX: usize = 4;
const THREADS_MAX: usize = 3 + 2;

/// Stores of a process, whose number `CLEAVEDB_STORES` sets, for a run by hand; the limit grows
/// with it.
fn stores() -> usize {
    std::env::var("CLEAVEDB_STORES").map_or(of(25, 100, 100), |stores| stores.parse().unwrap())
}

/// With the options that users get.
#[test]
fn a_process_has_many_stores() {
    in_a_child(|| {
        let stores = stores();
        limit_descriptors(100 + (IDLE_MAX * stores) as u64);
        for preset in in_turn(Preset::ALL.into()) {
            let dir = tempfile::tempdir().unwrap();
            let options = Options { background: Background::Threads(2), ..Options::preset(preset) };
            let open =
                |i: usize| Db::open(dir.path().join(i.to_string()), options.clone()).unwrap();
            let (files, tasks) = (held(), threads());
            let told = |what: &str, per_store: usize, dbs: &[Db]| {
                let (files, tasks) = (held() - files, threads() - tasks);
                println!(
                    "{preset}: {files} descriptors, {tasks} threads of {stores} stores {what}"
                );
                assert!(files <= IDLE_MAX * dbs.len(), "{preset}, {what}: {files} descriptors");
                assert!(tasks <= per_store * dbs.len(), "{preset}, {what}: {tasks} threads");
            };
            for what in ["new", "again"] {
                let dbs: Vec<Db> = (0..stores).map(open).collect();
                told(what, 0, &dbs);
                for db in &dbs {
                    db.put(b"key", b"value").unwrap();
                }
                told("written", THREADS_MAX, &dbs);
                for db in dbs {
                    assert_eq!(db.get(b"key").unwrap().unwrap(), "value");
                    db.close().unwrap();
                }
            }
            assert_eq!((held(), threads()), (files, tasks), "{preset}: all of it goes at a close");
        }
    });
}
