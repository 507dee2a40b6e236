//! Keys at the ends of what is allowed, and batches of any number of operations.

use std::sync::Arc;
use std::time::Duration;

use cleavedb::{
    Background, Db, Durability, ErrorKind, KEY_LEN_MAX, Keyspace, KeyspaceOptions, Operand,
    Options, Preset, Result, Transaction, ValueCompression, WriteBatch,
};
use cleavedb_storage_sim::Sim;
use cleavedb_testkit::Setup;
use cleavedb_testkit::budget::in_turn;

fn designs() -> Vec<Setup> {
    in_turn(Setup::every_design().into_iter().chain(Setup::partitioned()).collect())
}

fn check_empty(db: &Db, value: Option<&[u8]>) {
    let of_range = |mut range: cleavedb::Range| {
        let first = range.next().map(|item| item.unwrap());
        first.filter(|item| item.key.is_empty()).map(|item| item.value)
    };
    assert_eq!(db.get(b"").unwrap().as_deref(), value);
    assert_eq!(db.multi_get(&[&b"a"[..], b""]).pop().unwrap().unwrap().as_deref(), value);
    for range in [db.range(..), db.range(b""..), db.prefix(b"")] {
        assert_eq!(of_range(range).as_deref(), value);
    }
    assert_eq!(of_range(db.range(..b"")), None, "nothing lies before it");
    let last = db.range(..).next_back().unwrap().unwrap();
    assert!(!last.key.is_empty(), "it comes first");
}

#[test]
fn an_empty_key_is_a_key() {
    for setup in designs() {
        println!("{setup}");
        let dir = tempfile::tempdir().unwrap();
        let options = Options { background: Background::Threads(1), ..setup.options.clone() };
        let open = || Db::open(dir.path(), options.clone()).unwrap();
        let mut db = open();
        for (round, len) in [0, 10, 3000].into_iter().enumerate() {
            let value = vec![round as u8; len];
            let mut batch = WriteBatch::new();
            batch.put(b"", b"before").unwrap().put(b"", &value).unwrap();
            db.write_with(&batch, Durability::Os).unwrap();
            assert_eq!(db.get(b"").unwrap().as_deref(), Some(&value[..]));
            for key in 0..300u32 {
                db.put(key.to_be_bytes(), [9; 500]).unwrap();
            }
            check_empty(&db, Some(&value));
            db.collect().unwrap();
            db.compact().unwrap();
            check_empty(&db, Some(&value));
            db.close().unwrap();
            db = open();
            check_empty(&db, Some(&value));
            assert!(db.verify().unwrap().problems.is_empty());
        }
        db.delete(b"").unwrap();
        check_empty(&db, None);
        db.compact().unwrap();
        check_empty(&db, None);
    }
}

#[test]
fn a_key_beyond_the_limit_is_nowhere() {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path(), Options::preset(Preset::Lsm)).unwrap();
    let (longest, longer) = (vec![7; KEY_LEN_MAX], vec![7; KEY_LEN_MAX + 1]);
    db.put(&longest, b"value").unwrap();
    assert_eq!(db.put(&longer, b"").unwrap_err().kind(), ErrorKind::InvalidArgument);
    assert_eq!(db.get(&longer).unwrap(), None);
    assert_eq!(db.snapshot().get(&longer).unwrap(), None);
    let found = db.multi_get(&[longer, longest]);
    let found: Vec<_> = found.into_iter().map(|value| value.unwrap()).collect();
    assert_eq!(found[0], None);
    assert_eq!(found[1].as_deref(), Some(&b"value"[..]));
}

/// More operations than a batch could once have.
#[test]
fn a_batch_is_bounded_by_memory_only() {
    const OPS: u32 = (1 << 20) + 3;
    let dir = tempfile::tempdir().unwrap();
    // An eighth of the memory takes it.
    let options = Options { memory_bytes: 3 << 30, ..Options::preset(Preset::WiscKey) };
    let open = || Db::open(dir.path(), options.clone()).unwrap();
    let db = open();
    let mut batch = WriteBatch::new();
    for key in 0..OPS {
        batch.put(key.to_be_bytes(), b"").unwrap();
    }
    db.write_with(&batch, Durability::Os).unwrap();
    drop(db);
    let db = open();
    assert_eq!(db.range(..).keys_only().count(), OPS as usize);
}

