//! Backups: each has what was written before it, shares what did not change with the one before,
//! and does not depend on anything else.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cleavedb::reports::BackupReport;
use cleavedb::{BackupMode, Backups, Db, ErrorKind, Options, Preset, Progress, RestoreMode};
use cleavedb_storage::{BackupName, BackupStorage, Disk, LockMode, Storage, backups};
use cleavedb_storage_sim::faulty::Fault;
use cleavedb_storage_sim::{Faulty, FaultyBackups, Sim, Unsynced};
use cleavedb_testkit::backups::{
    Shelf, a_backup_after_a_disk_was_set_back, a_restore_survives_a_loss_of_power, backups_have_all,
};
use cleavedb_testkit::read::everything;
use cleavedb_testkit::{Churn, Disks, Setup, session};

#[test]
fn backups_have_all_that_was_written_under_every_setup() {
    for setup in &Setup::some() {
        backups_have_all(setup, 1).unwrap_or_else(|failure| panic!("{setup}: {failure}"));
    }
}

#[test]
fn more_backups_of_every_design() {
    for setup in &Setup::designs() {
        for seed in 2..6 {
            backups_have_all(setup, seed)
                .unwrap_or_else(|failure| panic!("{setup}, seed {seed}: {failure}"));
        }
    }
}

#[test]
fn a_disk_that_was_set_back_is_noticed() {
    for setup in &Setup::designs() {
        a_backup_after_a_disk_was_set_back(setup)
            .unwrap_or_else(|failure| panic!("{setup}: {failure}"));
    }
}

#[test]
fn a_restore_is_whole_or_not_there_after_a_loss_of_power() {
    for (seed, setup) in Setup::designs().iter().enumerate() {
        a_restore_survives_a_loss_of_power(setup, seed as u64)
            .unwrap_or_else(|failure| panic!("{setup}: {failure}"));
    }
}

/// A database on a real disk, whose files have identities, and its backups. Nothing is synced.
struct Home {
    dir: tempfile::TempDir,
    options: Options,
}

