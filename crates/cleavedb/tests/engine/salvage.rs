//! Salvage: small stores of every preset, with each file removed or damaged in turn.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use cleavedb::reports::SalvageReport;
use cleavedb::{
    Background, Db, Durability, KeyspaceOptions, Operand, Options, Preset, Salvage, Saved, Tuning,
    ValueCompression,
};
use cleavedb_testkit::budget::{first_seed, in_turn, of};

pub(crate) type State = BTreeMap<Vec<u8>, Vec<u8>>;

fn options(preset: Preset) -> Options {
    let mut options = Options {
        background: Background::Manual,
        tuning: Tuning {
            memtable_bytes: Some(64 << 10),
            log_file_bytes: 64 << 10,
            segment_bytes: 64 << 10,
            memtable_log_bytes: 64 << 10,
            window_bytes: Some(256 << 10),
            table_bytes: 16 << 10,
            level0_bytes: Some(64 << 10),
            level1_bytes: Some(256 << 10),
            blob_bytes: 400,
            ..Tuning::default()
        },
        ..Options::preset(preset)
    };
    if options.layout().has_hot_store() {
        // Every key becomes hot, and some leave.
        (options.tuning.groups.heat_limit, options.hot_bytes) = (Some(1), 32 << 10);
    }
    options
}

/// Writes a store in which keys were overwritten, deleted, compacted and collected, and some were
/// written last and not flushed; leaves a copy as of a kill in `to`, and says what it holds.
pub(crate) fn plant(preset: Preset, to: &Path) -> State {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path(), options(preset)).unwrap();
    let mut state = State::new();
    let key = |number: u32| format!("key{number:04}").into_bytes();
    let put = |state: &mut State, number: u32, round: u32| {
        let value = format!("{number} in round {round}, ").repeat(1 + number as usize % 40);
        match number % 4 {
            // A blob, if it is long enough.
            0 => {
                _ = db
                    .default_keyspace()
                    .put_reader_with(key(number), value.as_bytes(), Durability::Os)
                    .unwrap()
            }
            _ => db.put_with(key(number), value.as_bytes(), Durability::Os).unwrap(),
        }
        state.insert(key(number), value.into_bytes());
    };
    let delete = |state: &mut State, number: u32| {
        db.delete_with(key(number), Durability::Os).unwrap();
        state.remove(&key(number));
    };
    (0..300).for_each(|number| put(&mut state, number, 1));
    (0..300).step_by(3).for_each(|number| put(&mut state, number, 2));
    (0..300).step_by(7).for_each(|number| delete(&mut state, number));
    db.compact().unwrap();
    db.collect().unwrap();
    (0..300).step_by(5).for_each(|number| put(&mut state, number, 3));
    (1..300).step_by(11).for_each(|number| delete(&mut state, number));
    db.flush().unwrap();
    if db.metrics().hot.is_some() {
        // A file of evacuated segments that was not removed yet would look like lost edits.
        db.wait_idle().unwrap();
    }
    (290..310).for_each(|number| put(&mut state, number, 4));
    (2..300).step_by(50).for_each(|number| delete(&mut state, number));
    fs::create_dir(to).unwrap();
    for path in files(dir.path()) {
        fs::copy(&path, to.join(path.file_name().unwrap())).unwrap();
    }
    state
}