/// Key and value of a put of 35 bytes.
fn small(i: usize) -> (String, String) {
    (format!("key {i:010}"), format!("the value {i:011}"))
}

/// 1.1 million fit at 768 MiB of memory, and as many in proportion below: a third of that did.
#[test]
fn a_batch_takes_the_small_puts_that_the_memory_allows() {
    const MEMORY: usize = 48 << 20;
    const FIT: usize = 1_100_000 * MEMORY / (768 << 20);
    for preset in Preset::ALL {
        let dir = tempfile::tempdir().unwrap();
        let options =
            Options { memory_bytes: MEMORY, durability: Durability::Os, ..Options::preset(preset) };
        let db = Db::open(dir.path(), options.clone()).unwrap();
        let mut batch = WriteBatch::new();
        let put = |batch: &mut WriteBatch, i| _ = batch.put(small(i).0, small(i).1).unwrap();
        (0..FIT).for_each(|i| put(&mut batch, i));
        db.write(&batch).unwrap();
        (FIT..FIT + FIT / 2).for_each(|i| put(&mut batch, i));
        assert_eq!(db.write(&batch).unwrap_err().kind(), ErrorKind::InvalidArgument);
        db.close().unwrap();
        let db = Db::open(dir.path(), options).unwrap();
        assert_eq!(db.range(..).keys_only().count(), FIT, "{preset}");
        let (key, value) = small(FIT - 1);
        assert_eq!(db.get(key).unwrap().unwrap(), value, "{preset}");
    }
}

#[test]
fn a_transaction_refuses_at_once_a_write_for_which_there_is_no_memory() {
    const FIT: usize = 1_100_000 * (48 << 20) / (768 << 20);
    let dir = tempfile::tempdir().unwrap();
    let db = Db::builder(dir.path()).memory_bytes(48 << 20).durability(Durability::Os);
    let db = db.open().unwrap();
    let mut transaction = db.transaction().unwrap();
    (0..FIT).for_each(|i| transaction.put(small(i).0, small(i).1).unwrap());
    let savepoint = transaction.savepoint();
    let refused = (FIT..2 * FIT).find_map(|i| transaction.put(small(i).0, "").err()).unwrap();
    assert_eq!(refused.kind(), ErrorKind::InvalidArgument);
    assert!(refused.message().contains("split it"), "{refused}");
    transaction.put(small(0).0, "the same key takes no more").unwrap();
    transaction.delete_range(..).unwrap();
    (0..FIT / 2).for_each(|i| transaction.put(small(i).0, "room again").unwrap());
    transaction.rollback_to(savepoint).unwrap();
    transaction.commit().unwrap();
    assert_eq!(db.range(..).keys_only().count(), FIT);
    assert_eq!(db.get(small(0).0).unwrap().unwrap(), small(0).1);
}

/// Adds operation number `i` of one kind to a batch.
type AddToBatch = fn(&mut WriteBatch, &Keyspace, usize) -> Result<()>;
/// Adds operation number `i` of one kind to a transaction.
type AddToTransaction = fn(&mut Transaction, &Keyspace, usize) -> Result<()>;

/// A key of 60,000 bytes: few fit.
fn long(i: usize) -> Vec<u8> {
    [&[0; 59_992][..], &i.to_be_bytes()].concat()
}

