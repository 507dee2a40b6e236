//! The directory of an open store is moved, or the process moves to another one: the store goes on
//! where its files are, and harms no database that has come to its old place.

use std::fs;
use std::path::{Path, PathBuf};

use cleavedb::{Background, Db, FileClass, Options, Volume};
use cleavedb_testkit::budget::in_turn;
use cleavedb_testkit::child::in_a_child;
use cleavedb_testkit::{Churn, Setup};

/// Writes between two looks.
const WRITES: usize = 250;

fn designs() -> Vec<Setup> {
    in_turn(Setup::every_design().into_iter().chain(Setup::partitioned()).collect())
}

fn open(path: &Path, options: &Options) -> Db {
    Db::open(path, options.clone()).unwrap()
}

/// Options of `setup`, with threads, and with most files in the directory `volume`.
fn options(setup: &Setup, volume: &Path) -> Options {
    let classes = [FileClass::Level0, FileClass::Segments, FileClass::Survivors];
    let volumes = vec![Volume::new(volume, classes)];
    Options { background: Background::Threads(1), volumes, ..setup.options.clone() }
}

/// A store, its volume, and what it must hold.
struct Store {
    path: PathBuf,
    volume: PathBuf,
    churn: Churn,
}

impl Store {
    fn new(dir: &Path, seed: u64) -> Self {
        let (path, volume) = (dir.join("store"), dir.join("volume"));
        Self { path, volume, churn: Churn::new(seed) }
    }

    fn open(&self, setup: &Setup) -> Db {
        open(&self.path, &options(setup, &self.volume))
    }
}

#[test]
fn a_renamed_store_and_the_one_in_its_place_stay_whole() {
    for setup in designs() {
        println!("{setup}");
        let dir = tempfile::tempdir().unwrap();
        let mut moved = Store::new(dir.path(), 1);
        let first = moved.open(&setup);
        moved.churn.write(&first, WRITES);
        for directory in [&mut moved.path, &mut moved.volume] {
            let to = directory.with_extension("moved");
            fs::rename(&directory, &to).unwrap();
            *directory = to;
        }
        let mut next = Store::new(dir.path(), 2);
        let second = next.open(&setup);
        moved.churn.work(&first, WRITES);
        next.churn.work(&second, WRITES);
        for (store, db) in [(&moved, first), (&next, second)] {
            store.churn.check(&db);
            db.close().unwrap();
            let again = store.open(&setup);
            store.churn.check(&again);
        }
    }
}

#[test]
fn a_store_stays_where_it_is_when_the_process_moves() {
    in_a_child(|| {
        for setup in designs() {
            println!("{setup}");
            let dir = tempfile::tempdir().unwrap();
            let elsewhere = tempfile::tempdir().unwrap();
            std::env::set_current_dir(dir.path()).unwrap();
            let mut churn = Churn::new(3);
            let db = open(Path::new("db"), &options(&setup, Path::new("volume")));
            churn.write(&db, WRITES);
            std::env::set_current_dir(elsewhere.path()).unwrap();
            churn.work(&db, WRITES);
            churn.check(&db);
            db.close().unwrap();
            assert_eq!(fs::read_dir(elsewhere.path()).unwrap().count(), 0);
            let path = dir.path().join("db");
            churn.check(&open(&path, &options(&setup, &dir.path().join("volume"))));
        }
    });
}
