//! What is dead gives its space back, whatever ended it, under every design: on request all of it,
//! and without a request up to the space goal.

use std::sync::Arc;
use std::time::Duration;

use cleavedb::{Db, Options, Preset, PutOptions};
use cleavedb_storage::{Access, Mode, Storage};
use cleavedb_storage_sim::Sim;
use cleavedb_testkit::Setup;

/// Values that live, and those that end.
const LIVING: u32 = 60;
const ENDING: u32 = 240;

/// Every design, with blobs.
fn with_blobs() -> impl Iterator<Item = Setup> {
    Setup::designs().into_iter().map(Setup::with_blobs)
}

fn open(sim: &Sim, options: &Options) -> Db {
    Db::open_in(Arc::new(sim.clone()), options.clone(), 7).unwrap()
}

/// Keys of both kinds lie among each other.
fn key(at: u32) -> String {
    format!("key{:04}", at * 7 % 1000)
}

fn value(at: u32) -> Vec<u8> {
    at.to_be_bytes().repeat(250)
}

fn is_living(at: u32) -> bool {
    at.is_multiple_of((LIVING + ENDING) / LIVING)
}

/// Bytes of tables and value files.
fn bytes(db: &Db) -> u64 {
    let metrics = db.metrics();
    metrics.index_bytes + metrics.value_bytes
}

