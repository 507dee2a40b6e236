//! What is left of a database after its close: nothing for handles, all for snapshots and ranges.

use std::sync::Arc;
use std::time::Duration;

use cleavedb::{Background, Db, ErrorKind, ManualTime, Options, Preset, WriteBatch};
use cleavedb_storage_sim::Sim;
use cleavedb_storage_sim::faulty::{Fault, Faulty};
use cleavedb_testkit::setup::tiny;

fn options(preset: Preset) -> Options {
    Options { background: Background::Threads(1), ..tiny(preset) }
}

/// A store with 100 keys in tables and 100 in memory.
fn filled(path: &std::path::Path, preset: Preset) -> Db {
    let db = Db::open(path, options(preset)).unwrap();
    for key in 0..200u32 {
        db.put(key.to_be_bytes(), [7; 500]).unwrap();
        if key == 100 {
            db.flush().unwrap();
        }
    }
    db
}

#[test]
fn every_call_of_every_handle_is_refused_after_a_close() {
    for preset in Preset::ALL {
        let dir = tempfile::tempdir().unwrap();
        let db = filled(dir.path(), preset);
        let other = db.clone();
        assert_eq!(db.close().unwrap(), 0);
        let db = other;
        let late = db.snapshot();
        let calls: [cleavedb::Result<()>; 20] = [
            db.get(b"a").map(drop),
            db.multi_get(&[b"a"]).pop().unwrap().map(drop),
            db.put(b"a", b"b"),
            db.delete(b"a"),
            db.write(&WriteBatch::new()),
            db.range(..).next().unwrap().map(drop),
            db.range(..).keys_only().next_back().unwrap().map(drop),
            db.prefix(b"a").next().unwrap().map(drop),
            late.get(b"a").map(drop),
            late.multi_get(&[b"a"]).pop().unwrap().map(drop),
            late.range(..).next().unwrap().map(drop),
            late.prefix(b"a").next().unwrap().map(drop),
            db.flush(),
            db.compact(),
            db.collect(),
            db.wait_idle(),
            db.step().map(drop),
            db.sync(),
            db.verify().map(drop),
            db.default_keyspace().store_min_separated(None),
        ];
        for (number, call) in calls.into_iter().enumerate() {
            let error = call.expect_err("a closed database must refuse");
            assert_eq!(error.kind(), ErrorKind::Closed, "{preset}, call {number}: {error}");
        }
        assert!(db.range(..).count() == 1, "an error, and the end");
        assert_eq!(db.metrics().snapshots, 0);
        assert_eq!(db.close().unwrap(), 0, "a second close does nothing");
    }
}

#[test]
fn snapshots_and_ranges_go_on_after_a_close_and_are_named_to_who_wants_to_open() {
    for preset in Preset::ALL {
        let dir = tempfile::tempdir().unwrap();
        let db = filled(dir.path(), preset);
        let (snapshot, mut range) = (db.snapshot(), db.range(..));
        range.next().unwrap().unwrap();
        assert_eq!(db.close().unwrap(), 2);
        let error = Db::open(dir.path(), options(preset)).err().unwrap();
        assert_eq!(error.kind(), ErrorKind::Locked);
        let message = error.message();
        assert!(message.contains("this process") && message.contains("held 2"), "{message}");
        assert_eq!(range.by_ref().filter(Result::is_ok).count(), 199, "{preset}");
        assert_eq!(snapshot.range(..).filter(Result::is_ok).count(), 200);
        assert_eq!(snapshot.get(7u32.to_be_bytes()).unwrap().unwrap(), [7; 500][..]);
        drop(range);
        assert!(Db::open(dir.path(), options(preset)).is_err());
        drop(snapshot);
        let db = Db::open(dir.path(), options(preset)).unwrap();
        assert_eq!(db.range(..).count(), 200);
    }
}

