//! A database becomes one of another preset: with all that it has, whatever stops the change, and
//! with the work of calls that were stopped.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use cleavedb::{
    Db, Error, ErrorKind, FileClass, KeyspaceOptions, MergeOperators, Operand, Options, Preset,
    Progress, PutOptions, ValueCompression, Volume,
};
use cleavedb_storage::{Disk, FileKind, Name, RemoveMode, Storage, StorageLayer};
use cleavedb_storage_sim::faulty::Fault;
use cleavedb_testkit::budget::of;
use cleavedb_testkit::disks::volume_of;
use cleavedb_testkit::migrated::{
    a_migration_has_all, empty, migrate, migrated_at_any_crash, migrated_despite_faults,
};
use cleavedb_testkit::{Disks, Setup, session};

/// Each design that is another one than `from`.
fn others(from: &Setup) -> impl Iterator<Item = Setup> {
    let (layout, preset) = (from.options.layout(), from.options.preset);
    Setup::every_design()
        .into_iter()
        .filter(move |to| to.options.layout() != layout || to.options.preset != preset)
}

#[test]
fn every_design_becomes_every_other_with_all_that_it_has() {
    for from in Setup::every_design() {
        let from = if from.has_blobs() { from } else { from.with_blobs() };
        for to in others(&from) {
            for seed in 0..of(2, 4, 12) {
                // Blobs become values where the other one has none.
                let to = if seed % 2 == 0 { to.clone() } else { to.clone().with_blobs() };
                a_migration_has_all(&from, &to, seed)
                    .unwrap_or_else(|failure| panic!("{from} to {to}, seed {seed}: {failure}"));
            }
        }
    }
}

#[test]
fn a_crash_leaves_the_one_or_the_other_whole() {
    for from in Setup::designs() {
        for to in others(&from).filter(|to| to.options.layout() != from.options.layout()) {
            migrated_at_any_crash(&from, &to, 3);
        }
    }
}

/// Whichever call fails, once or from then on, or finds the disk full.
#[test]
fn whatever_fails_the_next_call_ends_it() {
    let pairs = [(Preset::Lsm, Preset::Cleave), (Preset::HoaKv, Preset::HashKv)];
    for (from, to) in pairs.map(|(from, to)| (Setup::tiny(from, true), Setup::tiny(to, true))) {
        let (from, mut to) = (&from.with_blobs(), to.with_blobs());
        // Loads are finished again and again.
        to.options.tuning.memtable_bytes = Some(64 << 10);
        for (fault, lasts) in [(Fault::Io, false), (Fault::NoSpace, true), (Fault::Io, true)] {
            let found = migrated_despite_faults([from, &to], 5, |faulty, call| match lasts {
                true => faulty.fail_from(call, fault),
                false => faulty.fail_call(call, fault),
            });
            let found = found.unwrap_or_else(|e| panic!("{from} to {to}, {fault:?}: {e}"));
            assert!(found > 0, "{from} to {to}: no call goes on");
        }
    }
}

/// A store of `preset` that `fill` has filled, closed.
fn filled(setup: &Setup, fill: impl FnOnce(&Db)) -> Disks {
    let disks = empty(setup);
    let db = session::open(disks.storages()[0].clone(), setup).unwrap();
    fill(&db);
    db.close().unwrap();
    disks
}

fn opened(disks: &Disks, setup: &Setup) -> Db {
    session::open(disks.storages()[0].clone(), setup).unwrap()
}

