//! The threshold of separation that is saved with the data: later opens obey it, unless they name
//! one themselves.

use std::sync::Arc;

use cleavedb::{Db, ErrorKind, Options, Preset};
use cleavedb_storage_sim::Sim;
use cleavedb_storage_sim::sim::{PowerLoss, SECTOR};
use cleavedb_testkit::Setup;

const PRESETS: [Preset; 3] = [Preset::WiscKey, Preset::HashKv, Preset::KtStore];

/// The length from which on values are separated if none was saved.
fn usual(preset: Preset) -> usize {
    if preset == Preset::WiscKey { 0 } else { 192 }
}

fn open(sim: &Sim, options: &Options) -> Db {
    Db::open_in(Arc::new(sim.clone()), options.clone(), 7).unwrap()
}

/// Bytes that leave the index when values of 100 and of 300 bytes are put.
fn separated(db: &Db) -> u64 {
    let before = db.metrics().live_bytes;
    db.put(b"short", [1; 100]).unwrap();
    db.put(b"long", [2; 300]).unwrap();
    db.flush().unwrap();
    db.metrics().live_bytes - before
}

#[test]
fn later_opens_use_what_was_saved() {
    for preset in PRESETS {
        let (sim, options) = (Sim::new(), Setup::tiny(preset, true).options);
        let db = open(&sim, &options);
        db.default_keyspace().store_min_separated(Some(200)).unwrap();
        assert_eq!(
            db.options().min_separated,
            Some(usual(preset)),
            "this handle goes on as it was"
        );
        db.close().unwrap();
        for _ in 0..2 {
            let db = open(&sim, &options);
            assert_eq!(db.options().min_separated, Some(200), "{preset}");
            let live = separated(&db);
            assert!((300..400).contains(&live), "{preset}: {live} bytes are separated");
            db.close().unwrap();
        }
    }
}

#[test]
fn who_names_a_threshold_gets_it() {
    for preset in PRESETS {
        let (sim, saved) = (Sim::new(), Setup::tiny(preset, true).options);
        let db = open(&sim, &saved);
        db.default_keyspace().store_min_separated(Some(200)).unwrap();
        db.close().unwrap();
        let named = Options { min_separated: Some(50), ..saved.clone() };
        let db = open(&sim, &named);
        assert!(separated(&db) > 400, "{preset}");
        db.close().unwrap();
        assert_eq!(open(&sim, &saved).options().min_separated, Some(200));
    }
}

#[test]
fn what_was_saved_survives_a_power_loss() {
    let (sim, options) = (Sim::new(), Setup::tiny(Preset::HashKv, true).options);
    let db = open(&sim, &options);
    db.default_keyspace().store_min_separated(Some(200)).unwrap();
    let mut replay = sim.replay(SECTOR);
    replay.advance(replay.last_point());
    let images: Vec<_> = replay.power_loss(&PowerLoss::default()).collect();
    assert!(!images.is_empty());
    for image in images {
        let found = open(&Sim::from_image(image), &options).options().min_separated;
        assert_eq!(found, Some(200));
    }
}

#[test]
fn what_was_saved_can_be_forgotten() {
    for preset in PRESETS {
        let (sim, options) = (Sim::new(), Setup::tiny(preset, true).options);
        for saved in [Some(0), Some(usize::MAX), Some(77), None] {
            let db = open(&sim, &options);
            db.default_keyspace().store_min_separated(saved).unwrap();
            db.close().unwrap();
            let expected = saved.map_or(usual(preset), |saved| saved.min(usize::MAX - 1));
            assert_eq!(open(&sim, &options).options().min_separated, Some(expected), "{preset}");
        }
    }
}

#[test]
fn a_preset_that_separates_nothing_has_nothing_to_save() {
    for preset in [Preset::Lsm, Preset::Ohdb] {
        let db = open(&Sim::new(), &Setup::tiny(preset, true).options);
        assert_eq!(
            db.default_keyspace().store_min_separated(Some(9)).unwrap_err().kind(),
            ErrorKind::InvalidOptions
        );
        assert_eq!(db.options().min_separated, None);
    }
}

/// Options with which a MemTable takes all that a test writes, and values of 200 bytes are
/// separated.
fn roomy(preset: Preset) -> Options {
    let mut options = Setup::tiny(preset, true).options;
    options.min_separated = Some(200);
    (options.tuning.memtable_bytes, options.tuning.memtable_log_bytes) = (Some(8 << 20), 8 << 20);
    options.tuning.window_bytes = Some(16 << 20);
    options
}

/// Puts a value of `len` bytes under each of 2,000 keys that begin with `first`.
fn put_all(db: &Db, first: char, len: usize) {
    (0..2000).for_each(|n| db.put(format!("{first}{n:04}"), vec![3; len]).unwrap());
    db.flush().unwrap();
}

/// The filter of a group used one block for each group that there was, so that nearly every small
/// value of a new key left a group tombstone.
#[test]
fn small_values_of_new_keys_leave_no_group_tombstones() {
    let mut options = roomy(Preset::HashKv);
    options.tuning.groups.capacity_bytes = 64 * options.tuning.groups.main_segment_bytes;
    let db = open(&Sim::new(), &options);
    put_all(&db, 's', 20);
    for first in ['a', 'b', 'c'] {
        put_all(&db, first, 300);
    }
    put_all(&db, 't', 20);
    let left = db.metrics().group_tombstones;
    assert!(left < 2000 / 50, "{left} group tombstones for 2000 new keys");
    put_all(&db, 'a', 20);
    assert!(db.metrics().group_tombstones >= left + 2000, "groups hold values of these");
}

/// Each update counted as the death of an average value, also where old and new value are in the
/// index: such a store had less spare space than its goal allows, and collected more.
#[test]
fn updates_of_small_values_make_no_separated_value_dead() {
    for preset in PRESETS {
        let db = open(&Sim::new(), &roomy(preset));
        put_all(&db, 'a', 300);
        put_all(&db, 's', 20);
        let hidden = db.metrics().hidden_bytes;
        put_all(&db, 's', 20);
        assert!(db.metrics().hidden_bytes <= hidden, "{preset}: no value is dead");
        put_all(&db, 'a', 300);
        let dead = db.metrics().hidden_bytes - hidden;
        assert!((2000 * 300..2000 * 400).contains(&dead), "{preset}: {dead}");
    }
}
