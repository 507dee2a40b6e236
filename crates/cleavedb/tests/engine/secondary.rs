//! A secondary beside a primary: what it sees after it has caught up, and what it says when the
//! primary has removed what an older view needs.

use std::fs;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use cleavedb::{
    Background, Db, Durability, Error, ErrorKind, Options, Preset, Snapshot, WriteBatch,
};
use cleavedb_storage_sim::sim::Rng;
use cleavedb_testkit::budget::{in_turn, of, seeds};
use cleavedb_testkit::secondary::{a_torn_window_is_read_again, followed};
use cleavedb_testkit::{Setup, listing};

#[test]
fn random_operations_are_followed() {
    for seed in seeds(of(1, 2, 60)) {
        for setup in Setup::some().into_iter().chain(Setup::two_disks()) {
            followed(&setup, seed).unwrap_or_else(|e| panic!("{setup}, seed {seed}: {e}"));
        }
    }
}

#[test]
fn a_window_that_is_read_torn_is_read_again() {
    for setup in Setup::designs() {
        a_torn_window_is_read_again(&setup).unwrap();
    }
}

/// Keys of the writer of the test with threads, how many bytes their values have at most, and for
/// how long a primary is followed.
const KEYS: usize = 60;
const VALUE_MAX: usize = 3000;
const FOLLOWED: Duration = Duration::from_millis(700);

/// The key that a round writes, and its twin in the same batch.
fn keys_of(round: u64) -> [String; 2] {
    let at = (round as usize * 7) % KEYS;
    [format!("key{at:03}"), format!("twin{at:03}")]
}

/// A value that names its round.
fn value_of(round: u64) -> Vec<u8> {
    let mut value = round.to_be_bytes().to_vec();
    let len = Rng::new(round).index(VALUE_MAX);
    value.resize(8 + len, round as u8);
    value
}

/// The round that a value names, which must be whole.
fn round_of(value: &[u8]) -> u64 {
    let round = u64::from_be_bytes(value[..8].try_into().unwrap());
    assert_eq!(value, value_of(round), "a value of round {round}");
    round
}

/// Writes rounds until told to stop; `acknowledged` is the last round that was.
fn write_rounds(db: &Db, acknowledged: &AtomicU64, stop: &AtomicBool) {
    for round in 1.. {
        if stop.load(Ordering::Relaxed) {
            return;
        }
        let mut batch = WriteBatch::new();
        keys_of(round).iter().for_each(|key| _ = batch.put(key, value_of(round)).unwrap());
        batch.put("last", round.to_be_bytes()).unwrap();
        let durability = if round % 50 == 0 { Durability::Sync } else { Durability::Os };
        db.write_with(&batch, durability).unwrap();
        acknowledged.store(round, Ordering::Release);
        match round % 5000 {
            900 => db.delete_range("none".."nonf").unwrap(),
            1800 => db.flush().unwrap(),
            4900 => db.collect().unwrap(),
            _ => {}
        }
    }
}

/// Reads everything of the secondary, which must be one moment not before `least`, and returns it.
fn moment(snapshot: &Snapshot, least: u64) -> Result<u64, Error> {
    let last = snapshot.get("last")?.map_or(0, |v| u64::from_be_bytes(v[..].try_into().unwrap()));
    assert!(last >= least, "round {least} was acknowledged, and {last} is seen");
    for at in 0..KEYS as u64 {
        // The last round up to the moment that wrote the key.
        let expected = (last.saturating_sub(KEYS as u64 - 1).max(1)..=last)
            .find(|round| keys_of(*round) == keys_of(at));
        for key in keys_of(at) {
            let found = snapshot.get(&key)?.map(|value| round_of(&value));
            assert_eq!(found, expected, "{key} as of round {last}");
        }
    }
    let items = snapshot.range(..).collect::<Result<Vec<_>, _>>()?;
    let keys = (last as usize).min(KEYS) * 2 + usize::from(last > 0);
    assert_eq!(items.len(), keys, "keys as of round {last}");
    Ok(last)
}

