//! Opening for reading only: what an open for writing would find, and not one call that changes the
//! disk.

use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::sync::Arc;

use cleavedb::{
    Background, Db, Durability, Error, ErrorKind, Operand, Options, Preset, WriteBatch,
};
use cleavedb_storage::{FileKind, Name, Storage};
use cleavedb_storage_sim::faulty::{Fault, Faulty, Op as Call, Rule};
use cleavedb_storage_sim::sim::{Image, PowerLoss, Sim};
use cleavedb_testkit::disks::hash_of;
use cleavedb_testkit::read::everything;
use cleavedb_testkit::session::{commit, open_all, open_read_only};
use cleavedb_testkit::walk::Walk;
use cleavedb_testkit::{Disks, Setup, State, Write};

/// The number of EROFS: the file system cannot be written.
const READ_ONLY: i32 = 30;

const KEYS: usize = 300;

fn key(i: usize) -> Vec<u8> {
    format!("key{i:04}").into_bytes()
}

/// Writes some keys anew, and removes others.
fn write(db: &Db, state: &mut State, round: usize) {
    for i in (0..KEYS).filter(|i| i % 3 >= round % 3) {
        let value = format!("{round}{}", "x".repeat(i * 7 % 900)).into_bytes();
        let write = match (i + round) % 11 {
            0 => Write::delete(&key(i)),
            _ => Write::put(&key(i), value),
        };
        commit(db, std::slice::from_ref(&write), Durability::Os).unwrap();
        state.apply(&[write]);
    }
}

/// How the store was left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Left {
    Closed,
    /// The process died, with writes in its window.
    Killed,
}

/// A store whose keys lie in tables, and the last ones in the log alone.
fn filled(setup: &Setup, left: Left) -> (Disks, State) {
    let (disks, mut state) = (Disks::new(setup), State::default());
    let db = open_all(&disks.storages(), setup).unwrap();
    for round in 0..3 {
        write(&db, &mut state, round);
        if round < 2 {
            db.flush().unwrap();
        }
    }
    match left {
        Left::Closed => {
            db.close().unwrap();
            (disks, state)
        }
        Left::Killed => (disks.kill(), state),
    }
}

/// A copy of `disks`, in other directories, without the file of the lock.
fn copied(disks: &Disks, setup: &Setup) -> Disks {
    let mut images = disks.images();
    for image in &mut images {
        assert!(image.remove(&Name::fixed(FileKind::Lock)));
    }
    let copies = Disks::from_images(&images, setup);
    for (copy, id) in copies.sims().iter().zip(7..) {
        copy.set_directory_id(id);
    }
    copies
}

/// Every way to read gives `state`, and the store's own check finds nothing.
fn holds(db: &Db, state: &State, setup: &Setup) {
    assert_eq!(everything(db.default_keyspace()).unwrap(), *state, "{setup}");
    let expected = state.range(None, None);
    Walk::new(db.cursor(..), 3).go(20, &expected).unwrap_or_else(|e| panic!("{setup}: {e}"));
    let keys: Vec<_> = (0..KEYS + 1).map(key).collect();
    for (key, value) in keys.iter().zip(db.multi_get(&keys)) {
        assert_eq!(value.unwrap().as_deref(), state.get(key), "{setup}");
    }
    let report = db.verify().unwrap();
    assert!(report.problems.is_empty(), "{setup}: {:?}", report.problems);
    assert_eq!(report.keys as usize, state.len(), "{setup}");
    db.directories().unwrap();
}

/// Disks that refuse every call that changes them, as read-only ones do.
fn refusing(disks: &Disks) -> Vec<Arc<Faulty>> {
    let over = |sim: &Sim| {
        let faulty = Faulty::over(sim);
        for op in Call::CHANGING {
            faulty.fail_matching(Rule::op(op), Fault::Errno(READ_ONLY));
        }
        Arc::new(faulty)
    };
    disks.sims().iter().map(over).collect()
}

fn history(disks: &Disks) -> Vec<usize> {
    disks.sims().iter().map(Sim::history_len).collect()
}

