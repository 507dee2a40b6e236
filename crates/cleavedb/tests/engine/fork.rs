//! A process that was forked while a store was open: it is refused in words, without harm.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use cleavedb::{Background, Db, Durability, ErrorKind, Options, Preset, WriteBatch};
use cleavedb_testkit::budget::in_turn;
use cleavedb_testkit::child::in_a_child;
use cleavedb_testkit::setup::tiny;
use cleavedb_testkit::{Churn, Setup};
use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};

/// How long a fork may take: one that hangs waits for a thread that it does not have.
const PATIENCE: Duration = Duration::from_secs(60);

/// Runs `body` in a fork of this process, and fails if it does.
fn forked(body: impl FnOnce()) {
    // SAFETY: the child calls only what a child may: its panic is caught, and it ends by `_exit`,
    // without running what the parent has registered for its end.
    let pid = unsafe { libc::fork() };
    if pid == 0 {
        let failed = catch_unwind(AssertUnwindSafe(body)).is_err();
        // SAFETY: as above.
        unsafe { libc::_exit(failed.into()) }
    }
    let (pid, start) = (Pid::from_raw(pid).expect("fork gives a number"), Instant::now());
    loop {
        if let Some((_, status)) = waitpid(Some(pid), WaitOptions::NOHANG).unwrap() {
            assert_eq!(status.exit_status(), Some(0), "the fork failed");
            return;
        }
        if start.elapsed() > PATIENCE {
            kill_process(pid, Signal::KILL).unwrap();
            panic!("the fork hangs");
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn designs() -> Vec<Setup> {
    in_turn(Preset::ALL.map(|preset| Setup::tiny(preset, true)).into())
}

fn options(setup: &Setup) -> Options {
    Options { background: Background::Threads(1), ..setup.options.clone() }
}

/// Every call is refused as one of a fork.
fn refused(db: &Db) {
    let mut batch = WriteBatch::new();
    batch.put(b"key000001", b"child").unwrap();
    let calls: [cleavedb::Result<()>; 14] = [
        db.put(b"key000001", b"child"),
        db.delete(b"key000001"),
        db.write_with(&batch, Durability::Sync),
        db.write(&WriteBatch::new()),
        db.get(b"key000001").map(drop),
        db.multi_get(&[b"a"]).pop().unwrap().map(drop),
        db.range(..).next().unwrap().map(drop),
        db.snapshot().get(b"a").map(drop),
        db.sync(),
        db.flush(),
        db.collect(),
        db.wait_idle(),
        db.verify().map(drop),
        db.directories().map(drop),
    ];
    for (number, call) in calls.into_iter().enumerate() {
        let error = call.expect_err("a fork must be refused");
        assert_eq!(error.kind(), ErrorKind::Forked, "call {number}: {error}");
        assert!(error.message().contains("opened by process"), "{error}");
    }
    assert_eq!(db.metrics().visible_seq, 0);
}

#[test]
fn a_fork_is_refused_and_changes_nothing() {
    in_a_child(|| {
        for setup in designs() {
            let dir = tempfile::tempdir().unwrap();
            let db = Db::open(dir.path(), options(&setup)).unwrap();
            let mut churn = Churn::new(11);
            churn.write(&db, 1000);
            let mut range = db.range(..);
            let snapshot = db.snapshot();
            range.next().unwrap().unwrap();
            forked(|| {
                refused(&db);
                for error in [snapshot.get(b"a").err(), range.next().and_then(Result::err)] {
                    assert_eq!(error.expect("a fork must be refused").kind(), ErrorKind::Forked);
                }
            });
            churn.work(&db, 200);
            churn.check(&db);
        }
    });
}

/// A child that drops the parent's handles must not wait for threads that it does not have, write,
/// or give up the parent's lock.
#[test]
fn what_a_fork_drops_stays_the_parents() {
    in_a_child(|| {
        for setup in designs() {
            let dir = tempfile::tempdir().unwrap();
            let db = Db::open(dir.path(), options(&setup)).unwrap();
            let mut churn = Churn::new(12);
            churn.write(&db, 1000);
            let held = (db.clone(), db.snapshot(), db.range(..));
            let mut held = Some((db, held));
            forked(|| drop(held.take()));
            forked(|| {
                let (db, _) = held.take().unwrap();
                assert_eq!(db.close().unwrap_err().kind(), ErrorKind::Forked);
            });
            let error = Db::open(dir.path(), options(&setup)).err().unwrap();
            assert_eq!(error.kind(), ErrorKind::Locked, "{setup}: {error}");
            let (db, held) = held.take().unwrap();
            churn.work(&db, 200);
            churn.check(&db);
            drop((db, held));
            churn.check(&Db::open(dir.path(), options(&setup)).unwrap());
        }
    });
}

#[test]
fn a_fork_may_open_the_database_once_the_parent_has_closed_it() {
    in_a_child(|| {
        let dir = tempfile::tempdir().unwrap();
        let db = Db::open(dir.path(), tiny(Preset::Lsm)).unwrap();
        db.put(b"key", b"parent").unwrap();
        db.close().unwrap();
        forked(|| {
            let db = Db::open(dir.path(), tiny(Preset::Lsm)).unwrap();
            db.put(b"key", b"child").unwrap();
        });
        let db = Db::open(dir.path(), tiny(Preset::Lsm)).unwrap();
        assert_eq!(db.get(b"key").unwrap().as_deref(), Some(&b"child"[..]));
    });
}
