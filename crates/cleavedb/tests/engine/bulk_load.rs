//! Bulk loads: all or nothing, at one moment, whatever goes on around them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use cleavedb::{
    Background, Db, Durability, ErrorKind, KeyspaceOptions, Options, Preset, WriteBatch,
};
use cleavedb_storage_sim::faulty::Fault;
use cleavedb_storage_sim::{Faulty, Sim};
use cleavedb_testkit::budget::of;
use cleavedb_testkit::check::check_files;
use cleavedb_testkit::full::{FullStore, limited};
use cleavedb_testkit::loads::{among_operations, beside_writes, waits_for_files};
use cleavedb_testkit::records::{key, value};
use cleavedb_testkit::session::{open, open_all, open_read_only};
use cleavedb_testkit::{Churn, Disks, Setup};

#[test]
fn loads_among_operations_give_the_answers_of_the_model() {
    for setup in &Setup::some() {
        for seed in 0..3 {
            among_operations(setup, seed)
                .unwrap_or_else(|failure| panic!("{setup}, seed {seed}: {failure}"));
        }
    }
}

#[test]
fn writes_during_a_load_are_older_than_it() {
    for setup in &Setup::designs() {
        for seed in 0..40 {
            beside_writes(setup, seed)
                .unwrap_or_else(|failure| panic!("{setup}, seed {seed}: {failure}"));
        }
    }
}

#[test]
fn a_load_is_published_when_its_files_are_durable() {
    for setup in &Setup::designs() {
        waits_for_files(setup).unwrap_or_else(|failure| panic!("{setup}: {failure}"));
    }
}

/// The pairs of a load: values of all lengths.
fn pairs(count: u32, round: u32) -> impl Iterator<Item = (String, Vec<u8>)> {
    let pair = move |i: u32| {
        let len = [0, 30, 400, 1100, 5000][i as usize % 5];
        (format!("key{i:06}"), vec![(i + round) as u8; len])
    };
    (0..count).map(pair)
}

fn has_all(db: &Db, count: u32, round: u32) {
    let mut items = db.range(..);
    for (key, value) in pairs(count, round) {
        let item = items.next().expect("a key is missing").unwrap();
        assert!(item.key == key && item.value == value, "{key} is wrong");
        assert_eq!(db.get(&key).unwrap().unwrap(), value);
    }
    assert!(items.next().is_none());
    assert!(db.verify().unwrap().problems.is_empty());
}

#[test]
fn an_empty_database_is_loaded_loaded_again_and_opened() {
    for setup in &Setup::designs() {
        let disks = Disks::forgetful(setup);
        let db = open_all(&disks.storages(), setup).unwrap();
        assert_eq!(db.default_keyspace().bulk_load().unwrap().finish().unwrap().entries, 0);
        let report = db.default_keyspace().ingest(pairs(900, 1)).unwrap();
        assert_eq!((report.entries, report.tables_in_level_0), (900, 0), "{setup}");
        let bytes = pairs(900, 1).map(|(key, value)| (key.len() + value.len()) as u64).sum();
        assert!(report.bytes == bytes && report.written > bytes && report.tables > 0, "{setup}");
        has_all(&db, 900, 1);
        check_files(&db, &disks).unwrap();
        assert_eq!(db.metrics().log_written, 0, "{setup}: nothing goes through the log");
        db.default_keyspace().ingest(pairs(900, 2)).unwrap();
        has_all(&db, 900, 2);
        let copy = Sim::new();
        copy.set_directory_id(77);
        db.checkpoint_in(Arc::new(copy.clone())).unwrap();
        let alone = setup.clone().in_one_directory();
        has_all(&open(Arc::new(copy.clone()), &alone).unwrap(), 900, 2);
        has_all(&open_read_only(&[Arc::new(copy)], &alone).unwrap(), 900, 2);
        db.compact().unwrap();
        db.collect().unwrap();
        has_all(&db, 900, 2);
        let disks = disks.kill();
        drop(db);
        let db = open_all(&disks.storages(), setup).unwrap();
        has_all(&db, 900, 2);
        db.close().unwrap();
        let db = open_all(&disks.storages(), setup).unwrap();
        db.put("key000003", "new").unwrap();
        assert_eq!(db.get("key000003").unwrap().unwrap(), "new", "{setup}");
        check_files(&db, &disks).unwrap();
    }
}