/// Ways in which values end.
type End = (&'static str, fn(&Db, &Setup));

const ENDS: [End; 6] = [
    ("deletes", |db, _| {
        let ending = (0..LIVING + ENDING).filter(|at| !is_living(*at));
        ending.for_each(|at| db.delete(key(at)).unwrap());
    }),
    ("short values", |db, _| {
        let ending = (0..LIVING + ENDING).filter(|at| !is_living(*at));
        ending.for_each(|at| db.put(key(at), "").unwrap());
    }),
    ("deletes of ranges", |db, _| {
        let ending = (0..LIVING + ENDING).filter(|at| !is_living(*at));
        ending.for_each(|at| db.delete_range(key(at)..=key(at)).unwrap());
    }),
    ("a drop", |db, _| db.drop_keyspace("space").unwrap()),
    ("expiry", |_, setup| setup.clock.advance(Duration::from_secs(60))),
    ("a filled store", |_, _| {}),
];

/// Stores living values, and `ending` ones if the end is not that of an empty store.
fn fill(db: &Db, end: &str) {
    let space = db.keyspace("space").unwrap();
    for at in 0..LIVING + ENDING {
        let (key, value, in_space) = (key(at), value(at), end == "a drop" && !is_living(at));
        let target = if in_space { &space } else { db.default_keyspace() };
        match (is_living(at), end) {
            (true, _) => target.put(key, value).unwrap(),
            (false, "a filled store") => {}
            (false, "expiry") => {
                target.put_with(key, value, PutOptions::new().ttl(Duration::from_secs(30))).unwrap()
            }
            (false, _) => target.put(key, value).unwrap(),
        }
    }
}

#[test]
fn a_collection_frees_all_that_is_dead() {
    for setup in
        Setup::designs().into_iter().chain(Setup::designs().into_iter().map(Setup::with_blobs))
    {
        // Without dead values.
        let db = open(&Sim::new(), &setup.options);
        fill(&db, "a filled store");
        db.collect().unwrap();
        let (needed, dead) = (bytes(&db), u64::from(ENDING) * 1000);
        for (name, end) in ENDS {
            for reopened in [false, true] {
                let sim = Sim::new();
                let mut db = open(&sim, &setup.options);
                fill(&db, name);
                db.compact().unwrap();
                end(&db, &setup);
                if reopened {
                    db.close().unwrap();
                    db = open(&sim, &setup.options);
                }
                db.collect().unwrap();
                let after = bytes(&db);
                assert!(
                    after <= needed * 5 / 4 + dead / 3,
                    "{setup}, {name}, reopened {reopened}: {after} bytes of {needed}"
                );
                for at in (0..LIVING + ENDING).filter(|at| is_living(*at)) {
                    assert!(db.get(key(at)).unwrap().is_some_and(|found| found == value(at)));
                }
                assert_eq!(db.verify().unwrap().problems.len(), 0, "{setup}, {name}");
            }
        }
    }
}

/// Bytes of a blob that is one of few.
const LONG: usize = 20_000;

/// Blobs are put and deleted in many short sessions, among other values: an index that is written
/// as little as this has no compaction of its own.
#[test]
fn deleted_blobs_give_their_space_back_across_sessions() {
    for setup in with_blobs() {
        let sim = Sim::new();
        let db = open(&sim, &setup.options);
        (0..600).for_each(|at| db.put(key(at), [7; 60]).unwrap());
        db.compact().unwrap();
        db.close().unwrap();
        let blob = |number: u32| format!("key{:04}b", number * 37 % 1000);
        let (mut most, mut alive) = (0, 0);
        for day in 0..16 {
            for number in 5 * day..5 * day + 5 {
                let db = open(&sim, &setup.options);
                db.default_keyspace()
                    .put_reader(blob(number), &vec![number as u8; LONG][..])
                    .unwrap();
                if day > 0 {
                    db.delete(blob(number - 5)).unwrap();
                }
                db.wait_idle().unwrap();
                most = most.max(db.metrics().blob_file_bytes);
                alive = alive.max(5 * LONG as u64);
                db.close().unwrap();
            }
        }
        let tolerated =
            setup.options.tuning.space_floor + setup.options.tuning.memtable_bytes.unwrap() as u64;
        assert!(most <= 2 * alive + tolerated, "{setup}: {most} bytes of blobs, of which {alive}");
    }
}

/// A blob whose key was deleted counts as dead once that is flushed, and in later sessions, too.
#[test]
fn deleted_blobs_count_as_dead() {
    for setup in with_blobs() {
        let sim = Sim::new();
        let mut db = open(&sim, &setup.options);
        for number in 0..5u32 {
            db.default_keyspace().put_reader(number.to_be_bytes(), &vec![1; LONG][..]).unwrap();
        }
        db.flush().unwrap();
        (0..4u32).for_each(|number| db.delete(number.to_be_bytes()).unwrap());
        db.flush().unwrap();
        for _ in 0..2 {
            let metrics = db.metrics();
            let live: u64 = metrics.value_files.iter().map(|file| file.live).sum();
            let most = LONG as u64 * 5 / 4;
            assert!(metrics.live_bytes < most && live < most, "{setup}: {}", metrics.live_bytes);
            db.close().unwrap();
            db = open(&sim, &setup.options);
        }
        db.collect().unwrap();
        assert!(db.metrics().blob_file_bytes < 2 * LONG as u64, "{setup}");
        assert!(db.get(4u32.to_be_bytes()).unwrap().unwrap() == vec![1; LONG]);
    }
}

/// Deleted ranges with blobs give their space back as single deletes do.
#[test]
fn blobs_in_deleted_ranges_give_their_space_back() {
    for setup in with_blobs() {
        let sim = Sim::new();
        let db = open(&sim, &setup.options);
        for at in 0..600 {
            match at % 30 {
                0 => _ = db.default_keyspace().put_reader(key(at), &vec![1; LONG][..]).unwrap(),
                _ => db.put(key(at), [7; 60]).unwrap(),
            }
        }
        db.compact().unwrap();
        for at in (0..600).step_by(30) {
            db.delete_range(key(at)..=key(at)).unwrap();
        }
        db.flush().unwrap();
        db.wait_idle().unwrap();
        assert!(db.metrics().blob_file_bytes <= setup.options.tuning.space_floor, "{setup}");
    }
}

/// Bytes that the files of a disk take, reserved space included.
fn space(sim: &Sim) -> u64 {
    let files = sim.list().unwrap().into_iter();
    let file = |name| sim.open(&name, Mode::Read, Access::Random).unwrap();
    files.map(|(name, _)| file(name).space().unwrap()).sum()
}

/// The window, log files and the reserve for a full disk grow with what is written, and shrink when
/// it is gone, although the store stays open.
#[test]
fn an_emptied_store_is_small_while_it_is_open() {
    for preset in Preset::ALL {
        let sim = Sim::new();
        let mut options = Setup::tiny(preset, true).options;
        options.tuning.memtable_bytes = Some(1 << 20);
        (options.tuning.memtable_log_bytes, options.tuning.log_file_bytes) = (1 << 20, 4 << 20);
        options.tuning.window_bytes = Some(4 << 20);
        let db = open(&sim, &options);
        for _ in 0..3 {
            let space = db.keyspace("space").unwrap();
            (0..1000).for_each(|at| space.put(key(at), value(at).repeat(4)).unwrap());
            db.flush().unwrap();
            db.drop_keyspace("space").unwrap();
        }
        let most = space(&sim);
        db.wait_idle().unwrap();
        db.collect().unwrap();
        let least = space(&sim);
        assert!(most > 8 << 20 && least < 1 << 20, "{preset}: {most} bytes, then {least}");
        // What is written behind that is there after a kill.
        let (mut sim, mut db) = (sim, db);
        for round in 0..2 {
            (0..300).for_each(|at| db.put(key(at), value(at + round)).unwrap());
            let killed = sim.kill();
            drop(db);
            sim = killed;
            db = open(&sim, &options);
            for at in 0..300 {
                assert!(db.get(key(at)).unwrap().unwrap() == value(at + round), "{preset}");
            }
            assert_eq!(db.verify().unwrap().problems.len(), 0, "{preset}");
            db.collect().unwrap();
        }
    }
}