#[test]
fn keyspaces_go_over_with_what_is_stored_for_them() {
    let every = KeyspaceOptions {
        min_separated: Some(77),
        ttl: Some(Duration::from_secs(60)),
        compression: Some(ValueCompression::ZstdDictionary),
    };
    for (from, to) in [(Preset::WiscKey, Preset::HashKv), (Preset::Cleave, Preset::Lsm)] {
        let separates = to != Preset::Lsm;
        let (from, to) = (Setup::tiny(from, true), Setup::tiny(to, true));
        let mut keeping = from.clone();
        keeping.options.change_retention_bytes = Some(1 << 20);
        keeping.options.space_limit = Some(64 << 20);
        let mut seq = 0;
        let disks = filled(&keeping, |db| {
            db.default_keyspace().store_min_separated(Some(555)).unwrap();
            db.create_keyspace("empty", KeyspaceOptions::default()).unwrap();
            let all = db.create_keyspace("all", every).unwrap();
            for number in 0..200u32 {
                all.put(number.to_be_bytes(), format!("value {number} ").repeat(30)).unwrap();
            }
            all.put_with("for good", "x", PutOptions::new().until(None)).unwrap();
            db.put("", "").unwrap();
            db.put([7; 65_533], [7; 5000]).unwrap();
            seq = db.snapshot().seq();
        });
        assert_eq!(migrate(&disks.storages(), &to).unwrap().copied, 203);
        let db = opened(&disks, &to);
        let names: Vec<_> = db.keyspaces().unwrap().iter().map(|it| it.name().to_owned()).collect();
        assert_eq!(names, ["all", "empty"]);
        let all = db.keyspace("all").unwrap();
        let least = every.min_separated.filter(|_| separates);
        assert_eq!(
            all.stored_options().unwrap(),
            KeyspaceOptions { min_separated: least, ..every }
        );
        assert_eq!(db.options().min_separated, Some(555).filter(|_| separates));
        assert_eq!(db.options().space_limit, Some(64 << 20));
        assert_eq!(db.options().change_retention_bytes, Some(1 << 20));
        for number in 0..200u32 {
            let (value, expires) = all.get_with_expiry(number.to_be_bytes()).unwrap().unwrap();
            assert!(value == format!("value {number} ").repeat(30) && expires.is_some());
        }
        assert_eq!(all.get_with_expiry("for good").unwrap().unwrap().1, None);
        assert_eq!(db.get("").unwrap().unwrap(), "");
        assert_eq!(db.get([7; 65_533]).unwrap().unwrap(), [7; 5000].as_slice());
        // Readers of changes are told that they have missed some.
        assert!(db.snapshot().seq() > seq, "numbers are given out twice");
        db.put("later", "x").unwrap();
        assert_eq!(db.changes(seq).map(drop).unwrap_err().kind(), ErrorKind::NotRetained);
    }
}

#[test]
fn operands_that_cannot_be_applied_go_over_as_they_are() {
    for (from, to) in [(Preset::HoaKv, Preset::Ohdb), (Preset::Lsm, Preset::HoaKv)] {
        let (from, to) = (Setup::tiny(from, true), Setup::tiny(to, true));
        let disks = filled(&from, |db| {
            for (key, value) in [("plaited", "a short value".to_owned()), ("long", "v".repeat(900))]
            {
                db.put(key, value).unwrap();
                for byte in [1, 2] {
                    db.merge(key, &Operand::new("plait", vec![byte; 8])).unwrap();
                }
            }
            db.merge("from nothing", &Operand::new("plait", vec![3; 8])).unwrap();
            db.put("name", "Ada").unwrap();
            db.merge("name", &Operand::add(1)).unwrap();
            db.merge("name", &Operand::add(2)).unwrap();
            db.put("number", "40").unwrap();
            db.merge("number", &Operand::add(2)).unwrap();
        });
        let keys = ["plaited", "long", "from nothing"];
        let db = opened(&disks, &from);
        let before = keys.map(|key| db.get(key).unwrap().unwrap());
        db.close().unwrap();
        let mut unknowing = to.clone();
        unknowing.options.merge_operators = MergeOperators::default();
        assert_eq!(migrate(&disks.storages(), &unknowing).unwrap().copied, 5);
        let db = opened(&disks, &to);
        db.compact().unwrap();
        assert_eq!(keys.map(|key| db.get(key).unwrap().unwrap()), before);
        assert_eq!(db.get("number").unwrap().unwrap(), "42");
        assert_eq!(db.get("name").unwrap_err().kind(), ErrorKind::Merge);
        assert_eq!(db.default_keyspace().get_below_failed_merge("name").unwrap().unwrap(), "Ada");
    }
}

#[test]
fn where_the_layout_is_the_same_only_the_name_changes() {
    let [ktstore, cleave] = [Preset::KtStore, Preset::Cleave].map(|it| Setup::tiny(it, true));
    let [ktstore, cleave] = [ktstore, cleave].map(|it| it.on_two_disks([FileClass::Groups]));
    let disks = Disks::new(&ktstore);
    let db = session::open_all(&disks.storages(), &ktstore).unwrap();
    db.put("key", [1; 900]).unwrap();
    db.close().unwrap();
    let files =
        |disks: &Disks| disks.sims().iter().map(|it| it.list().unwrap()).collect::<Vec<_>>();
    let before = files(&disks);
    for _ in 0..2 {
        let volume = |path: &Path, _| volume_of(&disks.storages(), path);
        let mut options = cleave.options.clone();
        options.volumes.clear();
        let own = disks.storages()[0].clone();
        let report = Db::migrate_beside(own, volume, options, &Progress::default()).unwrap();
        assert_eq!((report.to, report.copied), (Preset::Cleave, 0));
        assert_eq!(files(&disks).len(), before.len());
    }
    let db = session::open_all(&disks.storages(), &cleave).unwrap();
    assert_eq!(db.get("key").unwrap().unwrap(), [1; 900].as_slice());
}