#[test]
fn close_now_ends_snapshots_and_ranges_and_gives_the_database_up() {
    for preset in Preset::ALL {
        let dir = tempfile::tempdir().unwrap();
        let db = filled(dir.path(), preset);
        let (snapshot, mut range) = (db.snapshot(), db.range(..));
        range.next().unwrap().unwrap();
        db.close_now().unwrap();
        let next = Db::open(dir.path(), options(preset)).unwrap();
        for error in [snapshot.get(b"a").err(), range.next().and_then(Result::err)] {
            assert_eq!(error.expect("it was ended").kind(), ErrorKind::Closed, "{preset}");
        }
        assert!(range.next().is_none());
        next.put(b"new", b"value").unwrap();
        next.collect().unwrap();
        next.compact().unwrap();
        drop((snapshot, range));
        assert_eq!(next.range(..).filter(Result::is_ok).count(), 201);
        assert!(next.verify().unwrap().problems.is_empty(), "{preset}");
    }
}

/// Calls that a close may make on a disk that refuses all of them: a try of each kind of job that
/// is due, and of each step of its own.
const TRIES_MAX: u64 = 40;

/// A close waited for a flush that failed again and again.
#[test]
fn a_close_on_a_disk_that_is_gone_does_not_go_on_trying() {
    let modes = [Background::Manual, Background::Threads(2)];
    for (preset, background) in Preset::ALL.into_iter().flat_map(|p| modes.map(|mode| (p, mode))) {
        for fault in [Fault::Io, Fault::NoSpace] {
            let faulty = Arc::new(Faulty::over(&Sim::new()));
            let options = Options { background, ..tiny(preset) };
            let db = Db::open_in(faulty.clone(), options, 7).unwrap();
            for key in 0..200u32 {
                db.put(key.to_be_bytes(), [7; 500]).unwrap();
            }
            faulty.fail_from(faulty.calls(), fault);
            let before = faulty.calls();
            assert!(db.close().is_err(), "{preset}, {background:?}");
            let tries = faulty.calls() - before;
            assert!(tries <= TRIES_MAX, "{preset}, {background:?}, {fault:?}: {tries} tries");
        }
    }
}

const DIRECTORY: &str = "CLEAVEDB_CLOSE_DIRECTORY";

#[test]
fn a_locked_database_names_the_process_that_has_it() {
    let dir = tempfile::tempdir().unwrap();
    if std::env::var(DIRECTORY).is_err() {
        let db = Db::open(dir.path(), options(Preset::Lsm)).unwrap();
        let own = format!("process {} has the database open", std::process::id());
        let child = std::process::Command::new(std::env::current_exe().unwrap())
            .args([
                "close::a_locked_database_names_the_process_that_has_it",
                "--exact",
                "--nocapture",
            ])
            .env(DIRECTORY, dir.path())
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&child.stdout).into_owned();
        assert!(child.status.success() && said.contains(&own), "{said}");
        return drop(db);
    }
    let path = std::env::var(DIRECTORY).unwrap();
    let error = Db::open(path, options(Preset::Lsm)).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Locked);
    println!("{error}");
}

#[test]
fn metrics_have_the_age_of_the_oldest_snapshot() {
    for preset in Preset::ALL {
        let dir = tempfile::tempdir().unwrap();
        let time = Arc::new(ManualTime::default());
        let options = Options { time: time.clone(), ..Options::preset(preset) };
        let db = Db::open(dir.path().join("db"), options).unwrap();
        let age = || db.metrics().oldest_snapshot.map(|age| age.as_secs());
        assert_eq!(age(), None);
        let first = db.snapshot();
        time.advance(Duration::from_secs(60));
        db.put("key", "value").unwrap();
        let second = db.cursor(..);
        time.advance(Duration::from_secs(1));
        assert_eq!((age(), db.metrics().snapshots), (Some(61), 2));
        drop(first);
        assert_eq!(age(), Some(1));
        drop(second);
        assert_eq!(age(), None);
        assert!(db.metrics().to_prometheus(&[]).contains("\ncleavedb_oldest_snapshot_seconds 0\n"));
    }
}
