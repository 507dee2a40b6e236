//! Changes: what is told of the log is what was committed, in order, exactly once.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use cleavedb::{
    Background, Change, ChangeBatch, ChangeKind, Db, Durability, ErrorKind, Operand, Options,
    Preset, WriteBatch,
};
use cleavedb_storage::FileKind;
use cleavedb_storage_sim::Sim;
use cleavedb_storage_sim::faulty::{Fault, Faulty, Op, Rule};
use cleavedb_storage_sim::sim::{DirectoryOrder, PowerLoss, SECTOR};
use cleavedb_testkit::Setup;
use cleavedb_testkit::budget::{in_turn, of, seeds};
use cleavedb_testkit::follow::{
    changes_are_the_content, changes_hold_what_was_deleted, changes_survive_crashes, keeping,
    kept_from_some_day_on, little_is_kept,
};
use cleavedb_testkit::session::{open, open_read_only};

/// Runs `check` with some seeds under every design.
fn every_design(count: u64, check: fn(&Setup, u64) -> Result<(), String>) {
    for setup in Setup::designs() {
        for seed in seeds(of(1, count, 10 * count)) {
            check(&setup, seed).unwrap_or_else(|e| panic!("{setup}, seed {seed}: {e}"));
        }
    }
}

#[test]
fn what_is_told_is_the_content() {
    every_design(6, changes_are_the_content);
}

#[test]
fn no_more_is_kept_than_was_asked_for() {
    every_design(3, little_is_kept);
}

#[test]
fn a_crash_leaves_neither_gap_nor_repeat() {
    every_design(2, changes_survive_crashes);
}

#[test]
fn what_was_deleted_is_held_until_changes_are_given_up() {
    every_design(1, changes_hold_what_was_deleted);
}

#[test]
fn changes_are_kept_from_a_later_session_on() {
    for preset in Preset::ALL {
        kept_from_some_day_on(preset).unwrap_or_else(|e| panic!("{preset}: {e}"));
    }
}

fn tiny(preset: Preset) -> Setup {
    keeping(&Setup::tiny(preset, true), 1 << 30)
}

fn told(db: &Db, from: u64) -> Vec<ChangeBatch> {
    db.changes(from).unwrap().map(Result::unwrap).collect()
}

/// Writers on threads, and a reader that waits for them.
#[test]
fn every_batch_of_every_thread_is_told_once_and_in_order() {
    const WRITERS: usize = 4;
    const BATCHES: usize = 1500;
    for preset in in_turn(vec![Preset::WiscKey, Preset::KtStore, Preset::Lsm]) {
        let mut options = tiny(preset).options;
        options.background = Background::Threads(2);
        options.change_retention_bytes = Some(u64::MAX);
        let dir = tempfile::tempdir().unwrap();
        let db = Db::open(dir.path().join("db"), options).unwrap();
        let mut changes = db.changes(1).unwrap();
        let (mut next, mut last) = ([0; WRITERS], 0);
        let ended = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for writer in 0..WRITERS {
                let (db, ended) = (&db, &ended);
                scope.spawn(move || {
                    for number in 0..BATCHES {
                        let mut batch = WriteBatch::new();
                        let value = vec![7; number % 300];
                        batch.put(format!("{writer} {number}"), &value).unwrap();
                        batch.put(format!("{writer} second"), number.to_string()).unwrap();
                        db.write_with(&batch, Durability::Os).unwrap();
                    }
                    ended.fetch_add(1, Ordering::Release);
                });
            }
            while next != [BATCHES; WRITERS] {
                let all = ended.load(Ordering::Acquire) == WRITERS;
                let there = changes.wait(Duration::from_millis(50));
                assert!(there || !all, "{preset}: {next:?} were told");
                for batch in changes.by_ref() {
                    let batch = batch.unwrap();
                    assert!(batch.first > last && batch.last == batch.first + 1);
                    last = batch.last;
                    let ChangeKind::Put { key, .. } = &batch.changes[0].kind else { panic!() };
                    let key = String::from_utf8(key.to_vec()).unwrap();
                    let (writer, number) = key.split_once(' ').unwrap();
                    let writer: usize = writer.parse().unwrap();
                    assert_eq!(next[writer], number.parse::<usize>().unwrap(), "{preset}");
                    next[writer] += 1;
                }
            }
        });
        assert!(!changes.wait(Duration::ZERO) && changes.next_seq() == last + 1);
        db.close().unwrap();
        assert_eq!(changes.next().unwrap().unwrap_err().kind(), ErrorKind::Closed);
    }
}

