//! What an open may make, and what it refuses to open.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use cleavedb::{
    Cursor, Db, Durability, ErrorKind, FileClass, Keyspace, Options, Preset, Snapshot, Volume,
    WriteBatch,
};
use cleavedb_storage_sim::Sim;
use cleavedb_testkit::Setup;

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
    assert!(error.message().contains("create it first"), "{error}");
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
    let error = new().expect_err("it is there");
    assert_eq!(error.kind(), ErrorKind::AlreadyExists, "{error}");
    let db = Db::open(&path, options()).unwrap();
    assert_eq!(db.get(b"key").unwrap().as_deref(), Some(&b"value"[..]));
}

/// How values are kept is stored; an open that asks for another way was once obeyed in part.
#[test]
fn a_layout_is_kept_and_another_is_refused() {
    for created in Setup::designs() {
        let sim = Sim::new();
        let open = |options: &Options| Db::open_in(Arc::new(sim.clone()), options.clone(), 7);
        let db = open(&created.options).unwrap();
        db.put(b"key", b"value").unwrap();
        db.close().unwrap();
        let before = sim.history_len();
        for other in Setup::designs() {
            let opened = open(&other.options);
            match other.options.layout() == created.options.layout() {
                true => assert_eq!(opened.unwrap().get(b"key").unwrap().unwrap(), "value"),
                false => {
                    let error = opened.err().unwrap();
                    assert_eq!(error.kind(), ErrorKind::LayoutMismatch, "{created}, {other}");
                }
            }
        }
        assert_eq!(sim.history_len(), before, "{created}: nothing was changed");
    }
}

/// `Db::open` with default options refused a database of another preset, which `Db::builder` and
/// `Db::open_read_only` took.
#[test]
fn every_open_takes_a_database_of_any_preset() {
    for preset in Preset::ALL {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("db");
        let db = Db::open(&path, Options { memory_bytes: 64 << 20, ..Options::preset(preset) });
        db.unwrap().put(b"key", b"value").unwrap();
        type Open = fn(&Path) -> cleavedb::Result<Db>;
        let opens: [Open; 5] = [
            |path| Db::open(path, Options::default()),
            |path| Db::open(path, Options { memory_bytes: 64 << 20, ..Options::default() }),
            |path| Db::builder(path).open(),
            |path| Db::open_read_only(path),
            |path| Db::open_secondary(path),
        ];
        for open in opens {
            let db = open(&path).unwrap();
            assert_eq!(db.get(b"key").unwrap().unwrap(), "value");
            let options = db.options();
            let layout = Options::preset(preset).layout();
            assert_eq!((options.preset, options.layout()), (Some(preset), layout));
            assert_eq!(options.min_separated.is_some(), options.layout().separates());
        }
        // What has a meaning depends on the database that is there.
        let hot = Options { hot_bytes: 1 << 20, ..Options::default() };
        let is_refused = Db::open(&path, hot).err().map(|e| e.kind());
        let has_none = preset != Preset::HoaKv;
        assert_eq!(is_refused, has_none.then_some(ErrorKind::InvalidOptions), "{preset}");
    }
}

/// Options of groups had no effect in other layouts, without an error.
#[test]
fn an_option_without_a_meaning_is_refused() {
    let refused = |preset, change: fn(&mut Options)| {
        let mut options = Options::preset(preset);
        change(&mut options);
        let error = options.validate().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidOptions, "{error}");
    };
    for preset in [Preset::Lsm, Preset::WiscKey, Preset::Ohdb] {
        refused(preset, |o| o.tuning.groups.capacity_bytes = 1 << 30);
    }
    refused(Preset::KtStore, |o| o.tuning.groups.log_segment_bytes = 1 << 16);
    refused(Preset::KtStore, |o| o.tuning.groups.reserved_space = 0.5);
    refused(Preset::Lsm, |o| o.min_separated = Some(100));
    refused(Preset::KtStore, |o| o.hot_bytes = 1 << 20);
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("db");
    Db::open(&path, Options { min_separated: Some(1), ..options() }).err().unwrap();
    assert!(!path.exists(), "nothing was made");
}

/// The directory of a volume that was asked for beside a wrong layout was made.
#[test]
fn a_refused_layout_makes_no_volume() {
    let dir = tempfile::tempdir().unwrap();
    let (path, volume) = (dir.path().join("db"), dir.path().join("volume"));
    drop(Db::open(&path, options()).unwrap());
    let volumes = vec![Volume::new(&volume, [FileClass::Levels])];
    let other = Options { volumes, ..Options::preset(Preset::WiscKey) };
    let error = Db::open(&path, other).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::LayoutMismatch, "{error}");
    assert!(!volume.exists());
}