pub(crate) fn files(dir: &Path) -> Vec<PathBuf> {
    let mut files: Vec<_> = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

pub(crate) fn contents(dir: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    files(dir).into_iter().map(|path| (path.clone(), fs::read(&path).unwrap())).collect()
}

/// Salvages `dir`, which stays as it is.
fn saved(dir: &Path) -> (State, SalvageReport) {
    let (before, mut saved) = (contents(dir), State::new());
    let salvage = Salvage::search(dir).unwrap();
    let report = salvage
        .hand_out(&mut |Saved { keyspace, key, value, expires }| {
            assert_eq!((keyspace, expires), ("default", None));
            assert!(saved.insert(key.to_vec(), value.to_vec()).is_none(), "handed out once");
            Ok(())
        })
        .unwrap();
    assert_eq!(report.keys, saved.len() as u64);
    assert!(contents(dir) == before, "a damaged store is never changed");
    (saved, report)
}

/// No value is wrong in silence, and no key is missing in silence.
fn check(saved: &State, report: &SalvageReport, state: &State, what: &str) {
    let uncertain: BTreeSet<_> = report.uncertain.iter().collect();
    for (key, value) in saved {
        let right = state.get(key) == Some(value) || report.stale;
        let shown = String::from_utf8_lossy(key);
        assert!(right || uncertain.contains(key), "{what}: {shown} is wrong and not uncertain");
    }
    for key in state.keys().filter(|key| !saved.contains_key(*key)) {
        let told = report.lost.contains(key) || report.stale;
        let shown = String::from_utf8_lossy(key);
        assert!(told, "{what}: {shown} is missing in silence: {report:?}");
    }
}

pub(crate) fn copy(from: &Path, to: &Path) {
    let _ = fs::remove_dir_all(to);
    fs::create_dir(to).unwrap();
    for path in files(from) {
        fs::copy(&path, to.join(path.file_name().unwrap())).unwrap();
    }
}

pub(crate) fn for_each_preset(test: impl Fn(Preset, &Path, &Path, &State)) {
    for preset in in_turn(Preset::ALL.into()) {
        let dir = tempfile::tempdir().unwrap();
        let (whole, broken) = (dir.path().join("whole"), dir.path().join("broken"));
        let state = plant(preset, &whole);
        copy(&whole, &broken);
        test(preset, &whole, &broken, &state);
    }
}

#[test]
fn keyspaces_are_saved_by_name_and_deleted_ranges_stay_deleted() {
    for preset in Preset::ALL {
        let dir = tempfile::tempdir().unwrap();
        let (path, mut expected) = (dir.path().join("db"), BTreeMap::new());
        let mut options = Options::preset(preset);
        options.tuning.memtable_bytes = Some(64 << 10);
        let db = Db::open(&path, options).unwrap();
        let gone = db.keyspace("gone").unwrap();
        for name in ["default", "users", "gone"] {
            let keyspace = db.keyspace(name).unwrap();
            for i in 0..60 {
                let (key, value) = (format!("{i:02}"), format!("{name} {i}").repeat(40));
                keyspace.put_with(&key, &value, Durability::Os).unwrap();
                if name != "gone" && !(20..40).contains(&i) {
                    expected.insert((name.to_owned(), key.into_bytes()), value.into_bytes());
                }
            }
            db.flush().unwrap();
            keyspace.delete_range("20".."40").unwrap();
        }
        drop(gone);
        db.drop_keyspace("gone").unwrap();
        db.close().unwrap();
        let mut saved = BTreeMap::new();
        let salvage = Salvage::search(&path).unwrap();
        let report = salvage.hand_out(&mut |Saved { keyspace, key, value, .. }| {
            saved.insert((keyspace.to_owned(), key.to_vec()), value.to_vec());
            Ok(())
        });
        let report = report.unwrap();
        let names =
            |of: &BTreeMap<(String, Vec<u8>), Vec<u8>>| -> Vec<_> { of.keys().cloned().collect() };
        assert_eq!(names(&saved), names(&expected), "{preset}");
        assert!(saved == expected, "{preset}");
        let whole = (report.keys, report.damages) == (expected.len() as u64, 0);
        assert!(whole, "{preset}: {report:?}");
    }
}

/// Keyspaces came back with default options, empty ones did not, and nothing was said.
#[test]
fn what_is_stored_beside_keys_comes_back() {
    for preset in Preset::ALL {
        let dir = tempfile::tempdir().unwrap();
        let separates = Options::preset(preset).layout().separates();
        let sessions = KeyspaceOptions {
            min_separated: separates.then_some(9),
            ttl: Some(Duration::from_secs(3600)),
            compression: Some(ValueCompression::Zstd),
        };
        let limits = (Some(8 << 30), Some(1 << 20));
        let (space_limit, change_retention_bytes) = limits;
        let stored = Options { space_limit, change_retention_bytes, ..options(preset) };
        let db = Db::open(dir.path(), stored).unwrap();
        db.create_keyspace("sessions", sessions).unwrap().put("key", "value").unwrap();
        let empty = db.create_keyspace("empty", KeyspaceOptions::default()).unwrap();
        empty.store_ttl(Some(Duration::from_secs(300))).unwrap();
        db.create_keyspace("gone", sessions).unwrap();
        db.flush().unwrap();
        db.drop_keyspace("gone").unwrap();
        if separates {
            db.default_keyspace().store_min_separated(Some(77)).unwrap();
        }
        db.close().unwrap();
        let salvage = Salvage::search(dir.path()).unwrap();
        let mut names: Vec<_> = salvage.keyspaces().collect();
        names.sort_unstable_by_key(|(name, _)| *name);
        let ttl = Some(Duration::from_secs(300));
        let of_empty = KeyspaceOptions { ttl, ..KeyspaceOptions::default() };
        assert_eq!(names, [("empty", of_empty), ("sessions", sessions)], "{preset}");
        assert_eq!(salvage.min_separated(), separates.then_some(77), "{preset}");
        let like = salvage.options();
        assert_eq!((like.space_limit, like.change_retention_bytes), limits, "{preset}");
        let is_stored = like.min_separated == Some(77);
        assert_eq!(is_stored, separates, "{preset}");
        assert!(salvage.volumes().is_empty());
        let report = salvage.hand_out(&mut |_| Ok(())).unwrap();
        assert_eq!((report.keys, report.damages), (1, 0), "{preset}: {report:?}");
    }
}

/// A key with a merge that does not fit was dropped.
#[test]
fn the_value_below_a_merge_that_does_not_fit_is_saved() {
    for preset in Preset::ALL {
        let dir = tempfile::tempdir().unwrap();
        let (whole, copied) = (dir.path().join("db"), dir.path().join("copy"));
        let db = Db::open(&whole, options(preset)).unwrap();
        for (key, value) in [("short", "Ada".to_owned()), ("long", "Ada ".repeat(900))] {
            db.put(key, value).unwrap();
            db.merge(key, &Operand::append(".")).unwrap();
            db.merge(key, &Operand::add(1)).unwrap();
        }
        for flush in [false, true] {
            if flush {
                db.flush().unwrap();
            }
            copy(&whole, &copied);
            let (found, report) = saved(&copied);
            assert_eq!(found[&b"short"[..]], b"Ada.", "{preset}");
            assert_eq!(found[&b"long"[..]], format!("{}.", "Ada ".repeat(900)).as_bytes());
            let mut named = report.unmerged.clone();
            named.sort();
            assert_eq!(named, [b"long".to_vec(), b"short".to_vec()], "{preset}: {report:?}");
            assert_eq!((report.lost_keys, report.unmerged_keys), (0, 2), "{preset}");
        }
    }
}

/// Operands in the log, in tables and, under `hashkv`, in groups: each counts once.
#[test]
fn values_are_saved_with_what_merges_have_changed() {
    for preset in Preset::ALL {
        let dir = tempfile::tempdir().unwrap();
        let (whole, copied) = (dir.path().join("db"), dir.path().join("copy"));
        let db = Db::open(&whole, options(preset)).unwrap();
        let mut expected = State::new();
        let key = |number: u32| format!("{number:02}").into_bytes();
        for number in (0..40).filter(|number| number % 3 != 0) {
            let value = vec![b'v'; 30 * number as usize];
            db.put_with(key(number), &value, Durability::Os).unwrap();
            expected.insert(key(number), value);
        }
        for round in 0..4u32 {
            for number in 0..40 {
                let more = format!(" {number} in round {round}");
                db.default_keyspace()
                    .merge_with(key(number), &Operand::append(&*more), Durability::Os)
                    .unwrap();
                expected.entry(key(number)).or_default().extend_from_slice(more.as_bytes());
            }
            match round {
                0 => db.flush().unwrap(),
                1 => db.compact().and_then(|()| db.collect()).unwrap(),
                2 => {
                    db.flush().unwrap();
                    db.delete_range(key(5)..key(9)).unwrap();
                    (5..9).for_each(|number| _ = expected.remove(&key(number)));
                }
                _ => {}
            }
        }
        db.wait_idle().unwrap();
        copy(&whole, &copied);
        let (found, report) = saved(&copied);
        assert_eq!(found, expected, "{preset}");
        assert_eq!((report.lost.len(), report.uncertain.len()), (0, 0), "{preset}");
    }
}

#[test]
fn a_whole_store_is_saved_as_it_is() {
    for_each_preset(|preset, whole, _, state| {
        let (saved, report) = saved(whole);
        assert_eq!(saved.len(), state.len(), "{preset}: {report:?}");
        assert!(saved == *state, "{preset}");
        let lost = (report.damages, report.lost_keys, report.uncertain_keys);
        assert_eq!(lost, (0, 0, 0), "{preset}: {report:?}");
        assert!(!report.stale, "{preset}");
        let (like, stored) = (Salvage::search(whole).unwrap().options(), Options::preset(preset));
        assert_eq!((like.preset, like.layout), (Some(preset), Some(stored.layout())));
    });
}

#[test]
fn nothing_is_lost_with_current_and_the_manifest() {
    for_each_preset(|preset, _, broken, state| {
        for path in files(broken) {
            let name = path.file_name().unwrap().to_str().unwrap();
            if name == "current" || name.ends_with(".manifest") {
                fs::remove_file(&path).unwrap();
                let (saved, report) = saved(broken);
                check(&saved, &report, state, &format!("{preset} without {name}"));
                assert!(report.damages > 0);
                for (key, value) in state {
                    let found = saved.get(key) == Some(value);
                    assert!(found, "{preset} without {name}: {}", String::from_utf8_lossy(key));
                }
            }
        }
    });
}

/// A store by ranges of keys was once taken for one by hashes.
#[test]
fn the_manifest_says_which_design_a_store_without_current_has() {
    for_each_preset(|preset, _, broken, _| {
        fs::remove_file(broken.join("current")).unwrap();
        let guess = Salvage::search(broken).unwrap().options();
        // The manifest has the layout, which two presets share.
        let like = match preset {
            Preset::Ohdb => Preset::Lsm,
            Preset::KtStore => Preset::Cleave,
            other => other,
        };
        assert_eq!(
            (guess.preset, guess.layout),
            (Some(like), Some(Options::preset(preset).layout())),
            "{preset}"
        );
    });
}

/// Where a kind has many files, one has some of the five damages and the next one others, but at
/// night, when each has all.
#[test]
fn each_file_may_be_missing_or_damaged() {
    for_each_preset(|preset, whole, broken, state| {
        for (number, path) in files(whole).into_iter().enumerate() {
            let name = path.file_name().unwrap().to_str().unwrap();
            if name == "lock" {
                continue;
            }
            let several = name.contains('.') && !name.ends_with(".manifest");
            let bytes = fs::read(&path).unwrap();
            let flipped = |step: usize| {
                let mut bytes = bytes.clone();
                bytes.iter_mut().skip(50).step_by(step).for_each(|byte| *byte ^= 0x55);
                bytes
            };
            let cut = bytes[..bytes.len() / 2].to_vec();
            let damages =
                [None, Some(Vec::new()), Some(cut), Some(flipped(5000)), Some(flipped(9))];
            for (at, damage) in damages.into_iter().enumerate() {
                let turn = (number + at) as u64 + first_seed();
                if several && !turn.is_multiple_of(of(4, 2, 1)) {
                    continue;
                }
                copy(whole, broken);
                let target = broken.join(name);
                match damage {
                    None => fs::remove_file(target).unwrap(),
                    Some(bytes) => fs::write(target, bytes).unwrap(),
                }
                let (saved, report) = saved(broken);
                // Where values are lost the index still says whose.
                let holds_values = name.ends_with(".seg") || name.ends_with(".grp");
                // Of hot keys it says that they have a value, and not which.
                let is_hot = Options::preset(preset).layout().has_hot_store();
                let is_told = !report.stale && (report.uncertain_keys == 0 || is_hot);
                assert!(!holds_values || is_told, "{preset}, {name}, damage {at}: {report:?}");
                // Nothing says how far the window was in use: its damage looks like a log that
                // ended earlier.
                if name != "window" || at == 0 {
                    check(&saved, &report, state, &format!("{preset}, {name}, damage {at}"));
                }
            }
        }
    });
}
