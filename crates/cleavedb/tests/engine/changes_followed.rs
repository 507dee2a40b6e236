//! Changes of a live primary, as a secondary tells them: in order, exactly once, whatever the
//! primary does meanwhile.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use cleavedb::{Background, ChangeKind, Db, Durability, ErrorKind, Options, Preset, WriteBatch};
use cleavedb_testkit::Setup;
use cleavedb_testkit::budget::{in_turn, of, seeds};
use cleavedb_testkit::follow::keeping;
use cleavedb_testkit::followed_changes::{
    a_loss_is_told, a_secondary_is_told_the_content, a_slow_secondary_is_told_so,
    a_torn_window_hides_no_change,
};

#[test]
fn a_secondary_is_told_what_its_primary_does() {
    for seed in seeds(of(1, 2, 30)) {
        for setup in Setup::some() {
            a_secondary_is_told_the_content(&setup, seed)
                .unwrap_or_else(|e| panic!("{setup}, seed {seed}: {e}"));
        }
    }
}

#[test]
fn a_window_that_is_read_torn_hides_no_change() {
    for setup in Setup::designs() {
        a_torn_window_hides_no_change(&setup).unwrap();
    }
}

#[test]
fn what_a_loss_of_power_takes_is_told() {
    for setup in Setup::designs() {
        let told = |state| a_loss_is_told(&setup, state).unwrap_or_else(|e| panic!("{setup}: {e}"));
        let lost = (0..8).filter(|state| told(*state)).count();
        assert!(lost > 0, "{setup}: nothing was lost");
    }
}

#[test]
fn a_secondary_that_falls_behind_is_told_so() {
    let mut behind = 0;
    for setup in Setup::designs() {
        for seed in 0..3 {
            let told = a_slow_secondary_is_told_so(&setup, seed);
            behind += usize::from(told.unwrap_or_else(|e| panic!("{setup}: {e}")));
        }
    }
    assert!(behind > 0, "no secondary fell behind");
}

/// Batches that the writer of the test with threads commits.
const BATCHES: usize = 2000;

/// The primary, its jobs and the secondary run at the same time.
#[test]
fn a_primary_at_work_is_told_of_once_and_in_order() {
    for preset in in_turn(Preset::ALL.into()) {
        let mut options = keeping(&Setup::tiny(preset, true), u64::MAX).options;
        options.background = Background::Threads(2);
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("db");
        let primary = Db::open(&path, options).unwrap();
        primary.put("first", "1").unwrap();
        let secondary = Db::open_secondary(&path).unwrap();
        let mut changes = secondary.changes(2).unwrap();
        let ended = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for number in 0..BATCHES {
                    let mut batch = WriteBatch::new();
                    batch.put(number.to_string(), vec![7; number % 2000]).unwrap();
                    batch.put("same", number.to_string()).unwrap();
                    let durability =
                        [Durability::Os, Durability::Sync][usize::from(number % 99 == 0)];
                    primary.write_with(&batch, durability).unwrap();
                    if number % 450 == 0 {
                        primary.flush().unwrap();
                    }
                }
                ended.store(true, Ordering::Release);
            });
            // Another user of the handle, which moves the views on under the reader.
            scope.spawn(|| {
                while !ended.load(Ordering::Acquire) {
                    secondary.catch_up().unwrap();
                }
            });
            let mut number = 0;
            while number < BATCHES {
                let all = ended.load(Ordering::Acquire);
                let there = changes.wait(Duration::from_millis(100));
                assert!(there || !all, "{preset}: {number} were told");
                for batch in changes.by_ref() {
                    let batch = batch.unwrap();
                    let ChangeKind::Put { key, value, .. } = &batch.changes[0].kind else {
                        panic!()
                    };
                    assert_eq!(
                        (&**key, value.len()),
                        (number.to_string().as_bytes(), number % 2000)
                    );
                    number += 1;
                }
            }
        });
        assert!(!changes.wait(Duration::ZERO));
        secondary.clone().close().unwrap();
        assert_eq!(changes.next().unwrap().unwrap_err().kind(), ErrorKind::Closed);
        assert_eq!(secondary.changes(2).err().unwrap().kind(), ErrorKind::Closed);
    }
}

#[test]
fn a_secondary_goes_on_in_the_next_session() {
    let options = keeping(&Setup::tiny(Preset::KtStore, true), 1 << 30).options;
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("db");
    let open = || Db::open(&path, options.clone()).unwrap();
    open().put("first", "1").unwrap();
    let secondary = Db::open_secondary(&path).unwrap();
    let mut changes = secondary.changes(secondary.snapshot().seq() + 1).unwrap();
    let keyspace = |db: &Db, name: &str| db.keyspace(name).unwrap().put("key", "value").unwrap();
    for session in 0..5 {
        assert!(!changes.wait(Duration::ZERO), "session {session}");
        let primary = open();
        assert!(!changes.wait(Duration::ZERO), "session {session}");
        keyspace(&primary, &session.to_string());
        primary.sync().unwrap();
        assert!(changes.wait(Duration::ZERO));
        let told: Vec<_> = changes.by_ref().map(Result::unwrap).collect();
        assert_eq!(told.len(), 2);
        assert_eq!(&*told[1].changes[0].keyspace, session.to_string());
        primary.drop_keyspace(&session.to_string()).unwrap();
        primary.close().unwrap();
        assert!(changes.wait(Duration::ZERO));
        let told: Vec<_> = changes.by_ref().map(Result::unwrap).collect();
        assert_eq!((told.len(), &told[0].changes[0].kind), (1, &ChangeKind::KeyspaceDropped));
    }
    // Changes are not kept any more.
    let options = Options { change_retention_bytes: Some(0), ..options };
    Db::open(&path, options).unwrap().put("last", "1").unwrap();
    assert!(changes.wait(Duration::ZERO));
    assert_eq!(changes.next().unwrap().unwrap_err().kind(), ErrorKind::NotRetained);
    assert_eq!(secondary.oldest_change(), None);
}
