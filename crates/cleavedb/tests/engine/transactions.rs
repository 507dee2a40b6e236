//! Transactions are serializable, see their own writes, and leave nothing if they fail; conditional
//! writes happen once.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use cleavedb::{Background, Db, Durability, Error, ErrorKind, Keyspace, Operand, Options, Preset};
use cleavedb_storage_sim::Sim;
use cleavedb_storage_sim::sim::Rng;
use cleavedb_testkit::transactions::{Committed, check_serializable, interleaved};
use cleavedb_testkit::{Setup, session};

/// Threads of the tests with several.
const THREADS: u64 = 8;

fn open(setup: &Setup) -> Db {
    let options = Options {
        background: Background::Threads(2),
        durability: Durability::Os,
        ..setup.options.clone()
    };
    session::open(Arc::new(Sim::new()), &Setup { options, ..setup.clone() }).unwrap()
}

#[test]
fn transactions_that_are_open_at_once_read_what_they_would_one_after_the_other() {
    let (mut committed, mut conflicts) = (0, 0);
    for setup in &Setup::some() {
        for seed in 0..12 {
            let done = interleaved(&setup.clone().in_one_directory(), seed);
            let done = done.unwrap_or_else(|failure| panic!("{setup}, seed {seed}: {failure}"));
            (committed, conflicts) = (committed + done.0, conflicts + done.1);
        }
    }
    assert!(committed > 500 && conflicts > 500, "{committed} committed, {conflicts} conflicts");
}

/// Each value is the number of its key's version, in a length that is separated or not.
fn versioned(version: u64) -> Vec<u8> {
    format!("{version:08}{}", "x".repeat((version % 5 * 200) as usize)).into_bytes()
}

fn version_of(value: Option<&[u8]>) -> u64 {
    value.map_or(0, |value| std::str::from_utf8(&value[..8]).unwrap().parse().unwrap())
}

#[test]
fn histories_of_eight_threads_are_serializable() {
    const KEYS: usize = 10;
    let key = |at: usize| format!("{at:02}");
    for setup in &Setup::designs() {
        let db = open(setup);
        let one = |rng: &mut Rng| {
            db.transact(|transaction| {
                let mut done = Committed::default();
                if rng.index(3) == 0 {
                    // All of them, those that are not there as well.
                    let items: Vec<_> = transaction.range(..).collect::<Result<_, _>>()?;
                    done.reads = (0..KEYS)
                        .map(|at| {
                            let item = items.iter().find(|item| item.key == key(at));
                            (at, version_of(item.map(|item| &item.value[..])))
                        })
                        .collect();
                } else {
                    let keys: BTreeSet<usize> = (0..3).map(|_| rng.index(KEYS)).collect();
                    for at in keys {
                        let value = transaction.get(key(at))?;
                        done.reads.push((at, version_of(value.as_deref())));
                    }
                }
                let reads = done.reads.clone();
                for (at, version) in reads.into_iter().filter(|_| rng.index(2) == 0) {
                    transaction.put(key(at), versioned(version + 1))?;
                    done.writes.push((at, version + 1));
                }
                Ok(done)
            })
        };
        let run = |thread: u64| {
            let mut rng = Rng::new(thread);
            (0..60).map(|_| one(&mut rng).unwrap()).collect::<Vec<Committed>>()
        };
        let history: Vec<Committed> = std::thread::scope(|scope| {
            let threads: Vec<_> =
                (0..THREADS).map(|thread| scope.spawn(move || run(thread))).collect();
            threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
        });
        check_serializable(&history).unwrap_or_else(|failure| panic!("{setup}: {failure}"));
        for at in 0..KEYS {
            let written = history.iter().flat_map(|one| &one.writes).filter(|it| it.0 == at);
            let last = version_of(db.get(key(at)).unwrap().as_deref());
            assert_eq!(written.count() as u64, last, "{setup}: every version is there once");
        }
    }
}

