//! The estimated size of a range: near the truth for ranges of some blocks, and nothing for ranges
//! that never had a key, in every place where keys and values lie.

use std::collections::BTreeMap;

use cleavedb::reports::RangeSize;
use cleavedb::{Db, Prefix};
use cleavedb_storage_sim::sim::Rng;
use cleavedb_testkit::{Disks, Setup, session};

/// Keys, of which each tenth is in another keyspace.
const KEYS: usize = 1500;

/// Ranges of fewer keys may be estimated worse.
const LEAST: usize = 100;

/// How far an estimate may be from the truth.
const FACTOR: f64 = 2.5;

fn key(number: usize) -> String {
    format!("key{number:06}")
}

/// The keys with the lengths of their values.
fn fill(db: &Db, rng: &mut Rng) -> Vec<usize> {
    let other = db.keyspace("other").unwrap();
    let mut order: Vec<usize> = (0..KEYS).collect();
    for at in (1..KEYS).rev() {
        order.swap(at, rng.index(at + 1));
    }
    let mut lens = vec![0; KEYS];
    for number in order {
        lens[number] = [20, 90, 300, 700][rng.index(4)];
        let mut value = vec![0; lens[number]];
        rng.fill(&mut value);
        db.put(key(number), &value).unwrap();
        if number % 10 == 0 {
            other.put(key(number), &value).unwrap();
        }
    }
    lens
}

fn is_near(estimate: u64, truth: u64) -> Option<f64> {
    let factor = estimate.max(1) as f64 / truth.max(1) as f64;
    let factor = factor.max(1.0 / factor);
    (factor <= FACTOR).then_some(factor)
}

/// The worst factors of keys and of bytes.
fn check(db: &Db, lens: &[usize], rng: &mut Rng, what: &str) -> (f64, f64) {
    let mut worst = (1.0, 1.0);
    for _ in 0..40 {
        let from = rng.index(KEYS - LEAST);
        let to = from + LEAST + rng.index(KEYS - from - LEAST + 1);
        let size = db.default_keyspace().approximate_size(key(from)..key(to)).unwrap();
        let bytes: usize = lens[from..to].iter().map(|len| len + key(0).len()).sum();
        let RangeSize { entries, index_bytes, value_bytes } = size;
        let keys = is_near(entries, (to - from) as u64);
        let bytes_factor = is_near(index_bytes + value_bytes, bytes as u64);
        let (Some(keys), Some(bytes)) = (keys, bytes_factor) else {
            panic!("{what}: {size:?} for {} keys and {bytes} bytes", to - from);
        };
        worst = (f64::max(worst.0, keys), f64::max(worst.1, bytes));
    }
    let nothing = RangeSize::default();
    let between = [format!("{}a", key(3)), format!("{}b", key(3))];
    for empty in [&between[0][..]..&between[1][..], "l".."m", "a".."b", "z".."a"] {
        assert_eq!(
            db.default_keyspace().approximate_size(empty.clone()).unwrap(),
            nothing,
            "{what}: {empty:?}"
        );
    }
    let other = db.keyspace("other").unwrap();
    let within = other.approximate_size(..).unwrap().entries;
    assert!(is_near(within, KEYS as u64 / 10).is_some(), "{what}: {within} keys in a keyspace");
    assert_eq!(other.approximate_size(Prefix("x")).unwrap(), nothing);
    worst
}

#[test]
fn a_range_is_about_as_large_as_its_estimate_under_every_setup() {
    let mut worst = BTreeMap::new();
    for setup in &Setup::some() {
        let mut rng = Rng::new(11);
        let disks = Disks::forgetful(setup);
        let db = session::open_all(&disks.storages(), setup).unwrap();
        let lens = fill(&db, &mut rng);
        let mut look = |when: &'static str| {
            let found = check(&db, &lens, &mut rng, &format!("{setup}, {when}"));
            let of: &mut (f64, f64) = worst.entry(when).or_default();
            *of = (of.0.max(found.0), of.1.max(found.1));
        };
        look("as written");
        db.wait_idle().unwrap();
        db.flush().unwrap();
        look("flushed");
        db.collect().unwrap();
        db.compact().unwrap();
        look("collected and compacted");
        db.delete_range("a".."l").unwrap();
        assert_eq!(
            db.default_keyspace().approximate_size("a".."l").unwrap(),
            RangeSize::default(),
            "{setup}"
        );
        db.put(key(5), "again").unwrap();
        assert_eq!(db.default_keyspace().approximate_size(..).unwrap().entries, 1, "{setup}");
        db.delete(key(5)).unwrap();
        assert_eq!(
            db.default_keyspace().approximate_size(..).unwrap(),
            RangeSize::default(),
            "{setup}"
        );
    }
    println!("worst factors of keys and bytes: {worst:.2?}");
}
