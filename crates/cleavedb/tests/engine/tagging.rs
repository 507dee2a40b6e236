//! Tagging at work: cold values leave their groups once and are found, hot ones stay; the cold log
//! gives its space back, and nothing that was tagged comes back to life.

use std::sync::Arc;

use cleavedb::layout::SurvivorRoute;
use cleavedb::{Background, Db, ErrorKind, Metrics, Options, Preset};
use cleavedb_storage::Disk;
use cleavedb_storage_sim::Sim;
use cleavedb_testkit::Setup;
use cleavedb_testkit::records::{key, value};

const KEYS: u32 = 300;

/// Keys from here on are written once.
pub(crate) const HOT: u32 = 100;

pub(crate) fn options() -> Options {
    let mut options = Setup::tagged(true).options;
    (options.space_amplification, options.tuning.space_floor) = (1.3, 32 << 10);
    (options.tuning.groups.capacity_bytes, options.tuning.groups.main_segment_bytes) =
        (256 << 10, 64 << 10);
    options
}

pub(crate) fn open(options: Options) -> Db {
    Db::open_in(Arc::new(Sim::new()), options, 7).unwrap()
}

fn put(db: &Db, keys: std::ops::Range<u32>, round: u32) {
    keys.for_each(|i| db.put(key(i), value(i, round)).unwrap());
    db.flush().unwrap();
}

fn verify(db: &Db) {
    let report = db.verify().unwrap();
    assert!(report.problems.is_empty(), "{:?}", report.problems);
}

/// Writes all keys, and then the hot ones again and again.
pub(crate) fn age(db: &Db, rounds: u32) {
    put(db, 0..KEYS, 0);
    (1..=rounds).for_each(|round| put(db, 0..HOT, round));
    db.wait_idle().unwrap();
}

pub(crate) fn check(db: &Db, rounds: u32) {
    let round = |i| if i < HOT { rounds } else { 0 };
    (0..KEYS).for_each(|i| assert_eq!(db.get(key(i)).unwrap().unwrap(), value(i, round(i))));
    verify(db);
}

fn segments(metrics: &Metrics) -> Vec<&str> {
    let names = metrics.value_files.iter().map(|file| &*file.name);
    names.filter(|name| name.ends_with(".seg")).collect()
}

/// "if a cold KV pair is not updated, a GC operation only rewrites its key and metadata".
#[test]
fn cold_values_leave_once_and_are_found() {
    let sim = Sim::new();
    let db = Db::open_in(Arc::new(sim.clone()), options(), 7).unwrap();
    age(&db, 12);
    db.collect().unwrap();
    check(&db, 12);
    let before = db.metrics();
    let cold = u64::from(KEYS - HOT);
    assert!(before.tags >= cold, "{} tags of {cold} cold keys", before.tags);
    let kept: Vec<String> = segments(&before).iter().map(ToString::to_string).collect();
    (13..20).for_each(|round| put(&db, 0..HOT, round));
    db.wait_idle().unwrap();
    let after = db.metrics();
    assert!(after.collections > before.collections);
    let stays =
        segments(&after).iter().filter(|name| kept.iter().any(|kept| kept == *name)).count();
    assert!(stays > 0, "collections of groups left no segment of the cold log alone");
    check(&db, 19);
    db.close().unwrap();
    check(&Db::open_in(Arc::new(sim), options(), 7).unwrap(), 19);
}

#[test]
fn without_tagging_nothing_leaves() {
    let db = Db::open_in(Arc::new(Sim::new()), Setup::tiny(Preset::HashKv, true).options, 7);
    let db = db.unwrap();
    age(&db, 12);
    assert_eq!((db.metrics().tags, db.metrics().cold_log_bytes), (0, 0));
}

/// "we know directly from the tag that the cold KV pair has already been stored": an updated key is
/// hot, and its value stays at all later collections. Without the tag it would leave again.
#[test]
fn an_update_of_a_tagged_key_stays_in_its_group() {
    let db = open(options());
    put(&db, 0..40, 0);
    db.collect().unwrap();
    assert_eq!(db.metrics().tags, 40);
    put(&db, 0..1, 1);
    db.collect().unwrap();
    assert_eq!(db.metrics().tags, 39, "the update is hot, and its tag is superseded");
    db.collect().unwrap();
    assert_eq!(db.metrics().tags, 39, "who stayed was hot, and stays");
    assert_eq!(db.get(key(0)).unwrap().unwrap(), value(0, 1));
    verify(&db);
}

