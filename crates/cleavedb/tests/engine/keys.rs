//! Keys at the ends of what is allowed, and batches of any number of operations.

use cleavedb::{Background, Db, Durability, ErrorKind, KEY_LEN_MAX, Options, Preset, WriteBatch};
use cleavedb_testkit::Setup;

fn designs() -> Vec<Setup> {
    Setup::designs().into_iter().chain(Setup::partitioned()).collect()
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