#[test]
fn options_of_a_database_are_those_that_it_was_created_with() {
    let dir = tempfile::tempdir().unwrap();
    assert!(Db::stored_options(dir.path()).unwrap().is_none());
    assert!(Db::stored_options(dir.path().join("none")).unwrap().is_none());
    let layout = Setup::tagged(true).options.layout;
    let created = Options { layout, ..Options::preset(Preset::HashKv) };
    drop(Db::open(dir.path(), created).unwrap());
    let stored = Db::stored_options(dir.path()).unwrap().unwrap();
    assert_eq!((stored.preset, stored.layout), (Some(Preset::HashKv), layout));
    Db::open(dir.path(), stored).unwrap();
}

/// A limit was forgotten at the close, and the next open wrote without one.
#[test]
fn a_space_limit_is_stored_until_another_is_asked_for() {
    let limit_of = |sim: &Sim, asked| {
        let options = Options { space_limit: asked, ..Setup::tiny(Preset::Lsm, true).options };
        let db = Db::open_in(Arc::new(sim.clone()), options, 7).unwrap();
        db.put(b"key", b"value").unwrap();
        db.options().space_limit
    };
    let sim = Sim::new();
    assert_eq!(limit_of(&sim, Some(64 << 20)), Some(64 << 20));
    assert_eq!(limit_of(&sim, None), Some(64 << 20));
    assert_eq!(limit_of(&sim, Some(80 << 20)), Some(80 << 20));
    let sim = sim.kill();
    assert_eq!(limit_of(&sim, None), Some(80 << 20), "after a kill");
    assert_eq!(limit_of(&sim, Some(u64::MAX)), None);
    assert_eq!(limit_of(&sim, None), None);
}

/// `unwrap_err` of an open did not compile, nor did `derive(Debug)` on a type with a handle.
#[test]
fn handles_can_be_printed() {
    #[derive(Debug)]
    #[expect(dead_code, reason = "printed")]
    struct Program {
        db: Db,
        users: Keyspace,
        snapshot: Snapshot,
        cursor: Cursor,
    }
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path().join("db"), options()).unwrap();
    assert_eq!(Db::open(dir.path().join("db"), options()).unwrap_err().kind(), ErrorKind::Locked);
    let users = db.keyspace("users").unwrap();
    users.put(b"\xff", "value").unwrap();
    let mut cursor = users.cursor(..);
    cursor.next().unwrap();
    let program = format!("{:?}", Program { snapshot: db.snapshot(), db, users, cursor });
    for part in ["Db { preset: Lsm, .. }", "name: \"users\"", "seq: ", "key: Some(b\""] {
        assert!(program.contains(part), "{program}");
    }
}

/// Limits below 1.5 GB were refused, and so was an open without options of a store that had one.
#[test]
fn a_small_space_limit_needs_no_other_option() {
    const LIMIT: u64 = 128 << 20;
    for preset in Preset::ALL {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("db");
        let bytes = || {
            let entries = fs::read_dir(&path).unwrap();
            // A thread may remove a file meanwhile.
            entries
                .filter_map(|entry| entry.unwrap().metadata().ok())
                .map(|it| it.len())
                .sum::<u64>()
        };
        let db = Db::builder(&path).preset(preset).space_limit(LIMIT).open().unwrap();
        let mut batch = WriteBatch::new();
        (0..1000).for_each(|i| _ = batch.put(format!("{i:04}"), vec![i as u8; 2000]).unwrap());
        db.write_with(&batch, Durability::Os).unwrap();
        db.flush().unwrap();
        assert_eq!((db.options().space_limit, bytes() <= LIMIT), (Some(LIMIT), true), "{preset}");
        db.close().unwrap();
        let db = Db::open(&path, Options::preset(preset)).unwrap();
        assert_eq!(db.options().space_limit, Some(LIMIT));
        db.put("0000", "again").unwrap();
        assert_eq!((db.range(..).count(), bytes() <= LIMIT), (1000, true), "{preset}");
    }
}

/// A copy of a table under a higher number refused the open with the advice to restore a backup.
#[test]
fn a_stray_file_with_a_high_number_is_named_with_its_cure() {
    for preset in Preset::ALL {
        let dir = tempfile::tempdir().unwrap();
        let options = || Setup::tiny(preset, true).options;
        let db = Db::open(dir.path(), options()).unwrap();
        db.put(b"key", [7; 5000]).unwrap();
        db.compact().unwrap();
        db.close().unwrap();
        let files = || fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().path());
        for kind in ["tbl", "log", "seg", "grp"] {
            let Some(file) = files().find(|it| it.extension().is_some_and(|it| it == kind)) else {
                continue;
            };
            let stray = dir.path().join(format!("009999.{kind}"));
            fs::copy(&file, &stray).unwrap();
            let error = Db::open(dir.path(), options()).unwrap_err();
            assert_eq!(error.fact("unnamed"), stray.file_name().and_then(|name| name.to_str()));
            assert!(error.to_string().contains("move it away"), "{preset}: {error}");
            fs::remove_file(stray).unwrap();
        }
        let db = Db::open(dir.path(), options()).unwrap();
        assert_eq!(db.get(b"key").unwrap().as_deref(), Some(&[7; 5000][..]), "{preset}");
    }
}
