//! Writes to a real store, and a map of its expected content.

use std::collections::BTreeMap;

use cleavedb::Db;
use cleavedb_storage_sim::sim::Rng;

/// Default number of keys.
const KEYS: u64 = 400;

/// A store's expected content, and the generator that changes both.
#[derive(Clone)]
pub struct Churn {
    rng: Rng,
    keys: u64,
    model: BTreeMap<Vec<u8>, Vec<u8>>,
}

impl Churn {
    /// Nothing written yet; each seed draws other writes.
    pub fn new(seed: u64) -> Self {
        Self { rng: Rng::new(seed), keys: KEYS, model: BTreeMap::new() }
    }

    /// Churn with this number of keys.
    #[must_use]
    pub fn over(self, keys: u64) -> Self {
        Self { keys, ..self }
    }

    /// The content, with other writes from now on: for a copy of the store.
    #[must_use]
    pub fn copied(&self, seed: u64) -> Self {
        Self { rng: Rng::new(seed), ..self.clone() }
    }

    /// Writes and deletes `count` times; panics if the store refuses.
    pub fn write(&mut self, db: &Db, count: usize) {
        for _ in 0..count {
            let key = match self.rng.below(self.keys) {
                0 => Vec::new(),
                number => format!("key{number:06}").into_bytes(),
            };
            if self.rng.chance(10) {
                db.delete(&key).unwrap();
                self.model.remove(&key);
                continue;
            }
            let mut value = vec![0; [10, 200, 1000, 3000][self.rng.index(4)]];
            self.rng.fill(&mut value);
            db.put(&key, &value).unwrap();
            self.model.insert(key, value);
        }
    }

    /// Writes, with every kind of job in between.
    pub fn work(&mut self, db: &Db, count: usize) {
        for _ in 0..2 {
            self.write(db, count / 2);
            db.collect().unwrap();
        }
        db.compact().unwrap();
        db.wait_idle().unwrap();
    }

    /// Compares every key, by point reads and by a scan, and runs the store's own check.
    #[track_caller]
    pub fn check(&self, db: &Db) {
        let mut items = db.range(..).map(|item| item.unwrap());
        for (key, value) in &self.model {
            let item = items.next().expect("a key is missing");
            assert!(item.key == key && item.value == value, "{:?} is not {key:?}", item.key);
            assert_eq!(db.get(key).unwrap().as_ref(), Some(&item.value), "{key:?}");
        }
        assert!(items.next().is_none(), "there is a key too many");
        let report = db.verify().unwrap();
        assert!(report.problems.is_empty(), "{:?}", report.problems);
    }
}
