//! The index against a model, beside readers, and with hashes that are alike.

use std::collections::HashMap;
use std::sync::RwLock;
use std::sync::atomic::{AtomicBool, Ordering};

use super::*;
use crate::testing::{Records, drawn};

/// Hashes of keys by their numbers.
type Hashes = fn(u64) -> u64;

/// The hash of good keys.
fn spread(key: u64) -> u64 {
    drawn(1, key)
}

/// All tags are equal, and buckets differ.
fn equal_tags(key: u64) -> u64 {
    const TAG: u64 = 0xffff << 42;
    spread(key) | TAG
}

/// All tags are the one that stands in for 0.
fn zero_tags(key: u64) -> u64 {
    equal_tags(key) ^ 0xffff << 42
}

/// All buckets are equal, and tags differ.
fn equal_buckets(key: u64) -> u64 {
    spread(key) >> 42 << 42
}

/// Few hashes, each of many keys.
fn few(key: u64) -> u64 {
    spread(key % 20)
}

/// One hash.
fn equal(_: u64) -> u64 {
    12345
}

/// An index, and what it should hold: a place and heat for each key.
struct Pair {
    index: HotIndex,
    model: HashMap<u64, (Slot, u8)>,
    records: Records,
    hashes: Hashes,
    next_slot: u32,
}

impl Pair {
    fn new(hashes: Hashes) -> Self {
        let (index, records) = (HotIndex::new(), Records::default());
        Self { index, model: HashMap::new(), records, hashes, next_slot: 0 }
    }

    fn new_slot(&mut self, key: u64) -> Slot {
        self.next_slot += 1;
        let slot = Records::slot(self.next_slot);
        self.records.add(slot, (self.hashes)(key));
        slot
    }

    fn insert(&mut self, key: u64, heat: u8) {
        let slot = self.new_slot(key);
        self.index.insert((self.hashes)(key), slot, heat, &|slot| self.records.hash_of(slot));
        self.model.insert(key, (slot, heat));
    }

    /// Looks for a key that may be there, and adds to its heat.
    fn touch(&mut self, key: u64) {
        let hash = (self.hashes)(key);
        let expected = self.model.get_mut(&key);
        let slot = expected.as_ref().map(|(slot, _)| *slot);
        assert_eq!(self.index.find(hash, |found| Some(found) == slot), slot, "key {key}");
        assert_eq!(self.index.touch(hash, |found| Some(found) == slot), slot, "key {key}");
        if let Some((slot, heat)) = expected {
            *heat = heat.saturating_add(1);
            assert_eq!(self.index.heat(hash, *slot), Some(*heat), "key {key}");
        }
    }

    fn move_or_insert(&mut self, key: u64) {
        let Some(&(from, heat)) = self.model.get(&key) else { return self.insert(key, key as u8) };
        let to = self.new_slot(key);
        let hash = (self.hashes)(key);
        assert!(self.index.move_to(hash, from, to));
        assert!(!self.index.move_to(hash, from, to), "it was moved before");
        assert_eq!((self.index.heat(hash, from), self.index.heat(hash, to)), (None, Some(heat)));
        self.records.remove(from);
        self.model.insert(key, (to, heat));
    }

    fn remove(&mut self, key: u64) {
        let hash = (self.hashes)(key);
        let Some((slot, _)) = self.model.remove(&key) else { return };
        assert!(self.index.remove(hash, slot));
        assert!(!self.index.remove(hash, slot), "it was removed before");
        self.records.remove(slot);
    }

    fn halve(&mut self) {
        self.index.halve();
        self.model.values_mut().for_each(|(_, heat)| *heat /= 2);
    }

    fn check(&self) {
        assert_eq!(self.index.len(), self.model.len());
        assert_eq!(self.index.is_empty(), self.model.is_empty());
        for (key, (slot, heat)) in &self.model {
            let hash = (self.hashes)(*key);
            assert_eq!(self.index.find(hash, |found| found == *slot), Some(*slot), "key {key}");
            assert_eq!(self.index.heat(hash, *slot), Some(*heat), "key {key}");
        }
    }

    /// Does `steps` drawn operations on one of `keys` keys each; the share of inserts swings, so
    /// that the index fills and empties.
    fn run(&mut self, seed: u64, steps: u64, keys: u64) {
        for step in 0..steps {
            let draw = drawn(seed, step);
            let key = (draw >> 8) % keys;
            let inserts = [60, 20][(step * 5 / steps % 2) as usize];
            match draw % 100 {
                at if at < inserts => self.move_or_insert(key),
                at if at < 80 => self.remove(key),
                _ => self.touch(key),
            }
            if draw >> 32 & 0x3fff == 0 {
                self.halve();
            }
        }
        self.check();
    }
}

