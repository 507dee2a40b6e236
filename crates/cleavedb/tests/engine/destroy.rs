//! A destroyed database is gone with all of its volumes, other files stay, and a crash in the midst
//! of it leaves nothing that opens as another database than the whole one.

use std::fs;

use cleavedb::{Db, ErrorKind, Options, Volume};
use cleavedb_storage::{FileKind, Storage};
use cleavedb_storage_sim::sim::PowerLoss;
use cleavedb_testkit::disks::volume_of;
use cleavedb_testkit::{Churn, Disks, Setup, session};

fn destroy(disks: &Disks) -> cleavedb::Result<cleavedb::DestroyReport> {
    let storages = disks.storages();
    Db::destroy_beside(storages[0].clone(), |path| volume_of(&storages, path))
}

/// Files of all disks, but for those that only say that a directory is in use.
fn files(disks: &Disks) -> Vec<FileKind> {
    let all = disks.sims().iter().flat_map(|sim| sim.list().unwrap());
    all.map(|(name, _)| name.kind()).filter(|kind| *kind != FileKind::Lock).collect()
}

fn setups() -> Vec<Setup> {
    Setup::designs().into_iter().chain(Setup::two_disks()).collect()
}

#[test]
fn whatever_the_crash_it_is_whole_or_can_be_destroyed() {
    for setup in &setups() {
        let disks = Disks::new(setup);
        let mut churn = Churn::new(5).over(40);
        let db = session::open_all(&disks.storages(), setup).unwrap();
        churn.write(&db, 150);
        db.sync().unwrap();
        let disks = disks.kill();
        drop(db);
        let before = disks.time();
        let report = destroy(&disks).unwrap();
        assert!(report.files > 3 && report.foreign.is_empty() && files(&disks).is_empty());
        let mut replay = disks.replay();
        for time in before..=disks.time() {
            replay.advance(time);
            let losses = PowerLoss { states_max: 12, seed: time as u64, ..PowerLoss::default() };
            let images = replay.power_loss(&losses).into_iter().chain([replay.process_kill()]);
            for images in images {
                let left = Disks::from_images(&images, setup);
                let options = Options { create_if_missing: false, ..setup.options.clone() };
                let only = Setup { options, ..setup.clone() };
                match session::open_all(&left.storages(), &only) {
                    Ok(db) => {
                        churn.check(&db);
                        db.close().unwrap();
                    }
                    Err(e) => assert_ne!(e.kind(), ErrorKind::Io, "{setup}: {e}"),
                }
                match destroy(&left) {
                    Ok(_) => {}
                    Err(e) => assert_eq!(e.kind(), ErrorKind::NotADatabase, "{setup}: {e}"),
                }
                assert!(files(&left).is_empty(), "{setup}, {time}: {:?}", files(&left));
                let db = session::open_all(&left.storages(), setup).unwrap();
                assert!(db.range(..).next().is_none(), "{setup}: it is a new one");
            }
        }
    }
}

#[test]
fn what_is_no_database_or_in_use_is_refused_and_other_files_stay() {
    let dir = tempfile::tempdir().unwrap();
    let refused = |path: &std::path::Path, kind| {
        let before = fs::read_dir(path).map(Iterator::count).unwrap_or_default();
        assert_eq!(Db::destroy(path).unwrap_err().kind(), kind);
        assert_eq!(fs::read_dir(path).map(Iterator::count).unwrap_or_default(), before);
    };
    refused(&dir.path().join("missing"), ErrorKind::NotADatabase);
    let (path, volume) = (dir.path().join("db"), dir.path().join("volume"));
    fs::create_dir(&path).unwrap();
    refused(&path, ErrorKind::NotADatabase);
    // A name that CleaveDB uses is no proof.
    fs::write(path.join("000012.log"), "of another program").unwrap();
    refused(&path, ErrorKind::NotADatabase);
    fs::remove_file(path.join("000012.log")).unwrap();
    let volumes = vec![Volume::new(&volume, [cleavedb::FileClass::Level0])];
    let options = Options { volumes, ..Options::default() };
    let db = Db::open(&path, options.clone()).unwrap();
    db.put("key", "value").unwrap();
    db.flush().unwrap();
    refused(&path, ErrorKind::Locked);
    refused(&volume, ErrorKind::NotADatabase);
    db.close().unwrap();
    let reader = Db::open_read_only(&path).unwrap();
    refused(&path, ErrorKind::Locked);
    drop(reader);
    fs::rename(&volume, dir.path().join("elsewhere")).unwrap();
    refused(&path, ErrorKind::MissingVolume);
    fs::create_dir(&volume).unwrap();
    refused(&path, ErrorKind::MissingVolume);
    fs::remove_dir(&volume).unwrap();
    fs::rename(dir.path().join("elsewhere"), &volume).unwrap();
    for place in [&path, &volume] {
        fs::write(place.join("notes.txt"), "x").unwrap();
    }
    let report = Db::destroy(&path).unwrap();
    assert_eq!(report.foreign, [path.join("notes.txt"), volume.join("notes.txt")]);
    for place in [&path, &volume] {
        let names = fs::read_dir(place).unwrap().map(|entry| entry.unwrap().file_name());
        assert_eq!(names.collect::<Vec<_>>(), ["notes.txt"]);
    }
}
