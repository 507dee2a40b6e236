//! A cache with a bound that survives a restart: when its values exceed the bound, those that were
//! stored first leave.
//!
//! `cargo run -p cleavedb --example cache`. Values that end by time need no such list:
//! `KeyspaceOptions::ttl`.

use cleavedb::{Db, Durability, Keyspace, Options, Result, WriteBatch, encode};

struct Cache {
    db: Db,
    /// Of each key its age, 8 bytes, and then the value.
    values: Keyspace,
    /// The keys by age.
    ages: Keyspace,
    next: u64,
    /// Bytes of `values`, and the most of them.
    bytes: usize,
    most: usize,
}

impl Cache {
    fn open(path: &std::path::Path, most: usize) -> Result<Self> {
        // What is lost with the power is made again: a sync for each value would be a waste.
        let options = Options { durability: Durability::Os, ..Options::default() };
        let db = Db::open(path, options)?;
        let (values, ages) = (db.keyspace("values")?, db.keyspace("ages")?);
        let last = ages.last_key_value()?;
        let next = last.map_or(Ok(0), |last| encode::parts::<u64>(&last.key).map(|at| at + 1))?;
        let bytes = values.range(..).try_fold(0, |sum, it| it.map(|it| sum + it.value.len()))?;
        Ok(Self { db, values, ages, next, bytes, most })
    }

    fn get(&self, key: &str) -> Result<Option<Vec<u8>>> {
        Ok(self.values.get(key)?.map(|stored| stored[8..].to_vec()))
    }

    fn put(&mut self, key: &str, value: &[u8]) -> Result<()> {
        let mut batch = WriteBatch::new();
        if let Some(old) = self.values.get(key)? {
            batch.keyspace(&self.ages).delete(encode::key(&age(&old)))?;
            self.bytes -= old.len();
        }
        let stored = [&self.next.to_be_bytes(), value].concat();
        self.bytes += stored.len();
        batch.keyspace(&self.ages).put(encode::key(&self.next), key)?;
        batch.keyspace(&self.values).put(key, stored)?;
        self.next += 1;
        self.db.write(&batch)?;
        self.shrink()
    }

    /// Removes what was stored first, until the rest fits.
    fn shrink(&mut self) -> Result<()> {
        while self.bytes > self.most {
            let Some(oldest) = self.ages.first_key_value()? else { break };
            let len = self.values.get(&oldest.value)?.map_or(0, |stored| stored.len());
            let mut batch = WriteBatch::new();
            batch.keyspace(&self.ages).delete(&oldest.key)?;
            batch.keyspace(&self.values).delete(&oldest.value)?;
            self.db.write(&batch)?;
            self.bytes -= len;
        }
        Ok(())
    }
}

fn age(stored: &[u8]) -> u64 {
    stored.first_chunk().map_or(0, |age| u64::from_be_bytes(*age))
}

fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let dir = tempfile::tempdir()?;
    let path = dir.path().join("pages.db");
    let mut cache = Cache::open(&path, 100_000)?;
    for page in 0..200 {
        cache.put(&format!("page {page}"), &[b'x'; 992])?;
    }
    cache.put("page 120", b"short")?;
    drop(cache);

    let cache = Cache::open(&path, 100_000)?;
    println!("{} pages, {} bytes", cache.values.range(..).keys_only().count(), cache.bytes);
    assert_eq!((cache.get("page 0")?, cache.get("page 199")?.is_some()), (None, true));
    assert_eq!(cache.get("page 120")?.as_deref(), Some(&b"short"[..]));
    Ok(())
}
