//! Merges: what operands do to values, in every layout and place, and that they become few.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use cleavedb::{
    Background, Db, Durability, ErrorKind, KeyspaceOptions, MergeOperator, MergeOperators, Operand,
    Options, PutOptions, TimeSource, WriteBatch,
};
use cleavedb_storage_sim::Sim;
use cleavedb_testkit::{Setup, merges, session};

fn open(setup: &Setup) -> Db {
    session::open(Arc::new(Sim::new()), setup).unwrap()
}

fn append(text: &str) -> Operand {
    Operand::append(text)
}

fn plait(byte: u8) -> Operand {
    Operand::new("plait", vec![byte; 8])
}

fn entries(db: &Db) -> u64 {
    db.metrics().levels.iter().map(|level| level.entries).sum()
}

#[test]
fn operands_change_what_is_there_for_every_read() {
    for setup in Setup::designs() {
        for len in [20, 3000] {
            let db = open(&setup);
            let value = "v".repeat(len);
            db.put("a", &value).unwrap();
            db.merge("a", &append("1")).unwrap();
            let old = db.snapshot();
            db.merge("b", &append("1")).unwrap();
            for (turn, jobs) in
                ["nothing", "flush", "compact", "collect", "compact"].iter().enumerate()
            {
                match *jobs {
                    "flush" => db.flush(),
                    "compact" => db.compact(),
                    "collect" => db.collect(),
                    _ => Ok(()),
                }
                .unwrap();
                let ones = "1".repeat(turn + 1);
                let expected = [("a", format!("{value}{ones}")), ("b", ones)];
                for (key, expected) in &expected {
                    assert_eq!(
                        db.get(key).unwrap().unwrap(),
                        expected.as_bytes(),
                        "{setup} {jobs}"
                    );
                    assert!(db.contains_key(key).unwrap());
                    assert_eq!(
                        db.multi_get(&[key])[0].as_ref().unwrap().as_ref().unwrap(),
                        expected.as_bytes()
                    );
                }
                let forth = db.range(..).map(|item| item.unwrap().value);
                assert!(forth.eq(expected.iter().map(|(_, value)| value.as_bytes())));
                let back = db.range(..).rev().map(|item| item.unwrap().value);
                assert!(back.eq(expected.iter().rev().map(|(_, value)| value.as_bytes())));
                assert_eq!(
                    old.get("a").unwrap().unwrap(),
                    format!("{value}1").as_bytes(),
                    "{setup} {jobs}"
                );
                assert_eq!((old.get("b").unwrap(), old.range(..).count()), (None, 1));
                let mut batch = WriteBatch::new();
                batch.merge("a", &append("1")).unwrap().merge("b", &append("1")).unwrap();
                db.write(&batch).unwrap();
            }
            // Above a delete, of the key or of a range, there is nothing.
            db.delete("a").unwrap();
            db.delete_range("b"..).unwrap();
            for key in ["a", "b"] {
                db.merge(key, &plait(7)).unwrap();
                let expected = merges::apply(None, &plait(7));
                assert_eq!(db.get(key).unwrap().unwrap(), expected);
                db.flush().and_then(|()| db.compact()).unwrap();
                assert_eq!(db.get(key).unwrap().unwrap(), expected, "{setup}");
            }
            assert!(db.verify().unwrap().problems.is_empty());
        }
    }
}

/// Work on a range meets operands above values that live, and ends.
#[test]
fn ranges_with_operands_are_sized_compacted_and_collected() {
    for setup in Setup::designs() {
        let db = open(&setup);
        for number in 0..30 {
            let key = format!("{number:02}");
            db.put(&key, vec![number; 2000]).unwrap();
            db.merge(&key, &plait(number)).unwrap();
            if number % 3 == 0 {
                db.flush().unwrap();
            }
            db.merge(&key, &append("end")).unwrap();
        }
        let all = || db.range(..).map(Result::unwrap).collect::<Vec<_>>();
        let before = all();
        db.delete_range("10".."20").unwrap();
        db.default_keyspace().compact_range("05".."25").unwrap();
        assert!(db.default_keyspace().approximate_size(..).unwrap().entries >= 10, "{setup}");
        db.default_keyspace().collect_range(..).unwrap();
        let outside = |item: &&cleavedb::Item| item.key < "10" || item.key >= "20";
        assert!(all().iter().eq(before.iter().filter(outside)), "{setup}");
        assert!(db.verify().unwrap().problems.is_empty(), "{setup}");
    }
}