#[test]
fn the_checker_finds_a_write_skew_and_a_lost_update() {
    let one = |reads: &[(usize, u64)], writes: &[(usize, u64)]| Committed {
        reads: reads.to_vec(),
        writes: writes.to_vec(),
    };
    let both = [(0, 0), (1, 0)];
    check_serializable(&[one(&both, &[(0, 1)]), one(&[(0, 1), (1, 0)], &[(1, 1)])]).unwrap();
    check_serializable(&[one(&both, &[(0, 1)]), one(&both, &[(1, 1)])]).unwrap_err();
    check_serializable(&[one(&both, &[(0, 1)]), one(&both, &[(0, 1)])]).unwrap_err();
}

#[test]
fn a_conflict_writes_nothing_and_a_drop_neither() {
    for setup in &Setup::designs() {
        let db = open(setup);
        db.put("a", "1").unwrap();
        let mut dropped = db.transaction().unwrap();
        dropped.put("a", "dropped").unwrap();
        drop(dropped);
        let mut late = db.transaction().unwrap();
        assert_eq!(late.get("absent").unwrap(), None);
        late.put("a", "late").unwrap();
        late.put("b", "late").unwrap();
        db.put("absent", "there now").unwrap();
        assert_eq!(late.commit().unwrap_err().kind(), ErrorKind::Conflict);
        assert_eq!(db.get("a").unwrap().unwrap(), "1");
        assert!(!db.contains_key("b").unwrap());
        // Writes alone conflict with nothing.
        let mut blind = db.transaction().unwrap();
        blind.put("a", "blind").unwrap();
        db.put("a", "2").unwrap();
        blind.commit().unwrap();
        assert_eq!(db.get("a").unwrap().unwrap(), "blind");
    }
}

#[test]
fn a_savepoint_is_returned_to() {
    let db = open(&Setup::every_design()[0]);
    let mut transaction = db.transaction().unwrap();
    transaction.put("a", "1").unwrap();
    let first = transaction.savepoint();
    transaction.put("a", "2").unwrap();
    let second = transaction.savepoint();
    transaction.delete("a").unwrap();
    transaction.put("b", "1").unwrap();
    transaction.rollback_to(second).unwrap();
    assert_eq!(transaction.get("a").unwrap().unwrap(), "2");
    assert_eq!(transaction.range(..).count(), 1);
    transaction.rollback_to(first).unwrap();
    let error = transaction.rollback_to(second).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    transaction.commit().unwrap();
    assert_eq!(db.get("a").unwrap().unwrap(), "1");
}

#[test]
fn conditional_writes_of_many_threads_happen_once() {
    for setup in &Setup::designs() {
        let db = open(setup);
        let (won, deleted, popped) = (AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(0));
        let queue = open(setup);
        for i in 0..40 {
            queue.put(format!("{i:02}"), versioned(i)).unwrap();
        }
        std::thread::scope(|scope| {
            for thread in 0..THREADS {
                let (db, queue) = (&db, &queue);
                let (won, deleted, popped) = (&won, &deleted, &popped);
                scope.spawn(move || {
                    for i in 0..20 {
                        let key = format!("claim {i}");
                        // Another thread may remove it at once.
                        let has_won = db
                            .default_keyspace()
                            .put_if_absent(&key, thread.to_be_bytes())
                            .unwrap();
                        won.fetch_add(u64::from(has_won), Ordering::Relaxed);
                        db.default_keyspace()
                            .update("counter", |old| Some(versioned(version_of(old) + 1)))
                            .unwrap();
                    }
                    for i in 0..20 {
                        let gone = db
                            .default_keyspace()
                            .delete_if(format!("claim {i}"), |_| true)
                            .unwrap();
                        deleted.fetch_add(u64::from(gone), Ordering::Relaxed);
                    }
                    while queue.default_keyspace().pop_first().unwrap().is_some()
                        && queue.default_keyspace().pop_last().unwrap().is_some()
                    {
                        popped.fetch_add(2, Ordering::Relaxed);
                    }
                });
            }
        });
        let count = |count: &AtomicU64| count.load(Ordering::Relaxed);
        // At the end each thread may get one without another.
        let popped = count(&popped);
        assert!(popped <= 40 && popped + 2 * THREADS > 40, "{setup}: each is popped once");
        assert!(queue.first_key_value().unwrap().is_none());
        assert!(count(&won) >= 20 && count(&won) == count(&deleted) + left(&db), "{setup}");
        assert_eq!(version_of(db.get("counter").unwrap().as_deref()), 20 * THREADS, "{setup}");
    }
}

