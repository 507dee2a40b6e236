//! Values that expire: when they are there, for whom, and that their space comes back.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use cleavedb::{
    Background, Db, Durability, ErrorKind, KeyspaceOptions, ManualTime, Options, PutOptions,
    TimeSource, WriteBatch,
};
use cleavedb_storage_sim::Sim;
use cleavedb_testkit::{Setup, expiry, session};

const SECOND: Duration = Duration::from_secs(1);

fn open(setup: &Setup) -> Db {
    session::open(Arc::new(Sim::new()), setup).unwrap()
}

#[test]
fn the_space_of_expired_values_comes_back() {
    for setup in Setup::some().into_iter().map(Setup::in_one_directory) {
        expiry::space_comes_back(&setup).unwrap();
    }
}

#[test]
fn a_value_is_there_until_its_time_for_every_read() {
    for setup in Setup::designs() {
        for value in [vec![7; 20], vec![7; 2000]] {
            let db = open(&setup);
            db.put_with("a", &value, PutOptions::new().ttl(2 * SECOND)).unwrap();
            db.put("b", &value).unwrap();
            for flushed in [false, true] {
                if flushed {
                    db.flush().unwrap();
                }
                assert_eq!(db.get("a").unwrap().unwrap(), value, "{setup}");
                let (found, expiry) = db.default_keyspace().get_with_expiry("a").unwrap().unwrap();
                assert_eq!(
                    (found, expiry),
                    (value.clone().into(), Some(setup.clock.now() + 2 * SECOND))
                );
                assert_eq!(db.default_keyspace().get_with_expiry("b").unwrap().unwrap().1, None);
                let mut cursor = db.cursor(..);
                assert!(cursor.next().unwrap() && cursor.expiry() == expiry, "{setup}");
                assert_eq!(cursor.value().unwrap().unwrap(), value);
                assert!(cursor.next().unwrap() && cursor.expiry().is_none());
                assert!(cursor.prev().unwrap() && cursor.expiry() == expiry);
            }
            let (snapshot, mut cursor) = (db.snapshot(), db.cursor(..));
            setup.clock.advance(2 * SECOND);
            for compacted in [false, true] {
                assert_eq!(db.get("a").unwrap(), None, "{setup}");
                assert!(!db.contains_key("a").unwrap());
                assert_eq!(db.multi_get(&["a"])[0].as_ref().unwrap(), &None);
                assert_eq!(db.range(..).keys_only().count(), 1);
                assert_eq!(db.range(..).rev().count(), 1);
                // The snapshot and the cursor began when it was there.
                assert_eq!(snapshot.get("a").unwrap().unwrap(), value);
                assert_eq!(snapshot.range(..).count(), 2);
                assert!(cursor.seek("a").unwrap() && cursor.key() == Some(b"a"));
                assert_eq!(cursor.value().unwrap().unwrap(), value);
                if !compacted {
                    db.compact().and_then(|()| db.collect()).unwrap();
                }
            }
            drop((snapshot, cursor));
            db.compact().unwrap();
            assert_eq!(db.range(..).count(), 1);
            let entries: u64 = db.metrics().levels.iter().map(|level| level.entries).sum();
            assert_eq!(entries, 1, "{setup}: a compaction on request drops all of them");
        }
    }
}

/// What a value that has expired hides does not come back.
#[test]
fn older_versions_stay_hidden() {
    for setup in Setup::designs() {
        let db = open(&setup);
        for len in [20, 3000] {
            db.put("key", vec![1; len]).unwrap();
            db.flush().and_then(|()| db.compact()).unwrap();
            db.put_with("key", vec![2; len], PutOptions::new().ttl(SECOND)).unwrap();
            db.flush().unwrap();
            setup.clock.advance(SECOND);
            for _ in 0..3 {
                assert_eq!(db.get("key").unwrap(), None, "{setup}");
                while db.step().unwrap() {}
                db.collect().and_then(|()| db.compact()).unwrap();
            }
        }
    }
}