impl Home {
    fn new(setup: &Setup) -> Self {
        Self { dir: tempfile::tempdir().unwrap(), options: setup.options.clone() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn open(&self, name: &str) -> Db {
        let unsynced = |_: &Path, disk| Unsynced::over(disk);
        Db::open_through(self.path(name), self.options.clone(), unsynced).unwrap()
    }

    fn storage(&self) -> FaultyBackups {
        fs::create_dir_all(self.path("backups")).unwrap();
        FaultyBackups::open(&self.path("backups")).unwrap()
    }

    fn back_up(&self, db: &Db) -> BackupReport {
        db.backup_in(&self.storage(), BackupMode::Incremental, &Progress::default()).unwrap()
    }

    fn backups(&self) -> Backups {
        Backups::open_in(Arc::new(self.storage()))
    }

    fn check(&self, number: u64, churn: &Churn) {
        churn.check(&self.backups().open_backup(Some(number)).unwrap().1);
        let report = self.backups().verify(Some(number), &Progress::default()).unwrap();
        assert!(report.problems.is_empty(), "{:?}", report.problems);
    }
}

/// The files of a backup, and the number of names of each.
fn links(backup: &Path) -> Vec<(PathBuf, u64)> {
    let files = fs::read_dir(backup).unwrap().map(|entry| entry.unwrap());
    files.map(|entry| (entry.path(), entry.metadata().unwrap().nlink())).collect()
}

#[test]
fn what_did_not_change_is_linked_to_the_backup_before_and_never_to_the_database() {
    for setup in &Setup::designs() {
        let home = Home::new(setup);
        let db = home.open("db");
        let mut churn = Churn::new(5);
        churn.work(&db, 400);
        let first = home.back_up(&db);
        assert_eq!((first.number, first.linked), (1, 0), "{setup}");
        assert_eq!(first.copied_bytes, first.bytes, "{setup}");
        let before = churn.clone();
        // One in a hundred.
        churn.write(&db, 4);
        let second = home.back_up(&db);
        assert_eq!(second.number, 2);
        assert!(second.linked >= first.copied - 2, "{setup}: {second:?}");
        assert!(second.copied_bytes < first.bytes / 4, "{setup}: {second:?}");
        let shared = links(&home.path("backups/000002"));
        let shared = shared.iter().filter(|(_, names)| *names == 2).count() as u64;
        assert_eq!(shared, second.linked, "{setup}");
        assert!(links(&home.path("db")).iter().all(|(_, names)| *names == 1), "{setup}");
        let third = home.back_up(&db);
        assert_eq!((third.copied, third.copied_bytes), (0, 0), "{setup}: nothing was written");
        let full = db.backup_with(home.path("backups"), BackupMode::Full, &Progress::default());
        assert_eq!(full.unwrap().linked, 0, "{setup}");
        let listed = home.backups().list().unwrap();
        assert_eq!(listed.iter().map(|it| it.number).collect::<Vec<_>>(), [1, 2, 3, 4]);
        assert!(listed[3].own_bytes == listed[3].bytes && listed[1].own_bytes < listed[1].bytes);
        assert!(listed.iter().all(|it| it.made.is_some()));
        // Whatever becomes of the database.
        drop(db);
        fs::remove_dir_all(home.path("db")).unwrap();
        home.check(1, &before);
        [2, 3, 4].into_iter().for_each(|number| home.check(number, &churn));
        home.backups().remove(1).unwrap();
        assert_eq!(home.backups().prune(2).unwrap(), [2]);
        [3, 4].into_iter().for_each(|number| home.check(number, &churn));
    }
}

/// Log files that had ended, but not yet been flushed, were once copied again by the backup after
/// their flush.
#[test]
fn a_flush_makes_no_log_new() {
    let mut setup = Setup::tiny(Preset::WiscKey, true);
    setup.options.tuning.memtables_max = Some(8);
    let home = Home::new(&setup);
    let db = home.open("db");
    let mut churn = Churn::new(5);
    churn.write(&db, 120);
    let first = home.back_up(&db);
    assert!(first.copied > 3, "{first:?}");
    db.flush().unwrap();
    churn.write(&db, 1);
    let second = home.back_up(&db);
    assert!(second.linked >= first.copied - 1, "{second:?}");
    home.check(2, &churn);
}

/// On a real disk: a restored database, the original, and one whose directory was set back take
/// turns in one directory of backups.
#[test]
fn databases_of_one_origin_share_a_directory_of_backups() {
    for setup in &Setup::designs() {
        let home = Home::new(setup);
        let mut original = Churn::new(5);
        let db = home.open("db");
        original.work(&db, 100);
        home.back_up(&db);
        home.backups().restore(Some(1), home.path("restored")).unwrap();
        let mut copied = original.copied(6);
        let past = original.copied(7);
        original.work(&db, 100);
        home.back_up(&db);
        let restored = home.open("restored");
        copied.check(&restored);
        copied.work(&restored, 100);
        let third = home.back_up(&restored);
        home.check(3, &copied);
        assert!(third.copied > 0, "{setup}");
        // In the same directory as the original, with other writes.
        db.close().unwrap();
        for (path, _) in links(&home.path("db")) {
            fs::remove_file(path).unwrap();
        }
        home.backups().restore(Some(1), home.path("db")).unwrap();
        let mut past = past;
        let db = home.open("db");
        past.check(&db);
        past.work(&db, 100);
        home.back_up(&db);
        home.check(2, &original);
        home.check(3, &copied);
        home.check(4, &past);
        drop((db, restored));
        let latest = home.backups().restore(None, home.path("latest")).unwrap();
        assert_eq!(latest.linked, 0, "a restored file is never a link");
        past.check(&home.open("latest"));
    }
}

/// The directories of one backup and of a database are not those of another.
#[test]
fn what_is_not_a_place_for_backups_is_refused() {
    let home = Home::new(&Setup::every_design()[0]);
    let (db, other) = (home.open("db"), home.open("other"));
    db.put("key", "value").unwrap();
    home.back_up(&db);
    let refused = |db: &Db, name: &str| db.backup(home.path(name)).unwrap_err();
    assert_eq!(refused(&other, "backups").kind(), ErrorKind::InvalidArgument);
    assert_eq!(refused(&db, "db").kind(), ErrorKind::InvalidArgument);
    assert_eq!(home.backups().list().unwrap().len(), 1);
    let lock = Disk::open(home.path("backups"), false).unwrap();
    let lock = lock.lock(LockMode::Exclusive).unwrap();
    let error = refused(&db, "backups");
    assert_eq!(error.kind(), ErrorKind::Locked);
    assert!(error.to_string().contains(&format!("process={}", std::process::id())), "{error}");
    assert_eq!(home.backups().prune(1).unwrap_err().kind(), ErrorKind::Locked);
    drop(lock);
    let error = home.backups().restore(None, home.path("db")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::AlreadyExists);
    let error = home.backups().restore(Some(7), home.path("new")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotADatabase);
    assert!(!home.path("new").exists());
    assert_eq!(home.backups().prune(0).unwrap_err().kind(), ErrorKind::InvalidArgument);
    // The last of all numbers.
    let last = home.path("backups").join(u64::MAX.to_string());
    fs::create_dir(&last).unwrap();
    fs::write(last.join("notes.txt"), "mine").unwrap();
    assert_eq!(refused(&db, "backups").kind(), ErrorKind::Io);
    assert_eq!(fs::read_dir(home.path("backups")).unwrap().count(), 3);
    assert!(last.join("notes.txt").exists());
    let missing = Backups::open(home.path("missing")).unwrap_err();
    assert_eq!(missing.kind(), ErrorKind::NotADatabase);
}

#[test]
fn a_backup_is_not_written_and_not_removed_under_a_reader() {
    let home = Home::new(&Setup::every_design()[0]);
    let db = home.open("db");
    db.put("key", "value").unwrap();
    home.back_up(&db);
    let path = home.path("backups/000001");
    let error = Db::open(&path, home.options.clone()).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::ReadOnly);
    let reader = Db::open_read_only(&path).unwrap();
    let error = home.backups().remove(1).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Locked);
    assert_eq!(reader.get("key").unwrap().unwrap(), "value");
    drop(reader);
    home.back_up(&db);
    home.backups().remove(1).unwrap();
    assert_eq!(home.backups().open_backup(None).unwrap().0, 2);
}