/// Of a counter that is only counted up the index has one entry.
#[test]
fn flushes_and_compactions_make_one_of_many_operands() {
    for setup in Setup::designs() {
        let db = open(&setup);
        for round in 1..=3 {
            // A merge would write the value anew above more.
            for _ in 0..8 {
                db.merge("count", &Operand::add(1)).unwrap();
                db.merge("list", &append("x")).unwrap();
            }
            db.flush().unwrap();
            assert!(entries(&db) <= 2 * round, "{setup}: {} entries", entries(&db));
        }
        db.compact().unwrap();
        assert_eq!(entries(&db), 2, "{setup}");
        assert_eq!(db.get("count").unwrap().unwrap(), "24");
        assert_eq!(db.get("list").unwrap().unwrap(), "x".repeat(24));
    }
}

/// Values outside the index are written anew when reads meet many operands.
#[test]
fn operands_above_long_values_stay_few() {
    for setup in Setup::designs() {
        let db = open(&setup);
        let mut expected = vec![5; 2500];
        db.put("key", &expected).unwrap();
        for byte in 0..60 {
            db.merge("key", &plait(byte)).unwrap();
            expected = merges::apply(Some(&expected), &plait(byte));
            if byte % 3 == 0 {
                assert_eq!(db.get("key").unwrap().unwrap(), expected, "{setup}");
            }
            if byte % 5 == 0 {
                db.flush().unwrap();
            }
        }
        db.flush().and_then(|()| db.compact()).unwrap();
        assert_eq!(db.get("key").unwrap().unwrap(), expected, "{setup}");
        assert!(entries(&db) <= 20, "{setup}: {} entries", entries(&db));
        assert!(db.verify().unwrap().problems.is_empty(), "{setup}");
    }
}

/// A counter that lives for a minute says so, and is gone then, as in other stores: in a plain
/// keyspace, in one with a time to live, and whether it is merged alone or in a batch.
#[test]
fn a_value_that_expires_keeps_its_expiry_when_it_is_merged() {
    let minute = Duration::from_secs(60);
    for setup in Setup::designs() {
        let db = open(&setup);
        let options = KeyspaceOptions { ttl: Some(minute), ..KeyspaceOptions::default() };
        let sessions = db.create_keyspace("sessions", options).unwrap();
        let jobs: [fn(&Db) -> cleavedb::Result<()>; 4] =
            [|_| Ok(()), Db::flush, Db::compact, Db::collect];
        let merge = |keyspace: &cleavedb::Keyspace, key: &str, number: usize| {
            if number.is_multiple_of(2) {
                return keyspace.merge(key, &append("1")).unwrap();
            }
            let mut batch = WriteBatch::new();
            batch.keyspace(keyspace).merge(key, &append("1")).unwrap();
            db.write(&batch).unwrap();
        };
        for (round, len) in [3, 3000].into_iter().enumerate() {
            let key = format!("{round}");
            let value = "v".repeat(len);
            // Merges beside the values that expire, of one that stays.
            db.merge("stays", &Operand::add(1)).unwrap();
            for keyspace in [db.default_keyspace(), &sessions] {
                keyspace.put_with(&key, &value, PutOptions::new().ttl(minute)).unwrap();
            }
            let ends = Some(setup.clock.now() + minute);
            for (number, job) in jobs.iter().enumerate() {
                setup.clock.advance(minute / 10);
                for keyspace in [db.default_keyspace(), &sessions] {
                    merge(keyspace, &key, number);
                }
                job(&db).unwrap();
                let expected = value.clone() + &"1".repeat(number + 1);
                for keyspace in [db.default_keyspace(), &sessions] {
                    let found = keyspace.get_with_expiry(&key).unwrap().unwrap();
                    assert_eq!(found, (expected.clone().into(), ends), "{setup}");
                    let mut cursor = keyspace.cursor(&key[..]..);
                    assert!(cursor.next().unwrap() && cursor.expiry() == ends, "{setup}");
                }
            }
            let before = db.snapshot();
            setup.clock.advance(minute * 6 / 10);
            for job in &jobs {
                job(&db).unwrap();
                assert_eq!((db.get(&key).unwrap(), sessions.get(&key).unwrap()), (None, None));
                assert_eq!(before.get(&key).unwrap().unwrap().len(), len + 4, "{setup}");
            }
            // What follows begins anew.
            for keyspace in [db.default_keyspace(), &sessions] {
                merge(keyspace, &key, round);
            }
            let ends = Some(setup.clock.now() + minute);
            let plain = db.default_keyspace().get_with_expiry(&key).unwrap().unwrap();
            assert_eq!(plain, ("1".into(), None), "{setup}");
            assert_eq!(sessions.get_with_expiry(&key).unwrap().unwrap(), ("1".into(), ends));
            assert_eq!(before.get(&key).unwrap().unwrap().len(), len + 4, "{setup}");
        }
        assert_eq!(
            db.default_keyspace().get_with_expiry("stays").unwrap().unwrap(),
            ("2".into(), None)
        );
        assert!(db.verify().unwrap().problems.is_empty(), "{setup}");
    }
}