#[test]
fn a_put_decides_anew_when_its_value_expires() {
    for setup in Setup::designs() {
        let db = open(&setup);
        db.put_with("a", "first", PutOptions::new().ttl(SECOND)).unwrap();
        db.put("a", "second").unwrap();
        db.put_with("b", "x", PutOptions::new().ttl(SECOND)).unwrap();
        assert!(
            db.default_keyspace().set_expiry("b", None).unwrap()
                && !db.default_keyspace().set_expiry("c", None).unwrap()
        );
        db.put_with("d", "x", PutOptions::new().ttl(SECOND)).unwrap();
        assert!(db.default_keyspace().set_ttl("d", 3 * SECOND).unwrap());
        db.put_with("gone", "x", PutOptions::new().ttl(Duration::ZERO)).unwrap();
        let past = Some(setup.clock.now() - SECOND);
        db.put_with("past", "x", PutOptions::new().until(past)).unwrap();
        db.put_with(
            "never",
            "x",
            PutOptions::new().until(Some(UNIX_EPOCH + Duration::from_secs(1 << 40))),
        )
        .unwrap();
        setup.clock.advance(2 * SECOND);
        let keys: Vec<_> = db.range(..).keys_only().map(|item| item.unwrap().key).collect();
        assert_eq!(keys, ["a", "b", "d", "never"], "{setup}");
        assert!(!db.default_keyspace().set_ttl("gone", SECOND).unwrap(), "it does not come back");
        // An expired key counts as absent.
        db.put_with("lock", "one", PutOptions::new().ttl(SECOND)).unwrap();
        assert!(!db.default_keyspace().put_if_absent("lock", "two").unwrap());
        setup.clock.advance(SECOND);
        assert!(db.default_keyspace().put_if_absent("lock", "two").unwrap());
        assert_eq!(db.get("lock").unwrap().unwrap(), "two");
        // Conditional writes give their value a time to live, too.
        let second = PutOptions::new().ttl(SECOND).durability(Durability::Sync);
        assert!(db.default_keyspace().put_if_absent_with("first", "x", second).unwrap());
        assert!(
            db.default_keyspace()
                .compare_and_swap_with("lock", Some("two"), Some("x"), second)
                .unwrap()
        );
        db.default_keyspace().update_with("old", |_| Some("x"), second).unwrap();
        for key in ["first", "lock", "old"] {
            let (value, expiry) = db.default_keyspace().get_with_expiry(key).unwrap().unwrap();
            assert_eq!((&value[..], expiry.is_some()), (&b"x"[..], true), "{setup}: {key}");
        }
        setup.clock.advance(SECOND);
        assert!(["first", "lock", "old"].iter().all(|key| db.get(key).unwrap().is_none()));
    }
}

#[test]
fn keyspaces_have_a_time_to_live() {
    for setup in Setup::designs() {
        let sim = Arc::new(Sim::new());
        let db = session::open(sim.clone(), &setup).unwrap();
        let options = KeyspaceOptions { ttl: Some(2 * SECOND), ..KeyspaceOptions::default() };
        let sessions = db.create_keyspace("sessions", options).unwrap();
        let mut batch = WriteBatch::new();
        batch.keyspace(&sessions).put("a", "usual").unwrap();
        batch.keyspace(&sessions).put_with_ttl("b", "longer", 9 * SECOND).unwrap();
        batch.keyspace(&sessions).put_until("c", "for good", None).unwrap();
        batch.put("a", "in the default one").unwrap();
        batch.put_with_ttl("b", "in the default one", SECOND).unwrap();
        db.write(&batch).unwrap();
        setup.clock.advance(2 * SECOND);
        assert_eq!((sessions.range(..).count(), db.range(..).count()), (2, 1), "{setup}");
        assert_eq!(
            db.default_keyspace().store_ttl(Some(SECOND)).unwrap_err().kind(),
            ErrorKind::InvalidArgument
        );
        if db.options().layout().separates() {
            sessions.store_min_separated(Some(5)).unwrap();
        }
        sessions.store_ttl(Some(SECOND)).unwrap();
        drop(sessions);
        db.close().unwrap();
        let db = session::open(sim, &setup).unwrap();
        let sessions = db.keyspace("sessions").unwrap();
        sessions.put("d", "for a second").unwrap();
        setup.clock.advance(SECOND);
        let keys: Vec<_> = sessions.range(..).keys_only().map(|item| item.unwrap().key).collect();
        assert_eq!(keys, ["b", "c"], "{setup}");
    }
}