/// What a process that died in a backup, or in a removal, has left.
#[test]
fn what_was_not_finished_is_removed_by_the_next_backup() {
    let home = Home::new(&Setup::every_design()[0]);
    let db = home.open("db");
    db.put("key", "value").unwrap();
    home.back_up(&db);
    for left in ["000002.unfinished", "000009.unfinished"] {
        fs::create_dir(home.path("backups").join(left)).unwrap();
        for (path, _) in links(&home.path("backups/000001")) {
            fs::copy(&path, home.path("backups").join(left).join(path.file_name().unwrap()))
                .unwrap();
        }
    }
    fs::write(home.path("backups/notes.txt"), "mine").unwrap();
    assert_eq!(home.backups().list().unwrap().len(), 1);
    assert_eq!(home.back_up(&db).number, 2);
    let mut left: Vec<_> = fs::read_dir(home.path("backups")).unwrap().collect::<Vec<_>>();
    left.retain(|entry| entry.as_ref().unwrap().file_type().unwrap().is_dir());
    assert_eq!(left.len(), 2);
    assert!(home.path("backups/notes.txt").exists());
}

#[test]
fn what_is_stopped_leaves_nothing() {
    let home = Home::new(&Setup::every_design()[0]);
    let db = home.open("db");
    db.put("key", "value").unwrap();
    home.back_up(&db);
    let progress = Progress::default();
    progress.stop();
    let is_stopped = |error: cleavedb::Error| assert_eq!(error.kind(), ErrorKind::Stopped);
    let full = db.backup_with(home.path("backups"), BackupMode::Full, &progress);
    is_stopped(full.unwrap_err());
    let (done, total) = progress.bytes();
    assert!(0 < done && done <= total, "{done} of {total}");
    assert!(!home.path("backups/000002.unfinished").exists());
    is_stopped(db.checkpoint_with(home.path("copy"), &progress).unwrap_err());
    let restored =
        home.backups().restore_with(None, home.path("new"), RestoreMode::Checked, &progress);
    is_stopped(restored.unwrap_err());
    for left in ["copy", "new"] {
        assert_eq!(fs::read_dir(home.path(left)).unwrap().count(), 0);
    }
    is_stopped(home.backups().verify(None, &progress).unwrap_err());
    assert_eq!(home.backups().list().unwrap().len(), 1);
}