/// Catches up again and again with a primary whose jobs run at the same time. Returns how many
/// snapshots were read whole, and how many were outdated.
fn follow_live(setup: &Setup) -> (usize, usize) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("db");
    let options = Options { background: Background::Threads(2), ..setup.options.clone() };
    let primary = Db::open(&path, options.clone()).unwrap();
    let (acknowledged, stop) = (AtomicU64::new(0), AtomicBool::new(false));
    let (mut whole, mut outdated) = (0, 0);
    std::thread::scope(|scope| {
        scope.spawn(|| write_rounds(&primary, &acknowledged, &stop));
        let stop_at_end = StopAtEnd(&stop);
        while acknowledged.load(Ordering::Acquire) == 0 {
            std::thread::yield_now();
        }
        let mut before = acknowledged.load(Ordering::Acquire);
        let secondary = Db::open_secondary_with(&path, options.clone()).unwrap();
        let mut kept = secondary.snapshot();
        let begun = Instant::now();
        while begun.elapsed() < FOLLOWED {
            let at_least = acknowledged.load(Ordering::Acquire);
            secondary.catch_up().unwrap();
            let last = secondary.get("last").unwrap().unwrap();
            let last = u64::from_be_bytes(last[..].try_into().unwrap());
            assert!(last >= at_least, "{last} is seen, {at_least} was acknowledged");
            for snapshot in [&kept, &secondary.snapshot()] {
                match moment(snapshot, before) {
                    Ok(_) => whole += 1,
                    Err(e) if e.kind() == ErrorKind::Outdated => outdated += 1,
                    Err(e) => panic!("{e}"),
                }
            }
            for at in 0..KEYS as u64 {
                secondary.get(&keys_of(at)[0]).unwrap().map(|value| round_of(&value));
            }
            // Reads of several keys are made again as well.
            let keys: Vec<String> = (0..KEYS as u64).map(|at| keys_of(at)[0].clone()).collect();
            for found in secondary.multi_get(&keys) {
                found.unwrap().map(|value| round_of(&value));
            }
            let (first, last) = (secondary.first_key_value(), secondary.last_key_value());
            assert!(first.unwrap().unwrap().key < last.unwrap().unwrap().key);
            (before, kept) = (at_least, secondary.snapshot());
        }
        drop(stop_at_end);
    });
    (whole, outdated)
}

/// Stops the writer, also when a check fails.
struct StopAtEnd<'a>(&'a AtomicBool);

impl Drop for StopAtEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn a_primary_at_work_is_followed() {
    let setups = Setup::every_design().into_iter().chain(Setup::partitioned());
    for setup in in_turn(setups.collect()) {
        let (whole, outdated) = follow_live(&setup);
        println!("{setup}: {whole} snapshots were whole, {outdated} outdated");
        assert!(whole > 0, "{setup}: no snapshot could be read");
    }
}

/// A store with a table, values of 300 bytes and an open log, in a directory of its own.
fn filled(setup: &Setup) -> (tempfile::TempDir, Db) {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path().join("db"), setup.options.clone()).unwrap();
    for key in 0..200_u8 {
        db.put_with([key], [key; 300], Durability::Os).unwrap();
        if key == 100 {
            db.flush().unwrap();
        }
    }
    (dir, db)
}

#[test]
fn keyspaces_are_followed_by_their_handles() {
    for setup in Setup::designs() {
        let (dir, primary) = filled(&setup);
        let options = setup.options.clone();
        let secondary = Db::open_secondary_with(dir.path().join("db"), options).unwrap();
        assert_eq!(secondary.keyspace("users").err().unwrap().kind(), ErrorKind::NoKeyspace);
        primary.keyspace("users").unwrap().put("a", "1").unwrap();
        primary.sync().unwrap();
        assert!(secondary.find_keyspace("users").unwrap().is_none());
        secondary.catch_up().unwrap();
        let users = secondary.keyspace("users").unwrap();
        assert_eq!(users.get("a").unwrap().unwrap(), "1");
        let before = users.snapshot();
        primary.keyspace("users").unwrap().put("a", "2").unwrap();
        primary.flush().unwrap();
        secondary.catch_up().unwrap();
        assert_eq!(
            (users.get("a").unwrap().unwrap(), secondary.keyspaces().unwrap().len()),
            ("2".into(), 1)
        );
        primary.drop_keyspace("users").unwrap();
        assert_eq!(users.get("a").unwrap().unwrap(), "2");
        secondary.catch_up().unwrap();
        for error in [users.get("a").unwrap_err(), users.range(..).next().unwrap().unwrap_err()] {
            assert_eq!(error.kind(), ErrorKind::NoKeyspace, "{setup}: {error}");
        }
        assert_eq!(before.get("a").unwrap().unwrap(), "1", "{setup}");
        primary.keyspace("users").unwrap().put("b", "3").unwrap();
        primary.sync().unwrap();
        secondary.catch_up().unwrap();
        assert_eq!(secondary.keyspace("users").unwrap().get("b").unwrap().unwrap(), "3");
        assert_eq!(users.get("b").unwrap_err().kind(), ErrorKind::NoKeyspace);
    }
}