/// Every kind of operation whose memory follows from itself, in a batch and in a transaction.
const KINDS: [(AddToBatch, AddToTransaction); 4] = [
    (
        |batch, _, i| batch.put(long(i), "value").map(drop),
        |transaction, _, i| transaction.put(long(i), "value"),
    ),
    (
        |batch, named, i| batch.keyspace(named).put(long(i), long(i)).map(drop),
        |transaction, named, i| transaction.keyspace(named).put(long(i), long(i)),
    ),
    (
        |batch, _, i| batch.delete(long(i)).map(drop),
        |transaction, _, i| transaction.delete(long(i)),
    ),
    (
        |batch, named, i| {
            batch.keyspace(named).delete_range(long(2 * i)..long(2 * i + 1)).map(drop)
        },
        |transaction, named, i| {
            transaction.keyspace(named).delete_range(long(2 * i)..long(2 * i + 1))
        },
    ),
];

/// Only the write of the batch, or the commit of the transaction, refused it.
#[test]
fn what_does_not_fit_the_memory_is_refused_when_it_is_added() {
    const MEMORY: usize = 48 << 20;
    for preset in in_turn(Preset::ALL.into()) {
        let options =
            Options { memory_bytes: MEMORY, durability: Durability::Os, ..Options::preset(preset) };
        let db = Db::open_in(Arc::new(Sim::new()), options, 7).unwrap();
        let compression = Some(ValueCompression::Lz4);
        let options = KeyspaceOptions { compression, ..KeyspaceOptions::default() };
        let named = db.create_keyspace("named", options).unwrap();
        for (add, change) in KINDS {
            let (mut told, mut untold) = (db.batch(), WriteBatch::new());
            let refused = (0..1000).find_map(|i| {
                add(&mut untold, &named, i).unwrap();
                add(&mut told, &named, i).err()
            });
            let refused = refused.unwrap().to_string();
            let fit = told.len();
            assert!(refused.contains("split it") && fit > 20, "{refused}");
            assert_eq!(db.write(&untold).unwrap_err().to_string(), refused, "{preset}");
            db.write(&told).unwrap();
            told.truncate(fit - 1);
            add(&mut told, &named, fit).unwrap();
            assert_eq!(db.batch().append(&untold).unwrap_err().to_string(), refused, "{preset}");
            told.clear();
            told.append(&untold).unwrap_err();
            add(&mut told, &named, 0).unwrap();
            assert_eq!(told.len(), 1);

            let mut transaction = db.transaction().unwrap();
            let savepoint = transaction.savepoint();
            // What is taken back takes nothing.
            for _ in 0..2 {
                transaction.rollback_to(savepoint).unwrap();
                (0..fit).for_each(|i| change(&mut transaction, &named, i).unwrap());
                let late = change(&mut transaction, &named, fit).unwrap_err();
                assert_eq!(late.to_string(), refused, "{preset}");
            }
            transaction.commit().unwrap();
        }
    }
}

/// Of a long batch only operations stay encoded that could come out otherwise the next time.
#[test]
fn every_kind_of_operation_of_a_long_batch_takes_its_place() {
    const ROUNDS: usize = 700;
    for setup in designs() {
        let sim = Sim::new();
        let (setup, compression) = (setup.in_one_directory(), Some(ValueCompression::Lz4));
        let open =
            |sim: &Sim| Db::open_in(Arc::new(sim.clone()), setup.options.clone(), 7).unwrap();
        let db = open(&sim);
        let options = KeyspaceOptions { compression, ..KeyspaceOptions::default() };
        let packed = db.create_keyspace("packed", options).unwrap();
        // Beside merges it would make a transaction of the batch.
        let passing = db.keyspace("passing").unwrap();
        db.put("old", "deleted").unwrap();
        let (mut batch, long) = (WriteBatch::new(), "long ".repeat(60));
        for i in 0..ROUNDS {
            batch.put(format!("a{i}"), "first").unwrap();
            batch.merge(format!("a{i}"), &Operand::append(" and more")).unwrap();
            let (key, ttl) = (format!("t{i}"), Duration::from_secs(9999));
            batch.keyspace(&passing).put_with_ttl(key, &long, ttl).unwrap();
            batch.put(format!("d{i}"), &long).unwrap().delete(format!("d{i}")).unwrap();
            batch.keyspace(&packed).put(format!("p{i}"), &long).unwrap();
            if i % 100 == 0 {
                batch.delete_range("old"..="old").unwrap().delete_range("a".."b").unwrap();
            }
        }
        let before = db.snapshot().seq();
        db.write(&batch).unwrap();
        assert!(db.snapshot().seq() - before >= batch.len() as u64, "each has its number");
        let killed = open(&sim.kill());
        for db in [&db, &killed] {
            assert_eq!(db.prefix("a").count(), ROUNDS - 601, "{setup}");
            assert_eq!(db.get("a650").unwrap().unwrap(), "first and more");
            assert_eq!(db.range("b"..).count(), 0, "{setup}");
            let passing = db.keyspace("passing").unwrap();
            assert_eq!(passing.range(..).count(), ROUNDS, "{setup}");
            let (value, expires) = passing.get_with_expiry("t650").unwrap().unwrap();
            assert_eq!((&value[..], expires.is_some()), (long.as_bytes(), true));
            let packed = db.keyspace("packed").unwrap();
            assert_eq!(packed.range(..).count(), ROUNDS);
            assert_eq!(packed.get("p699").unwrap().unwrap(), long);
        }
    }
}

