//! Groups at work: they are collected without losing anything, their space comes back, and they
//! split when the data outgrows them.

use std::sync::Arc;

use cleavedb::{Background, Db, Metrics, Options, Preset, VictimPolicy};
use cleavedb_storage::{Disk, Sim};
use cleavedb_testkit::Setup;

const KEYS: u32 = 400;

fn key(i: u32) -> Vec<u8> {
    format!("key {i:05}").into_bytes()
}

fn value(i: u32, round: u32) -> Vec<u8> {
    let mut value = vec![i as u8; 700 + (i % 300) as usize];
    value[..4].copy_from_slice(&round.to_le_bytes());
    value
}

fn options() -> Options {
    let mut options = Setup::tiny(Preset::HashKv, true).options;
    (options.space_amplification, options.space_floor) = (1.3, 64 << 10);
    options
}

/// Writes every key once in each round.
fn write(db: &Db, rounds: std::ops::Range<u32>) {
    for round in rounds {
        (0..KEYS).for_each(|i| db.put(&key(i), &value(i, round)).unwrap());
    }
    db.flush().unwrap();
    db.settle().unwrap();
}

fn check(db: &Db, round: u32) {
    (0..KEYS).for_each(|i| assert_eq!(db.get(&key(i)).unwrap().unwrap(), value(i, round)));
    let report = db.verify().unwrap();
    assert!(report.problems.is_empty(), "{:?}", report.problems);
}

/// Bytes of group files, as extents.
fn group_bytes(metrics: &Metrics) -> u64 {
    let files = metrics.value_files.iter().filter(|file| file.name.ends_with(".grp"));
    files.filter_map(|file| file.bytes).sum()
}

#[test]
fn updates_are_collected_under_every_policy() {
    for victim in [
        VictimPolicy::Greedy,
        VictimPolicy::CostBenefit,
        VictimPolicy::GreedyRandom(2),
        VictimPolicy::Random,
    ] {
        let mut options = options();
        options.groups.victim = victim;
        let sim = Sim::new();
        let db = Db::open_in(Arc::new(sim.clone()), options.clone(), 7).unwrap();
        write(&db, 0..12);
        check(&db, 11);
        let metrics = db.metrics();
        assert!(metrics.collections > 0 && metrics.bytes_punched > 0, "{victim:?}");
        let live = u64::from(KEYS) * 900;
        assert!(group_bytes(&metrics) < 2 * live, "{victim:?}: {}", group_bytes(&metrics));
        db.close().unwrap();
        check(&Db::open_in(Arc::new(sim), options, 7).unwrap(), 11);
    }
}

#[test]
fn groups_split_when_the_data_outgrows_them_and_stay_split() {
    let sim = Sim::new();
    let db = Db::open_in(Arc::new(sim.clone()), options(), 7).unwrap();
    let before = db.metrics().groups;
    write(&db, 0..4);
    let after = db.metrics();
    assert!(after.splits > 0 && after.groups as u64 == before as u64 + after.splits);
    check(&db, 3);
    db.close().unwrap();
    let db = Db::open_in(Arc::new(sim), options(), 7).unwrap();
    assert_eq!(db.metrics().groups, after.groups);
    check(&db, 3);
}

#[test]
fn a_value_longer_than_a_main_segment_does_not_split_its_group() {
    let options = options();
    let long = vec![7; 3 * options.groups.main_segment_bytes as usize];
    let db = Db::open_in(Arc::new(Sim::new()), options, 7).unwrap();
    let before = db.metrics().groups;
    for _ in 0..5 {
        db.put(b"long", &long).unwrap();
        db.collect().unwrap();
    }
    let after = db.metrics();
    assert!(after.collections > 0);
    assert_eq!((after.groups, after.splits), (before, 0));
}

/// Sampled after every write. Beyond what stops writers one flush may come, which was under way,
/// and in it each group pads to a block.
#[test]
fn values_in_groups_stay_within_their_space() {
    let mut options = options();
    (options.groups.capacity_bytes, options.groups.main_segment_bytes) = (256 << 10, 64 << 10);
    let (amplification, floor) = (options.space_amplification, options.space_floor);
    let log = options.memtable_log_bytes;
    let db = Db::open_in(Arc::new(Sim::new()), options, 7).unwrap();
    write(&db, 0..1);
    for round in 1..8 {
        for i in 0..KEYS {
            db.put(&key(i), &value(i, round)).unwrap();
            let metrics = db.metrics();
            let live = metrics.live_bytes - metrics.hidden_bytes.min(metrics.live_bytes);
            let allowed = ((live as f64 * amplification) as u64).max(live + floor);
            let (bytes, flush) = (group_bytes(&metrics), log + 4096 * metrics.groups as u64);
            assert!(bytes <= allowed + allowed / 8 + flush, "{bytes} of {allowed} for {live} live");
        }
    }
    check(&db, 7);
}

#[test]
fn a_deleted_store_gives_its_space_back() {
    let db = Db::open_in(Arc::new(Sim::new()), options(), 7).unwrap();
    write(&db, 0..2);
    (0..KEYS).for_each(|i| db.delete(&key(i)).unwrap());
    db.collect().unwrap();
    assert_eq!(db.range(None, None).count(), 0);
    let left = group_bytes(&db.metrics());
    assert_eq!(left, 0, "no record lives, so no extent is left");
}

/// With threads, flushes write for groups while they are collected and split.
#[test]
fn threads_collect_and_split_while_others_write() {
    let dir = tempfile::tempdir().unwrap();
    let mut options = options();
    options.background = Background::Threads(2);
    let open = || Db::open_in(Arc::new(Disk::open(dir.path(), true).unwrap()), options.clone(), 7);
    let db = open().unwrap();
    write(&db, 0..12);
    check(&db, 11);
    assert!(db.metrics().splits > 0 && db.metrics().collections > 0);
    db.close().unwrap();
    check(&open().unwrap(), 11);
}
