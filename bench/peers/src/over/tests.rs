//! The adapter beside a map: whatever is flushed, collected, closed and opened in between.

use std::collections::BTreeMap;

use cleavedb_bench::engine::VisitPair;
use cleavedb_bench::{Engine, Opener, Result};

use super::{Over, OverOpener, Sizes};

/// The store below: a map in memory that outlives its engines, as a directory would.
#[derive(Clone, Default)]
struct Below(std::sync::Arc<std::sync::Mutex<BTreeMap<Vec<u8>, Vec<u8>>>>);

impl Opener for Below {
    fn name(&self) -> &str {
        "map"
    }

    fn open(&self, _: &std::path::Path) -> Result<Box<dyn Engine>> {
        Ok(Box::new(self.clone()))
    }
}

impl Engine for Below {
    fn name(&self) -> &str {
        "map"
    }

    fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        self.0.lock().unwrap().insert(key.to_vec(), value.to_vec());
        Ok(())
    }

    fn get(&self, key: &[u8], visit: &mut dyn FnMut(&[u8])) -> Result<bool> {
        let map = self.0.lock().unwrap();
        if let Some(value) = map.get(key) {
            visit(value);
        }
        Ok(map.contains_key(key))
    }

    fn delete(&self, key: &[u8]) -> Result<()> {
        self.0.lock().unwrap().remove(key);
        Ok(())
    }

    fn scan(&self, from: &[u8], limit: usize, visit: VisitPair<'_>) -> Result<usize> {
        let map = self.0.lock().unwrap();
        let range = map.range(from.to_vec()..).take(limit);
        Ok(range.map(|(key, value)| visit(key, value)).count())
    }

    fn wait_idle(&self) -> Result<()> {
        Ok(())
    }

    fn describe(&self) -> Vec<(String, String)> {
        Vec::new()
    }
}

/// Small enough that a few hundred writes fill the write cache and the reserved space many times.
const TINY: Sizes = Sizes {
    capacity: 1 << 20,
    main_segment: 64 << 10,
    log_segment: 4 << 10,
    reserved: 0.3,
    write_cache: 16 << 10,
    threshold: 100,
};

fn scanned(store: &dyn Engine, from: &[u8], limit: usize) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut found = Vec::new();
    let visit = &mut |key: &[u8], value: &[u8]| found.push((key.to_vec(), value.to_vec()));
    assert_eq!(store.scan(from, limit, visit).unwrap(), found.len());
    found
}

fn check(store: &dyn Engine, model: &BTreeMap<Vec<u8>, Vec<u8>>, seed: u64) {
    for key in 0..400u64 {
        let key = format!("key{key:05}").into_bytes();
        let mut found = None;
        store.get(&key, &mut |value| found = Some(value.to_vec())).unwrap();
        assert_eq!(found.as_ref(), model.get(&key), "{}", key.escape_ascii());
    }
    let from = format!("key{:05}", seed % 400).into_bytes();
    let wanted = model.range(from.clone()..).take(50);
    let wanted: Vec<_> = wanted.map(|(key, value)| (key.clone(), value.clone())).collect();
    assert_eq!(scanned(store, &from, 50), wanted);
}

#[test]
fn it_says_what_a_map_says() {
    let home = tempfile::tempdir().unwrap();
    let below = Below::default();
    let opener = OverOpener { name: "over", index: Box::new(below), sizes: TINY };
    let mut store = opener.open(home.path()).unwrap();
    let mut model = BTreeMap::new();
    let mut seed = 1u64;
    for step in 0..6000u64 {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let random = seed >> 33;
        let key = format!("key{:05}", random % 400).into_bytes();
        // Values of a key move between the store below and the groups.
        let len = if random.is_multiple_of(7) { 20 } else { 200 + (random % 900) as usize };
        if random.is_multiple_of(11) {
            store.delete(&key).unwrap();
            model.remove(&key);
        } else {
            let value = vec![(step % 251) as u8; len];
            store.put(&key, &value).unwrap();
            model.insert(key, value);
        }
        if step % 500 == 0 {
            check(&*store, &model, random);
        }
        if step % 1500 == 0 {
            store.wait_idle().unwrap();
            check(&*store, &model, random);
            store.close().unwrap();
            store = opener.open(home.path()).unwrap();
            check(&*store, &model, random);
        }
    }
    let counters = store.counters();
    let counted = |name: &str| counters.iter().find(|(other, _)| other == name).unwrap().1;
    assert!(counted("collection_read") > 0.0 && counted("collection_written") > 0.0);
    let taken: u64 = std::fs::read_dir(home.path().join("values"))
        .unwrap()
        .map(|file| {
            std::os::unix::fs::MetadataExt::blocks(&file.unwrap().metadata().unwrap()) * 512
        })
        .sum();
    assert!(taken < 3 << 20, "space is given back: {taken}");
}

#[test]
fn sizes_are_those_of_the_miniature() {
    let opener = OverOpener::new("over", Box::new(Below::default()));
    let refused = opener.configured(&[("threshold".to_owned(), "9".to_owned())]);
    assert!(refused.is_err_and(|error| error.to_string().contains("threshold")));
    let sizes = super::SIZES.divided(8);
    assert_eq!((sizes.main_segment, sizes.write_cache, sizes.threshold), (8 << 20, 8 << 20, 192));
}

#[test]
fn a_store_is_shared_by_threads() {
    fn shared<T: Send + Sync>() {}
    shared::<Over>();
}
