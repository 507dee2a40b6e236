//! The threshold of separation that is saved with the data: later opens obey it, unless they name
//! one themselves.

use std::sync::Arc;

use cleavedb::{Db, ErrorKind, MinSeparated, Options, Preset};
use cleavedb_storage_sim::Sim;
use cleavedb_storage_sim::sim::{PowerLoss, SECTOR};
use cleavedb_testkit::Setup;

const PRESETS: [Preset; 3] = [Preset::WiscKey, Preset::HashKv, Preset::KtStore];

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
        db.store_min_separated(Some(200)).unwrap();
        let least = Options::preset(preset).min_separated.least();
        assert_eq!(db.options().min_separated.least(), least, "this handle goes on as it was");
        db.close().unwrap();
        for _ in 0..2 {
            let db = open(&sim, &options);
            assert_eq!(db.options().min_separated, MinSeparated::AtLeast(200), "{preset}");
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
        db.store_min_separated(Some(200)).unwrap();
        db.close().unwrap();
        let named = Options { min_separated: MinSeparated::AtLeast(50), ..saved.clone() };
        let db = open(&sim, &named);
        assert!(separated(&db) > 400, "{preset}");
        db.close().unwrap();
        assert_eq!(open(&sim, &saved).options().min_separated, MinSeparated::AtLeast(200));
    }
}

#[test]
fn what_was_saved_survives_a_power_loss() {
    let (sim, options) = (Sim::new(), Setup::tiny(Preset::HashKv, true).options);
    let db = open(&sim, &options);
    db.store_min_separated(Some(200)).unwrap();
    let mut replay = sim.replay(SECTOR);
    replay.advance(replay.last_point());
    let images: Vec<_> = replay.power_loss(&PowerLoss::default()).collect();
    assert!(!images.is_empty());
    for image in images {
        let found = open(&Sim::from_image(image), &options).options().min_separated;
        assert_eq!(found, MinSeparated::AtLeast(200));
    }
}

#[test]
fn what_was_saved_can_be_forgotten() {
    for preset in PRESETS {
        let (sim, options) = (Sim::new(), Setup::tiny(preset, true).options);
        for saved in [Some(0), Some(usize::MAX), Some(77), None] {
            let db = open(&sim, &options);
            db.store_min_separated(saved).unwrap();
            db.close().unwrap();
            let expected = saved
                .map_or(options.min_separated.least(), |saved| Some(saved.min(usize::MAX - 1)));
            assert_eq!(open(&sim, &options).options().min_separated.least(), expected, "{preset}");
        }
    }
}

#[test]
fn a_preset_that_separates_nothing_has_nothing_to_save() {
    for preset in [Preset::Lsm, Preset::Ohdb] {
        let db = open(&Sim::new(), &Setup::tiny(preset, true).options);
        assert_eq!(db.store_min_separated(Some(9)).unwrap_err().kind(), ErrorKind::InvalidOptions);
        assert_eq!(db.options().min_separated, MinSeparated::Never);
    }
}