fn refused<T: std::fmt::Debug>(result: Result<T, Error>, kind: ErrorKind, word: &str) {
    let error = result.unwrap_err();
    assert!(error.kind() == kind && error.to_string().contains(word), "{error}");
}

#[test]
fn what_cannot_be_migrated_is_refused_and_stays() {
    let dir = tempfile::tempdir().unwrap();
    let (path, volume) = (dir.path().join("db"), dir.path().join("volume"));
    let lsm = || Options::preset(Preset::Lsm);
    refused(Db::migrate(&path, lsm()), ErrorKind::NotADatabase, "no database");
    let on_volume = vec![Volume::new(&volume, [FileClass::Levels])];
    let with_volume = Options { volumes: on_volume, ..Options::preset(Preset::WiscKey) };
    let db = Db::open(&path, with_volume.clone()).unwrap();
    db.put("key", "value").unwrap();
    refused(Db::migrate(&path, lsm()), ErrorKind::Locked, "open");
    db.close().unwrap();
    refused(Db::migrate(&path, lsm()), ErrorKind::InvalidOptions, "volumes");
    let plain = dir.path().join("plain");
    Db::open(&plain, lsm()).unwrap().put("key", "value").unwrap();
    refused(Db::migrate(&plain, with_volume), ErrorKind::InvalidOptions, "volumes");
    assert!(!plain.join("cleavedb-migration").exists());
    // An open with another preset says how to get one.
    refused(
        Db::open(&plain, Options::preset(Preset::HashKv)),
        ErrorKind::LayoutMismatch,
        "migrate",
    );
    for (path, preset) in [(&path, Preset::WiscKey), (&plain, Preset::Lsm)] {
        let db = Db::builder(path).open().unwrap();
        assert_eq!(db.options().preset, Some(preset));
        assert_eq!(db.get("key").unwrap().unwrap(), "value");
    }
}

#[test]
fn a_disk_without_room_is_told_before_anything_is_copied() {
    let (from, to) = (Setup::tiny(Preset::Lsm, true), Setup::tiny(Preset::HashKv, true));
    let disks = filled(&from, |db| {
        (0..200u32).for_each(|number| db.put(number.to_be_bytes(), [7; 3000]).unwrap());
    });
    disks.sims()[1].set_capacity(100_000);
    refused(migrate(&disks.storages(), &to), ErrorKind::NoSpace, "no room");
    assert!(disks.sims()[1].list().unwrap().is_empty());
    disks.sims()[1].set_capacity(u64::MAX);
    assert_eq!(migrate(&disks.storages(), &to).unwrap().copied, 200);
}

/// A store in `path`, and a migration of it to `to` that was stopped behind the first key.
fn stopped(path: &Path, to: Options) {
    let db = Db::open(path, Options::preset(Preset::WiscKey)).unwrap();
    (0..100u32).for_each(|number| db.put(number.to_be_bytes(), [7; 3000]).unwrap());
    db.close().unwrap();
    let progress = Progress::default();
    progress.stop();
    refused(Db::migrate_with(path, to, &progress), ErrorKind::Stopped, "stopped");
}

#[test]
fn a_call_that_was_stopped_is_gone_on_with_unless_something_has_changed() {
    let to = || Options::preset(Preset::Lsm);
    let of_any = |path: &Path| Db::builder(path).open().unwrap();
    type Change = fn(&Path);
    let unchanged: Change = |_| {};
    let written: Change = |path| Db::builder(path).open().unwrap().put("late", "x").unwrap();
    let compacted: Change = |path| Db::builder(path).open().unwrap().compact().unwrap();
    let moved: Change = |path| {
        let elsewhere = path.with_extension("moved");
        fs::create_dir(&elsewhere).unwrap();
        for entry in fs::read_dir(path)
            .unwrap()
            .chain(fs::read_dir(path.join("cleavedb-migration")).unwrap())
        {
            let from = entry.unwrap().path();
            let to = elsewhere.join(from.strip_prefix(path).unwrap());
            if from.is_dir() {
                fs::create_dir(&to).unwrap();
            } else {
                fs::copy(&from, &to).unwrap();
            }
        }
        fs::remove_dir_all(path).unwrap();
        fs::rename(&elsewhere, path).unwrap();
    };
    let damaged: Change = |path| {
        let files = fs::read_dir(path.join("cleavedb-migration"))
            .unwrap()
            .map(|entry| entry.unwrap().path());
        let manifest =
            files.into_iter().find(|it| it.extension().is_some_and(|it| it == "manifest"));
        fs::write(manifest.unwrap(), "x").unwrap();
    };
    for (change, found) in [(unchanged, 1), (written, 0), (compacted, 0), (moved, 0), (damaged, 0)]
    {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("db");
        stopped(&path, to());
        change(&path);
        let is_late = of_any(&path).contains_key("late").unwrap();
        let report = Db::migrate(&path, to()).unwrap();
        assert_eq!((report.found, report.found + report.copied), (found, 100 + u64::from(is_late)));
        assert!(!path.join("cleavedb-migration").exists());
        let db = of_any(&path);
        assert_eq!(
            (db.options().preset, db.range(..).count() as u64),
            (Some(Preset::Lsm), report.found + report.copied)
        );
        // Nothing of the old store or of the copy is left, and no file has a second name.
        for entry in fs::read_dir(&path).unwrap() {
            let (name, links) =
                (entry.as_ref().unwrap().path(), entry.unwrap().metadata().unwrap().nlink());
            assert_eq!(links, 1, "{}", name.display());
        }
        assert!(db.verify().unwrap().problems.is_empty());
        db.close().unwrap();
        assert_eq!(Db::open(&path, to()).unwrap().recovery_report().orphans_removed, 0);
    }
}