/// The id of a dropped keyspace may belong to another one now.
#[test]
fn changes_name_keyspaces_as_they_were() {
    let setup = tiny(Preset::KtStore);
    let sim = Sim::new();
    let db = open(Arc::new(sim.clone()), &setup).unwrap();
    let names = ["users", "orders", "parts"];
    for name in names {
        let keyspace = db.keyspace(name).unwrap();
        keyspace.put("key", name).unwrap();
        keyspace.delete_range(..).unwrap();
        keyspace.put("key", name).unwrap();
        db.drop_keyspace(name).unwrap();
        db.flush().unwrap();
        db.compact().unwrap();
        db.wait_idle().unwrap();
    }
    db.keyspace("last").unwrap().put("key", "last").unwrap();
    let check = |db: &Db| {
        let all = told(db, 1);
        let mut seen = Vec::new();
        for change in all.iter().flat_map(|batch| &batch.changes) {
            if let ChangeKind::Put { value, .. } = &change.kind {
                assert_eq!(*value, *change.keyspace);
            }
            seen.push((change.keyspace.to_string(), change.kind.clone()));
        }
        let drops = seen.iter().filter(|(_, kind)| *kind == ChangeKind::KeyspaceDropped);
        assert!(drops.map(|(name, _)| &name[..]).eq(names));
        let ranges = seen.iter().filter(|(_, kind)| matches!(kind, ChangeKind::DeleteRange { .. }));
        assert_eq!(ranges.count(), names.len());
        // From within the life of a keyspace that is gone.
        for batch in &all {
            let rest = told(db, batch.first);
            assert_eq!(rest[..], all[all.len() - rest.len()..]);
        }
    };
    check(&db);
    db.close().unwrap();
    check(&open(Arc::new(sim.clone()), &setup).unwrap());
    check(&open_read_only(&[Arc::new(sim)], &setup).unwrap());
}

#[test]
fn a_copy_keeps_changes_from_its_own_first_session_on() {
    let setup = tiny(Preset::KtStore);
    let (sim, copy) = (Sim::new(), Sim::new());
    let db = open(Arc::new(sim), &setup).unwrap();
    db.put("key", "value").unwrap();
    db.flush().unwrap();
    db.put("key", "other").unwrap();
    let seq = db.snapshot().seq();
    db.checkpoint_in(Arc::new(copy.clone())).unwrap();
    let copy = open(Arc::new(copy), &setup).unwrap();
    assert_eq!(copy.oldest_change(), Some(seq + 1));
    copy.put("key", "copied").unwrap();
    assert_eq!(told(&copy, seq + 1).len(), 1);
    assert_eq!(copy.changes(seq).err().unwrap().kind(), ErrorKind::NotRetained);
    assert_eq!(told(&db, 1).len(), 2);
}

#[test]
fn the_option_is_stored_and_can_be_taken_back() {
    let setup = tiny(Preset::HashKv);
    let sim = Sim::new();
    let with = |bytes| {
        let options = Options { change_retention_bytes: bytes, ..setup.options.clone() };
        open(Arc::new(sim.clone()), &Setup { options, ..setup.clone() }).unwrap()
    };
    let db = with(Some(1 << 20));
    (0..200u8).for_each(|key| db.put([key], [key; 900]).unwrap());
    db.flush().unwrap();
    db.close().unwrap();
    let db = with(None);
    db.put("key", "value").unwrap();
    assert_eq!(told(&db, 1).len(), 201);
    assert!(db.metrics().retained_log_files > 0);
    db.close().unwrap();
    let db = with(Some(0));
    assert_eq!(told(&db, 1).len(), 201, "nothing was written yet");
    let mut before = db.changes(1).unwrap();
    db.put("key", "value").unwrap();
    assert_eq!(db.oldest_change(), None);
    assert_eq!(before.next().unwrap().unwrap_err().kind(), ErrorKind::NotRetained);
    drop(before);
    db.wait_idle().unwrap();
    assert_eq!((db.metrics().retained_log_files, db.metrics().retained_log_bytes), (0, 0));
    db.close().unwrap();
    let db = with(Some(1 << 20));
    let oldest = db.oldest_change().unwrap();
    assert_eq!(db.changes(oldest - 1).err().unwrap().kind(), ErrorKind::NotRetained);
    db.put("key", "value").unwrap();
    assert_eq!(told(&db, oldest).len(), 1);
}

/// Below a space limit the log that is kept gives way, and writes go on.
#[test]
fn what_is_kept_gives_way_to_writes() {
    for preset in Preset::ALL {
        let mut setup = tiny(preset);
        setup.options.space_limit = Some(setup.options.space_limit_min() + (1 << 20));
        let db = open(Arc::new(Sim::new()), &setup).unwrap();
        for round in 0..120u8 {
            for key in 0..40u8 {
                db.put([key], vec![round; 2000]).unwrap_or_else(|e| panic!("{preset}: {e}"));
            }
        }
        let oldest = db.oldest_change().unwrap();
        assert!(oldest > 1, "{preset}");
        let rest = told(&db, oldest);
        assert!(rest.len() > 100, "{preset}: {} are left", rest.len());
        db.close().unwrap();
    }
}