#[test]
fn drawn_operations_have_the_outcome_of_a_map() {
    for seed in 1..=3 {
        Pair::new(spread).run(seed, 200_000, 30_000);
        Pair::new(spread).run(seed, 20_000, 60);
        for hashes in [equal_tags as Hashes, zero_tags, equal_buckets] {
            Pair::new(hashes).run(seed, 40_000, 4_000);
        }
        for hashes in [few as Hashes, equal] {
            Pair::new(hashes).run(seed, 10_000, 2_000);
        }
    }
}

#[test]
fn thousands_of_keys_with_one_hash_stay() {
    let mut pair = Pair::new(equal);
    (0..5_000).for_each(|key| pair.insert(key, 3));
    pair.check();
    (0..5_000).filter(|key| key % 3 > 0).for_each(|key| pair.remove(key));
    pair.check();
    let places = pair.index.memory() / 8;
    assert!(places < 25_000, "{places} places for 5,000 entries that no growth can part");
}

#[test]
fn an_index_with_good_hashes_takes_at_most_ten_bytes_an_entry() {
    let mut pair = Pair::new(spread);
    let mut most: f64 = 0.0;
    for key in 0..400_000 {
        pair.insert(key, 0);
        if key >= 50_000 && key % 5_000 == 0 {
            most = most.max(pair.index.memory() as f64 / pair.index.len() as f64);
        }
    }
    let now = pair.index.memory() as f64 / pair.index.len() as f64;
    println!("at most {most:.2} bytes an entry from 50,000 entries on, {now:.2} at 400,000");
    assert!(most <= 10.0, "{most:.2} bytes an entry");
    pair.check();
}

#[test]
fn an_empty_index_is_small() {
    let index = HotIndex::new();
    assert!(index.is_empty() && index.find(1, |_| true).is_none());
    assert!(!index.remove(1, Records::slot(1)) && index.heat(1, Records::slot(1)).is_none());
    assert!(index.memory() < 20_000, "{} bytes", index.memory());
}

/// Readers look for the entries that are there throughout, and a writer adds, moves and removes
/// others, so that shards grow.
#[test]
fn readers_find_their_entries_while_shards_grow() {
    const KEPT: u32 = 2_000;
    const ADDED: u32 = 60_000;
    let index = HotIndex::new();
    let records = RwLock::new(Records::default());
    let hash = |n: u32| spread(u64::from(n));
    let hash_of = |slot| records.read().unwrap().hash_of(slot);
    let insert = |n: u32| {
        records.write().unwrap().add(Records::slot(n), hash(n));
        index.insert(hash(n), Records::slot(n), 1, &hash_of);
    };
    (0..KEPT).for_each(insert);
    let done = AtomicBool::new(false);
    let rounds = std::thread::scope(|scope| {
        let readers = [(); 3].map(|()| {
            scope.spawn(|| {
                let mut rounds = 0;
                while !done.load(Ordering::Relaxed) {
                    for n in 0..KEPT {
                        let slot = Some(Records::slot(n));
                        assert_eq!(index.touch(hash(n), |found| Some(found) == slot), slot);
                    }
                    rounds += 1;
                }
                rounds
            })
        });
        for n in KEPT..KEPT + ADDED {
            insert(n);
            if n % 3 == 0 {
                assert!(index.remove(hash(n), Records::slot(n)));
            }
            if n % 10_000 == 0 {
                index.halve();
            }
        }
        done.store(true, Ordering::Relaxed);
        readers.into_iter().map(|reader| reader.join().unwrap()).sum::<u32>()
    });
    assert!(rounds > 0);
    for n in 0..KEPT + ADDED {
        let removed = n >= KEPT && n % 3 == 0;
        let slot = Some(Records::slot(n)).filter(|_| !removed);
        assert_eq!(index.find(hash(n), |found| found == Records::slot(n)), slot, "entry {n}");
    }
}

#[test]
fn accesses_side_by_side_are_all_counted() {
    let index = HotIndex::new();
    index.insert(9, Records::slot(1), 0, &|_| 9);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| (0..50).for_each(|_| assert!(index.touch(9, |_| true).is_some())));
        }
    });
    assert_eq!(index.heat(9, Records::slot(1)), Some(200));
}

/// Halves an entry with the greatest heat until it is cold.
fn the_hottest_entry_cools() {
    let index = HotIndex::new();
    let slot = Records::slot(1);
    index.insert(9, slot, u8::MAX - 1, &|_| 9);
    (0..3).for_each(|_| assert_eq!(index.touch(9, |_| true), Some(slot)));
    assert_eq!(index.heat(9, slot), Some(u8::MAX));
    let halved: Vec<_> = (0..8).map(|_| (index.halve(), index.heat(9, slot).unwrap()).1).collect();
    assert_eq!(halved, [127, 63, 31, 15, 7, 3, 1, 0]);
}

#[test]
fn heat_ends_at_255_and_is_halved_from_there() {
    the_hottest_entry_cools();
}

#[cfg(feature = "test-planted-bugs")]
#[test]
fn planted_heat_that_never_decays() {
    use cleavedb_base::planted::{Bug, must_notice};
    must_notice(Bug::HeatNeverDecays, the_hottest_entry_cools);
}