#[test]
fn transactions_put_values_that_expire() {
    for setup in Setup::designs() {
        let db = open(&setup);
        db.put_with("old", "there", PutOptions::new().ttl(SECOND)).unwrap();
        let mut transaction = db.transaction().unwrap();
        transaction.put_with_ttl("a", "soon gone", SECOND).unwrap();
        transaction.put_with_ttl("b", "gone", Duration::ZERO).unwrap();
        transaction.put_until("c", "stays", None).unwrap();
        let expiry = transaction.get_with_expiry("a").unwrap().unwrap().1;
        assert_eq!(expiry, Some(setup.clock.now() + SECOND));
        assert_eq!(transaction.get("b").unwrap(), None, "{setup}");
        setup.clock.advance(SECOND / 2);
        let keys = |transaction: &cleavedb::Transaction| -> Vec<_> {
            transaction.range(..).keys_only().map(|item| item.unwrap().key).collect()
        };
        assert_eq!(keys(&transaction), ["a", "c", "old"]);
        setup.clock.advance(SECOND);
        // All that it sees is as of its beginning.
        assert_eq!(keys(&transaction), ["a", "c", "old"]);
        assert_eq!(transaction.get("a").unwrap().unwrap(), "soon gone");
        assert!(transaction.contains_key("old").unwrap());
        transaction.commit().unwrap();
        assert_eq!(db.range(..).keys_only().count(), 1, "{setup}");
    }
}

/// A store without a caller gives the space of expired values back, from memory and tables.
#[test]
fn threads_need_no_call_to_remove_what_has_expired() {
    for mut setup in Setup::designs() {
        setup.options.background = Background::Threads(1);
        let dir = tempfile::tempdir().unwrap();
        let db = Db::open(dir.path().join("db"), setup.options.clone()).unwrap();
        for flushed in [true, false] {
            for at in 0..20 {
                let mut batch = WriteBatch::new();
                let key = format!("{flushed} {at}");
                batch.put_with_ttl(key, vec![at; 1500], SECOND).unwrap();
                db.write_with(&batch, Durability::Os).unwrap();
            }
            if flushed {
                db.flush().unwrap();
            }
        }
        setup.clock.advance(2 * SECOND);
        let is_left = || {
            let metrics = db.metrics();
            let entries: u64 = metrics.levels.iter().map(|level| level.entries).sum();
            entries > 0 || metrics.live_bytes > 0
        };
        let begun = Instant::now();
        while is_left() {
            assert!(begun.elapsed() < 60 * SECOND, "{setup}: {:?}", db.metrics());
            std::thread::sleep(Duration::from_millis(50));
        }
        assert!(db.options().time.now() < SystemTime::now(), "a test brings its own clock");
    }
}

/// Each search for the first session stepped over all that had expired in front of it, at rest.
#[test]
fn sessions_that_have_expired_are_not_stepped_over_at_rest() {
    let (sim, clock) = (Sim::new(), Arc::new(ManualTime::new(SystemTime::now())));
    sim.stop_recording();
    let options = Options {
        time: clock.clone(),
        durability: Durability::Os,
        background: Background::Manual,
        ..Options::default()
    };
    let db = Db::open_in(Arc::new(sim), options, 7).unwrap();
    for n in 0..300_000 {
        db.put_with(format!("session:{n:012}"), [b'{'; 300], PutOptions::new().ttl(3600 * SECOND))
            .unwrap();
    }
    for n in 0..1000 {
        db.put(format!("session:z{n:05}"), [b'{'; 300]).unwrap();
    }
    db.wait_idle().unwrap();
    let steps = || {
        let before = db.metrics().dead_read;
        assert_eq!(db.first_key_value().unwrap().unwrap().key, "session:z00000");
        db.metrics().dead_read - before
    };
    clock.advance(3601 * SECOND);
    for _ in 0..20 {
        steps();
        db.wait_idle().unwrap();
    }
    let at_rest = steps();
    clock.advance(25 * 3600 * SECOND);
    db.wait_idle().unwrap();
    let later = steps();
    db.compact().unwrap();
    assert!(at_rest <= 1000 && later <= 1000 && steps() == 0, "{at_rest}, {later}");
}