/// A change of a reversed range did nothing, and said that all went well.
#[test]
fn what_changes_a_range_refuses_one_whose_ends_are_reversed() {
    for setup in designs() {
        let db = Db::open_in(Arc::new(Sim::new()), setup.options.clone(), 7).unwrap();
        let named = db.keyspace("named").unwrap();
        db.put("m", "stays").unwrap();
        let (mut batch, mut transaction) = (WriteBatch::new(), db.transaction().unwrap());
        let refused = [
            db.delete_range("z".."a"),
            named.delete_range("z"..="a"),
            db.delete_range((Some("z"), Some("a"))),
            batch.delete_range("z".."a").map(drop),
            batch.keyspace(&named).delete_range("z".."a").map(drop),
            transaction.delete_range("z".."a"),
            transaction.keyspace(&named).delete_range("z".."a"),
            db.default_keyspace().compact_range("z".."a"),
            db.default_keyspace().collect_range("z".."a"),
        ];
        for (at, refused) in refused.into_iter().enumerate() {
            assert_eq!(refused.unwrap_err().kind(), ErrorKind::InvalidArgument, "{setup}, {at}");
        }
        assert!(batch.is_empty());
        // An empty range is none, and reads take a reversed one for empty.
        db.delete_range("m".."m").unwrap();
        transaction.delete_range("m".."m").unwrap();
        drop(transaction);
        db.default_keyspace().collect_range("x".."x").unwrap();
        assert_eq!((db.range("z".."a").count(), db.range(..).count()), (0, 1));
        assert_eq!(db.default_keyspace().approximate_size("z".."a").unwrap().entries, 0);
    }
}

#[test]
fn a_batch_returns_to_what_it_was() {
    let db =
        Db::open_in(Arc::new(Sim::new()), Setup::every_design()[0].options.clone(), 7).unwrap();
    let gone = db.keyspace("gone").unwrap();
    let mut batch = WriteBatch::new();
    batch.put("a", "1").unwrap();
    let (savepoint, size) = (batch.len(), batch.size_bytes());
    batch.delete_range("a".."z").unwrap().put("b", "2").unwrap();
    batch.keyspace(&gone).merge("c", &Operand::add(1)).unwrap();
    batch.truncate(7);
    assert_eq!(batch.len(), 4);
    batch.truncate(savepoint);
    assert_eq!((batch.len(), batch.size_bytes()), (1, size));
    batch.put("d", "3").unwrap();
    db.drop_keyspace("gone").unwrap();
    db.write(&batch).unwrap();
    let keys: Vec<_> = db.range(..).map(|item| item.unwrap().key).collect();
    assert_eq!(keys, ["a", "d"]);
    batch.truncate(0);
    assert!(batch.is_empty());
}
