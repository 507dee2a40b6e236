//! Ranges of keys that begin as one group: it is divided as it grows, and a division copies no more
//! than the group.

use std::sync::Arc;

use cleavedb::{Db, Options, Preset};
use cleavedb_storage_sim::Sim;
use cleavedb_testkit::Setup;
use cleavedb_testkit::records::{key, value};

const KEYS: u32 = 400;
const FLUSHED: u32 = 20;

/// Bytes of a flush, at most: the values have 900 bytes and more.
const FLUSHED_MAX: u64 = FLUSHED as u64 * 1200;

fn options(preset: Preset) -> Options {
    let mut options = Setup::tiny(preset, true).options;
    options.tuning.groups.one_at_first = true;
    // So large that space is no reason to collect.
    options.tuning.space_floor = 1 << 30;
    options
}

fn check(db: &Db) {
    (0..KEYS).for_each(|i| assert_eq!(db.get(key(i)).unwrap().unwrap(), value(i, 0)));
    let keys: Vec<_> = db.range(..).map(|item| item.unwrap().key.to_vec()).collect();
    assert_eq!(keys, (0..KEYS).map(key).collect::<Vec<_>>());
    let report = db.verify().unwrap();
    assert!(report.problems.is_empty(), "{:?}", report.problems);
}

fn grows(preset: Preset) {
    let (sim, options) = (Sim::new(), options(preset));
    let open = || Db::open_in(Arc::new(sim.clone()), options.clone(), 7).unwrap();
    let db = open();
    let main = options.tuning.groups.main_segment_bytes;
    let mut before = db.metrics();
    // In no order: keys that ascend begin groups of their own.
    for (count, i) in (0..KEYS).map(|at| at * 147 % KEYS).enumerate() {
        db.put(key(i), value(i, 0)).unwrap();
        if count as u32 % FLUSHED != FLUSHED - 1 {
            continue;
        }
        db.flush().unwrap();
        let flushed = db.metrics();
        if before.flushes == 0 {
            assert_eq!(flushed.groups, 1, "{preset}: the first flush divides nothing");
        }
        while db.step().unwrap() {
            let after = db.metrics();
            if after.splits > before.splits {
                let copied = after.collection_written - before.collection_written;
                let group = 2 * main + FLUSHED_MAX;
                assert!(copied <= group, "{preset}: {copied} bytes of a group of {group} at most");
            }
            before = after;
        }
        before = db.metrics();
    }
    assert!(before.splits > 4, "{preset}: {} splits", before.splits);
    assert!(before.groups as u64 > before.splits, "{preset}");
    check(&db);
    db.close().unwrap();
    let db = open();
    assert_eq!(db.metrics().groups, before.groups);
    check(&db);
}

#[test]
fn one_group_at_first_splits_as_data_grows() {
    grows(Preset::KtStore);
    grows(Preset::HoaKv);
}

/// All values are in one group, which is longer than the space that the disk has left.
#[test]
fn a_group_longer_than_the_free_space_is_collected_in_pieces() {
    const CAPACITY: u64 = 4 << 20;
    const RECORDS: u32 = 2_200;
    for preset in [Preset::KtStore, Preset::HoaKv] {
        let sim = Sim::new();
        let mut options = options(preset);
        options.tuning.groups.main_segment_bytes = 1 << 30;
        (options.tuning.space_floor, options.space_amplification) = (0, 1.2);
        let db = Db::open_in(Arc::new(sim.clone()), options, 7).unwrap();
        // Where a small disk is known, an open makes groups shorter.
        sim.set_capacity(CAPACITY);
        // Keys beyond the last one would begin groups of their own.
        db.put(key(RECORDS), value(RECORDS, 0)).unwrap();
        for round in 0..4 {
            for i in (0..RECORDS).map(|at| at * 147 % RECORDS) {
                db.put(key(i), value(i, round)).unwrap();
                while db.step().unwrap() {}
            }
        }
        let metrics = db.metrics();
        let group = metrics.value_bytes;
        assert_eq!(metrics.groups, 1, "{preset}");
        assert!(group > CAPACITY / 2, "{preset}: {group} bytes");
        (0..RECORDS).for_each(|i| assert_eq!(db.get(key(i)).unwrap().unwrap(), value(i, 3)));
        assert!(db.verify().unwrap().problems.is_empty());
    }
}
