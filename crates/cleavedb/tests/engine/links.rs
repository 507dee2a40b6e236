//! A store that was copied by hard links: original and copy share files, and neither harms the
//! other.

use std::fs;
use std::path::Path;

use cleavedb::{Background, Db, Options};
use cleavedb_testkit::budget::in_turn;
use cleavedb_testkit::{Churn, Setup};

/// Writes between two looks.
const WRITES: usize = 250;

fn designs() -> Vec<Setup> {
    in_turn(Setup::every_design().into_iter().chain(Setup::partitioned()).collect())
}

fn open(path: &Path, setup: &Setup) -> Db {
    let background = Background::Threads(1);
    Db::open(path, Options { background, ..setup.options.clone() }).unwrap()
}

/// Copies every file of a closed store by a link.
fn link_all(from: &Path, to: &Path) {
    fs::create_dir(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        fs::hard_link(entry.path(), to.join(entry.file_name())).unwrap();
    }
}

#[test]
fn a_copy_of_links_and_its_original_both_stay_whole() {
    for setup in designs() {
        println!("{setup}");
        let dir = tempfile::tempdir().unwrap();
        let paths = [dir.path().join("store"), dir.path().join("copy")];
        let mut original = Churn::new(21);
        let db = open(&paths[0], &setup);
        original.work(&db, WRITES);
        original.write(&db, WRITES);
        db.close().unwrap();
        link_all(&paths[0], &paths[1]);
        let mut copy = original.copied(22);
        let stores = [0, 1].map(|i| open(&paths[i], &setup));
        original.work(&stores[0], WRITES);
        copy.check(&stores[1]);
        copy.work(&stores[1], WRITES);
        original.check(&stores[0]);
        drop(stores);
        original.check(&open(&paths[0], &setup));
        copy.check(&open(&paths[1], &setup));
    }
}
