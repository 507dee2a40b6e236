//! The cache of whole records: what fills it, what it answers, and what passes it by.

use std::sync::Arc;

use cleavedb::{Db, ErrorKind, Metrics, Options, Preset};
use cleavedb_storage::FileKind;
use cleavedb_storage_sim::Sim;
use cleavedb_storage_sim::faulty::{Fault, Faulty, Op as Call, Rule};
use cleavedb_testkit::Setup;
use cleavedb_testkit::records::key;

const KEYS: u32 = 200;

/// Bytes of a cache in which all records have room.
const WIDE: usize = 2 << 20;

/// A value that every design separates, that of record `i` in `round`.
fn value(i: u32, round: u32) -> Vec<u8> {
    let mut value = vec![i as u8; 1100 + (i % 300) as usize];
    value[..4].copy_from_slice(&round.to_le_bytes());
    value
}

/// Every kind of place where values lie, under a cache of `bytes`.
fn designs(bytes: usize) -> impl Iterator<Item = Setup> {
    let changed = move |mut setup: Setup| {
        setup.options.record_cache_bytes = bytes;
        setup
    };
    Setup::record_caches().into_iter().map(changed)
}

/// A store with each key of round 0, all in tables and value files.
fn filled(setup: &Setup) -> Db {
    let db = Db::open_in(Arc::new(Sim::new()), setup.options.clone(), 7).unwrap();
    (0..KEYS).for_each(|i| db.put(key(i), value(i, 0)).unwrap());
    db.flush().unwrap();
    db.compact().unwrap();
    db
}

/// Hits and misses while `reads` run.
fn look_ups(db: &Db, reads: impl FnOnce()) -> (u64, u64) {
    let of = |metrics: Metrics| (metrics.record_cache_hits, metrics.record_cache_misses);
    let before = of(db.metrics());
    reads();
    let after = of(db.metrics());
    (after.0 - before.0, after.1 - before.1)
}

fn get_all(db: &Db, keys: impl Iterator<Item = u32>, round: u32) {
    keys.for_each(|i| assert_eq!(db.get(key(i)).unwrap().unwrap(), value(i, round)));
}

#[test]
fn gets_fill_the_cache_and_a_collection_does_not_cool_it() {
    for setup in designs(WIDE) {
        let db = filled(&setup);
        let all = u64::from(KEYS);
        assert_eq!(look_ups(&db, || get_all(&db, 0..KEYS, 0)), (0, all), "{setup}");
        assert_eq!(look_ups(&db, || get_all(&db, 0..KEYS, 0)), (all, 0), "{setup}");
        // Most neighbours of the odd ones die, so that the odd ones move.
        for round in 1..4 {
            (0..KEYS).step_by(2).for_each(|i| db.put(key(i), value(i, round)).unwrap());
            db.flush().unwrap();
            db.compact().unwrap();
        }
        let before = db.metrics().collection_written;
        db.collect().unwrap();
        let moved = db.metrics().collection_written - before;
        assert!(moved > 1000 * all / 2, "{setup}: {moved} bytes moved");
        let odd = || (1..KEYS).step_by(2);
        assert_eq!(look_ups(&db, || get_all(&db, odd(), 0)), (all / 2, 0), "{setup}");
        let even = || (0..KEYS).step_by(2);
        assert_eq!(look_ups(&db, || get_all(&db, even(), 3)), (0, all / 2), "{setup}");
        assert_eq!(look_ups(&db, || get_all(&db, even(), 3)), (all / 2, 0), "{setup}");
        let entries = db.metrics().record_cache_entries;
        assert_eq!(
            entries,
            all + all / 2,
            "{setup}: the replaced ones stay until they are evicted"
        );
        db.close().unwrap();
    }
}

#[test]
fn several_keys_at_once_fill_it_and_use_it() {
    for setup in designs(WIDE) {
        let db = filled(&setup);
        let keys: Vec<_> = (0..KEYS).map(key).collect();
        let read = || {
            let found = db.multi_get(&keys).into_iter().map(|found| found.unwrap().unwrap());
            assert!(found.eq((0..KEYS).map(|i| value(i, 0))), "{setup}");
        };
        assert_eq!(look_ups(&db, read), (0, u64::from(KEYS)), "{setup}");
        assert_eq!(look_ups(&db, read), (u64::from(KEYS), 0), "{setup}");
        assert_eq!(look_ups(&db, || get_all(&db, 0..KEYS, 0)), (u64::from(KEYS), 0), "{setup}");
    }
}

#[test]
fn scans_insert_nothing() {
    for setup in designs(WIDE) {
        let db = filled(&setup);
        let scan = || {
            let values = || (0..KEYS).map(|i| value(i, 0));
            let (front, back) = (db.range(..), db.range(..).rev());
            assert!(front.map(|item| item.unwrap().value.to_vec()).eq(values()), "{setup}");
            assert!(back.map(|item| item.unwrap().value.to_vec()).eq(values().rev()), "{setup}");
            assert_eq!(db.prefix(b"key 0000").count(), 10);
        };
        assert_eq!(look_ups(&db, scan), (0, 0), "{setup}");
        assert_eq!(db.metrics().record_cache_entries, 0, "{setup}");
        get_all(&db, (0..KEYS).step_by(3), 0);
        let entries = db.metrics().record_cache_entries;
        assert_eq!(look_ups(&db, scan), (0, 0), "{setup}: cached ones are not counted");
        assert_eq!(db.metrics().record_cache_entries, entries, "{setup}");
    }
}

