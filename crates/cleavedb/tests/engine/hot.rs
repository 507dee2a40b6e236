//! The hot store of HoaKV: every state of a key under every operation.

use std::ops::Range;
use std::sync::Arc;

use cleavedb::{Background, Db, Options, Preset};
use cleavedb_storage::Storage;
use cleavedb_storage_sim::{Faulty, Sim};
use cleavedb_testkit::Setup;
use cleavedb_testkit::heat::{
    a_load_heats_nothing, a_short_session_heats_nothing, reads_go_on_to_promote,
    short_values_come_and_go,
};
use cleavedb_testkit::hot::{
    a_collection_frees_the_hot_store, damaged_hot_values_stop_no_writer,
    hot_keys_stay_hot_behind_an_open, long_hot_values, matrix, promotions_follow_reads,
};
use cleavedb_testkit::hot_damage::damaged_hot_segments;
use cleavedb_testkit::records::{key, value};
use cleavedb_testkit::session::{open_all, open_read_only};

const PARTS: usize = 2;

#[test]
fn every_state_of_a_key_under_every_operation_even() {
    matrix(0, PARTS).unwrap_or_else(|e| panic!("{e}"));
}

#[test]
fn every_state_of_a_key_under_every_operation_odd() {
    matrix(1, PARTS).unwrap_or_else(|e| panic!("{e}"));
}

#[test]
fn damaged_values_of_hot_segments_stop_no_writer() {
    let met = |seed: &u64| {
        let check = damaged_hot_values_stop_no_writer(*seed);
        check.unwrap_or_else(|e| panic!("seed {seed}: {e}"))
    };
    assert!((0..40).map(|i| i * 61).filter(met).count() > 20, "flushes meet the damage");
}

#[test]
fn damaged_hot_segments_lose_no_other_key() {
    damaged_hot_segments().unwrap_or_else(|e| panic!("{e}"));
}

/// A regression: the first flush behind each open took every key that it updated for hot.
#[test]
fn keys_that_a_short_session_writes_are_cold() {
    a_short_session_heats_nothing().unwrap_or_else(|e| panic!("{e}"));
}

#[test]
fn keys_that_are_read_become_hot() {
    (0..4).for_each(|seed| promotions_follow_reads(seed).unwrap_or_else(|e| panic!("{e}")));
}

/// A regression: the reader that found that many keys had become hot took the lock of the writers
/// and made the next MemTable.
#[test]
fn a_flush_for_keys_that_are_read_is_begun_by_the_thread_that_flushes() {
    const KEYS: u32 = 4_000;
    let mut setup = Setup::hot(true);
    setup.options.tuning.groups.heat_limit = Some(3);
    (setup.options.hot_bytes, setup.options.tuning.memtable_bytes) = (64 << 20, Some(1 << 20));
    let storages: Vec<Arc<dyn Storage>> = vec![Arc::new(Sim::new())];
    let read_often = |db: &Db| {
        let read = |i| assert_eq!(db.get(key(i)).unwrap().unwrap(), value(i, 0));
        (0..3).for_each(|_| (0..KEYS).for_each(read));
    };
    let db = open_all(&storages, &setup).unwrap();
    (0..KEYS).for_each(|i| db.put(key(i), value(i, 0)).unwrap());
    db.flush().unwrap();
    while db.step().unwrap() {}
    let before = db.metrics();
    read_often(&db);
    db.put(key(KEYS), value(KEYS, 0)).unwrap();
    assert!(db.step().unwrap(), "little was written, and keys were read often");
    let after = db.metrics();
    assert_eq!(after.flushes, before.flushes + 1);
    assert_eq!(after.unflushed_data, 0, "a reader made the MemTable of the last write");
    let promoted = after.hot.unwrap().stats.promoted;
    assert!(promoted > 500, "{promoted} keys were moved");
    read_often(&db);
    db.close().unwrap();
    read_often(&open_read_only(&storages, &setup).unwrap());
}

#[test]
fn a_load_makes_no_key_hot() {
    [150, 300]
        .into_iter()
        .for_each(|len| a_load_heats_nothing(len).unwrap_or_else(|e| panic!("{e}")));
}

/// The paper divides cold pairs by their length; only separated values became hot.
#[test]
fn short_values_become_hot_and_come_back_to_the_index() {
    short_values_come_and_go().unwrap_or_else(|e| panic!("{e}"));
}

