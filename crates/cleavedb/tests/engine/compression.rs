//! Values that are compressed as they are written, under every design.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use cleavedb::{
    Background, Db, Durability, ErrorKind, KeyspaceOptions, Operand, PutOptions, Salvage,
    ValueCompression,
};
use cleavedb_storage_sim::sim::PowerLoss;
use cleavedb_testkit::budget::in_turn;
use cleavedb_testkit::compressed::{
    a_reader_follows, changes_are_whole, changes_outlive_their_keyspace, dictionaries_stay, json,
    setups,
};
use cleavedb_testkit::{Disks, Setup, session};

fn open(disks: &Disks, setup: &Setup) -> Db {
    session::open_all(&disks.storages(), setup).unwrap()
}

/// Each design with each compression.
fn all() -> Vec<Setup> {
    let each = ValueCompression::ALL.map(|(name, how)| {
        let mut setups = Setup::designs();
        for setup in &mut setups {
            setup.options.value_compression = how;
            setup.name = format!("{setup}, {name}");
        }
        setups
    });
    each.concat()
}

#[test]
fn what_was_put_is_read_under_every_design() {
    for setup in all() {
        let disks = Disks::new(&setup);
        let mut expected = BTreeMap::new();
        let db = open(&disks, &setup);
        for n in 0..300u64 {
            let key = format!("key{:03}", n * 7 % 211).into_bytes();
            let mut value = json(n).repeat(1 + (n % 5) as usize);
            match n % 4 {
                0 => db
                    .put_with(&key, &value, PutOptions::new().ttl(Duration::from_secs(1_000_000)))
                    .unwrap(),
                1 => {
                    db.put_with(&key, &value, Durability::Os).unwrap();
                    db.merge(&key, &Operand::append("more")).unwrap();
                    value.extend_from_slice(b"more");
                }
                _ => db.put_with(&key, &value, Durability::Os).unwrap(),
            }
            expected.insert(key, value);
        }
        // Values that cannot be compressed, and an empty one.
        let noise: Vec<u8> =
            (0..2000u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
        for (key, value) in [(b"noise".to_vec(), noise), (b"empty".to_vec(), Vec::new())] {
            db.put(&key, &value).unwrap();
            expected.insert(key, value);
        }
        let metrics = db.metrics();
        let is_on = setup.options.value_compression != ValueCompression::None;
        let long = setup.options.layout().separates();
        assert!(!(is_on && long) || metrics.compressed_to < metrics.compressed_from, "{setup}");
        assert!(is_on || metrics.compressed_values == 0, "{setup}");
        for step in 0..3 {
            let same = |(item, (key, value)): (cleavedb::Item, (&Vec<u8>, &Vec<u8>))| {
                item.key == *key && item.value == *value
            };
            let found: Vec<_> = db.range(..).map(Result::unwrap).collect();
            assert_eq!(found.len(), expected.len(), "{setup}");
            assert!(found.into_iter().zip(&expected).all(same), "{setup}, step {step}");
            for (key, value) in &expected {
                assert_eq!(db.get(key).unwrap().unwrap(), *value, "{setup}, step {step}");
            }
            let keys: Vec<_> = expected.keys().collect();
            let found = db.multi_get(&keys).into_iter().map(Result::unwrap);
            assert!(found.zip(expected.values()).all(|(a, b)| a.unwrap() == *b), "{setup}");
            db.flush().and_then(|()| db.compact()).and_then(|()| db.collect()).unwrap();
        }
        assert!(db.verify().unwrap().problems.is_empty());
        drop(db);
        // The record says how its value is compressed.
        let mut other = setup.clone();
        other.options.value_compression = ValueCompression::Lz4;
        let db = open(&disks.kill(), &other);
        let found = db.range(..).map(|item| item.unwrap().value);
        assert!(found.zip(expected.values()).all(|(a, b)| a == *b), "{setup}, reopened");
    }
}

#[test]
fn dictionaries_stay_with_their_values_and_go_with_their_keyspace() {
    for (setup, seed) in in_turn(setups()).iter().zip(1..) {
        dictionaries_stay(setup, seed).unwrap_or_else(|e| panic!("{setup}: {e}"));
    }
}

#[test]
fn a_reader_beside_the_writer_learns_of_dictionaries() {
    for (setup, seed) in in_turn(setups()).iter().zip(1..) {
        a_reader_follows(setup, seed).unwrap_or_else(|e| panic!("{setup}: {e}"));
    }
}

#[test]
fn readers_of_changes_get_whole_values() {
    for (setup, seed) in in_turn(setups()).into_iter().zip(1..) {
        changes_are_whole(&setup, seed).unwrap_or_else(|e| panic!("{setup}: {e}"));
        changes_outlive_their_keyspace(&setup, seed).unwrap_or_else(|e| panic!("{setup}: {e}"));
    }
}

/// After any loss of power there is a prefix of what was written, and its values can be read.
#[test]
fn no_loss_of_power_takes_a_dictionary_and_leaves_its_values() {
    for mut setup in in_turn(setups()) {
        setup.options.value_compression = ValueCompression::ZstdDictionary;
        let disks = Disks::new(&setup);
        let db = open(&disks, &setup);
        let mut trained = 0;
        for n in 0..1200u64 {
            let before = disks.time();
            db.put_with(n.to_be_bytes(), json(n), Durability::Os).unwrap();
            if trained == 0 && db.metrics().compressed_to * 2 < db.metrics().compressed_from {
                trained = before;
            }
            if n == 1100 {
                db.flush().unwrap();
            }
        }
        assert!(trained > 0, "{setup}: there is no dictionary");
        let mut replay = disks.replay();
        let end = disks.time();
        let near = (0..5).map(|step| trained + step * step * step);
        for point in near.chain([(trained + end) / 2, end]) {
            replay.advance(point);
            let losses = PowerLoss { states_max: 3, ..PowerLoss::default() };
            for images in replay.power_loss(&losses) {
                let db = open(&Disks::from_images(&images, &setup), &setup);
                for (next, item) in (0..).zip(db.range(..)) {
                    let item = item.unwrap_or_else(|e| panic!("{setup}: {e}"));
                    assert_eq!(item.key, u64::to_be_bytes(next)[..], "{setup}: no prefix");
                    assert_eq!(item.value, json(next), "{setup}");
                }
            }
        }
    }
}

#[test]
fn a_keyspace_keeps_its_compression() {
    for setup in in_turn(setups()) {
        let disks = Disks::new(&setup);
        let db = open(&disks, &setup);
        let options = KeyspaceOptions {
            compression: Some(ValueCompression::ZstdDictionary),
            ..KeyspaceOptions::default()
        };
        let orders = db.create_keyspace("orders", options).unwrap();
        assert_eq!(db.default_keyspace().compression(), ValueCompression::None);
        let refused = db.default_keyspace().train_dictionary().unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::InvalidArgument, "{refused}");
        assert!(!orders.train_dictionary().unwrap(), "it has no values");
        db.put("key", json(1)).unwrap();
        assert_eq!(db.metrics().compressed_values, 0, "{setup}");
        for n in 0..1000u64 {
            orders.put_with(n.to_be_bytes(), json(n), Durability::Os).unwrap();
        }
        let refused = orders.collect_range(..).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Held, "{refused}");
        orders.store_compression(Some(ValueCompression::Lz4)).unwrap();
        let default = db.default_keyspace().store_compression(None).unwrap_err();
        assert_eq!(default.kind(), ErrorKind::InvalidArgument);
        drop((orders, db));
        let db = open(&disks.kill(), &setup);
        let orders = db.find_keyspace("orders").unwrap().unwrap();
        assert_eq!(orders.compression(), ValueCompression::Lz4);
        for n in 0..1000u64 {
            assert_eq!(orders.get(n.to_be_bytes()).unwrap().unwrap(), json(n), "{setup}");
        }
    }
}

