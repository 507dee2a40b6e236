//! Keyspaces: spaces of keys of their own, created and dropped whole, with batches, transactions
//! and snapshots over several.

use std::sync::Arc;

use cleavedb::{Db, Durability, ErrorKind, KeyspaceOptions, Options, WriteBatch};
use cleavedb_storage_sim::Sim;
use cleavedb_testkit::keyspaces::Keyspaces;
use cleavedb_testkit::{Disks, Setup, session};

/// A keyspace of a hundred thousand values and more is tested by the suite of the command line.
const KEYS: usize = 300;

fn open(setup: &Setup) -> (Disks, Db) {
    let disks = Disks::forgetful(setup);
    let db = session::open_all(&disks.storages(), setup).unwrap();
    (disks, db)
}

#[test]
fn keyspaces_are_the_maps_of_the_model() {
    let mut drops = 0;
    let setups = Setup::some();
    for (seed, setup) in setups.iter().enumerate() {
        let mut keyspaces = Keyspaces::new(setup, seed as u64).unwrap();
        let ran = keyspaces.run(160, true);
        ran.unwrap_or_else(|failure| panic!("{setup}, seed {seed}: {failure}"));
        drops += keyspaces.drops();
    }
    assert!(2 * drops > setups.len(), "{drops} keyspaces were dropped");
}

#[test]
fn crashes_leave_whole_operations_on_keyspaces() {
    for (seed, setup) in Setup::designs().iter().enumerate() {
        let mut keyspaces = Keyspaces::new(setup, 100 + seed as u64).unwrap();
        let ran = keyspaces.run(70, false).and_then(|()| keyspaces.check_crashes(12));
        let states = ran.unwrap_or_else(|failure| panic!("{setup}, seed {seed}: {failure}"));
        assert!(states > 24, "{setup}: {states} states");
    }
}

#[test]
fn names_are_checked_and_handles_belong_to_their_database() {
    let setup = &Setup::tiny(cleavedb::Preset::KtStore, true);
    let (_disks, db) = open(setup);
    for name in ["", "default", &"x".repeat(256)] {
        let error = db.create_keyspace(name, KeyspaceOptions::default()).err().unwrap();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{name}");
    }
    assert_eq!(db.drop_keyspace("default").unwrap_err().kind(), ErrorKind::InvalidArgument);
    assert_eq!(db.keyspace("default").unwrap().name(), "default");
    let long = "ä".repeat(127);
    assert_eq!(db.keyspace(&long).unwrap().name(), long);
    assert!(db.find_keyspace("other").unwrap().is_none());

    let (_disks, other) = open(setup);
    let foreign = other.keyspace(&long).unwrap();
    let mut batch = WriteBatch::new();
    batch.put("key", "value").unwrap().keyspace(&foreign).put("key", "value").unwrap();
    assert_eq!(db.write(&batch).unwrap_err().kind(), ErrorKind::InvalidArgument);
    for foreign in [&foreign, other.default_keyspace()] {
        let mut transaction = db.transaction().unwrap();
        transaction.keyspace(foreign).put("key", "value").unwrap();
        assert_eq!(transaction.commit().unwrap_err().kind(), ErrorKind::InvalidArgument);
    }
    let refused = db.snapshot().keyspace(&foreign).get("key").unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::InvalidArgument);
    assert_eq!(db.get("key").unwrap(), None);
    assert_eq!(foreign.database().keyspaces().unwrap().len(), 1);
}

#[test]
fn conditional_writes_stay_in_their_keyspace() {
    for setup in &Setup::designs() {
        let (_disks, db) = open(setup);
        let counters = db.keyspace("counters").unwrap();
        db.put("b", "default").unwrap();
        assert!(counters.put_if_absent("b", "1").unwrap());
        assert!(!counters.put_if_absent("b", "2").unwrap());
        assert!(counters.compare_and_swap("b", Some("1"), Some("3")).unwrap());
        counters.update("a", |_| Some("first")).unwrap();
        assert_eq!(counters.pop_first().unwrap().unwrap().key, "a");
        assert_eq!(counters.pop_last().unwrap().unwrap().value, "3");
        assert!(counters.pop_first().unwrap().is_none());
        assert_eq!(db.first_key_value().unwrap().unwrap().value, "default");
    }
}

#[test]
fn a_transaction_that_began_before_a_drop_is_refused() {
    let (_disks, db) = open(&Setup::tiny(cleavedb::Preset::HashKv, true));
    let keyspace = db.keyspace("short").unwrap();
    keyspace.put("key", "value").unwrap();
    let mut transaction = db.transaction().unwrap();
    let value = transaction.keyspace(&keyspace).get("key").unwrap().unwrap();
    transaction.put("copy", value).unwrap();
    db.drop_keyspace("short").unwrap();
    // The transaction still sees the keyspace, and must not bring its content back.
    assert_eq!(transaction.keyspace(&keyspace).get("key").unwrap().unwrap(), "value");
    assert_eq!(transaction.commit().unwrap_err().kind(), ErrorKind::NoKeyspace);
    assert_eq!(db.get("copy").unwrap(), None);
}