#[test]
fn what_writes_is_refused_and_a_close_ends_every_view() {
    let setup = &Setup::every_design()[0];
    let (dir, primary) = filled(setup);
    let path = dir.path().join("db");
    let secondary = Db::open_secondary(&path).unwrap();
    let refused = [
        secondary.put("a", "b").err(),
        secondary.flush().err(),
        secondary.compact().err(),
        secondary.sync().err(),
        secondary.step().err(),
        secondary.transaction().err(),
        secondary.create_keyspace("a", Default::default()).err(),
    ];
    for (at, error) in refused.into_iter().enumerate() {
        assert_eq!(error.map(|e| e.kind()), Some(ErrorKind::ReadOnly), "call {at}");
    }
    assert_eq!(primary.catch_up().unwrap_err().kind(), ErrorKind::InvalidArgument);
    assert!(secondary.metrics().levels.iter().any(|level| level.entries > 0));
    assert_eq!(secondary.default_keyspace().approximate_size(..).unwrap().entries, 200);
    let (first, other) = (secondary.snapshot(), secondary.clone());
    primary.put("more", "1").unwrap();
    primary.flush().unwrap();
    secondary.catch_up().unwrap();
    let second = secondary.snapshot();
    assert_eq!((first.range(..).count(), second.range(..).count()), (200, 201));
    secondary.close_now().unwrap();
    for error in
        [other.get("a").err(), other.catch_up().err(), first.get("a").err(), second.get("a").err()]
    {
        assert_eq!(error.unwrap().kind(), ErrorKind::Closed);
    }
    // The data of the primary is durable, whether or not readers looked on.
    primary.close().unwrap();
    let closed = Db::open_secondary(&path).unwrap();
    assert_eq!(closed.range(..).count(), 201);
    let again = Db::open(&path, setup.options.clone()).unwrap();
    again.put("next", "2").unwrap();
    closed.catch_up().unwrap();
    assert_eq!(closed.get("next").unwrap().unwrap(), "2");
}

#[test]
fn a_secondary_checks_what_another_process_writes() {
    for setup in Setup::designs() {
        let (dir, primary) = filled(&setup);
        let path = dir.path().join("db");
        let secondary = Db::open_secondary_with(&path, setup.options.clone()).unwrap();
        for round in 0..3_u8 {
            let report = secondary.verify().unwrap();
            assert!(report.problems.is_empty(), "{setup}: {:?}", report.problems);
            assert_eq!((report.keys, report.tables > 0), (200, true), "{setup}");
            for key in 0..200_u8 {
                primary.put_with([key], [round; 300], Durability::Os).unwrap();
            }
            primary.compact().and_then(|()| primary.collect()).unwrap();
        }
        // Damage that stays is no file that was removed.
        let name = |entry: fs::DirEntry| entry.file_name().into_string().unwrap();
        let names = fs::read_dir(&path).unwrap().map(|entry| name(entry.unwrap()));
        for table in names.filter(|name| name.ends_with(".tbl")) {
            let mut bytes = fs::read(path.join(&table)).unwrap();
            bytes[20] ^= 1;
            fs::write(path.join(&table), bytes).unwrap();
        }
        let fresh = Db::open_secondary_with(&path, setup.options.clone()).unwrap();
        let found = fresh.verify().map(|report| report.problems.len());
        assert!(found.as_ref().is_ok_and(|problems| *problems > 0), "{setup}: {found:?}");
    }
}

