//! The default preset: what it decides by itself.

use std::sync::Arc;

use cleavedb::layout::ValueLayout;
use cleavedb::tuning::Level0;
use cleavedb::{Db, Options, Preset};
use cleavedb_storage_sim::Sim;
use cleavedb_testkit::Setup;

/// Tiny sizes of the default preset, whose levels follow from what is in them.
fn options() -> Options {
    let mut options = Setup::tiny(Preset::Cleave, true).options;
    (options.tuning.level0_bytes, options.tuning.level1_bytes) = (None, None);
    options
}

fn open(sim: &Sim, options: &Options) -> Db {
    Db::open_in(Arc::new(sim.clone()), options.clone(), 7).unwrap()
}

/// Bytes of a level of the index.
fn level(db: &Db, number: usize) -> u64 {
    let levels = db.metrics().levels;
    levels.iter().find(|level| level.level == number).map_or(0, |level| level.bytes)
}

/// Puts values of `len` bytes, 8 KiB of entries of `entry` bytes each time, until a part of level 0
/// has left for level 1, and returns the most bytes that level 0 had before.
fn most_in_level0(len: usize, entry: usize) -> u64 {
    let mut options = options();
    // A bucket of partitions leaves by its own size.
    options.tuning.level0 = Some(Level0::Whole);
    let db = open(&Sim::new(), &options);
    let (mut most, mut key) = (0, 0u64);
    loop {
        for _ in 0..(8 << 10) / entry {
            // In no order, so that tables overlap, and none moves down as it is.
            db.put(key.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes(), vec![1; len]).unwrap();
            key += 1;
        }
        db.flush().unwrap();
        most = most.max(level(&db, 0));
        while db.step().unwrap() {}
        if level(&db, 1) > 0 {
            return most;
        }
        assert!(most < 1 << 20, "nothing leaves level 0");
    }
}

#[test]
fn levels_of_values_and_of_pointers_have_their_sizes() {
    // Tables of 4 KiB: level 0 holds two of pointers, and sixteen of values. Flushes that a full
    // MemTable causes have it compacted a little earlier.
    let (pointers, values) = (most_in_level0(1000, 32), most_in_level0(200, 210));
    assert!((4 << 10..24 << 10).contains(&pointers), "{pointers} bytes of pointers");
    assert!((56 << 10..160 << 10).contains(&values), "{values} bytes of values");
}

#[test]
fn values_of_mixed_lengths_go_where_they_belong() {
    let db = open(&Sim::new(), &options());
    let lengths = [0, 100, 300, 767, 768, 1000, 5000];
    for (key, len) in lengths.iter().enumerate() {
        db.put([key as u8], vec![key as u8; *len]).unwrap();
    }
    db.flush().unwrap();
    let (live, long) = (db.metrics().live_bytes as usize, 768 + 1000 + 5000);
    assert!((long..long + 300).contains(&live), "{live} bytes lie outside the tree");
    for (key, len) in lengths.iter().enumerate() {
        assert_eq!(db.get([key as u8]).unwrap().unwrap(), vec![key as u8; *len]);
    }
}

/// A store keeps the preset that it was created with, also where the default was another then.
#[test]
fn a_store_without_a_choice_has_the_default_and_others_keep_theirs() {
    let stored = |dir: &std::path::Path| Db::stored_options(dir).unwrap().unwrap().chosen_preset();
    let dir = tempfile::tempdir().unwrap();
    let (new, old) = (dir.path().join("new"), dir.path().join("old"));
    Db::open(&new, Options::default()).unwrap().close().unwrap();
    assert_eq!(stored(&new), Preset::Cleave);
    Db::open(&old, Options::preset(Preset::KtStore)).unwrap().close().unwrap();
    let db = Db::open(&old, Options::default()).unwrap();
    assert_eq!(db.options().chosen_preset(), Preset::KtStore);
    assert_eq!(db.options().min_separated, Some(192));
    db.close().unwrap();
    assert_eq!(stored(&old), Preset::KtStore);
    // Another preset of the layout that is stored is other tuning, and no other data.
    let db = Db::open(&old, Options::preset(Preset::Cleave)).unwrap();
    let layout: ValueLayout = db.options().layout();
    assert_eq!(layout, Options::preset(Preset::KtStore).layout());
}