#[test]
fn keys_that_do_not_ascend_end_a_load_and_leave_nothing() {
    for setup in &Setup::designs() {
        let disks = Disks::forgetful(setup);
        let db = open_all(&disks.storages(), setup).unwrap();
        for (wrong, told) in [("b", "\"b\" behind \"c\""), ("c", "\"c\" twice")] {
            let mut load = db.default_keyspace().bulk_load().unwrap();
            (0..300).for_each(|i| load.put(format!("a{i:04}"), [1; 900]).unwrap());
            load.put("c", "1").unwrap();
            let error = load.put(wrong, "2").unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidArgument);
            assert!(error.to_string().contains(told), "{error}");
            check_files(&db, &disks).unwrap();
            assert!(load.put("d", "3").is_err() && load.finish().is_err());
        }
        assert_eq!(db.range(..).count(), 0, "{setup}");
        let error =
            db.default_keyspace().bulk_load().unwrap().put(vec![0; 70_000], "x").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        db.default_keyspace().ingest([("a", "1")]).unwrap();
    }
}

#[test]
fn a_load_that_is_dropped_or_closed_leaves_nothing() {
    for setup in &Setup::designs() {
        let disks = Disks::forgetful(setup);
        let db = open_all(&disks.storages(), setup).unwrap();
        let mut churn = Churn::new(3);
        churn.work(&db, 80);
        let begin = || {
            let mut load = db.default_keyspace().bulk_load().unwrap();
            pairs(600, 0).for_each(|(key, value)| load.put(key, value).unwrap());
            load
        };
        let load = begin();
        assert_eq!(
            db.default_keyspace().bulk_load().err().unwrap().kind(),
            ErrorKind::Held,
            "{setup}"
        );
        churn.check(&db);
        // The collection names no file of the load as one that it waits for.
        db.default_keyspace().collect_range(..).unwrap();
        drop(load);
        let files = |disks: &Disks| disks.images().iter().map(|it| it.list().len()).sum::<usize>();
        let before = files(&disks);
        drop(begin());
        assert_eq!(files(&disks), before, "{setup}");
        churn.check(&db);
        let mut load = begin();
        db.clone().close().unwrap();
        assert_eq!(load.put("z", "1").unwrap_err().kind(), ErrorKind::Closed, "{setup}");
        assert_eq!(db.default_keyspace().bulk_load().err().unwrap().kind(), ErrorKind::Closed);
        drop((load, db));
        let db = open_all(&disks.storages(), setup).unwrap();
        check_files(&db, &disks).unwrap();
        churn.check(&db);
        let mut load = db.default_keyspace().bulk_load().unwrap();
        pairs(600, 0).for_each(|(key, value)| load.put(key, value).unwrap());
        db.close_now().unwrap();
        let again = open_all(&disks.storages(), setup).unwrap();
        assert_eq!(load.finish().unwrap_err().kind(), ErrorKind::Closed, "{setup}");
        check_files(&again, &disks).unwrap();
        churn.check(&again);
        again.default_keyspace().ingest(pairs(10, 0)).unwrap();
        again.wait_idle().unwrap();
        check_files(&again, &disks).unwrap();
    }
}

#[test]
fn snapshots_and_cursors_do_not_see_a_load_and_transactions_meet_it() {
    for setup in &Setup::designs() {
        let db = open(Arc::new(Sim::new()), setup).unwrap();
        db.put("key000003", "old").unwrap();
        db.put("z", "old").unwrap();
        let (snapshot, mut cursor) = (db.snapshot(), db.cursor(..));
        let [absent, other, mut writer] = [0; 3].map(|_| db.transaction().unwrap());
        assert_eq!(absent.get("key000100").unwrap(), None);
        assert_eq!(other.get("z").unwrap().unwrap(), "old");
        writer.put("key000003", "written later").unwrap();
        let mut load = db.default_keyspace().bulk_load().unwrap();
        pairs(200, 0).for_each(|(key, value)| load.put(key, value).unwrap());
        db.put("key000004", "older than the load").unwrap();
        let late = db.snapshot();
        load.finish().unwrap();
        assert_eq!(snapshot.get("key000003").unwrap().unwrap(), "old", "{setup}");
        assert_eq!(snapshot.range(..).count(), 2);
        assert_eq!(late.get("key000004").unwrap().unwrap(), "older than the load");
        assert_eq!(late.get("key000005").unwrap(), None);
        assert!(
            cursor.seek_to_first().unwrap() && cursor.key() == Some(&b"key000003"[..]),
            "{setup}"
        );
        let mut absent = absent;
        absent.put("q", "1").unwrap();
        assert_eq!(absent.commit().unwrap_err().kind(), ErrorKind::Conflict, "{setup}");
        let mut other = other;
        other.put("q", "2").unwrap();
        other.commit().unwrap();
        assert_eq!(db.get("key000004").unwrap().unwrap(), pairs(5, 0).last().unwrap().1);
        writer.commit().unwrap();
        assert_eq!(db.get("key000003").unwrap().unwrap(), "written later");
    }
}

