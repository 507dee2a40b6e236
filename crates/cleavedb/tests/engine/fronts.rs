//! Searches for the first or the last key of a queue, which begin where the one before ended.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::thread;

use cleavedb::{Db, ErrorKind};
use cleavedb_storage_sim::Sim;
use cleavedb_testkit::Setup;
use cleavedb_testkit::fronts::ends_are_found;

#[test]
fn the_ends_are_found_whatever_was_written_beyond_them() {
    for setup in Setup::designs() {
        (0..6).for_each(|seed| ends_are_found(&setup, seed).unwrap());
    }
}

/// A search for the first key stepped over 750 to 1,600 keys that had been taken before, and one
/// for the last key as well.
#[test]
fn pops_step_over_no_key_that_was_taken_before() {
    for (setup, is_first) in
        Setup::designs().into_iter().flat_map(|it| [(it.clone(), true), (it, false)])
    {
        let db = Db::open_in(Arc::new(Sim::new()), setup.options.clone(), 7).unwrap();
        let key = |i: u32| i.to_be_bytes();
        (0..3000).for_each(|i| db.put(key(i), "item").unwrap());
        let queue = db.default_keyspace();
        for i in 0..2000 {
            let (popped, at) = match is_first {
                true => (queue.pop_first(), i),
                false => (queue.pop_last(), 2999 - i),
            };
            assert_eq!(popped.unwrap().unwrap().key, key(at)[..]);
        }
        let dead = db.metrics().dead_read;
        assert!(dead < 4 * 2000, "{setup}, first {is_first}: {dead}");
    }
}

/// As above, of several queues in one keyspace, each under a prefix.
#[test]
fn pops_of_a_prefix_step_over_no_key_that_was_taken_before() {
    for setup in Setup::designs() {
        let db = Db::open_in(Arc::new(Sim::new()), setup.options.clone(), 7).unwrap();
        let queues = ["a", "b", "c"];
        let key = |queue: &str, i: u32| [queue.as_bytes(), &i.to_be_bytes()].concat();
        (0..1000).for_each(|i| queues.iter().for_each(|it| db.put(key(it, i), "item").unwrap()));
        for i in 0..700 {
            for queue in queues {
                let found = db.prefix(queue).next().unwrap().unwrap().key;
                assert_eq!(found, key(queue, i));
                db.delete(found).unwrap();
            }
        }
        let dead = db.metrics().dead_read;
        assert!(dead < 3 * 3 * 700, "{setup}: {dead}");
    }
}

/// Producers put keys in front of and behind those that consumers take; each is taken once.
#[test]
fn what_is_put_beside_pops_is_taken_once() {
    const EACH: usize = 300;
    let db =
        Db::open_in(Arc::new(Sim::new()), Setup::every_design()[1].options.clone(), 7).unwrap();
    let (left, taken) = (AtomicUsize::new(3 * EACH), Mutex::new(Vec::new()));
    thread::scope(|scope| {
        for producer in 0..3 {
            let db = &db;
            scope.spawn(move || {
                for i in 0..EACH {
                    // In order, in the opposite order, and in turns.
                    let at = [i, EACH - i, i ^ 1][producer];
                    db.put(format!("{at:04} {producer} {i:04}"), "item").unwrap();
                }
            });
        }
        for _ in 0..2 {
            scope.spawn(|| {
                while left.load(Relaxed) > 0 {
                    match db.default_keyspace().pop_first() {
                        Ok(Some(item)) => {
                            left.fetch_sub(1, Relaxed);
                            taken.lock().unwrap().push(item.key);
                        }
                        Ok(None) => thread::yield_now(),
                        Err(e) => assert_eq!(e.kind(), ErrorKind::Conflict, "{e}"),
                    }
                }
            });
        }
    });
    let mut taken = taken.into_inner().unwrap();
    taken.sort();
    taken.dedup();
    assert_eq!((taken.len(), db.range(..).count()), (3 * EACH, 0));
}