/// Claims that are left.
fn left(db: &Db) -> u64 {
    db.prefix("claim").keys_only().count() as u64
}

#[test]
fn compare_and_swap_and_pops_do_what_they_say() {
    let db = open(&Setup::every_design()[0]);
    assert!(!db.default_keyspace().compare_and_swap("a", Some("1"), Some("2")).unwrap());
    assert!(db.default_keyspace().compare_and_swap("a", None::<&str>, Some("1")).unwrap());
    assert!(db.default_keyspace().compare_and_swap("a", Some("1"), Some("2")).unwrap());
    assert!(db.default_keyspace().compare_and_swap("a", Some("2"), None::<&str>).unwrap());
    assert!(!db.contains_key("a").unwrap());
    assert!(
        db.default_keyspace().pop_first().unwrap().is_none()
            && db.default_keyspace().pop_last().unwrap().is_none()
    );
    for key in ["a", "b", "c"] {
        db.put(key, key).unwrap();
    }
    assert_eq!(db.default_keyspace().pop_first().unwrap().unwrap().key, "a");
    assert_eq!(db.default_keyspace().pop_last().unwrap().unwrap().value, "c");
    assert!(!db.default_keyspace().delete_if("b", |value| value == b"x").unwrap());
    assert_eq!(db.default_keyspace().update("b", |_| None::<Vec<u8>>).unwrap(), None);
    assert!(db.first_key_value().unwrap().is_none());
}

/// The body of a transaction had to dress an error of the program as one of the engine.
#[test]
fn an_error_of_the_program_gives_a_transaction_up() {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path(), Options::default()).unwrap();
    let error = db
        .transact(|transaction| {
            transaction.put("balance", "-1")?;
            let paid: i64 = "seven".parse().map_err(Error::other)?;
            Ok(paid)
        })
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Other);
    assert!(error.downcast_ref::<std::num::ParseIntError>().is_some(), "{error}");
    assert!(error.to_string().contains("invalid digit"), "{error}");
    assert_eq!(db.get("balance").unwrap(), None);
    let io = std::io::Error::from(error);
    assert!(io.downcast::<Error>().is_ok_and(|error| error.kind() == ErrorKind::Other));
}

/// The body was tried again for ever.
#[test]
fn a_body_that_writes_past_its_transaction_what_it_reads_is_told_so() {
    type Write = fn(&Db, &Keyspace) -> cleavedb::Result<()>;
    let writes: [Write; 5] = [
        |db, _| db.put("a", "past"),
        |db, _| db.delete_range("a".."b"),
        |db, _| db.merge("a", &Operand::append("past")),
        |db, _| db.default_keyspace().update("a", |_| Some("past")).map(drop),
        |_, named| named.put("a", "past"),
    ];
    for setup in &Setup::designs() {
        let db = open(setup);
        let named = db.keyspace("named").unwrap();
        for (at, write) in writes.iter().enumerate() {
            for first in [true, false] {
                let mut tries = 0;
                let error = db.transact(|transaction| {
                    tries += 1;
                    if first {
                        write(&db, &named)?;
                    }
                    transaction.get("a")?;
                    transaction.keyspace(&named).prefix("").count();
                    if !first {
                        write(&db, &named)?;
                    }
                    transaction.put("b", "through")
                });
                // A write in front of the read is behind the snapshot, too.
                assert_eq!(error.unwrap_err().kind(), ErrorKind::InvalidArgument, "{setup}, {at}");
                assert_eq!((tries, db.get("b").unwrap()), (1, None));
            }
            named.delete("a").unwrap();
        }
        db.transact(|transaction| {
            transaction.get("a")?;
            db.put("c", "another")?;
            transaction.put("b", "through")
        })
        .unwrap();
        assert_eq!(db.get("b").unwrap().unwrap(), "through");
    }
}