/// On a disk that is full the oldest log goes before a write is refused, by and by; once writes are
/// refused, nothing is kept that could have gone.
#[test]
fn a_full_disk_takes_the_log_that_is_kept_and_no_write() {
    for setup in Setup::designs().into_iter().map(|setup| keeping(&setup, 1 << 30)) {
        let sim = Sim::new();
        sim.stop_recording();
        sim.set_capacity(6 << 20);
        let db = open(Arc::new(sim.clone()), &setup).unwrap();
        let (mut oldest, mut moved) = (1, 0);
        for round in 0..120u8 {
            for key in 0..40u8 {
                let put = db.put([key], vec![round; 2000]);
                put.unwrap_or_else(|e| panic!("{setup}, round {round}: {e}"));
            }
            let now = db.oldest_change().unwrap();
            assert!(now >= oldest, "{setup}: {now} after {oldest}");
            (oldest, moved) = (now, moved + usize::from(now > oldest));
        }
        assert!(moved > 2, "{setup}: the log went in {moved} steps");
        let rest = told(&db, oldest);
        assert!(rest.len() > 40, "{setup}: {} are left", rest.len());
        assert_eq!(rest.last().unwrap().last, db.snapshot().seq(), "{setup}");
        // Until nothing fits any more.
        let mut written = 0u32;
        let refused = loop {
            match db.put(written.to_be_bytes(), [7; 2000]) {
                Ok(()) => written += 1,
                Err(e) => break e,
            }
        };
        assert_eq!(refused.kind(), ErrorKind::NoSpace, "{setup}: {refused}");
        assert_eq!(db.metrics().retained_log_files, 0, "{setup}: {refused}");
        let oldest = db.oldest_change().unwrap();
        let before = told(&db, oldest);
        db.close().unwrap();
        let db = open(Arc::new(sim), &setup).unwrap();
        let after = told(&db, oldest.max(db.oldest_change().unwrap()));
        assert!(before.ends_with(&after), "{setup}");
        assert!(db.verify().unwrap().problems.is_empty(), "{setup}");
    }
}

/// A write of a job fails because the disk is full, while log is kept that could go.
#[test]
fn a_job_without_space_takes_the_log_that_is_kept() {
    for preset in Preset::ALL {
        let faulty = Arc::new(Faulty::over(&Sim::new()));
        let db = open(faulty.clone(), &tiny(preset)).unwrap();
        for round in 0..3u8 {
            (0..100u8).for_each(|key| db.put([key], [round; 900]).unwrap());
            db.flush().unwrap();
        }
        db.compact().unwrap();
        db.wait_idle().unwrap();
        let kept = db.metrics().retained_log_files;
        if kept == 0 {
            continue;
        }
        faulty.fail_next(Rule::both(Op::WriteAt, FileKind::Table), Fault::NoSpace);
        (0..100u8).for_each(|key| db.put([key], [9; 900]).unwrap());
        db.flush().unwrap();
        faulty.heal();
        assert!(db.oldest_change().unwrap() > 1, "{preset}: {kept} files are kept");
        assert_eq!(db.get([5]).unwrap().unwrap(), [9; 900][..], "{preset}");
    }
}

#[test]
fn a_check_reads_the_log_that_is_kept() {
    for preset in [Preset::Lsm, Preset::KtStore] {
        let setup = tiny(preset);
        let sim = Sim::new();
        let db = open(Arc::new(sim.clone()), &setup).unwrap();
        for round in 0..3u8 {
            (0..60u8).for_each(|key| db.put([key], [round; 900]).unwrap());
            db.flush().unwrap();
        }
        let kept = db.metrics().retained_log_files as u64;
        let report = db.verify().unwrap();
        assert!(report.retained_logs == kept && kept > 0, "{preset}: {report:?}");
        assert!(report.problems.is_empty(), "{preset}: {:?}", report.problems);
        db.close().unwrap();
        let mut image = sim.image();
        let first = image.list().into_iter().find(|(name, _)| name.kind() == FileKind::Log);
        let (name, _) = first.unwrap();
        image.flip_bit(&name, 8 * 9000);
        let db = open(Arc::new(Sim::from_image(image.clone())), &setup).unwrap();
        let problems = db.verify().unwrap().problems;
        assert!(problems.len() == 1 && problems[0].to_string().contains(&name.to_string()));
        let damaged = db.changes(1).unwrap().find_map(Result::err).unwrap();
        assert_eq!(damaged.kind(), ErrorKind::Corruption, "{damaged}");
        drop(db);
        image.remove(&name);
        let db = open(Arc::new(Sim::from_image(image)), &setup).unwrap();
        let problems = db.verify().unwrap().problems;
        assert!(!problems.is_empty(), "{preset}: a file is missing");
    }
}

