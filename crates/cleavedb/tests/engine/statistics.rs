//! What a database tells about itself: counters over its life, and times of operations.

use std::collections::BTreeMap;
use std::time::Duration;

use cleavedb::metrics::{OperationLatency, Totals};
use cleavedb::{Db, Durability, Preset};
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
        db.put_with("key", "value", Durability::Os).unwrap();
        let disks = disks.kill();
        drop(db);
        let db = open(&disks, setup);
        assert_eq!(work(db.metrics().totals), work(flushed), "{setup}");
        db.put("key", "value").unwrap();
        let totals = db.metrics().totals;
        assert_eq!((totals.writes, totals.sessions), (flushed.writes + 1, 3), "{setup}");
    }
}

/// Latencies by operation: how many there were, and that no time is out of order.
fn counts(measured: &[OperationLatency]) -> BTreeMap<&'static str, u64> {
    for latency in measured {
        let times = [0.5, 0.9, 0.99, 0.999, 1.0].map(|part| latency.quantile(part));
        assert!(times.is_sorted() && times[0] > Duration::ZERO, "{latency:?}");
        assert!(times[4] <= latency.max() && latency.mean() <= latency.max(), "{latency:?}");
    }
    measured.iter().map(|latency| (latency.operation.name(), latency.count())).collect()
}

#[test]
fn every_operation_is_timed_if_that_is_asked_for_and_none_otherwise() {
    for mut setup in Setup::designs() {
        for sampling in [0, 1] {
            setup.options.latency_sampling = sampling;
            let db = open(&Disks::new(&setup), &setup);
            for key in 0..10u8 {
                db.put_with([key], [key; 300], Durability::Os).unwrap();
            }
            db.put_with("synced", "", Durability::Sync).unwrap();
            db.get([3]).unwrap().unwrap();
            assert!(db.get("absent").unwrap().is_none());
            db.snapshot().get([4]).unwrap().unwrap();
            assert_eq!(db.multi_get(&[[5], [6]]).len(), 2);
            assert_eq!(db.range(..).count(), 11);
            db.cursor(..).seek([7]).unwrap();
            let expected = [
                ("get", 3),
                ("multi_get", 1),
                ("write", 10),
                ("synced_write", 1),
                ("seek", 1),
                // The last step finds the end.
                ("next", 12),
            ];
            let expected = if sampling == 0 { BTreeMap::new() } else { expected.into() };
            assert_eq!(counts(&db.metrics().latencies), expected, "{setup}");
            assert_eq!(counts(&db.take_latencies()), expected, "{setup}");
            assert!(db.metrics().latencies.is_empty(), "{setup}: they were taken");
        }
    }
}

#[test]
fn waits_of_writers_are_timed() {
    let mut setup = Setup::tiny(Preset::Lsm, true);
    setup.options.latency_sampling = 1000;
    let db = open(&Disks::new(&setup), &setup);
    for key in 0..2000u32 {
        db.put_with(key.to_be_bytes(), [1; 200], Durability::Os).unwrap();
    }
    let metrics = db.metrics();
    let waits: u64 = metrics.stalls.iter().map(|stall| stall.count).sum();
    assert!(waits > 0);
    assert_eq!(counts(&metrics.latencies)["stall"], waits);
}