#[test]
fn a_threshold_of_its_own_decides_where_values_lie() {
    for setup in Setup::designs().iter().filter(|setup| setup.options.layout().separates()) {
        let sim = Sim::new();
        let db = session::open(Arc::new(sim.clone()), &setup.clone().in_one_directory()).unwrap();
        let options = KeyspaceOptions { min_separated: Some(400), ..Default::default() };
        let sparse = db.create_keyspace("sparse", options).unwrap();
        for i in 0..KEYS {
            sparse.put_with(format!("{i:04}"), [7; 350], Durability::Os).unwrap();
        }
        db.flush().unwrap();
        db.compact().unwrap();
        let bytes = |db: &Db| {
            let tables: u64 = db.metrics().levels.iter().map(|level| level.bytes).sum();
            tables
        };
        assert!(bytes(&db) > KEYS as u64 * 350, "{setup}: values stay in the index");
        sparse.store_min_separated(Some(0)).unwrap();
        // A keyspace is a handle on its database, too.
        drop(sparse);
        db.close().unwrap();
        let db = session::open(Arc::new(sim), &setup.clone().in_one_directory()).unwrap();
        let sparse = db.keyspace("sparse").unwrap();
        for i in 0..KEYS {
            sparse.put_with(format!("{i:04}"), [8; 350], Durability::Os).unwrap();
        }
        db.flush().unwrap();
        db.compact().unwrap();
        assert!(bytes(&db) < KEYS as u64 * 350, "{setup}: values leave the index");
        assert_eq!(sparse.get("0001").unwrap().unwrap(), [8; 350][..]);
    }
}

/// Without a flush or any other call that asks for it.
#[test]
fn a_drop_gives_the_space_back() {
    for setup in &Setup::designs() {
        let (disks, db) = open(setup);
        let (big, small) = (db.keyspace("big").unwrap(), db.keyspace("small").unwrap());
        for i in 0..3 * KEYS {
            big.put_with(format!("{i:05}"), [i as u8; 900], Durability::Os).unwrap();
            if i % 8 == 0 {
                small.put_with(format!("{i:05}"), [i as u8; 900], Durability::Os).unwrap();
            }
        }
        db.flush().unwrap();
        db.wait_idle().unwrap();
        let bytes = |db: &Db| {
            let metrics = db.metrics();
            let tables: u64 = metrics.levels.iter().map(|level| level.bytes).sum();
            tables + metrics.value_files.iter().filter_map(|file| file.bytes).sum::<u64>()
        };
        let before = bytes(&db);
        drop(big);
        db.drop_keyspace("big").unwrap();
        db.wait_idle().unwrap();
        let (after, kept) = (bytes(&db), 3 * KEYS as u64 / 8 * 900);
        // The log of the drop, the space goal and what a hot store may hold come on top.
        let goal =
            kept * 2 + setup.options.tuning.space_floor + setup.options.hot_bytes.min(1 << 16);
        assert!(before > 700_000 && after < goal + (64 << 10), "{setup}: {before}, then {after}");
        assert_eq!(small.range(..).count(), 3 * KEYS / 8 + 1);
        drop((small, db, disks));
    }
}

#[test]
fn a_thousand_keyspaces_take_little_memory_and_are_found_again() {
    let setup = &Setup::tiny(cleavedb::Preset::KtStore, true);
    let (disks, db) = open(setup);
    let name = |i: usize| format!("tenant {i:04}");
    for i in 0..1000 {
        db.keyspace(&name(i)).unwrap().put("own", i.to_string()).unwrap();
    }
    let kill = disks.kill();
    let db = session::open_all(&kill.storages(), setup).unwrap();
    let found = db.keyspaces().unwrap();
    assert_eq!(found.len(), 1000);
    for (i, keyspace) in found.iter().enumerate() {
        assert_eq!(keyspace.name(), name(i));
        assert_eq!(keyspace.get("own").unwrap().unwrap(), i.to_string());
    }
    assert_eq!(db.range(..).count(), 0);
}

/// Creating one took time in proportion to how many there were, and had been dropped.
#[test]
fn every_keyspace_is_created_at_once_until_all_are_there() {
    let options = Options { durability: Durability::Os, ..Options::default() };
    let db = Db::open_in(Arc::new(Sim::new()), options, 7).unwrap();
    let name = |i: u32| format!("user {i}");
    let written = |ids: std::ops::RangeInclusive<u32>| {
        let before = db.snapshot().seq();
        ids.for_each(|i| _ = db.keyspace(&name(i)).unwrap());
        db.snapshot().seq() - before
    };
    let (first, _, last) = (written(1..=1000), written(1001..=19_000), written(19_001..=20_000));
    assert!(last <= 2 * first, "{first} and {last} operations for a thousand keyspaces");
    written(20_001..=65_534);
    let refused = db.keyspace("one more").err().unwrap();
    assert_eq!(refused.kind(), ErrorKind::InvalidArgument);
    (1..=50).for_each(|i| db.drop_keyspace(&name(i)).unwrap());
    db.collect_dropped().unwrap();
    let again = db.keyspace("one more").unwrap();
    again.put("key", "value").unwrap();
    let last = db.find_keyspace(&name(65_534)).unwrap().unwrap();
    assert_eq!((again.range(..).count(), last.range(..).count()), (1, 0));
}

#[test]
fn options_are_those_of_the_creation() {
    let (_disks, db) = open(&Setup::tiny(cleavedb::Preset::KtStore, true));
    let ttl = |millis| KeyspaceOptions {
        ttl: Some(std::time::Duration::from_millis(millis)),
        ..KeyspaceOptions::default()
    };
    let created = db.keyspace_with("short", ttl(1 << 40)).unwrap();
    created.put("key", "value").unwrap();
    let found = db.keyspace_with("short", KeyspaceOptions::default()).unwrap();
    found.put("other", "value").unwrap();
    for key in ["key", "other"] {
        assert!(found.get_with_expiry(key).unwrap().unwrap().1.is_some(), "{key}");
    }
    let default = db.keyspace_with("default", ttl(1)).unwrap();
    default.put("key", "stays").unwrap();
    assert!(default.get_with_expiry("key").unwrap().unwrap().1.is_none());
}