/// Readers meet values of a dictionary as soon as these are visible.
#[test]
fn threads_read_while_others_write_and_a_dictionary_is_made() {
    const WRITERS: u64 = 3;
    for mut setup in in_turn(setups()) {
        setup.options.value_compression = ValueCompression::ZstdDictionary;
        setup.options.background = Background::Threads(2);
        let db = open(&Disks::forgetful(&setup), &setup);
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let writers: Vec<_> = (0..WRITERS)
                .map(|writer| {
                    let db = &db;
                    scope.spawn(move || {
                        for n in 0..600 {
                            let key = (n * WRITERS + writer).to_be_bytes();
                            db.put_with(key, json(n * WRITERS + writer), Durability::Os).unwrap();
                            let read = db.get(key).unwrap().unwrap();
                            assert_eq!(read, json(n * WRITERS + writer));
                        }
                    })
                })
                .collect();
            let reader = scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    for item in db.range(..) {
                        let item = item.unwrap();
                        let number = u64::from_be_bytes(item.key[..].try_into().unwrap());
                        assert_eq!(item.value, json(number));
                    }
                }
            });
            writers.into_iter().for_each(|writer| writer.join().unwrap());
            done.store(true, Ordering::Relaxed);
            reader.join().unwrap();
        });
        let metrics = db.metrics();
        assert!(metrics.compressed_to * 3 < metrics.compressed_from * 2, "{setup}");
        db.close().unwrap();
    }
}

#[test]
fn salvage_finds_the_dictionaries() {
    for mut options in in_turn(setups()).into_iter().map(|setup| setup.options) {
        let dir = tempfile::tempdir().unwrap();
        options.value_compression = ValueCompression::ZstdDictionary;
        let db = Db::open(dir.path(), options).unwrap();
        for n in 0..1500u64 {
            db.put_with(n.to_be_bytes(), json(n), Durability::Os).unwrap();
        }
        db.close().unwrap();
        // No manifest can be believed then.
        std::fs::remove_file(dir.path().join("current")).unwrap();
        let mut saved = 0;
        let salvage = Salvage::search(dir.path()).unwrap();
        let report = salvage.hand_out(&mut |item| {
            let number = u64::from_be_bytes(item.key.try_into().unwrap());
            assert_eq!(item.value, json(number));
            saved += 1;
            Ok(())
        });
        assert_eq!((saved, report.unwrap().lost_keys), (1500, 0));
    }
}

#[test]
fn a_reader_of_a_killed_store_has_the_dictionaries() {
    for mut setup in in_turn(setups()) {
        setup.options.value_compression = ValueCompression::ZstdDictionary;
        let disks = Disks::new(&setup);
        let db = open(&disks, &setup);
        for n in 0..1000u64 {
            db.put_with(n.to_be_bytes(), json(n), Durability::Os).unwrap();
        }
        let read = session::open_read_only(&disks.kill().storages(), &setup).unwrap();
        for n in 0..1000u64 {
            assert_eq!(read.get(n.to_be_bytes()).unwrap().unwrap(), json(n), "{setup}");
        }
    }
}