#[test]
fn whatever_was_left_is_read_by_several_and_nothing_is_changed() {
    for setup in Setup::designs().into_iter().chain(Setup::two_disks()) {
        for left in [Left::Closed, Left::Killed] {
            let (disks, state) = filled(&setup, left);
            for disks in [copied(&disks, &setup), disks] {
                let (before, events) = (hash_of(&disks.images()), history(&disks));
                let faulty = refusing(&disks);
                let storages: Vec<_> =
                    faulty.iter().map(|disk| disk.clone() as Arc<dyn Storage>).collect();
                let readers = [(); 2].map(|()| open_read_only(&storages, &setup).unwrap());
                for db in &readers {
                    holds(db, &state, &setup);
                    let replayed = db.recovery_report().operations > 0;
                    assert_eq!(replayed, left == Left::Killed, "{setup}");
                }
                for disk in &faulty {
                    let trace = disk.trace();
                    let changing = trace.iter().find(|call| Call::CHANGING.contains(&call.op));
                    assert!(changing.is_none(), "{setup}, {left:?}: {}", changing.unwrap());
                }
                let [one, other] = readers;
                assert_eq!(one.close().unwrap(), 0);
                drop(other);
                assert_eq!(history(&disks), events, "{setup}, {left:?}");
                assert_eq!(hash_of(&disks.images()), before, "{setup}, {left:?}");
                let db = open_all(&disks.storages(), &setup).unwrap();
                holds(&db, &state, &setup);
            }
        }
    }
}

/// At many moments of a session the machine dies in some way: both kinds of open find the same.
#[test]
fn after_any_crash_a_reader_finds_what_a_writer_does() {
    const POINTS: usize = 12;
    let mut recovered = 0;
    for setup in Setup::designs().into_iter().chain(Setup::two_disks()) {
        let (disks, _) = filled(&setup, Left::Killed);
        let mut replays = disks.replay();
        let options = PowerLoss { states_max: 4, ..PowerLoss::default() };
        for point in (1..=POINTS).map(|nth| disks.time() * nth / POINTS) {
            replays.advance(point);
            let mut states = replays.power_loss(&options);
            states.push(replays.process_kill());
            for images in states {
                recovered += usize::from(same_for_both(&images, &setup));
            }
        }
    }
    assert!(recovered > 100, "{recovered} states had a database");
}

/// Opens `images` in both ways and compares; whether there is a database.
fn same_for_both(images: &[Image], setup: &Setup) -> bool {
    let disks = Disks::from_images(images, setup);
    let found = |opened: Result<Db, Error>| match opened {
        Ok(db) => Ok((everything(db.default_keyspace()).unwrap(), db.recovery_report().clone())),
        Err(e) => Err(e.kind()),
    };
    let read = found(open_read_only(&disks.storages(), setup));
    assert_eq!(hash_of(&disks.images()), hash_of(images), "{setup}");
    let options = Options { create_if_missing: false, ..setup.options.clone() };
    let written = found(open_all(&disks.storages(), &Setup { options, ..setup.clone() }));
    assert_eq!(read, written, "{setup}");
    read.is_ok()
}

fn kind<T>(result: cleavedb::Result<T>) -> ErrorKind {
    result.err().expect("it must fail").kind()
}

#[test]
fn readers_and_a_writer_keep_each_other_out() {
    let two_disks = Setup::two_disks().into_iter().take(1);
    for setup in Setup::designs().into_iter().take(1).chain(two_disks) {
        let (disks, state) = filled(&setup, Left::Closed);
        let storages = disks.storages();
        let read = || open_read_only(&storages, &setup);
        let write = || open_all(&storages, &setup);
        let writer = write().unwrap();
        assert_eq!(kind(read()), ErrorKind::Locked);
        writer.close().unwrap();
        let [one, other] = [(); 2].map(|()| read().unwrap());
        assert_eq!(kind(write()), ErrorKind::Locked);
        one.close().unwrap();
        let snapshot = other.snapshot();
        assert_eq!(other.close().unwrap(), 1, "a snapshot is held");
        assert_eq!(kind(write()), ErrorKind::Locked);
        let third = read().expect("a snapshot of a reader keeps no reader out");
        drop(snapshot);
        let late = third.snapshot();
        third.close_now().unwrap();
        let writer = write().unwrap();
        holds(&writer, &state, &setup);
        assert_eq!(kind(late.get(key(1))), ErrorKind::Closed);
    }
}