/// As after a mistake of the copying, or damage that no checksum sees.
#[test]
fn a_copy_that_differs_does_not_take_the_place() {
    type Change = fn(&Db) -> Result<(), Error>;
    let value: Change = |copy| copy.put(0u32.to_be_bytes(), [8; 3000]);
    let length: Change = |copy| copy.put(0u32.to_be_bytes(), [7; 2999]);
    let expiry: Change = |copy| {
        let hour = PutOptions::new().ttl(Duration::from_secs(3600));
        copy.put_with(0u32.to_be_bytes(), [7; 3000], hour)
    };
    let operand: Change = |copy| copy.merge(0u32.to_be_bytes(), &Operand::append("x"));
    let key: Change = |copy| copy.put("one too many", "x");
    for change in [value, length, expiry, operand, key] {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("db");
        stopped(&path, Options::preset(Preset::Lsm));
        change(&Db::builder(path.join("cleavedb-migration")).open().unwrap()).unwrap();
        let differs = Db::migrate(&path, Options::preset(Preset::Lsm));
        refused(differs, ErrorKind::Corruption, "differs");
        let db = Db::builder(&path).open().unwrap();
        assert_eq!((db.options().preset, db.range(..).count()), (Some(Preset::WiscKey), 100));
        db.close().unwrap();
        fs::remove_dir_all(path.join("cleavedb-migration")).unwrap();
        assert_eq!(Db::migrate(&path, Options::preset(Preset::Lsm)).unwrap().copied, 100);
    }
}

#[test]
fn a_copy_that_is_left_goes_with_the_store() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("db");
    stopped(&path, Options::preset(Preset::Lsm));
    assert!(path.join("cleavedb-migration").join("current").exists());
    assert_eq!(Db::destroy(&path).unwrap().foreign, [] as [&Path; 0]);
    assert_eq!(fs::read_dir(&path).unwrap().count(), 0);
}

#[test]
fn a_copy_that_is_not_wanted_goes_with_a_migration_to_what_there_is() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("db");
    stopped(&path, Options::preset(Preset::Lsm));
    assert_eq!(Db::migrate(&path, Options::preset(Preset::WiscKey)).unwrap().copied, 0);
    assert!(!path.join("cleavedb-migration").exists());
    assert_eq!(Db::builder(&path).open().unwrap().range(..).count(), 100);
}

/// A directory of which `current` cannot be removed.
struct Lasting(Disk);

impl StorageLayer for Lasting {
    fn inner(&self) -> &dyn Storage {
        &self.0
    }

    fn remove(&self, name: &Name, pace: RemoveMode) -> io::Result<()> {
        match name.kind() {
            FileKind::Current => Err(io::ErrorKind::PermissionDenied.into()),
            _ => self.0.remove(name, pace),
        }
    }
}

/// As after a kill between the exchange and the removal of the copy.
#[test]
fn a_copy_that_has_taken_the_place_goes_with_the_next_open() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("db");
    stopped(&path, Options::preset(Preset::Lsm));
    let copy = |_: &Path, create| -> io::Result<Arc<dyn Storage>> {
        Ok(Arc::new(Lasting(Disk::open(path.join("cleavedb-migration"), create)?)))
    };
    let (own, options) = (Disk::open(&path, false).unwrap(), Options::preset(Preset::Lsm));
    let late = Db::migrate_beside(Arc::new(own), copy, options, &Progress::default());
    refused(late, ErrorKind::Io, "remove");
    assert!(path.join("cleavedb-migration").exists());
    let db = Db::open(&path, Options::preset(Preset::Lsm)).unwrap();
    assert_eq!(db.range(..).count(), 100);
    assert!(!path.join("cleavedb-migration").exists());
}