/// Whatever a primary does under a snapshot, the snapshot sees the same, or says that it is
/// outdated; a read of now goes on with a new view.
#[test]
fn an_old_view_is_right_or_outdated() {
    let mut outdated = 0;
    for setup in Setup::designs() {
        let (dir, primary) = filled(&setup);
        let options = setup.options.clone();
        let secondary = Db::open_secondary_with(dir.path().join("db"), options).unwrap();
        let old = secondary.snapshot();
        for round in 0..4_u8 {
            for key in (0..200_u8).filter(|key| key % 4 >= round) {
                primary.put_with([key], [round; 300], Durability::Os).unwrap();
            }
            primary.compact().unwrap();
            primary.collect().unwrap();
            while primary.step().unwrap() {}
            // A new range catches up before it begins.
            let values = secondary.range(..).map(|item| item.unwrap().value);
            assert!(values.filter(|value| value[..] == [round; 300]).count() > 0, "{setup}");
            for key in 0..200_u8 {
                match old.get([key]) {
                    Err(e) if e.kind() == ErrorKind::Outdated => outdated += 1,
                    value => assert_eq!(value.unwrap().unwrap(), [key; 300][..], "{setup}"),
                }
                // Without a snapshot, and without a call to catch up.
                assert_eq!(secondary.get([key]).unwrap().unwrap().len(), 300, "{setup}");
            }
        }
    }
    assert!(outdated > 0, "no view was outdated");
}

#[test]
fn nothing_is_changed_and_nothing_is_locked() {
    for setup in Setup::designs() {
        let (dir, primary) = filled(&setup);
        let path = dir.path().join("db");
        let before = listing(&path);
        let secondary = Db::open_secondary_with(&path, setup.options.clone()).unwrap();
        secondary.catch_up().unwrap();
        assert_eq!(secondary.range(..).count(), 200, "{setup}");
        assert_eq!(listing(&path), before, "{setup}");
        primary.close().unwrap();
        // The secondary is still open.
        Db::open(&path, setup.options.clone()).unwrap().put("key", "value").unwrap();
        secondary.catch_up().unwrap();
        assert_eq!(secondary.get("key").unwrap().unwrap(), "value", "{setup}");
    }
}

#[test]
fn what_is_missing_is_named() {
    let dir = tempfile::tempdir().unwrap();
    for path in [dir.path().join("none"), dir.path().to_owned()] {
        let error = Db::open_secondary(&path).err().unwrap();
        assert_eq!(error.kind(), ErrorKind::NotADatabase, "{error}");
    }
    let setup = &Setup::every_design()[0];
    let (dir, primary) = filled(setup);
    let secondary = Db::open_secondary(dir.path().join("db")).unwrap();
    drop(primary);
    fs::remove_dir_all(dir.path().join("db")).unwrap();
    fs::create_dir(dir.path().join("db")).unwrap();
    assert!(secondary.catch_up().is_err());
}

/// Of a value longer than the window the file has a part, and the window the rest.
#[test]
fn long_values_are_read_while_a_part_is_in_the_window() {
    for preset in Preset::ALL {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("db");
        let options = Options { background: Background::Manual, ..Options::preset(preset) };
        let primary = Db::open(&path, options.clone()).unwrap();
        let secondary = Db::open_secondary_with(&path, options).unwrap();
        for (round, len) in [10, 3 << 20, 5 << 20, 900_000, 20 << 20].into_iter().enumerate() {
            let value = vec![round as u8 + 1; len];
            primary.put_with("key", &value, Durability::Os).unwrap();
            primary.put_with([round as u8], [7; 100], Durability::Os).unwrap();
            secondary.catch_up().unwrap();
            assert!(secondary.get("key").unwrap().unwrap() == value, "{preset}: {len} bytes");
            assert_eq!(secondary.range(..).count(), round + 2, "{preset}");
            let before = secondary.snapshot();
            primary.flush().unwrap();
            while primary.step().unwrap() {}
            secondary.catch_up().unwrap();
            assert!(secondary.get("key").unwrap().unwrap() == value, "{preset}: {len} bytes");
            match before.get("key") {
                Err(e) => assert_eq!(e.kind(), ErrorKind::Outdated, "{preset}: {e}"),
                Ok(found) => assert!(found.unwrap() == value, "{preset}: {len} bytes"),
            }
        }
    }
}