#[test]
fn every_call_that_writes_is_refused_and_reads_go_on() {
    for setup in &Setup::designs() {
        for left in [Left::Closed, Left::Killed] {
            let (disks, state) = filled(setup, left);
            let db = open_read_only(&disks.storages(), setup).unwrap();
            let mut batch = WriteBatch::new();
            batch.put("key", "value").unwrap();
            let refused = [
                db.merge("key", &Operand::append("x")),
                db.put("key", "value"),
                db.delete("key"),
                db.write(&batch),
                db.flush(),
                db.compact(),
                db.collect(),
                db.sync(),
                db.wait_idle(),
                db.step().map(drop),
                db.default_keyspace().store_min_separated(Some(100)),
                db.default_keyspace().put_if_absent("key", "value").map(drop),
                db.transact(|transaction| transaction.delete(key(1))),
            ];
            for (nth, refused) in refused.into_iter().enumerate() {
                let error = refused.expect_err(&format!("{setup}: call {nth} must fail"));
                assert_eq!(error.kind(), ErrorKind::ReadOnly, "{setup}: {error}");
                assert!(error.to_string().contains("open it for writing"), "{error}");
            }
            holds(&db, &state, setup);
            assert_eq!(db.metrics().poisoned, None);
            db.close().unwrap();
        }
    }
}

/// A file's bytes, its permissions, and the time of its last change.
type Seen = (Vec<u8>, u32, (i64, i64));

/// Every file of a directory, by its name.
fn listing(dir: &Path) -> BTreeMap<String, Seen> {
    let entries = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap());
    let told = entries.map(|entry| {
        let about = entry.metadata().unwrap();
        let changed = (about.ctime(), about.ctime_nsec());
        let name = entry.file_name().into_string().unwrap();
        (name, (fs::read(entry.path()).unwrap(), about.mode(), changed))
    });
    told.collect()
}

/// A copy of a store that is at rest, but open, is what its process would leave if it was killed.
#[test]
fn a_directory_that_may_not_be_written_is_read() {
    for setup in Setup::designs() {
        let dir = tempfile::tempdir().unwrap();
        let (original, copy) = (dir.path().join("original"), dir.path().join("copy"));
        let mut state = State::default();
        let db = Db::open(&original, setup.options.clone()).unwrap();
        write(&db, &mut state, 0);
        db.flush().unwrap();
        write(&db, &mut state, 1);
        fs::create_dir(&copy).unwrap();
        for name in listing(&original).keys() {
            fs::copy(original.join(name), copy.join(name)).unwrap();
            fs::set_permissions(copy.join(name), Permissions::from_mode(0o400)).unwrap();
        }
        fs::set_permissions(&copy, Permissions::from_mode(0o500)).unwrap();
        let (before, about) = (listing(&copy), fs::metadata(&copy).unwrap());
        let usual = Db::open_read_only(&copy).unwrap();
        let tiny = Db::open_read_only_with(&copy, setup.options.clone()).unwrap();
        [&usual, &tiny].into_iter().for_each(|db| holds(db, &state, &setup));
        assert_eq!(kind(Db::open_read_only(&original)), ErrorKind::Locked);
        let report = usual.checkpoint(dir.path().join("checkpoint")).unwrap();
        assert_eq!(report.linked, 0, "a link would change the directory's files");
        drop((usual, tiny));
        assert_eq!(listing(&copy), before, "{setup}");
        let checkpoint = Db::open(dir.path().join("checkpoint"), setup.options.clone()).unwrap();
        holds(&checkpoint, &state, &setup);
        assert_eq!(fs::metadata(&copy).unwrap().mtime_nsec(), about.mtime_nsec());
        fs::set_permissions(&copy, Permissions::from_mode(0o700)).unwrap();
    }
}