/// A rate limiter lost what was put, and blocked its client for ever.
#[test]
fn a_counter_of_a_minute_is_gone_after_a_hundred_merges() {
    for setup in Setup::designs() {
        let db = open(&setup);
        let ends = setup.clock.now() + Duration::from_secs(60);
        db.put_with("hits:ann", "1", PutOptions::new().ttl(Duration::from_secs(60))).unwrap();
        (0..100).for_each(|_| db.merge("hits:ann", &Operand::add(1)).unwrap());
        let found = db.default_keyspace().get_with_expiry("hits:ann").unwrap().unwrap();
        assert_eq!(found, ("101".into(), Some(ends)), "{setup}");
        for seconds in [61, 86_400] {
            setup.clock.advance(Duration::from_secs(seconds));
            assert_eq!(db.get("hits:ann").unwrap(), None, "{setup}");
        }
    }
}

/// The usual way to begin a counter that expires: one client gives it its time to live, while
/// others count on. None of their merges outlives it.
#[test]
fn merges_beside_a_put_with_a_time_to_live_go_with_it() {
    const THREADS: usize = 3;
    let minute = Duration::from_secs(60);
    for setup in Setup::designs() {
        let options = Options {
            background: Background::Threads(1),
            durability: Durability::Buffered,
            ..setup.options.clone()
        };
        let dir = tempfile::tempdir().unwrap();
        let db = Db::open(dir.path().join("db"), options).unwrap();
        for round in 0..20 {
            let key = format!("hits {round}");
            std::thread::scope(|scope| {
                for thread in 0..THREADS {
                    let (db, key) = (&db, &key);
                    scope.spawn(move || {
                        for _ in 0..4 {
                            db.merge(key, &Operand::add(1)).unwrap();
                        }
                        if thread == 0 {
                            assert!(db.default_keyspace().set_ttl(key, minute).unwrap());
                        }
                    });
                }
            });
            let (hits, expiry) = db.default_keyspace().get_with_expiry(&key).unwrap().unwrap();
            assert_eq!((&hits[..], expiry), (&b"12"[..], Some(setup.clock.now() + minute)));
            // Nothing expires in the keyspace when the next round begins.
            setup.clock.advance(minute);
            assert_eq!(db.get(&key).unwrap(), None, "{setup}");
            if round % 5 == 4 {
                db.compact().unwrap();
            }
        }
    }
}

/// The operand was committed, and then the error of the read came: a caller that tried again
/// counted twice, and the key could not be read.
#[test]
fn a_merge_that_fails_has_written_nothing() {
    for setup in Setup::designs() {
        let db = open(&setup);
        let minute = Duration::from_secs(60);
        let mut batch = WriteBatch::new();
        // Nothing expires here before the batch.
        batch.put_with_ttl("text", "no number", minute).unwrap();
        batch.merge("text", &Operand::add(1)).unwrap().put("beside", "1").unwrap();
        assert_eq!(db.write(&batch).unwrap_err().kind(), ErrorKind::Merge, "{setup}");
        assert_eq!((db.get("text").unwrap(), db.get("beside").unwrap()), (None, None), "{setup}");
        batch.clear();
        batch.put_with_ttl("hits", "41", minute).unwrap();
        batch.merge("hits", &Operand::add(1)).unwrap();
        db.write(&batch).unwrap();
        let expected = ("42".into(), Some(setup.clock.now() + minute));
        assert_eq!(
            db.default_keyspace().get_with_expiry("hits").unwrap().unwrap(),
            expected,
            "{setup}"
        );
        setup.clock.advance(minute);
        assert_eq!(db.get("hits").unwrap(), None, "{setup}");
    }
}

thread_local! {
    static IS_SLOW: Cell<bool> = const { Cell::new(false) };
}

/// Adds, and, in a thread that is slow, waits until another merge was made: of merges that read,
/// that of such a thread is overtaken each time, unless no other may go ahead.
struct Overtaken(Arc<AtomicUsize>);

impl MergeOperator for Overtaken {
    fn name(&self) -> &str {
        "overtaken"
    }

