//! Stores that earlier builds have written are read, changed and saved as those of this one.

use std::fs;
use std::path::{Path, PathBuf};

use cleavedb::{Db, ErrorKind, Options, Preset};
use cleavedb_testkit::golden::{all, content, file_of, options, salvaged, unpack};

fn golden() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../data/golden")
}

/// The archives of all releases, each with its preset.
fn archives() -> Vec<(PathBuf, Preset)> {
    let mut archives = Vec::new();
    for release in fs::read_dir(golden()).unwrap() {
        for archive in fs::read_dir(release.unwrap().path()).unwrap() {
            let path = archive.unwrap().path();
            let name = path.file_name().unwrap().to_str().unwrap().to_owned();
            let preset = Preset::ALL.into_iter().find(|preset| {
                name.strip_prefix(preset.name()).is_some_and(|rest| rest.starts_with('-'))
            });
            archives.push((path, preset.unwrap_or_else(|| panic!("{name} has no preset"))));
        }
    }
    archives
}

#[test]
fn every_preset_has_its_golden_stores() {
    for (preset, left) in all() {
        let file = file_of(&golden(), preset, left);
        assert!(file.exists(), "{} is missing: see docs/testing.md", file.display());
    }
}

#[test]
fn golden_stores_are_read_as_they_were_written() {
    for (archive, preset) in archives() {
        let dir = tempfile::tempdir().unwrap();
        let (store, expected) = unpack(&archive, dir.path()).unwrap();
        let same = |found: String, how: &str| {
            let differs = expected.lines().zip(found.lines()).find(|(a, b)| a != b);
            assert!(found == expected, "{}, {how}: {differs:?}", archive.display());
        };
        same(salvaged(&store).unwrap(), "salvaged");
        let read = Options { create_if_missing: false, ..options(preset) };
        let db = Db::open_read_only_with(&store, read.clone()).unwrap();
        same(content(&db).unwrap(), "read only");
        assert!(db.verify().unwrap().problems.is_empty());
        drop(db);
        let db = Db::open(&store, read.clone()).unwrap();
        same(content(&db).unwrap(), "opened");
        for n in 0..100u32 {
            db.put(format!("new{n:03}"), vec![n as u8; 1000]).unwrap();
        }
        db.flush().and_then(|()| db.compact()).and_then(|()| db.collect()).unwrap();
        db.delete_range("new"..).unwrap();
        same(content(&db).unwrap(), "after jobs");
        db.close().unwrap();
        let db = Db::open(&store, read).unwrap();
        same(content(&db).unwrap(), "opened again");
        assert!(db.verify().unwrap().problems.is_empty());
    }
}

/// The version stands in `current`, and is read before anything else.
#[test]
fn a_store_of_a_newer_release_is_refused() {
    let (archive, preset) = archives().remove(0);
    let dir = tempfile::tempdir().unwrap();
    let (store, _) = unpack(&archive, dir.path()).unwrap();
    let current = fs::read_to_string(store.join("current")).unwrap();
    let newer = current.replacen("format 1", "format 2", 1);
    assert_ne!(current, newer);
    fs::write(store.join("current"), newer).unwrap();
    let refused = Db::open(&store, options(preset)).err().unwrap();
    assert_eq!(refused.kind(), ErrorKind::NewerFormat, "{refused}");
    assert!(refused.to_string().contains("version 2"), "{refused}");
}