/// Recovery completes log files. In a copy by links it may not: they belong to the original, too.
#[test]
fn a_copy_by_links_of_a_killed_store_is_read_though_it_cannot_be_written() {
    for preset in [Preset::HashKv, Preset::KtStore] {
        let setup = Setup::log_in_window(preset);
        let dir = tempfile::tempdir().unwrap();
        let [original, copy] = ["original", "copy"].map(|name| dir.path().join(name));
        let mut state = State::default();
        let db = Db::open(&original, setup.options.clone()).unwrap();
        write(&db, &mut state, 0);
        if !original.join("window").exists() {
            eprintln!("skipped: this machine cannot map a file");
            return;
        }
        fs::create_dir(&copy).unwrap();
        for name in listing(&original).keys().filter(|name| *name != "lock") {
            fs::hard_link(original.join(name), copy.join(name)).unwrap();
        }
        let before = listing(&copy);
        holds(&Db::open_read_only(&copy).unwrap(), &state, &setup);
        assert_eq!(listing(&copy), before, "{setup}");
        let error = Db::open(&copy, setup.options.clone()).err().unwrap();
        assert!(error.message().contains("has another name"), "{error}");
        holds(&db, &state, &setup);
    }
}

#[test]
fn what_is_no_database_is_refused_and_nothing_is_made_of_it() {
    let dir = tempfile::tempdir().unwrap();
    let missing = dir.path().join("missing");
    assert_eq!(kind(Db::open_read_only(&missing)), ErrorKind::NotADatabase);
    assert_eq!(kind(Db::open_read_only(dir.path())), ErrorKind::NotADatabase);
    fs::write(dir.path().join("letter"), "x").unwrap();
    assert_eq!(kind(Db::open_read_only(dir.path())), ErrorKind::NotADatabase);
    assert_eq!(listing(dir.path()).len(), 1);
    let path = dir.path().join("db");
    Db::open(&path, Options::preset(Preset::Lsm)).unwrap().close().unwrap();
    let before = listing(&path);
    let other = Options::preset(Preset::WiscKey);
    assert_eq!(kind(Db::open_read_only_with(&path, other)), ErrorKind::LayoutMismatch);
    assert_eq!(Db::open_read_only(&path).unwrap().options().preset, Some(Preset::Lsm));
    let built = Db::builder(&path).memory_bytes(64 << 20).open_read_only().unwrap();
    assert_eq!(
        (built.options().preset, built.options().memory_bytes),
        (Some(Preset::Lsm), 64 << 20)
    );
    assert_eq!(kind(built.put("key", "value")), ErrorKind::ReadOnly);
    let nowhere = Db::builder(dir.path().join("nowhere")).open_read_only();
    assert_eq!(kind(nowhere), ErrorKind::NotADatabase);
    assert!(!dir.path().join("nowhere").exists());
    assert_eq!(listing(&path), before);
}

/// The sizes of a preset are made to fit into a small limit; a reader needs no room in it.
#[test]
fn a_small_space_limit_keeps_no_reader_out() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("db");
    let setup = Setup::tiny(Preset::WiscKey, true);
    let limit = Some(24 << 20);
    let options =
        Options { space_limit: limit, background: Background::Manual, ..setup.options.clone() };
    let db = Db::open(&path, options).unwrap();
    db.put("key", "value").unwrap();
    db.close().unwrap();
    let usual = Options { space_limit: None, ..Options::preset(Preset::WiscKey) };
    Db::open(&path, usual).unwrap().close().unwrap();
    let db = Db::open_read_only(&path).unwrap();
    assert_eq!(db.get("key").unwrap().unwrap(), "value");
    assert_eq!(db.metrics().space_limit, limit);
    assert!(db.metrics().space_used.is_some_and(|used| used > 0));
}
