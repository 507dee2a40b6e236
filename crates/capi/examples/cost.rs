//! What a call of the C library costs above the crate's call within it: `cargo run --release -p
//! cleavedb-capi --example cost`. Two databases of one content, each opened in its way, take turns,
//! so that what else the machine does meets both. A figure is the median of all turns. What a get
//! in C returns is freed within its time. The library is linked statically.

use std::ffi::{CString, c_char, c_int, c_void};
use std::hint::black_box;
use std::ptr::{null, null_mut};
use std::time::Instant;

use cleavedb::{Db, Durability, Keyspace, Options, Result};
// Has the functions that are declared below, under their names in C.
use cleavedb_c as _;

const KEYS: usize = 1000;
const CALLS_OF_TURN: usize = 2 * KEYS;
const TURNS: usize = 301;

/// Number of `CLEAVEDB_BUFFERED`.
const BUFFERED: c_int = 1;

type Handle = *mut c_void;
type Lent = *const c_char;

// SAFETY: so the headers declare them.
unsafe extern "C" {
    fn leveldb_get(
        db: Handle,
        options: Handle,
        key: Lent,
        key_len: usize,
        value_len: *mut usize,
        error: *mut Handle,
    ) -> Handle;
    fn leveldb_put(
        db: Handle,
        options: Handle,
        key: Lent,
        key_len: usize,
        value: Lent,
        value_len: usize,
        error: *mut Handle,
    );
    fn leveldb_free(memory: Handle);
    fn cleavedb_open(path: Lent, options: Lent, error: *mut Handle) -> Handle;
    fn cleavedb_keyspace_open(db: Handle, name: Lent, options: Lent, error: *mut Handle) -> Handle;
    fn cleavedb_get(keyspace: Handle, key: Lent, key_len: usize, error: *mut Handle) -> Handle;
    fn cleavedb_value_free(value: Handle);
    fn cleavedb_put(
        keyspace: Handle,
        key: Lent,
        key_len: usize,
        value: Lent,
        value_len: usize,
        durability: c_int,
        error: *mut Handle,
    ) -> c_int;
}

/// A database as C has it. It is open until the process ends.
#[derive(Clone, Copy)]
struct InC {
    db: Handle,
    keyspace: Handle,
}

impl InC {
    fn open(path: &str) -> Self {
        let (path, mut error) = (CString::new(path).unwrap(), null_mut());
        // SAFETY: the texts end in a NUL, and the rest is NULL or a place for an error.
        let db = unsafe { cleavedb_open(path.as_ptr(), c"durability=os".as_ptr(), &mut error) };
        // SAFETY: the handle was just made, or is NULL.
        let keyspace = unsafe { cleavedb_keyspace_open(db, null(), null(), &mut error) };
        assert!(error.is_null() && !keyspace.is_null());
        Self { db, keyspace }
    }

    fn leveldb_get(self, key: &[u8]) {
        let ((key, key_len), mut len, mut error) = (lent(key), 0, null_mut());
        // SAFETY: the handle is live, and the key is lent with its length. The value is freed once.
        unsafe {
            let value = leveldb_get(self.db, null_mut(), key, key_len, &mut len, &mut error);
            assert!(!value.is_null());
            leveldb_free(value);
        }
    }

    fn leveldb_put(self, key: &[u8], value: &[u8]) {
        let mut error = null_mut();
        let ((key, key_len), (value, len)) = (lent(key), lent(value));
        // SAFETY: the handle is live, and key and value are lent with their lengths.
        unsafe { leveldb_put(self.db, null_mut(), key, key_len, value, len, &mut error) }
        assert!(error.is_null());
    }

    fn get(self, key: &[u8]) {
        let ((key, key_len), mut error) = (lent(key), null_mut());
        // SAFETY: the handle is live, and the key is lent with its length. The value is freed once.
        unsafe {
            let value = cleavedb_get(self.keyspace, key, key_len, &mut error);
            assert!(!value.is_null());
            cleavedb_value_free(value);
        }
    }

    fn put(self, key: &[u8], value: &[u8]) {
        let mut error = null_mut();
        let ((key, key_len), (value, len)) = (lent(key), lent(value));
        let keyspace = self.keyspace;
        // SAFETY: the handle is live, and key and value are lent with their lengths.
        unsafe { cleavedb_put(keyspace, key, key_len, value, len, BUFFERED, &mut error) };
        assert!(error.is_null());
    }
}

fn lent(bytes: &[u8]) -> (Lent, usize) {
    (bytes.as_ptr().cast(), bytes.len())
}

/// Nanoseconds of a call, when each key has two.
fn turn(keys: &[Vec<u8>], call: impl Fn(&[u8])) -> f64 {
    let begun = Instant::now();
    (0..CALLS_OF_TURN).for_each(|at| call(black_box(&keys[at % KEYS])));
    begun.elapsed().as_nanos() as f64 / CALLS_OF_TURN as f64
}

fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}

/// Prints a line of the table.
fn compare(what: &str, keys: &[Vec<u8>], in_crate: impl Fn(&[u8]), in_c: impl Fn(&[u8])) {
    let turns: Vec<_> = (0..TURNS).map(|_| (turn(keys, &in_crate), turn(keys, &in_c))).collect();
    let of = |figure: fn(&(f64, f64)) -> f64| median(turns.iter().map(figure).collect());
    let (of_crate, of_c, above) = (of(|it| it.0), of(|it| it.1), of(|it| it.1 - it.0));
    println!("{what:32} {of_crate:9.0} {of_c:9.0} {above:9.0}");
}

fn main() -> Result<()> {
    println!("{:32} {:>9} {:>9} {:>9}", "ns a call", "crate", "C", "above");
    let keys: Vec<_> = (0..KEYS).map(|at| format!("key {at:08}").into_bytes()).collect();
    for value in [vec![b'v'; 16], vec![b'v'; 1024]] {
        let directory = tempfile::tempdir().expect("a directory for the databases");
        let path = |name| directory.path().join(name);
        let options = Options { durability: Durability::Os, ..Options::default() };
        let db: Keyspace = Db::open(path("crate"), options)?.default_keyspace().clone();
        let c = InC::open(path("c").to_str().expect("a path of text"));
        let name = |call: &str| format!("{call}, {} B", value.len());
        let put = |durability| {
            let (db, value) = (&db, &value);
            move |key: &[u8]| db.put_with(key, value, durability).expect("a put")
        };
        let get = |key: &[u8]| assert!(db.get(key).expect("a get").is_some());
        compare(&name("leveldb_put"), &keys, put(Durability::Os), |key| c.leveldb_put(key, &value));
        compare(&name("cleavedb_put, buffered"), &keys, put(Durability::Buffered), |key| {
            c.put(key, &value);
        });
        compare(&name("leveldb_get"), &keys, get, |key| c.leveldb_get(key));
        compare(&name("cleavedb_get"), &keys, get, |key| c.get(key));
    }
    Ok(())
}
