//! A secondary index that is always right: people by name, and an index by town, changed together
//! in transactions, by four threads.
//!
//! `cargo run -p cleavedb --example index`

use cleavedb::{Db, Durability, Result, Transaction, encode};

/// People, threads, and moves of each thread.
const PEOPLE: u64 = 50;
const THREADS: u64 = 4;
const MOVES: u64 = 200;

const TOWNS: [&str; 3] = ["Bergen", "Oslo", "Trondheim"];

/// Lets a person live in a town: their record and the entry of the index change as one.
fn settle(transaction: &mut Transaction, person: u64, town: &str) -> Result<()> {
    let record = encode::key(&("person", person));
    if let Some(old) = transaction.get(&record)? {
        let old = std::str::from_utf8(&old).unwrap_or_default().to_owned();
        transaction.delete(encode::key(&("town", &old[..], person)))?;
        add(transaction, &old, -1)?;
    }
    transaction.put(&record, town)?;
    transaction.put(encode::key(&("town", town, person)), "")?;
    add(transaction, town, 1)
}

/// Adds to the number of people in a town.
fn add(transaction: &mut Transaction, town: &str, people: i64) -> Result<()> {
    let key = encode::key(&("count", town));
    let old = transaction.get(&key)?.unwrap_or_default();
    let old = old[..].try_into().map_or(0, i64::from_be_bytes);
    transaction.put(&key, (old + people).to_be_bytes())
}

fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let dir = tempfile::tempdir()?;
    let db = Db::builder(dir.path().join("people.db")).durability(Durability::Os).open()?;
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|thread| {
                let db = &db;
                scope.spawn(move || {
                    (0..MOVES).try_for_each(|i| {
                        let (person, town) = ((i * 7 + thread) % PEOPLE, (i + thread) % 3);
                        // A conflict with another thread's move is run again.
                        db.transact(|transaction| settle(transaction, person, TOWNS[town as usize]))
                    })
                })
            })
            .collect();
        threads.into_iter().try_for_each(|thread| thread.join().expect("a thread panicked"))
    })?;

    // The index, the counts and the records agree.
    let snapshot = db.snapshot();
    let mut all = 0;
    for town in TOWNS {
        let indexed = snapshot.range(encode::within(&("town", town))).keys_only().count() as i64;
        let count = snapshot.get(encode::key(&("count", town)))?.unwrap_or_default();
        let count = i64::from_be_bytes(count[..].try_into()?);
        assert_eq!(indexed, count, "{town}");
        println!("{town}: {count}");
        all += count;
    }
    let people = snapshot.range(encode::within(&("person",))).keys_only().count() as i64;
    assert_eq!(all, people);
    assert_eq!(people, PEOPLE as i64);
    Ok(())
}
