//! A range that was compacted is one level without anything dead, and others are left alone.

use std::sync::Arc;

use cleavedb_base::{EncodedKey, KeyspaceId};
use cleavedb_index::edit::LEVEL_MAX;
use cleavedb_storage_sim::Sim;
use cleavedb_storage_sim::sim::Rng;

use super::Db;
use super::range_tombstone_tests::small;
use crate::settings::options::Preset;

const KEYS: usize = 900;

fn key(number: usize) -> String {
    format!("key{number:05}")
}

/// Levels with tables that meet the range between two keys.
fn levels(db: &Db, from: usize, to: usize) -> Vec<u8> {
    let state = db.engine().state.load_full();
    let tree_key = |number| EncodedKey::new(KeyspaceId::DEFAULT, key(number).as_bytes());
    let (lower, upper) = (tree_key(from), tree_key(to));
    let (lower, upper) = (Some(lower.as_bytes()), Some(upper.as_bytes()));
    let is_met = |level: &u8| !state.version.level(*level).within(lower, upper).is_empty();
    let first = state.version.runs().iter().any(|run| !run.set.within(lower, upper).is_empty());
    let mut levels: Vec<u8> = (1..=LEVEL_MAX).filter(is_met).collect();
    for level in &levels {
        for table in state.version.level(*level).within(lower, upper) {
            let meta = table.meta();
            assert_eq!((meta.deletes, meta.shadowed), (0, 0), "level {level}");
        }
    }
    if first {
        levels.insert(0, 0);
    }
    levels
}

#[test]
fn a_compacted_range_is_one_level() {
    for preset in Preset::ALL {
        for seed in 0..3 {
            // Deep levels, few tables each.
            let mut options = small(preset);
            options.tuning.level0_bytes = Some(4 << 10);
            options.tuning.level1_bytes = Some(8 << 10);
            let db = Db::open_in(Arc::new(Sim::new()), options, 7).unwrap();
            let mut rng = Rng::new(seed);
            let mut model = vec![false; KEYS];
            for _ in 0..4 * KEYS {
                let number = rng.index(KEYS);
                model[number] = rng.index(4) > 0;
                match model[number] {
                    true => db.put(key(number), vec![seed as u8; 60]).unwrap(),
                    false => db.delete(key(number)).unwrap(),
                }
                if rng.index(20) == 0 {
                    db.step().unwrap();
                }
            }
            db.flush().unwrap();
            let (from, to) = (300, 420);
            db.default.compact_range(key(from)..key(to)).unwrap();
            let found = levels(&db, from, to);
            assert_eq!(found.len(), 1, "{preset}, seed {seed}: {found:?}");
            let written = db.metrics().compaction_written;
            db.default.compact_range(key(from)..key(to)).unwrap();
            assert_eq!(db.metrics().compaction_written, written, "{preset}: it is done");
            for (number, is_there) in model.iter().enumerate() {
                assert_eq!(db.contains_key(key(number)).unwrap(), *is_there, "{number}");
            }
            assert!(db.verify().unwrap().problems.is_empty());
        }
    }
}
