//! Long values lie outside the index under every preset, and what memory holds of a batch is
//! bounded.

use std::sync::Arc;

use cleavedb::{Db, Durability, ErrorKind, Options, Preset, WriteBatch};
use cleavedb_storage_sim::Sim;
use cleavedb_testkit::Setup;

/// Presets whose index holds all other values.
const INLINE: [Preset; 2] = [Preset::Lsm, Preset::Ohdb];

const KEYS: usize = 50;

/// Length of a value that is long here, in bytes.
const LONG: usize = 2000;

fn open(sim: &Sim, options: Options) -> Db {
    Db::open_in(Arc::new(sim.clone()), options, 7).unwrap()
}

fn value(round: usize, key: usize) -> Vec<u8> {
    let mut value = format!("{round} {key} ").into_bytes();
    value.resize(LONG, round as u8);
    value
}

fn put_all(db: &Db, round: usize) {
    (0..KEYS).for_each(|key| db.put(format!("key{key:03}").as_bytes(), value(round, key)).unwrap());
}

#[test]
fn the_index_holds_no_long_value_and_dead_ones_are_collected() {
    for preset in INLINE {
        let sim = Sim::new();
        let options = Setup::long_values(preset, true).options;
        let db = open(&sim, options.clone());
        (0..20).for_each(|round| put_all(&db, round));
        db.compact().unwrap();
        db.collect().unwrap();
        let metrics = db.metrics();
        assert!(metrics.index_bytes < (KEYS * LONG / 10) as u64, "{preset}: {metrics:?}");
        assert!(metrics.collections > 0, "{preset}: nothing was collected");
        let live = (KEYS * LONG) as u64;
        assert!((live..2 * live).contains(&metrics.value_bytes), "{preset}: {metrics:?}");
        db.close().unwrap();
        let db = open(&sim, options);
        for key in 0..KEYS {
            let found = db.get(format!("key{key:03}").as_bytes()).unwrap();
            assert!(found.is_some_and(|found| found == value(19, key)), "{preset}: key {key}");
        }
        assert_eq!(db.verify().unwrap().problems.len(), 0, "{preset}");
    }
}

/// A batch of `count` values of `len` bytes.
fn batch(count: usize, len: usize) -> WriteBatch {
    let mut batch = WriteBatch::new();
    for at in 0..count {
        batch.put(format!("key{at:06}").as_bytes(), vec![7; len]).unwrap();
    }
    batch
}

#[test]
fn a_batch_that_memory_would_hold_is_refused_with_the_bound() {
    let memory_bytes = 48 << 20;
    for preset in INLINE {
        let db = open(&Sim::new(), Options { memory_bytes, ..Options::preset(preset) });
        let error = db.write_with(&batch(7 << 10, 1 << 10), Durability::Os).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        let said = error.to_string();
        assert!(said.contains("memory_bytes") && said.contains(&(6 << 20).to_string()), "{said}");
        assert_eq!(db.get(b"key000000").unwrap(), None);
        // As many bytes of long values are none of the index.
        db.write_with(&batch(70, 100 << 10), Durability::Os).unwrap();
        assert!(db.get(b"key000000").unwrap().is_some_and(|value| value.len() == 100 << 10));
    }
}