#[test]
fn without_links_every_backup_is_whole() {
    for setup in &Setup::designs() {
        let db = session::open_all(&Disks::forgetful(setup).storages(), setup).unwrap();
        let mut churn = Churn::new(5);
        churn.work(&db, 100);
        let shelf = Shelf::with(|storage| storage.without_links());
        for _ in 0..2 {
            churn.write(&db, 10);
            let report = shelf.back_up(&db).unwrap();
            assert_eq!((report.linked, report.copied_bytes), (0, report.bytes));
            churn.check(&shelf.backups.open_backup(None).unwrap().1);
        }
    }
}

/// A database after some work, what works on it, and a directory with a backup of it.
fn backed_up(setup: &Setup) -> (Db, Churn, Shelf) {
    let db = session::open_all(&Disks::forgetful(setup).storages(), setup).unwrap();
    let mut churn = Churn::new(9);
    churn.work(&db, 60);
    let shelf = Shelf::default();
    shelf.back_up(&db).unwrap();
    (db, churn, shelf)
}

/// Whatever call fails: the backups before are whole, and the next one succeeds.
#[test]
fn a_backup_or_removal_that_fails_leaves_the_others_as_they_were() {
    for setup in &Setup::designs() {
        let (db, mut churn, shelf) = backed_up(setup);
        let first = everything(db.default_keyspace()).unwrap();
        churn.write(&db, 30);
        shelf.back_up(&db).unwrap();
        let second = everything(db.default_keyspace()).unwrap();
        churn.write(&db, 10);
        let third = everything(db.default_keyspace()).unwrap();
        let compare = |number, model| {
            shelf.compare(number, model).unwrap_or_else(|e| panic!("{setup}: {e}"));
        };
        let plan = shelf.storage.plan();
        for step in 0.. {
            let call = plan.calls() + step;
            plan.fail_call(call, Fault::Io);
            let made = shelf.back_up(&db);
            let ended = plan.calls() <= call;
            plan.heal();
            let numbers = numbers(shelf.as_storage());
            match made {
                Ok(report) => {
                    assert_eq!(numbers, [1, 2, 3], "{setup}, call {step}");
                    compare(report.number, &third);
                    shelf.backups.remove(3).unwrap();
                }
                Err(e) => assert_eq!(numbers, [1, 2], "{setup}, call {step}: {e}"),
            }
            if step % 10 == 0 || ended {
                compare(1, &first);
                compare(2, &second);
            }
            if ended {
                break;
            }
        }
        for step in 0.. {
            shelf.back_up(&db).unwrap();
            let call = plan.calls() + step;
            plan.fail_call(call, Fault::Io);
            let removed = shelf.backups.prune(2);
            let ended = plan.calls() <= call;
            plan.heal();
            let numbers = numbers(shelf.as_storage());
            let expected = [&[1, 2, 3][..], &[2, 3]];
            assert!(expected.contains(&&numbers[..]), "{setup}, call {step}: {numbers:?}");
            assert!(removed.is_err() || numbers == [2, 3]);
            compare(2, &second);
            compare(3, &third);
            shelf.backups.remove(3).unwrap();
            if numbers == [2, 3] {
                // The place of backup 2 is filled, so that the next round is like this one.
                let db = session::open(Arc::new(shelf.restored(2, 5).unwrap()), &alone(setup));
                let db = db.unwrap();
                shelf.backups.remove(2).unwrap();
                shelf.back_up(&db).unwrap();
                shelf.back_up(&db).unwrap();
            }
            if ended {
                break;
            }
        }
    }
}

