//! What a database tells about itself: counters over its life, and times of operations.

use cleavedb::{Db, Totals};
use cleavedb_testkit::{Churn, Disks, Setup, session};

const WRITES: usize = 300;

/// Counters that do not depend on caches and files that a later open meets anew.
fn work(totals: Totals) -> [u64; 7] {
    let Totals { user_bytes, writes, operations, flushes, compactions, sessions, .. } = totals;
    [user_bytes, writes, operations, flushes, compactions, sessions, totals.flush_written]
}

fn open(disks: &Disks, setup: &Setup) -> Db {
    session::open_all(&disks.storages(), setup).unwrap()
}

#[test]
fn counters_survive_a_close_and_of_a_killed_session_what_came_before_its_last_flush() {
    for setup in &Setup::designs() {
        let disks = Disks::new(setup);
        let db = open(&disks, setup);
        let mut churn = Churn::new(3);
        churn.work(&db, WRITES);
        let first = db.metrics();
        assert_eq!((first.totals.sessions, first.totals.writes), (1, first.writes), "{setup}");
        assert!(first.totals.operations >= first.writes && first.totals.flushes > 0, "{setup}");
        let handle = db.clone();
        db.close().unwrap();
        let closed = handle.metrics().totals;
        drop(handle);
        let db = open(&disks, setup);
        assert_eq!(work(db.metrics().totals), work(closed), "{setup}");
        assert_eq!((db.metrics().writes, db.metrics().operations), (0, 0), "{setup}");
        churn.write(&db, WRITES);
        db.flush().unwrap();
        let flushed = db.metrics().totals;
        assert_eq!(flushed.sessions, 2, "{setup}");
        // What follows is lost by a kill, and what was replayed is not counted again.
        db.put_with("key", "value", cleavedb::Durability::Os).unwrap();
        let disks = disks.kill();
        drop(db);
        let db = open(&disks, setup);
        assert_eq!(work(db.metrics().totals), work(flushed), "{setup}");
        db.put("key", "value").unwrap();
        let totals = db.metrics().totals;
        assert_eq!((totals.writes, totals.sessions), (flushed.writes + 1, 3), "{setup}");
    }
}
