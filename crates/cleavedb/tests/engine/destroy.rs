//! A destroyed database is gone with all of its volumes, other files stay, and a crash in the midst
//! of it leaves nothing that opens as another database than the whole one.

use std::fs;

use cleavedb::{Db, ErrorKind, Options, Volume};
use cleavedb_testkit::Setup;
use cleavedb_testkit::destroyed::destroyed_at_any_crash;

#[test]
fn whatever_the_crash_it_is_whole_or_can_be_destroyed() {
    for setup in Setup::designs().iter().chain(&Setup::two_disks()) {
        (0..2).for_each(|seed| destroyed_at_any_crash(setup, seed));
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
    db.backup(dir.path().join("backups")).unwrap();
    refused(&dir.path().join("backups").join("000001"), ErrorKind::InvalidArgument);
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