/// A reader that has seen what a loss of power took does not go on as if nothing had happened.
#[test]
fn a_reader_ahead_of_a_crash_is_told_so() {
    let setup = tiny(Preset::KtStore);
    let sim = Sim::new();
    let db = open(Arc::new(sim.clone()), &setup).unwrap();
    db.put_with("safe", "1", Durability::Sync).unwrap();
    db.put_with("lost", "2", Durability::Buffered).unwrap();
    let all = told(&db, 1);
    let durable = db.changes(1).unwrap().durable_only();
    assert_eq!((all.len(), durable.count()), (2, 1));
    let mut replay = sim.replay(SECTOR);
    replay.advance(replay.last_point());
    let options = PowerLoss { directory: DirectoryOrder::Prefix, states_max: 8, seed: 1 };
    let mut lost = 0;
    for image in replay.power_loss(&options) {
        let db = open(Arc::new(Sim::from_image(image)), &setup).unwrap();
        db.put("new", "3").unwrap();
        let kept = told(&db, all[0].next_seq());
        if db.get("lost").unwrap().is_none() {
            lost += 1;
            assert_eq!(kept.len(), 1);
            let ahead = db.changes(all[1].next_seq()).err().unwrap();
            assert_eq!(ahead.kind(), ErrorKind::NotRetained, "{ahead}");
        } else {
            assert_eq!(kept.len(), 2);
        }
    }
    assert!(lost > 0);
}

/// Every call that fails while changes are read gives an error, and the next one goes on.
#[test]
fn a_failed_read_loses_no_change() {
    let setup = tiny(Preset::WiscKey);
    let faulty = Arc::new(Faulty::over(&Sim::new()));
    let db = open(faulty.clone(), &setup).unwrap();
    for key in 0..200u8 {
        db.put([key], [key; 900]).unwrap();
    }
    db.flush().unwrap();
    let all = told(&db, 1);
    for op in [Op::Open, Op::ReadAt, Op::Len] {
        for fault in [Fault::Io, Fault::TooManyFiles] {
            let mut changes = db.changes(1).unwrap();
            faulty.fail_next(Rule::both(op, FileKind::Log), fault);
            let error = changes.next().unwrap().unwrap_err();
            let kinds = [ErrorKind::Io, ErrorKind::TooManyFiles];
            assert!(kinds.contains(&error.kind()), "{op:?}: {error}");
            faulty.heal();
            let rest: Vec<_> = changes.map(Result::unwrap).collect();
            assert!(rest == all, "{op:?}, {fault:?}");
        }
    }
}

#[test]
fn changes_are_applied_to_a_store_of_any_preset() {
    let source = open(Arc::new(Sim::new()), &tiny(Preset::KtStore)).unwrap();
    let long = vec![7; 3000];
    let mut batch = WriteBatch::new();
    batch.put("a", "1").unwrap().put("b", &long).unwrap().delete("a").unwrap();
    batch.put_with_ttl("t", "lives", Duration::from_secs(1 << 30)).unwrap();
    source.write(&batch).unwrap();
    source.merge("n", &Operand::add(5)).unwrap();
    source.keyspace("left").unwrap().put("key", "value").unwrap();
    source.keyspace("gone").unwrap().put("key", "value").unwrap();
    (0..9).for_each(|i| source.put(format!("r{i}"), "").unwrap());
    source.delete_range("r2".."r8").unwrap();
    source.drop_keyspace("gone").unwrap();
    let content = |db: &Db| {
        let items = |range: cleavedb::Range| range.collect::<Result<Vec<_>, _>>().unwrap();
        let of_keyspaces = db.keyspaces().unwrap().into_iter();
        let of_keyspaces = of_keyspaces.map(|it| (it.name().to_owned(), items(it.range(..))));
        (items(db.range(..)), of_keyspaces.collect::<Vec<_>>())
    };
    for preset in Preset::ALL {
        let time = source.options().time.clone();
        let options = Options { time, ..Options::preset(preset) };
        let replica = Db::open_in(Arc::new(Sim::new()), options, 8).unwrap();
        for batch in source.changes(1).unwrap() {
            replica.apply_changes(&batch.unwrap()).unwrap();
        }
        assert_eq!(content(&replica), content(&source), "{preset}");
        let expiry = |db: &Db| db.default_keyspace().get_with_expiry("t").unwrap().unwrap().1;
        assert_eq!(expiry(&replica), expiry(&source), "{preset}");
    }
    let kind = ChangeKind::PutBlob { key: "blob".into(), len: 1 << 30, expires: None };
    let changes = vec![Change { seq: 9, keyspace: "default".into(), kind }];
    let told = ChangeBatch { first: 9, last: 9, changes };
    let refused = source.apply_changes(&told).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::InvalidArgument);
}