#[test]
fn keyspaces_are_loaded_by_their_own_rules() {
    for setup in &Setup::designs() {
        let setup = &setup.at(setup.now());
        let disks = Disks::forgetful(setup);
        let db = open_all(&disks.storages(), setup).unwrap();
        let ttl = Some(Duration::from_secs(10));
        let options = KeyspaceOptions { ttl, ..KeyspaceOptions::default() };
        let short = db.create_keyspace("short", options).unwrap();
        let users = db.keyspace("users").unwrap();
        let mut load = short.bulk_load().unwrap();
        load.put("a", [7; 2000]).unwrap();
        load.put_until("b", [8; 2000], None).unwrap();
        load.put_until("c", "gone at once", Some(std::time::UNIX_EPOCH)).unwrap();
        load.finish().unwrap();
        users.ingest(pairs(300, 0)).unwrap();
        db.delete_range(..).unwrap();
        assert_eq!((short.range(..).count(), users.range(..).count()), (2, 300), "{setup}");
        users.delete_range(..).unwrap();
        users.ingest(pairs(300, 1)).unwrap();
        assert_eq!(users.range(..).count(), 300, "{setup}: older deletes do not hide it");
        setup.clock.advance(Duration::from_secs(11));
        assert_eq!(short.range(..).count(), 1, "{setup}");
        let mut load = users.bulk_load().unwrap();
        load.put("a", "1").unwrap();
        db.drop_keyspace("users").unwrap();
        assert_eq!(load.finish().unwrap_err().kind(), ErrorKind::NoKeyspace, "{setup}");
        let mut batch = WriteBatch::new();
        batch.put("still", "there").unwrap();
        db.write(&batch).unwrap();
        db.compact().unwrap();
        db.collect().unwrap();
        assert!(db.verify().unwrap().problems.is_empty(), "{setup}");
        check_files(&db, &disks).unwrap();
    }
}

/// Each call of the storage fails once, in a load and its finish: nothing is visible then, and the
/// files go, unless the failure leaves the database in doubt. Then the next open decides.
#[test]
fn every_call_of_a_load_fails_once() {
    for setup in &Setup::designs() {
        let base = {
            let sim = Sim::new();
            let db = open(Arc::new(sim.clone()), setup).unwrap();
            let mut churn = Churn::new(1).over(40);
            churn.write(&db, 60);
            db.close().unwrap();
            (sim.image(), churn)
        };
        for fault in [Fault::Io, Fault::NoSpace] {
            let mut calls = u64::MAX;
            for call in 0.. {
                if call >= calls {
                    break;
                }
                calls = a_call_fails(setup, &base, call, fault);
            }
        }
    }
}

/// Returns the number of calls.
fn a_call_fails(
    setup: &Setup,
    (image, churn): &(cleavedb_storage_sim::sim::Image, Churn),
    call: u64,
    fault: Fault,
) -> u64 {
    let sim = Sim::from_image(image.clone());
    sim.stop_recording();
    let faulty = Arc::new(Faulty::over(&sim));
    let db = open(faulty.clone(), setup).unwrap();
    let mut churn = churn.copied(2);
    churn.write(&db, 10);
    let begun = faulty.calls();
    faulty.fail_call(begun + call, fault);
    let loaded = (|| {
        let mut load = db.default_keyspace().bulk_load()?;
        for (at, (key, value)) in pairs(60, 0).enumerate() {
            load.put(key, value)?;
            if at == 30 {
                // Older than the load.
                let _ = db.put("key000005", "x");
            }
        }
        load.finish()
    })();
    let calls = faulty.calls() - begun;
    faulty.heal();
    let there =
        |db: &Db| db.get("key000033").unwrap() == Some(pairs(34, 0).last().unwrap().1.into());
    let context = || format!("{setup}, call {call}, {fault:?}: {loaded:?}");
    let is_poisoned = db.put_with("zz", "after", Durability::Os).is_err();
    if loaded.is_ok() || !is_poisoned {
        assert_eq!(there(&db), loaded.is_ok(), "{}", context());
    }
    if !is_poisoned {
        // What a failed removal leaves goes at the next open after a crash.
        db.wait_idle().unwrap();
        assert!(db.verify().unwrap().problems.is_empty(), "{}", context());
    }
    drop(db);
    let sim = sim.kill();
    let db = open(Arc::new(sim.clone()), setup).unwrap();
    let all = pairs(60, 0)
        .filter(|(key, value)| db.get(key).unwrap().is_some_and(|found| found == *value));
    let all = all.count();
    // Some of the keys may have been there, with other values.
    assert!(all == 60 || loaded.is_err() && all < 30, "{}: {all}", context());
    assert!(db.verify().unwrap().problems.is_empty(), "{}", context());
    check_files(&db, &(&sim).into()).unwrap();
    calls
}

