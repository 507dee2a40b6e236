//! Calls for threads that must not wait: they answer as those that wait do, or say that they would.

use cleavedb::{Db, Durability, ErrorKind, Item, Options, Preset, Range, Resident, WriteBatch};
use cleavedb_testkit::numbered::what_is_synced_to_survives;
use cleavedb_testkit::records::{key, value};
use cleavedb_testkit::{Disks, Generator, Profile, Session, Setup, State, session};

/// Compares resident reads of all keys, and of keys that are not there, with reads that wait;
/// returns how many were found and how many were not.
fn compare(session: &Session) -> (usize, usize) {
    let (db, snapshot) = (session.db(), session.db().snapshot());
    let (mut found, mut elsewhere) = (0, 0);
    for key in db.range(..).keys_only().flat_map(|key| {
        let key = key.unwrap().key;
        [[&key[..], b"~"].concat(), key.to_vec()]
    }) {
        let answers = [db.get_resident(&key), snapshot.get_resident(&key)];
        let expected = db.get(&key).unwrap();
        for is_there in [db.contains_resident(&key), snapshot.contains_resident(&key)] {
            assert!(is_there.unwrap().is_none_or(|it| it == expected.is_some()));
        }
        for answer in answers {
            match answer.unwrap() {
                Resident::Found(value) => {
                    assert_eq!(value, expected, "{}", key.escape_ascii());
                    found += 1;
                }
                Resident::Elsewhere => elsewhere += 1,
            }
        }
    }
    (found, elsewhere)
}

/// Compares a resident range, and one from its back, with one that waits; returns how many of them
/// came to their end.
fn compare_ranges(session: &Session, from: &[u8]) -> usize {
    let db = session.db();
    let [forward, backward] = [db.range(from..), db.range(from..)].map(Range::resident);
    let [forward, backward]: [Vec<_>; 2] = [forward.collect(), backward.rev().collect()];
    // One that waits fills the cache of blocks.
    let expected: Vec<_> = db.range(from..).map(Result::unwrap).collect();
    let whole = |found: Vec<cleavedb::Result<Item>>, wanted: &mut dyn Iterator<Item = &Item>| {
        let mut is_whole = true;
        for item in found {
            match item {
                Ok(item) => assert_eq!(Some(&item), wanted.next()),
                Err(e) => {
                    assert_eq!(e.kind(), ErrorKind::WouldWait, "{e}");
                    is_whole = false;
                }
            }
        }
        assert!(!is_whole || wanted.next().is_none());
        usize::from(is_whole)
    };
    whole(forward, &mut expected.iter()) + whole(backward, &mut expected.iter().rev())
}

#[test]
fn a_resident_range_is_a_range_or_its_begin() {
    for setup in Setup::designs() {
        let profile = Profile { ranges: 5, ttls: 20, merges: 2, ..Profile::model() };
        let ops = Generator::new(11, profile).take(200);
        let mut session = Session::on(Disks::forgetful(&setup), &setup, State::default()).unwrap();
        let (mut whole, mut compared) = (0, 0);
        for (ops, round) in ops.chunks(5).zip(0..) {
            ops.iter().for_each(|op| session.run(op).unwrap());
            whole += compare_ranges(&session, b"") + compare_ranges(&session, &key(round * 3));
            compared += 4;
        }
        assert!(whole > 4 && whole < compared, "{setup}: {whole} of {compared} are whole");
    }
}

#[test]
fn a_resident_read_is_a_read_or_none() {
    for setup in Setup::designs() {
        let profile = Profile { ranges: 5, ttls: 20, merges: 30, ..Profile::model() };
        let ops = Generator::new(7, profile).take(200);
        let mut session = Session::on(Disks::forgetful(&setup), &setup, State::default()).unwrap();
        let (mut found, mut elsewhere) = (0, 0);
        for ops in ops.chunks(20) {
            ops.iter().for_each(|op| session.run(op).unwrap());
            let more = compare(&session);
            (found, elsewhere) = (found + more.0, elsewhere + more.1);
        }
        assert!(found > 100 && elsewhere > 0, "{setup}: {found} found, {elsewhere} not");
    }
}