/// What a clock that is wrong for a moment hides is there again, whatever jobs ran, and a lock that
/// is taken later ends in time: in the process, and after an open.
#[test]
fn a_clock_that_jumps_ahead_for_a_moment_takes_nothing() {
    let year = 365 * 24 * 3600 * SECOND;
    for setup in Setup::designs() {
        let (sim, begin) = (Arc::new(Sim::new()), setup.clock.now());
        let db = session::open(sim.clone(), &setup).unwrap();
        let values = [("long", vec![7; 2000]), ("short", vec![7; 20])];
        let are_there = |db: &Db| {
            for (key, value) in &values {
                assert_eq!(db.get(key).unwrap().as_deref(), Some(&value[..]), "{setup}: {key}");
            }
            assert_eq!(db.range(..).filter(|item| item.as_ref().unwrap().key != "lock").count(), 2);
        };
        for (key, value) in &values {
            db.put(key, "older").unwrap();
            db.put_with(key, value, PutOptions::new().ttl(year)).unwrap();
        }
        setup.clock.set(begin + 30 * year);
        for flushed in [false, true] {
            assert!(db.get("long").unwrap().is_none() && db.range(..).next().is_none(), "{setup}");
            if !flushed {
                db.flush().and_then(|()| db.compact()).and_then(|()| db.collect()).unwrap();
                while db.step().unwrap() {}
            }
        }
        setup.clock.set(begin + SECOND);
        are_there(&db);
        assert_eq!(db.metrics().clock_jumps, 2, "{setup}: there and back");
        db.put_with("lock", "holder", PutOptions::new().ttl(30 * SECOND)).unwrap();
        let expiry = db.default_keyspace().get_with_expiry("lock").unwrap().unwrap().1;
        assert_eq!(expiry, Some(begin + 31 * SECOND), "{setup}");
        setup.clock.advance(30 * SECOND);
        assert_eq!(db.get("lock").unwrap(), None, "{setup}");
        db.close().unwrap();
        // Each open with an earlier clock says the same.
        for _ in 0..2 {
            setup.clock.set(begin + 2 * year);
            let db = session::open(sim.clone(), &setup).unwrap();
            assert_eq!(db.range(..).count(), 0, "{setup}");
            db.close().unwrap();
            setup.clock.set(begin + 31 * SECOND);
            let db = session::open(sim.clone(), &setup).unwrap();
            are_there(&db);
            assert_eq!(db.get("lock").unwrap(), None, "{setup}");
            assert!(db.verify().unwrap().problems.is_empty(), "{setup}");
            db.close().unwrap();
        }
    }
}

/// A clock that was an hour ahead at the open is right again: a lock of 30 s ends after 30 s.
#[test]
fn a_clock_that_steps_back_by_an_hour_ends_locks_in_time() {
    for setup in Setup::designs() {
        let (sim, right) = (Arc::new(Sim::new()), setup.clock.now());
        setup.clock.set(right + 3600 * SECOND);
        let db = session::open(sim.clone(), &setup).unwrap();
        db.put_with("first", "v", PutOptions::new().ttl(SECOND)).unwrap();
        setup.clock.set(right);
        db.put_with("lock", "holder", PutOptions::new().ttl(30 * SECOND)).unwrap();
        assert_eq!(
            db.default_keyspace().get_with_expiry("lock").unwrap().unwrap().1,
            Some(right + 30 * SECOND)
        );
        setup.clock.advance(29 * SECOND);
        assert!(db.contains_key("lock").unwrap(), "{setup}");
        setup.clock.advance(SECOND);
        assert!(!db.contains_key("lock").unwrap(), "{setup}");
        db.close().unwrap();
        let db = session::open(sim, &setup).unwrap();
        assert_eq!((db.get("lock").unwrap(), db.range(.."g").count()), (None, 1), "{setup}");
    }
}

/// A clock that was set to a later time for good is believed after a while, and space comes back.
#[test]
fn a_clock_that_jumps_ahead_for_good_is_believed() {
    for setup in Setup::designs() {
        let db = open(&setup);
        db.put_with("key", "value", PutOptions::new().ttl(60 * SECOND)).unwrap();
        db.flush().unwrap();
        let entries = || db.metrics().levels.iter().map(|level| level.entries).sum::<u64>();
        setup.clock.set(setup.clock.now() + 3600 * SECOND);
        db.compact().unwrap();
        assert_eq!((db.get("key").unwrap(), entries()), (None, 1), "{setup}");
        setup.clock.advance(600 * SECOND);
        db.compact().unwrap();
        assert_eq!(entries(), 0, "{setup}");
    }
}

/// A snapshot has the time of its beginning, though the clock jumps back beside it.
#[test]
fn snapshots_outlive_a_clock_that_jumps_back() {
    for setup in Setup::designs() {
        let db = open(&setup);
        db.put_with("key", vec![7; 2000], PutOptions::new().ttl(60 * SECOND)).unwrap();
        let right = setup.clock.now();
        setup.clock.set(right + 3600 * SECOND);
        let late = db.snapshot();
        setup.clock.set(right);
        let early = db.snapshot();
        setup.clock.advance(60 * SECOND);
        for _ in 0..2 {
            assert_eq!((late.get("key").unwrap(), db.get("key").unwrap()), (None, None), "{setup}");
            assert_eq!(early.get("key").unwrap().unwrap(), vec![7; 2000], "{setup}");
            assert_eq!((late.range(..).count(), early.range(..).count()), (0, 1), "{setup}");
            db.flush().and_then(|()| db.compact()).and_then(|()| db.collect()).unwrap();
        }
    }
}
