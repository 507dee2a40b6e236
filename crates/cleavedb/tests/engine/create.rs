//! What an open may make, and what it refuses to open.

use cleavedb::{Db, ErrorKind, FileClass, Options, Preset, Volume};

fn options() -> Options {
    Options::preset(Preset::Lsm)
}

/// A mistyped path, or a disk that is not mounted, must not become a database.
#[test]
fn an_open_makes_its_directory_and_no_parent_of_it() {
    let dir = tempfile::tempdir().unwrap();
    let parent = dir.path().join("parent");
    let error = Db::open(parent.join("db"), options()).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::NotADatabase);
    assert!(error.message().contains("make it first"), "{error}");
    let volumes = vec![Volume::new(parent.join("volume"), [FileClass::Levels])];
    let error = Db::open(dir.path().join("db"), Options { volumes, ..options() }).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::MissingVolume, "{error}");
    assert!(!parent.exists());
    std::fs::create_dir(&parent).unwrap();
    Db::open(parent.join("db"), options()).unwrap();
}

#[test]
fn a_database_that_must_be_new_is_not_opened_if_it_is_there() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("db");
    let new = || Db::open(&path, Options { error_if_exists: true, ..options() });
    new().unwrap().put(b"key", b"value").unwrap();
    let error = new().err().expect("it is there");
    assert_eq!(error.kind(), ErrorKind::AlreadyExists, "{error}");
    let db = Db::open(&path, options()).unwrap();
    assert_eq!(db.get(b"key").unwrap().as_deref(), Some(&b"value"[..]));
}
