//! Cursors: searches and steps both ways, and values that are read when they are asked for.
//!
//! That they agree with the model at every state of a database is checked by every session of the
//! testkit (`cleavedb_testkit::walk`).

use std::sync::Arc;

use cleavedb::{Bytes, Cursor, Db, Durability, ErrorKind, Prefix};
use cleavedb_storage::{FileKind, Storage};
use cleavedb_storage_sim::faulty::Op;
use cleavedb_storage_sim::{Faulty, Sim};
use cleavedb_testkit::walk::Walk;
use cleavedb_testkit::{Disks, Setup, State, Write, session};

const KEYS: usize = 600;

fn key(i: usize) -> Vec<u8> {
    format!("key{i:04}").into_bytes()
}

/// A store whose keys lie in MemTables, in tables and among values that were written again.
fn filled(setup: &Setup) -> (Db, State) {
    filled_in(&Disks::forgetful(setup).storages(), setup)
}

fn filled_in(storages: &[Arc<dyn Storage>], setup: &Setup) -> (Db, State) {
    let db = session::open_all(storages, setup).unwrap();
    let mut state = State::default();
    for round in 0..3 {
        for i in (0..KEYS).filter(|i| i % 3 >= round) {
            let value = format!("{round}{}", "x".repeat(i * 7 % 900)).into_bytes();
            let write = Write::put(&key(i), value);
            session::commit(&db, std::slice::from_ref(&write), Durability::Os).unwrap();
            state.apply(&[write]);
        }
        if round < 2 {
            db.flush().unwrap();
        }
    }
    (db, state)
}

#[test]
fn a_cursor_walks_as_the_model_does_while_jobs_run() {
    for setup in &Setup::some() {
        let (db, state) = filled(setup);
        let expected = state.range(None, None);
        let mut walks: Vec<Walk> = (0..6).map(|seed| Walk::new(db.cursor(..), seed)).collect();
        for round in 0..4 {
            for walk in &mut walks {
                walk.go(40, &expected).unwrap_or_else(|failure| panic!("{setup}: {failure}"));
            }
            for i in (round..KEYS).step_by(3) {
                db.put_with(key(i), "later", Durability::Os).unwrap();
            }
            match round {
                0 => db.flush().unwrap(),
                1 => db.compact().unwrap(),
                _ => db.collect().unwrap(),
            }
        }
    }
}

#[test]
fn bounds_end_a_walk_and_searches_beyond_them_too() {
    for setup in &Setup::designs() {
        let (db, _) = filled(setup);
        let mut cursor = db.cursor(key(10)..key(20));
        assert!(cursor.seek(key(5)).unwrap() && cursor.key() == Some(&key(10)[..]));
        assert!(!cursor.seek(key(20)).unwrap() && cursor.key().is_none());
        assert!(cursor.prev().unwrap() && cursor.key() == Some(&key(19)[..]));
        assert!(cursor.seek_for_prev(key(500)).unwrap() && cursor.key() == Some(&key(19)[..]));
        assert!(!cursor.seek_for_prev(key(9)).unwrap());
        assert!(cursor.next().unwrap() && cursor.key() == Some(&key(10)[..]));
        assert_eq!(count(db.cursor(Prefix("key00"))), 100);
        assert_eq!(count(db.cursor("l"..)), 0);
        assert_eq!(count(db.cursor("l".."a")), 0);
    }
}

fn count(mut cursor: Cursor) -> usize {
    let mut keys = 0;
    while cursor.next().unwrap() {
        keys += 1;
    }
    keys
}

#[test]
fn keys_alone_read_no_value_and_values_are_read_once() {
    for setup in &Setup::designs() {
        let faulty = Arc::new(Faulty::over(&Sim::new()));
        let storages: [Arc<dyn Storage>; 1] = [faulty.clone()];
        let (db, _) = filled_in(&storages, setup);
        db.flush().unwrap();
        // Reads of files that hold values and no keys of the index.
        let read = || {
            let calls = faulty.trace().into_iter().filter(|call| call.op == Op::ReadAt);
            let kinds = calls.filter_map(|call| Some((call.number, call.name?.kind())));
            let of_values = kinds.filter(|(_, kind)| *kind != FileKind::Table);
            of_values.map(|(number, _)| number).max()
        };
        let before = read();
        assert_eq!(count(db.cursor(..)), KEYS, "{setup}");
        assert_eq!(db.range(..).keys_only().count(), KEYS, "{setup}");
        let mut cursor = db.cursor(..);
        assert!(cursor.seek_to_last().unwrap());
        assert_eq!(read(), before, "{setup}: no value was asked for");
        let value = cursor.value().unwrap();
        let once = read();
        let least = db.options().min_separated;
        let separates = least.is_some_and(|least| value.as_ref().unwrap().len() >= least);
        assert!(once > before || !separates, "{setup}: a value is read when it is asked for");
        assert_eq!(cursor.value().unwrap(), value);
        assert_eq!(read(), once, "{setup}: a value is read once");
    }
}

#[test]
fn a_cursor_fails_after_the_database_was_closed_for_all() {
    let (db, _) = filled(&Setup::every_design()[0]);
    let (mut cursor, late) = (db.cursor(..), db.clone());
    assert!(cursor.next().unwrap());
    db.close_now().unwrap();
    assert_eq!(cursor.next().unwrap_err().kind(), ErrorKind::Closed);
    assert_eq!(cursor.value().unwrap_err().kind(), ErrorKind::Closed);
    assert_eq!(cursor.seek("key").unwrap_err().kind(), ErrorKind::Closed);
    assert_eq!(late.cursor(..).seek_to_last().unwrap_err().kind(), ErrorKind::Closed);
}

#[test]
fn the_small_calls_answer_as_those_of_an_ordered_map_do() {
    for setup in &Setup::designs() {
        let (db, _) = filled(setup);
        let snapshot = db.snapshot();
        db.delete(key(0)).unwrap();
        db.put("zebra", "last").unwrap();
        let first = db.first_key_value().unwrap().unwrap();
        assert_eq!(first.key, Bytes::from(key(1)));
        assert_eq!(db.last_key_value().unwrap().unwrap().value, "last");
        assert!(!db.contains_key(key(0)).unwrap() && db.contains_key("zebra").unwrap());
        assert!(snapshot.contains_key(key(0)).unwrap());
        assert!(!snapshot.contains_key("zebra").unwrap());
        assert_eq!(snapshot.first_key_value().unwrap().unwrap().key, Bytes::from(key(0)));
        assert_eq!(snapshot.last_key_value().unwrap().unwrap().key, Bytes::from(key(KEYS - 1)));
        assert_eq!(snapshot.range(..).keys_only().rev().count(), KEYS);
        assert!(!db.contains_key(vec![b'k'; 100_000]).unwrap(), "no such key can exist");
    }
}