#[test]
fn every_version_is_read_as_it_was_written() {
    for setup in designs(WIDE) {
        let db = filled(&setup);
        let first = db.snapshot();
        get_all(&db, 0..KEYS, 0);
        (0..KEYS).for_each(|i| db.put(key(i), value(i, 1)).unwrap());
        get_all(&db, 0..KEYS, 1);
        let second = db.snapshot();
        (0..KEYS).step_by(2).for_each(|i| db.delete(key(i)).unwrap());
        db.flush().unwrap();
        db.collect().unwrap();
        for _ in 0..2 {
            for i in 0..KEYS {
                assert_eq!(first.get(key(i)).unwrap().unwrap(), value(i, 0), "{setup}");
                assert_eq!(second.get(key(i)).unwrap().unwrap(), value(i, 1), "{setup}");
                let now = db.get(key(i)).unwrap();
                assert_eq!(now.is_none(), i.is_multiple_of(2), "{setup}");
                assert!(now.is_none_or(|now| now == value(i, 1)), "{setup}");
            }
        }
        (0..KEYS).step_by(2).for_each(|i| db.put(key(i), value(i, 2)).unwrap());
        get_all(&db, (0..KEYS).step_by(2), 2);
        get_all(&db, (1..KEYS).step_by(2), 1);
    }
}

#[test]
fn ten_times_its_size_stays_within_its_bound() {
    for setup in designs(64 << 10) {
        let bound = setup.options.record_cache_bytes as u64;
        let db = Db::open_in(Arc::new(Sim::new()), setup.options.clone(), 7).unwrap();
        // The longest record that is taken has 1 KiB, as has the shortest long value.
        let value = |i: u32| vec![i as u8; if i.is_multiple_of(2) { 980 } else { 1100 }];
        let keys = 20 * bound as u32 / 1100;
        (0..keys).for_each(|i| db.put(key(i), value(i)).unwrap());
        db.flush().unwrap();
        let mut most = 0;
        for i in (0..keys).chain((0..keys).rev()) {
            assert_eq!(db.get(key(i)).unwrap().unwrap(), value(i), "{setup}");
            most = most.max(db.metrics().record_cache_memory);
        }
        let inline = setup.options.preset == Some(Preset::Lsm);
        assert!(most <= bound && (most > bound / 2 || inline), "{setup}: {most} bytes");
        assert_eq!(db.metrics().record_cache_entries == 0, inline, "{setup}");
    }
}

/// A check must not say that damaged data is whole because users have read it before.
#[test]
fn a_cached_value_is_read_when_its_file_cannot_be_but_no_check_takes_it() {
    for setup in designs(WIDE) {
        let faulty = Arc::new(Faulty::over(&Sim::new()));
        let db = Db::open_in(faulty.clone(), setup.options.clone(), 7).unwrap();
        (0..KEYS).for_each(|i| db.put(key(i), value(i, 0)).unwrap());
        db.flush().unwrap();
        db.compact().unwrap();
        get_all(&db, 0..KEYS - 1, 0);
        for kind in [FileKind::Log, FileKind::Segment, FileKind::Group] {
            faulty.fail_matching(Rule::both(Call::ReadAt, kind), Fault::Io);
        }
        get_all(&db, 0..KEYS - 1, 0);
        let last = db.get(key(KEYS - 1));
        assert_eq!(last.unwrap_err().kind(), ErrorKind::Io, "{setup}: it is not cached");
        let scanned = db.range(..&key(KEYS - 1));
        assert_eq!(scanned.map(Result::unwrap).count(), KEYS as usize - 1, "{setup}");
        let verified = db.verify();
        let problems = verified.map_or(1, |report| report.problems.len());
        assert!(problems > 0, "{setup}: the check has read what is cached");
    }
}

#[test]
fn a_cache_that_leaves_too_little_memory_is_refused() {
    for preset in Preset::ALL {
        let mut options = Options::preset(preset);
        let memtable = |options: &Options| options.clone().in_effect().tuning.memtable_bytes;
        let whole = memtable(&options);
        options.record_cache_bytes = 256 << 20;
        options.validate().unwrap();
        assert!(memtable(&options) < whole, "{preset}: the rest shares what is left");
        for too_much in [options.memory_bytes - (47 << 20), options.memory_bytes + 1, usize::MAX] {
            options.record_cache_bytes = too_much;
            let refused = options.validate().unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::InvalidOptions);
            assert!(refused.message().contains("record_cache_bytes must leave"), "{refused}");
        }
    }
}
