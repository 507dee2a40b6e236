//! What a write that must not wait meets, one obstacle at a time.

use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use cleavedb_base::{ErrorKind, Result};
use cleavedb_storage_sim::Sim;

use super::Db;
use crate::control::metrics::StallCause;
use crate::control::throttle::Pressure;
use crate::operations::batch::WriteBatch;
use crate::settings::merge::Operand;
use crate::settings::options::{Background, Durability, Options};
use crate::settings::put_options::PutOptions;
use crate::settings::tuning::Tuning;

/// A database without threads, which has begun its session.
fn begun() -> Db {
    begun_with(Background::Manual)
}

fn begun_with(background: Background) -> Db {
    let tuning =
        Tuning { memtable_bytes: Some(1 << 20), memtables_max: Some(1), ..Tuning::default() };
    let options = Options { background, tuning, ..Options::default() };
    let sim = Sim::new();
    sim.set_window_survives(true);
    let db = Db::open_in(Arc::new(sim), options, 7).unwrap();
    db.put("first", "begins the session").unwrap();
    db
}

fn tried(db: &Db) -> Result<u64> {
    let mut batch = WriteBatch::new();
    batch.put("key", "value").unwrap();
    db.try_write(&batch, Durability::Os)
}

/// A write that is refused leaves nothing behind, and behind one that waits the next passes.
fn is_refused(db: &Db, refused: Result<u64>) {
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::WouldWait);
    db.put("room", "is made by this").unwrap();
    let before = db.engine().commit.append().last_seq();
    assert_eq!(tried(db).unwrap(), before + 1);
}

#[test]
fn a_write_at_once_is_numbered_as_others_are() {
    let db = begun();
    let before = db.snapshot().seq();
    assert_eq!(tried(&db).unwrap(), before + 1);
    assert_eq!(tried(&db).unwrap(), before + 2);
    assert_eq!(db.try_write(&WriteBatch::new(), Durability::Os).unwrap(), before + 2);
    assert!(db.durable_seq() < before + 2);
    db.sync_to(before + 1).unwrap();
    assert_eq!(db.durable_seq(), before + 2, "one sync for all");
    let mut batch = WriteBatch::new();
    batch.put("key", "value").unwrap();
    let error = db.try_write(&batch, Durability::Sync).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
}

#[test]
fn a_write_at_once_waits_for_no_background_work() {
    let db = begun();
    let throttle = &db.engine().throttle;
    throttle.set(Pressure::of(StallCause::Compaction, 100, 10, 100));
    let stopped = tried(&db);
    throttle.set(Pressure::of(StallCause::Compaction, 0, 10, 100));
    is_refused(&db, stopped);
    let mut full = 0u32;
    while db.engine().state.load().waiting() == 0 {
        db.put(full.to_be_bytes(), [0; 1000]).unwrap();
        full += 1;
    }
    while tried(&db).is_ok() {}
    is_refused(&db, tried(&db));
}

#[test]
fn a_write_at_once_leaves_its_pause_to_the_next() {
    let db = begun_with(Background::Threads(1));
    let throttle = &db.engine().throttle;
    // At this pace a byte takes a second.
    throttle.flush_took(4 << 20, Duration::from_secs(4 << 20));
    throttle.fills_last(|| true);
    tried(&db).unwrap();
    let owed = tried(&db);
    throttle.fills_last(|| false);
    is_refused(&db, owed);
}

#[test]
fn a_write_at_once_waits_for_no_other_writer() {
    let db = begun();
    let held = db.engine().commit.append();
    let locked = thread::scope(|scope| {
        let (tell, told) = mpsc::channel();
        let db = &db;
        scope.spawn(move || tell.send(tried(db)));
        let locked = told.recv_timeout(Duration::from_secs(10));
        drop(held);
        locked.expect("a write at once waits for the lock")
    });
    is_refused(&db, locked);
    db.engine().commit.append().hold(true);
    let loading = tried(&db);
    db.engine().commit.append().hold(false);
    is_refused(&db, loading);
}

#[test]
fn a_write_at_once_makes_no_room_and_reads_nothing() {
    let db = begun();
    let mut long = WriteBatch::new();
    let window = db.engine().commit.log.buffer().len() as usize;
    long.put("long", vec![7; window / 4 + 1]).unwrap();
    is_refused(&db, db.try_write(&long, Durability::Os));
    let hour = Duration::from_secs(3600);
    let mut merge = WriteBatch::new();
    merge.merge("count", &Operand::add(1)).unwrap();
    db.try_write(&merge, Durability::Os).unwrap();
    db.put_with("count", "7", PutOptions::default().ttl(hour)).unwrap();
    is_refused(&db, db.try_write(&merge, Durability::Os));
    assert_eq!(db.get("count").unwrap().unwrap(), "7");
}
