//! Copies and checks of a database that another process writes.

use std::path::Path;

use cleavedb::{Backups, Db, Durability};
use cleavedb_storage_sim::Unsynced;
use cleavedb_testkit::Setup;
use cleavedb_testkit::live_copies::{
    checks_of_a_changing_store, copies_of_a_changing_store, copies_of_a_followed_store,
};

#[test]
fn a_followed_store_is_copied_as_it_is() {
    for (seed, setup) in Setup::some().iter().enumerate() {
        copies_of_a_followed_store(setup, seed as u64)
            .unwrap_or_else(|failure| panic!("{setup}, seed {seed}: {failure}"));
    }
}

/// Runs `check` under every design, for several numbers of files that are opened between two times
/// that the primary drops all that it has.
fn under_every_design(every: [u64; 3], check: impl Fn(&Setup, u64) -> Result<(), String>) {
    for setup in &Setup::designs() {
        for every in every {
            check(setup, every)
                .unwrap_or_else(|failure| panic!("{setup}, every {every}: {failure}"));
        }
    }
}

#[test]
fn a_store_that_drops_what_is_copied_is_copied_again() {
    under_every_design([3, 8, 17], copies_of_a_changing_store);
}

#[test]
fn a_store_that_drops_what_is_checked_is_checked_again() {
    under_every_design([2, 3, 5], checks_of_a_changing_store);
}

#[test]
fn what_stays_is_linked_beside_a_writer() {
    for setup in &Setup::designs() {
        let dir = tempfile::tempdir().unwrap();
        let [path, copy, backups] = ["db", "copy", "backups"].map(|name| dir.path().join(name));
        let unsynced = |_: &Path, disk| Unsynced::over(disk);
        let primary = Db::open_through(&path, setup.options.clone(), unsynced).unwrap();
        let write = |value: u8| {
            (0..100_u8).for_each(|key| {
                primary.put_with([key], [value; 300], Durability::Os).unwrap();
            });
        };
        write(1);
        primary.flush().unwrap();
        let secondary = Db::open_secondary_with(&path, setup.options.clone()).unwrap();
        assert!(secondary.checkpoint(&copy).unwrap().linked > 0, "{setup}");
        assert_eq!(secondary.backup(&backups).unwrap().linked, 0, "{setup}");
        let second = secondary.backup(&backups).unwrap();
        assert!(second.linked > 0, "{setup}: {second:?}");
        // The primary changes no file that has two names, and a copy that is written changes none
        // of the primary.
        write(2);
        primary.compact().and_then(|()| primary.collect()).unwrap();
        let copied = Db::open(&copy, setup.options.clone()).unwrap();
        copied.put("more", "1").unwrap();
        copied.compact().and_then(|()| copied.collect()).unwrap();
        let (_, backup) = Backups::open(&backups).unwrap().open_backup(None).unwrap();
        for (db, value) in [(&primary, 2), (&copied, 1), (&backup, 1)] {
            assert_eq!(db.get([7]).unwrap().unwrap(), [value; 300][..], "{setup}");
            assert!(db.verify().unwrap().problems.is_empty(), "{setup}");
        }
    }
}