    fn apply(&self, _: &[u8], value: Option<&[u8]>, _: &[u8]) -> Option<Vec<u8>> {
        let before = self.0.load(Ordering::Acquire);
        let begun = Instant::now();
        while IS_SLOW.get()
            && self.0.load(Ordering::Acquire) == before
            && begun.elapsed() < Duration::from_millis(50)
        {
            std::thread::yield_now();
        }
        Some([value.unwrap_or_default(), b"1"].concat())
    }
}

/// The last of a thousand attempts failed with a conflict.
#[test]
fn merges_of_many_threads_into_a_value_that_expires_never_conflict() {
    const SLOW: usize = 3;
    for setup in Setup::designs() {
        let made = Arc::new(AtomicUsize::new(0));
        let merge_operators = MergeOperators::default().with(Overtaken(made.clone()));
        let options = Options { merge_operators, ..setup.options.clone() };
        let db = Db::open_in(Arc::new(Sim::new()), options, 7).unwrap();
        db.put_with("hits", "", PutOptions::new().ttl(Duration::from_secs(60))).unwrap();
        let merge = || db.merge("hits", &Operand::new("overtaken", "")).unwrap();
        let (mut merged, ended) = (0, AtomicUsize::new(0));
        std::thread::scope(|scope| {
            for _ in 0..SLOW {
                scope.spawn(|| {
                    IS_SLOW.set(true);
                    merge();
                    ended.fetch_add(1, Ordering::Release);
                });
            }
            while ended.load(Ordering::Acquire) < SLOW {
                merge();
                merged += 1;
                made.fetch_add(1, Ordering::Release);
            }
        });
        assert_eq!(db.get("hits").unwrap().unwrap().len(), SLOW + merged, "{setup}");
    }
}

#[test]
fn a_transaction_reads_what_it_merges() {
    for setup in Setup::designs() {
        let db = open(&setup);
        db.merge("count", &Operand::add(1)).unwrap();
        let mut one = db.transaction().unwrap();
        one.merge("count", &Operand::add(1)).unwrap();
        one.merge("new", &append("x")).unwrap();
        assert_eq!(one.get("count").unwrap().unwrap(), "2");
        assert_eq!(one.range(..).count(), 2);
        let mut other = db.transaction().unwrap();
        other.merge("count", &Operand::add(1)).unwrap();
        one.commit().unwrap();
        assert_eq!(other.commit().unwrap_err().kind(), ErrorKind::Conflict);
        // A merge is a write that others must not overlook.
        let reader = db.transaction().unwrap();
        assert_eq!(reader.get("count").unwrap().unwrap(), "2");
        db.merge("count", &Operand::add(40)).unwrap();
        let mut reader = reader;
        reader.put("copy", "2").unwrap();
        assert_eq!(reader.commit().unwrap_err().kind(), ErrorKind::Conflict);
        assert_eq!(
            db.default_keyspace().update("count", |old| old.map(<[u8]>::to_vec)).unwrap().unwrap(),
            "42"
        );
        assert!(db.default_keyspace().compare_and_swap("count", Some("42"), Some("0")).unwrap());
    }
}

/// An open that does not know the operator reads the other keys, and loses nothing.
#[test]
fn operands_of_an_unknown_operator_are_kept() {
    for setup in Setup::designs() {
        let sim = Arc::new(Sim::new());
        let mut expected = vec![1; 3000];
        {
            let db = session::open(sim.clone(), &setup).unwrap();
            db.put("key", &expected).unwrap();
            db.put("other", "value").unwrap();
            db.flush().unwrap();
            for byte in 0..3 {
                db.merge("key", &plait(byte)).unwrap();
                expected = merges::apply(Some(&expected), &plait(byte));
            }
            db.close().unwrap();
        }
        let mut without = setup.clone();
        without.options.merge_operators = MergeOperators::default();
        {
            let db = session::open(sim.clone(), &without).unwrap();
            let met = !setup.options.layout().separates() || db.metrics().hot.is_some();
            match db.get("key") {
                // The operands have met the value already.
                Ok(found) if met => {
                    assert_eq!(found.unwrap(), expected);
                }
                found => {
                    let error = found.unwrap_err();
                    let about = (error.kind(), error.fact("operator"));
                    assert_eq!(about, (ErrorKind::Merge, Some("plait")), "{setup}");
                }
            }
            assert_eq!(db.get("other").unwrap().unwrap(), "value");
            assert_eq!(db.merge("key", &plait(9)).unwrap_err().kind(), ErrorKind::Merge);
            db.flush().and_then(|()| db.compact()).and_then(|()| db.collect()).unwrap();
            assert!(db.verify().unwrap().problems.is_empty(), "{setup}");
            db.close().unwrap();
        }
        let db = session::open(sim, &setup).unwrap();
        assert_eq!(db.get("key").unwrap().unwrap(), expected, "{setup}");
        // What an operator does not know is no loss, either.
        db.put("text", "no number").unwrap();
        db.merge("text", &Operand::add(1)).unwrap();
        db.flush().and_then(|()| db.compact()).unwrap();
        assert_eq!(db.get("text").unwrap_err().kind(), ErrorKind::Merge);
        let bad = db.merge("text", &Operand::new("add", "one")).unwrap_err();
        assert_eq!(bad.kind(), ErrorKind::InvalidArgument);
        db.put("text", "1").unwrap();
        assert_eq!(db.get("text").unwrap().unwrap(), "1");
    }
}