fn alone(setup: &Setup) -> Setup {
    setup.clone().in_one_directory()
}

fn numbers(storage: &dyn BackupStorage) -> Vec<u64> {
    let all = backups::list(storage).unwrap().into_iter();
    all.filter_map(|name| if let BackupName::Whole(number) = name { Some(number) } else { None })
        .collect()
}

#[test]
fn a_restore_that_fails_leaves_no_database() {
    for setup in &Setup::designs() {
        let (_db, churn, shelf) = backed_up(setup);
        for call in 0.. {
            let target = Sim::new();
            target.set_directory_id(77);
            let faulty = Arc::new(Faulty::over(&target));
            faulty.fail_call(call, Fault::Io);
            let to: Arc<dyn Storage> = faulty.clone();
            let (mode, progress) = (RestoreMode::Checked, Progress::default());
            let restored = shelf.backups.restore_in(None, &to, mode, &progress);
            match restored {
                Ok(_) => churn.check(&session::open(Arc::new(target), &alone(setup)).unwrap()),
                // A removal may be the call that failed, but not that of `current`.
                Err(e) => assert!(target.list().unwrap().len() <= 1, "{setup}, call {call}: {e}"),
            }
            if faulty.calls() <= call {
                break;
            }
        }
    }
}

/// One byte of each file in turn, in a place that holds data.
#[test]
fn damage_of_a_backup_is_found_and_named() {
    for setup in &Setup::designs() {
        let home = Home::new(setup);
        let db = home.open("db");
        let mut churn = Churn::new(5);
        churn.work(&db, 200);
        churn.write(&db, 20);
        home.back_up(&db);
        let whole = |path: &Path| {
            let name = path.file_name().unwrap().to_str().unwrap().to_owned();
            (name != "lock").then_some(name)
        };
        let mut found = 0;
        for (path, _) in links(&home.path("backups/000001")) {
            let Some(name) = whole(&path) else { continue };
            let mut bytes = fs::read(&path).unwrap();
            let Some(at) = bytes.iter().position(|byte| *byte != 0) else { continue };
            bytes[at] ^= 1;
            fs::write(&path, &bytes).unwrap();
            let told = match home.backups().verify(None, &Progress::default()) {
                Ok(report) => report.problems.iter().map(ToString::to_string).collect(),
                Err(error) => vec![error.to_string()],
            };
            // A part of the log that was flushed, and dead values, are not read.
            let may_be_dead = name.ends_with(".log") || name.ends_with(".seg");
            let may_be_dead = may_be_dead || name.ends_with(".grp");
            assert!(may_be_dead || !told.is_empty(), "{setup}: {name}");
            if !told.is_empty() {
                found += 1;
                let names_it = told.iter().any(|problem| problem.contains(&name));
                let is_manifest = name.ends_with(".manifest");
                assert!(names_it || is_manifest, "{setup}: {name}: {told:?}");
            }
            bytes[at] ^= 1;
            fs::write(&path, &bytes).unwrap();
        }
        assert!(found > 3, "{setup}: {found}");
        // A damaged value is not restored, unless that is wanted.
        home.check(1, &churn);
    }
}