#[test]
fn a_tagged_key_that_is_deleted_and_inserted_again_is_not_revived() {
    let db = open(options());
    put(&db, 0..40, 0);
    db.collect().unwrap();
    let snapshot = db.snapshot();
    (0..20).for_each(|i| db.delete(key(i)).unwrap());
    db.flush().unwrap();
    db.collect().unwrap();
    assert_eq!(db.metrics().tags, 20, "a deleted key has no tag");
    (0..20).for_each(|i| assert_eq!(snapshot.get(key(i)).unwrap().unwrap(), value(i, 0)));
    put(&db, 0..10, 5);
    (0..10).for_each(|i| db.put(key(i), b"short").unwrap());
    db.flush().unwrap();
    (0..3).for_each(|_| db.collect().unwrap());
    drop(snapshot);
    (0..3).for_each(|_| db.collect().unwrap());
    (0..10).for_each(|i| assert_eq!(db.get(key(i)).unwrap().unwrap(), "short"));
    (10..20).for_each(|i| assert_eq!(db.get(key(i)).unwrap(), None));
    (20..40).for_each(|i| assert_eq!(db.get(key(i)).unwrap().unwrap(), value(i, 0)));
    verify(&db);
}

/// A collection of the cold log tells the index alone where values went.
#[test]
fn the_cold_log_is_collected_and_tags_stay_true() {
    // The updated keys alone fill level 0, however its runs merge: each time it leaves, the
    // entries of their older values are met.
    let mut options = options();
    options.tuning.level0_bytes = Some(4 << 10);
    let db = open(options);
    put(&db, 0..KEYS, 0);
    db.collect().unwrap();
    let before = db.metrics();
    for round in 1..12 {
        let even = (0..KEYS).filter(|i| i % 2 == 0);
        even.for_each(|i| db.put(key(i), value(i, round)).unwrap());
        db.flush().unwrap();
    }
    db.wait_idle().unwrap();
    let (old, after) = (segments(&before), db.metrics());
    let gone = old.iter().filter(|old| !segments(&after).contains(old)).count();
    assert!(gone > 0, "every segment of {old:?} is there, half of which is dead");
    let round = |i| if i % 2 == 0 { 11 } else { 0 };
    (0..KEYS).for_each(|i| assert_eq!(db.get(key(i)).unwrap().unwrap(), value(i, round(i))));
    verify(&db);
    (0..KEYS).for_each(|i| db.delete(key(i)).unwrap());
    db.collect().unwrap();
    db.collect().unwrap();
    assert_eq!(db.metrics().cold_log_bytes, 0, "no value lives");
}

/// Design, invariant 12, the cold log included; beyond what stops writers one flush may come.
#[test]
fn values_stay_within_their_space_cold_log_included() {
    let options = options();
    let (amplification, floor) = (options.space_amplification, options.tuning.space_floor);
    let log = options.tuning.memtable_log_bytes;
    let db = open(options);
    put(&db, 0..KEYS, 0);
    for round in 1..20 {
        for i in (0..KEYS).filter(|i| i % 3 == 0 || i % 20 == round % 20) {
            db.put(key(i), value(i, round)).unwrap();
            let metrics = db.metrics();
            let live = metrics.live_bytes.saturating_sub(metrics.hidden_bytes);
            let allowed = ((live as f64 * amplification) as u64).max(live + floor);
            let values = metrics.value_files.iter().filter(|file| !file.name.ends_with(".log"));
            let bytes: u64 = values.filter_map(|file| file.bytes).sum();
            let flush = log + 4096 * metrics.groups as u64;
            assert!(bytes <= allowed + allowed / 8 + flush, "{bytes} of {allowed} for {live} live");
        }
    }
    assert!(db.metrics().cold_log_bytes > 0);
    verify(&db);
}

#[test]
fn groups_split_with_their_tags() {
    let mut options = options();
    options.tuning.groups.capacity_bytes = 4 << 10;
    (options.tuning.groups.main_segment_bytes, options.tuning.groups.log_segment_bytes) =
        (4 << 10, 4 << 10);
    let db = open(options);
    let before = db.metrics().groups;
    age(&db, 8);
    let after = db.metrics();
    assert!(after.groups > before && after.splits > 0 && after.tags > 0, "{after:?}");
    check(&db, 8);
}

#[test]
fn other_groups_refuse_tagging() {
    let mut setup = Setup::tiny(Preset::KtStore, true);
    setup.groups().survivors = SurvivorRoute::Tagged;
    let error = Db::open_in(Arc::new(Sim::new()), setup.options, 7).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::InvalidOptions, "{error}");
}

/// With threads, flushes write for groups while their cold values leave.
#[test]
fn threads_collect_groups_and_cold_log_while_others_write() {
    let dir = tempfile::tempdir().unwrap();
    let mut options = options();
    options.background = Background::Threads(2);
    let open = || Db::open_in(Arc::new(Disk::open(dir.path(), true).unwrap()), options.clone(), 7);
    let db = open().unwrap();
    age(&db, 40);
    check(&db, 40);
    assert!(db.metrics().tags > 0 && db.metrics().collections > 0);
    db.close().unwrap();
    check(&open().unwrap(), 40);
}
