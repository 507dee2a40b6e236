//! The limit on what compactions and collections write, with real threads: bounds of bytes over
//! time, never a time by itself.

use std::ops::Range;
use std::time::{Duration, Instant};

use cleavedb::{
    Background, Db, Durability, ErrorKind, Metrics, Options, Preset, Resources, Tuning,
};
use cleavedb_testkit::{Disks, Setup, session};

/// Bytes a second: little, so that jobs have to wait.
const RATE: u64 = 3 << 20;

/// A write of a job may be so long, and a rest counts as a tenth of a second.
const SLACK: u64 = (1 << 20) + RATE / 10;

fn limited(setup: &Setup, rate: Option<u64>) -> Db {
    let mut setup = setup.clone();
    setup.options.background = Background::Threads(2);
    setup.options.background_bytes_per_second = rate;
    session::open_all(&Disks::new(&setup).storages(), &setup).unwrap()
}

fn rewritten(metrics: &Metrics) -> u64 {
    metrics.compaction_written + metrics.collection_written
}

/// Overwrites the same keys, so that there is much to compact and to collect.
fn overwrite(db: &Db, rounds: u8) {
    for round in 0..rounds {
        for key in 0..200u16 {
            db.put(key.to_be_bytes(), [round; 900]).unwrap();
        }
    }
}

#[test]
fn jobs_keep_the_limit_under_every_design() {
    for setup in Setup::designs() {
        let start = Instant::now();
        let db = limited(&setup, Some(RATE));
        overwrite(&db, 4);
        db.compact().unwrap();
        db.wait_idle().unwrap();
        let metrics = db.metrics();
        let most = RATE as f64 * start.elapsed().as_secs_f64() + SLACK as f64;
        assert!(rewritten(&metrics) as f64 <= most, "{setup}: {} of {most}", rewritten(&metrics));
        let beyond = rewritten(&metrics) > RATE / 10 + (64 << 10);
        assert!(metrics.paced > Duration::ZERO || !beyond, "{setup}: no job has waited");
        db.close().unwrap();
    }
}

#[test]
fn the_limit_changes_for_jobs_that_wait_and_a_close_does_not_wait() {
    let setup = Setup::tiny(Preset::Lsm, true);
    let least = 64 << 10;
    let db = limited(&setup, Some(least));
    let refused = db.set_background_bytes_per_second(Some(least - 1)).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::InvalidOptions);
    let options = Options { background_bytes_per_second: Some(0), ..setup.options.clone() };
    assert_eq!(options.validate().unwrap_err().kind(), ErrorKind::InvalidOptions);
    // At the limit this takes minutes.
    db.set_background_bytes_per_second(None).unwrap();
    let start = Instant::now();
    overwrite(&db, 100);
    db.compact().unwrap();
    assert!(rewritten(&db.metrics()) > least * 200, "{:?}", db.metrics());
    db.set_background_bytes_per_second(Some(least)).unwrap();
    let compacting = db.clone();
    let compaction = std::thread::spawn(move || {
        loop {
            overwrite(&compacting, 1);
            if let Err(e) = compacting.compact() {
                return e.kind();
            }
        }
    });
    let before = db.metrics().paced;
    while db.metrics().paced == before {
        std::thread::sleep(Duration::from_millis(10));
    }
    let handle = db.clone();
    db.close().unwrap();
    assert_eq!(compaction.join().unwrap(), ErrorKind::Closed);
    let waited = rewritten(&handle.metrics()) / least;
    assert!(start.elapsed().as_secs() < waited, "the close has waited for the limit");
}

fn put(db: &Db, keys: Range<u32>) {
    keys.for_each(|key| db.put(key.to_be_bytes(), [0; 1000]).unwrap());
}

/// A database whose MemTables take so long to write slowly that a flush would have to wait.
fn with_large_memtables(preset: Preset, resources: Option<Resources>) -> Db {
    let options = Options {
        durability: Durability::Os,
        resources,
        tuning: Tuning { memtable_bytes: Some(32 << 20), ..Tuning::default() },
        ..Options::preset(preset)
    };
    limited(&Setup { options, ..Setup::tiny(preset, true) }, None)
}

#[test]
fn a_flush_that_a_caller_waits_for_is_written_at_once() {
    for preset in [Preset::Lsm, Preset::KtStore] {
        let db = with_large_memtables(preset, None);
        put(&db, 0..20_000);
        db.flush().unwrap();
        let metrics = db.metrics();
        assert_eq!((metrics.flushes, metrics.flushes_paced), (1, Duration::ZERO), "{preset:?}");
        db.close().unwrap();
    }
}

#[test]
fn a_flush_by_a_shared_thread_is_written_at_once() {
    let resources = Resources::new(8 << 20, 0).with_threads(1);
    let db = with_large_memtables(Preset::KtStore, Some(resources));
    put(&db, 0..34_000);
    while db.metrics().flushes == 0 {
        std::thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(db.metrics().flushes_paced, Duration::ZERO);
    db.close().unwrap();
}