#[test]
fn a_full_disk_ends_a_load_and_the_store_goes_on() {
    for setup in &Setup::designs() {
        let sim = Sim::new();
        sim.stop_recording();
        sim.set_capacity(24 << 20);
        let db = open(Arc::new(sim.clone()), setup).unwrap();
        let mut churn = Churn::new(4);
        churn.write(&db, 100);
        let mut load = db.default_keyspace().bulk_load().unwrap();
        let error = (0..).find_map(|i| load.put(key(i), value(i, 0)).err()).unwrap();
        assert_eq!(error.kind(), ErrorKind::NoSpace, "{setup}: {error}");
        check_files(&db, &(&sim).into()).unwrap();
        churn.write(&db, 100);
        churn.check(&db);
        db.default_keyspace().ingest((0..100).map(|i| (key(i), value(i, 0)))).unwrap();
    }
}

#[test]
fn a_load_keeps_the_space_limit() {
    for setup in &Setup::designs() {
        let store = FullStore::new(limited(setup)).unwrap();
        store.fill(0..200, 0).unwrap();
        let mut load = store.db.default_keyspace().bulk_load().unwrap();
        let mut put = |i: u32| {
            let put = load.put(key(i), value(i, 1));
            store.within().unwrap();
            put.err()
        };
        let error = (0..).find_map(&mut put).unwrap();
        assert!(error.kind() == ErrorKind::NoSpace && error.fact("limit").is_some(), "{error}");
        store.check((0..200).map(|i| (i, Some(0)))).unwrap();
        store.fill(0..200, 2).unwrap();
        store.db.default_keyspace().ingest((0..300).map(|i| (key(i), value(i, 3)))).unwrap();
        store.check((0..300).map(|i| (i, Some(3)))).unwrap();
        store.within().unwrap();
    }
}

/// Writers, jobs of threads and readers go on; a reader sees a load whole or not at all.
#[test]
fn writers_and_readers_go_on_beside_loads() {
    let loads: u8 = of(2, 6, 6);
    for setup in &Setup::designs() {
        let dir = tempfile::tempdir().unwrap();
        let background = Background::Threads(2);
        let options = Options { background, ..setup.options.clone() };
        let db = Db::open(dir.path().join("db"), options.clone()).unwrap();
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for writer in 0..2u32 {
                let (db, stop) = (&db, &stop);
                scope.spawn(move || {
                    for number in 0..u32::MAX {
                        if stop.load(Ordering::Relaxed) {
                            break;
                        }
                        let key = format!("key{:06}/{writer}", number * 7 % 400);
                        db.put(&key, value(number, writer)).unwrap();
                        assert_eq!(db.get(&key).unwrap().unwrap(), value(number, writer));
                        // A key of the loads: the load that is published next is newer.
                        db.put(format!("key{:06}", number % 400), "x").unwrap();
                    }
                });
            }
            let (db, stop) = (&db, &stop);
            scope.spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    let snapshot = db.snapshot();
                    let round = |key: &str| snapshot.get(key).unwrap().map(|value| value[0]);
                    // No writer writes these.
                    let first = round("mark000");
                    let last = (1..50).map(|at| round(&format!("mark{at:03}")));
                    last.for_each(|other| assert_eq!(other, first, "a load is seen in part"));
                }
            });
            for round in 1..=loads {
                let mut load = db.default_keyspace().bulk_load().unwrap();
                for (key, value) in pairs(400, u32::from(round)) {
                    load.put(key, value).unwrap();
                }
                (0..50).for_each(|at| load.put(format!("mark{at:03}"), [round; 300]).unwrap());
                load.finish().unwrap();
            }
            stop.store(true, Ordering::Relaxed);
        });
        assert!(db.verify().unwrap().problems.is_empty(), "{setup}");
        db.default_keyspace().ingest(pairs(400, 99)).unwrap();
        for (key, value) in pairs(400, 99) {
            assert_eq!(db.get(&key).unwrap().unwrap(), value, "{setup}");
        }
        db.collect().unwrap();
        db.close().unwrap();
        let db = Db::open(dir.path().join("db"), options).unwrap();
        assert_eq!(db.get("mark049").unwrap().unwrap(), vec![loads; 300]);
        assert!(db.verify().unwrap().problems.is_empty(), "{setup}");
    }
}

#[test]
fn what_others_write_stays_in_deep_levels_where_keys_are_apart() {
    let setup = &Setup::tiny(Preset::Lsm, true);
    let db = open(Arc::new(Sim::new()), setup).unwrap();
    for round in 0..20 {
        let report = db
            .default_keyspace()
            .ingest((0..100).map(|i| (format!("{round:03}/{i:03}"), [1; 100])))
            .unwrap();
        assert_eq!(report.tables_in_level_0, 0);
    }
    assert_eq!(db.range(..).count(), 2000);
    let again = db.default_keyspace().ingest([("000/000", "x"), ("019/099", "y")]).unwrap();
    assert_eq!((again.tables, again.tables_in_level_0), (1, 1));
    assert_eq!(db.get("000/000").unwrap().unwrap(), "x");
}