/// A flush that found the store too long ended promotions until the next flush, which never came.
#[test]
fn reads_alone_go_on_to_move_keys_to_a_store_that_was_too_long() {
    reads_go_on_to_promote().unwrap_or_else(|e| panic!("{e}"));
}

/// A regression: while others wrote, keys that were read became hot only every ten seconds. Flushes
/// for them alone wait for compactions where level 0 has many runs.
#[test]
fn keys_that_are_read_beside_writers_become_hot_as_fast_as_level_0_takes_them() {
    const PART: u32 = 640;
    const PARTS: u32 = 20;
    let mut setup = Setup::hot(true);
    setup.options = Options { background: Background::Manual, ..Options::preset(Preset::HoaKv) };
    setup.options.tuning.groups.heat_limit = Some(1);
    let storages: Vec<Arc<dyn Storage>> = vec![Arc::new(Sim::new())];
    let db = open_all(&storages, &setup).unwrap();
    let write = |keys: Range<u32>| keys.for_each(|i| db.put(key(i), value(i, 0)).unwrap());
    write(0..PART * PARTS);
    db.flush().unwrap();
    while db.step().unwrap() {}
    write(50_000..56_000);
    let mut runs = Vec::new();
    for part in 0..PARTS {
        write(60_000 + part..60_001 + part);
        let read = part * PART..(part + 1) * PART;
        read.for_each(|i| assert_eq!(db.get(key(i)).unwrap().unwrap(), value(i, 0)));
        assert!(db.step().unwrap(), "part {part}: nothing is due");
        let metrics = db.metrics();
        let promoted = metrics.hot.unwrap().stats.promoted;
        assert!(part > 2 || promoted > u64::from(part * PART + PART / 2), "{part}: {promoted}");
        runs.push(metrics.levels[0].runs);
    }
    assert!(runs.iter().max() == Some(&12), "{runs:?}");
}

/// A regression: keys that reads had found hot lay in no order, and a scan read each by itself.
#[test]
fn a_scan_reads_hot_values_that_a_flush_has_written_together() {
    const KEYS: u32 = 4_000;
    let options = Options { background: Background::Manual, ..Options::preset(Preset::HoaKv) };
    let mut setup = Setup { options, ..Setup::hot(true) };
    setup.options.tuning.groups.heat_limit = Some(1);
    let faulty = Arc::new(Faulty::over(&Sim::new()));
    let storages: Vec<Arc<dyn Storage>> = vec![faulty.clone()];
    let db = open_all(&storages, &setup).unwrap();
    (0..KEYS).for_each(|i| db.put(key(i), value(i, 0)).unwrap());
    db.flush().unwrap();
    (0..KEYS).step_by(3).for_each(|i| assert!(db.get(key(i)).unwrap().is_some()));
    db.put(key(KEYS), value(KEYS, 0)).unwrap();
    db.flush().unwrap();
    let promoted = db.metrics().hot.unwrap().stats.promoted;
    assert!(promoted > 1_000, "{promoted} keys were moved");
    let before = faulty.calls();
    assert!((0..).zip(db.range(..)).all(|(i, item)| item.unwrap().value == value(i, 0)));
    let calls = faulty.calls() - before;
    assert!(calls < 300, "{calls} calls");
}

/// Only flushes changed the hot store: what was dead in it stayed until the next writes.
#[test]
fn a_collection_leaves_nothing_dead_in_the_hot_store() {
    let mut limited = Setup::hot(true);
    limited.options.space_limit = Some(limited.options.space_limit_min() + (128 << 10));
    for setup in [Setup::hot(true), Setup::hot(false), Setup::crowded_hot_store(), limited] {
        let check = |seed| a_collection_frees_the_hot_store(&setup, seed);
        let dead =
            (0..20).map(|seed| check(seed).unwrap_or_else(|e| panic!("{setup}, {seed}: {e}")));
        let most = dead.max();
        assert!(most > Some(2000), "{setup}: at most {most:?} bytes were dead");
    }
}

#[test]
fn hot_keys_stay_hot_although_an_open_forgets_their_heat() {
    hot_keys_stay_hot_behind_an_open().unwrap_or_else(|e| panic!("{e}"));
}

/// The first record of a segment was taken for one of the segment before, and was lost with it.
#[test]
fn long_values_stay_hot_when_other_segments_leave() {
    long_hot_values().unwrap_or_else(|e| panic!("{e}"));
}