/// One such merge ended every scan of the store, and a check said that all was well.
#[test]
fn a_merge_that_does_not_fit_is_named_and_hides_nothing_but_its_key() {
    for setup in Setup::designs() {
        for len in [20, 3000] {
            let db = open(&setup);
            let text = "v".repeat(len);
            ["a", "text", "z"].iter().for_each(|key| db.put(key, &text).unwrap());
            db.merge("text", &append("1")).unwrap();
            db.merge("text", &Operand::add(1)).unwrap();
            for job in [|_: &Db| Ok(()), Db::flush, Db::compact, Db::collect] {
                job(&db).unwrap();
                let error = db.get("text").unwrap_err();
                let about = (error.kind(), error.fact("operator"), error.fact("key"));
                assert_eq!(about, (ErrorKind::Merge, Some("add"), Some("text")), "{setup}");
                assert!(error.message().contains("a put or a delete of the key mends it"));
                let below = db.default_keyspace().get_below_failed_merge("text").unwrap().unwrap();
                assert_eq!(below, format!("{text}1").as_bytes(), "{setup}");
                let (mut cursor, mut found) = (db.cursor(..), Vec::new());
                while cursor.next().unwrap() {
                    let key = String::from_utf8(cursor.key().unwrap().to_vec()).unwrap();
                    found.push((key, cursor.value().is_ok()));
                }
                let all = [("a", true), ("text", false), ("z", true)];
                assert_eq!(found, all.map(|(key, is_read)| (key.to_owned(), is_read)), "{setup}");
                let report = db.verify().unwrap();
                assert!(report.problems.is_empty(), "{setup}: {:?}", report.problems);
                let named = report.unmerged.iter().map(|e| (e.fact("keyspace"), e.fact("key")));
                assert!(named.eq([(Some("default"), Some("text"))]), "{setup}: {report:?}");
            }
            assert_eq!(
                db.default_keyspace().get_below_failed_merge("a").unwrap().unwrap(),
                text.as_bytes()
            );
            assert_eq!(db.default_keyspace().get_below_failed_merge("b").unwrap(), None);
            db.put("text", "5").unwrap();
            assert_eq!(db.get("text").unwrap().unwrap(), "5", "{setup}");
            assert_eq!(db.verify().unwrap().unmerged_keys, 0, "{setup}");
        }
    }
}

#[test]
fn nothing_of_what_many_threads_count_up_is_lost() {
    const THREADS: usize = 4;
    const COUNTED: usize = 1500;
    for setup in Setup::designs() {
        let options = Options {
            background: Background::Threads(2),
            durability: Durability::Buffered,
            ..setup.options.clone()
        };
        let dir = tempfile::tempdir().unwrap();
        let db = Db::open(dir.path().join("db"), options).unwrap();
        std::thread::scope(|scope| {
            for thread in 0..THREADS {
                let db = &db;
                scope.spawn(move || {
                    for at in 0..COUNTED {
                        db.merge("all", &Operand::add(1)).unwrap();
                        db.merge(format!("{}", at % 7), &Operand::add(1)).unwrap();
                        if at % 50 == thread {
                            db.put(format!("filler {at}"), vec![0; 3000]).unwrap();
                            db.get("all").unwrap();
                        }
                    }
                });
            }
        });
        let number =
            |value: cleavedb::Bytes| str::from_utf8(&value).unwrap().parse::<usize>().unwrap();
        assert_eq!(number(db.get("all").unwrap().unwrap()), THREADS * COUNTED, "{setup}");
        let some: usize = db.range("0".."7").map(|item| number(item.unwrap().value)).sum();
        let seven = db.get("6").unwrap().map(number).unwrap_or_default();
        assert_eq!((some, seven > 0), (THREADS * COUNTED, true), "{setup}");
        assert!(db.verify().unwrap().problems.is_empty());
    }
}