/// Every other page of a simulated file is not resident: a table has several, and a cached block is
/// found without its page.
#[test]
fn what_was_read_is_resident() {
    for preset in [Preset::Lsm, Preset::Ohdb] {
        let mut setup = Setup::tiny(preset, true);
        setup.options.tuning.table_bytes = 32 << 10;
        let db = session::open_all(&Disks::forgetful(&setup).storages(), &setup).unwrap();
        let keys = || (0..500).map(key);
        let value = Resident::Found(Some("value".into()));
        let is_found = |key| db.get_resident(key).unwrap() == value;
        keys().for_each(|key| db.put(key, "value").unwrap());
        assert!(keys().all(is_found), "{setup}: in MemTables");
        db.flush().unwrap();
        db.compact().unwrap();
        assert!(!keys().all(is_found), "{setup}: not read yet");
        keys().for_each(|key| assert_eq!(db.get(key).unwrap().unwrap(), "value"));
        assert!(keys().all(is_found), "{setup}: in the cache");
        assert_eq!(db.get_resident("none").unwrap(), Resident::Found(None), "{setup}");
    }
}

/// A flush writes them through the page cache. Where the system does not tell what is in memory,
/// not even of what was read, nothing is found.
#[test]
fn values_of_a_small_store_are_in_memory_before_they_are_read() {
    for preset in [Preset::KtStore, Preset::HashKv] {
        let dir = tempfile::tempdir().unwrap();
        let db = Db::open(dir.path(), Options::preset(preset)).unwrap();
        (0..1000).for_each(|i| db.put(key(i), [7; 1000]).unwrap());
        db.flush().unwrap();
        // The first read opens the table.
        assert!(db.get(key(0)).unwrap().is_some());
        let found = |i: &u32| matches!(db.get_resident(key(*i)), Ok(Resident::Found(Some(_))));
        let before = (0..1000).filter(found).count();
        (0..1000).for_each(|i| assert!(db.get(key(i)).unwrap().is_some()));
        let after = (0..1000).filter(found).count();
        assert!(before >= after / 2, "{preset}: {before}, and {after} once they were read");
    }
}

/// Writes far more than MemTables, window and log files hold: each write that would wait writes
/// nothing, and the same batch is written by a call that waits.
#[test]
fn a_write_at_once_is_a_write_or_none() {
    for setup in Setup::designs() {
        let db = session::open_all(&Disks::forgetful(&setup).storages(), &setup).unwrap();
        db.put("first", "begins the session").unwrap();
        let (mut last, mut refused) = (db.snapshot().seq(), 0);
        for i in 0..300 {
            let mut batch = WriteBatch::new();
            batch.put(key(i), value(i, 0)).unwrap().put_parts(key(i), &[b"in ", b"parts"]).unwrap();
            batch.put_parts(key(i), &[&value(i, 1), b""]).unwrap();
            let seq = db.try_write(&batch, Durability::Os).or_else(|e| {
                assert_eq!(e.kind(), ErrorKind::WouldWait, "{setup}: {e}");
                assert!(db.get(key(i)).unwrap().is_none(), "{setup}: {i}");
                refused += 1;
                db.write_numbered(&batch, Durability::Os)
            });
            let seq = seq.unwrap();
            assert!(seq >= last + 3, "{setup}: {seq} behind {last}");
            last = seq;
        }
        assert!((5..200).contains(&refused), "{setup}: {refused}");
        (0..300).for_each(|i| assert_eq!(db.get(key(i)).unwrap().unwrap(), value(i, 1)));
        db.close().unwrap();
    }
}

#[test]
fn what_is_synced_to_survives_a_loss_of_power() {
    for setup in Setup::designs() {
        what_is_synced_to_survives(&setup).unwrap_or_else(|e| panic!("{setup}: {e}"));
    }
}