#[test]
fn a_body_that_others_always_overtake_ends_with_the_number_of_attempts() {
    let db = open(&Setup::every_design()[0]);
    let error = db.transact(|transaction| {
        transaction.get("a")?;
        std::thread::scope(|scope| scope.spawn(|| db.put("a", "others")).join().unwrap())?;
        transaction.put("b", "never")
    });
    let error = error.unwrap_err();
    assert_eq!((error.kind(), error.fact("attempts")), (ErrorKind::Conflict, Some("1000")));
    assert_eq!(db.get("b").unwrap(), None);
}

/// After 16 MiB of keys it could only fail, and its body began anew without end.
#[test]
fn a_transaction_commits_after_any_number_of_writes_of_other_keys() {
    let dir = tempfile::tempdir().unwrap();
    let options = Options { durability: Durability::Os, ..Options::preset(Preset::Lsm) };
    let db = Db::open(dir.path(), options).unwrap();
    let mut transaction = db.transaction().unwrap();
    let mut late = db.transaction().unwrap();
    assert_eq!(transaction.get("mine").unwrap(), None);
    assert_eq!(late.get("others 17").unwrap(), None);
    for i in 0..1200_u32 {
        db.delete([&b"others"[..], &[b' '; 16 << 10], &i.to_be_bytes()].concat()).unwrap();
    }
    transaction.put("mine", "there").unwrap();
    transaction.commit().unwrap();
    db.put("others 17", "").unwrap();
    late.put("late", "").unwrap();
    assert_eq!(late.commit().unwrap_err().kind(), ErrorKind::Conflict);
}

#[test]
fn a_transaction_pops_and_reads_many_keys_at_once_with_its_own_writes() {
    for setup in &Setup::designs() {
        let db = open(setup);
        let named = db.keyspace("named").unwrap();
        for key in ["b", "c", "d"] {
            db.put(key, key.repeat(300)).unwrap();
            named.put(key, key).unwrap();
        }
        db.flush().unwrap();
        let mut transaction = db.transaction().unwrap();
        transaction.put("a", "own").unwrap();
        transaction.delete("c").unwrap();
        let found = transaction.multi_get(&["d", "c", "a", "x", "b"]);
        let found: Vec<_> = found.into_iter().map(|found| found.unwrap()).collect();
        let there = |value: &str| Some(value.to_owned().into_bytes().into());
        let (b, d) = (there(&"b".repeat(300)), there(&"d".repeat(300)));
        assert_eq!(found, [d, None, there("own"), None, b], "{setup}");
        assert_eq!(transaction.first_key_value().unwrap().unwrap().key, "a");
        assert_eq!(transaction.pop_first().unwrap().unwrap().value, "own");
        assert_eq!(transaction.pop_first().unwrap().unwrap().key, "b");
        assert_eq!(transaction.last_key_value().unwrap().unwrap().key, "d");
        assert_eq!(transaction.pop_last().unwrap().unwrap().key, "d");
        assert!(transaction.pop_last().unwrap().is_none());
        let mut within = transaction.keyspace(&named);
        assert_eq!(within.pop_first().unwrap().unwrap().key, "b");
        assert_eq!(within.pop_last().unwrap().unwrap().key, "d");
        assert_eq!(within.multi_get(&["b", "c"])[1].clone().unwrap().unwrap(), "c");
        // What it has asked for has changed.
        db.put("x", "there now").unwrap();
        assert_eq!(transaction.commit().unwrap_err().kind(), ErrorKind::Conflict);
        assert_eq!((db.range(..).count(), named.range(..).count()), (4, 3), "{setup}");
    }
}
