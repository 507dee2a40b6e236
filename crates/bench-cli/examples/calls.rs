//! What single calls cost beside each other: steps and searches of a cursor, and transactions
//! beside plain calls that do the same.
//!
//! `cargo run --release -p cleavedb-bench-cli --example calls` prints nanoseconds a call, the
//! median of five rounds, and for transactions operations a second.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use cleavedb::{Db, Durability, ErrorKind, Result};

/// Records, and bytes of a value.
const RECORDS: u64 = 1_000_000;
const VALUE: usize = 100;

/// Clients of transactions, and how long they run.
const CLIENTS: u64 = 4;
const RUN: Duration = Duration::from_secs(2);

const ROUNDS: usize = 5;

fn key(number: u64) -> [u8; 8] {
    number.to_be_bytes()
}

/// A number below `RECORDS` that no other is near.
fn scattered(i: u64) -> u64 {
    i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20 & (RECORDS.next_power_of_two() - 1)
}

/// Nanoseconds of one of `count` calls, the median of some rounds.
fn nanoseconds(count: u64, mut round: impl FnMut() -> Result<()>) -> Result<f64> {
    let mut times = Vec::new();
    for _ in 0..ROUNDS {
        let start = Instant::now();
        round()?;
        times.push(start.elapsed().as_nanos() as f64 / count as f64);
    }
    times.sort_by(f64::total_cmp);
    Ok(times[ROUNDS / 2])
}

fn cursors(db: &Db) -> Result<()> {
    let steps = 200_000;
    for values in [false, true] {
        let what = if values { "with values" } else { "keys only" };
        let forward = nanoseconds(steps, || {
            let mut cursor = db.cursor(..);
            cursor.seek(key(RECORDS / 3))?;
            for _ in 0..steps {
                cursor.next()?;
                if values {
                    std::hint::black_box(cursor.value()?);
                }
            }
            Ok(())
        })?;
        let to_and_fro = nanoseconds(steps, || {
            let mut cursor = db.cursor(..);
            cursor.seek(key(RECORDS / 3))?;
            for i in 0..steps {
                if i % 2 == 0 {
                    cursor.next()?
                } else {
                    cursor.prev()?
                };
                if values {
                    std::hint::black_box(cursor.value()?);
                }
            }
            Ok(())
        })?;
        println!("{what}: next {forward:.0} ns, next and prev in turn {to_and_fro:.0} ns");
    }
    let searches = 50_000;
    let mut cursor = db.cursor(..);
    let seek = nanoseconds(searches, || {
        (0..searches).try_for_each(|i| cursor.seek(key(scattered(i))).map(drop))
    })?;
    let fresh = nanoseconds(searches, || {
        (0..searches).try_for_each(|i| db.cursor(..).seek(key(scattered(i))).map(drop))
    })?;
    println!("seek {seek:.0} ns, seek of a new cursor {fresh:.0} ns");
    Ok(())
}

/// Operations a second of all clients, each of which runs `operation` with numbers of its own.
fn rate(operation: impl Fn(u64) -> Result<()> + Sync) -> f64 {
    let done = AtomicU64::new(0);
    let start = Instant::now();
    std::thread::scope(|scope| {
        for client in 0..CLIENTS {
            let (operation, done) = (&operation, &done);
            scope.spawn(move || {
                for i in 0.. {
                    if start.elapsed() >= RUN || operation(client << 40 | i).is_err() {
                        break;
                    }
                    done.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
    });
    done.load(Ordering::Relaxed) as f64 / start.elapsed().as_secs_f64()
}

fn transactions(db: &Db) {
    for keys in [RECORDS, 1] {
        let conflicts = AtomicU64::new(0);
        let place = |i: u64| key(scattered(i) % keys);
        let plain = rate(|i| {
            let value = db.get(place(i))?.unwrap_or_default();
            db.put_with(place(i), &value, Durability::Os)
        });
        let transacted = rate(|i| {
            loop {
                let mut transaction = db.transaction()?;
                let value = transaction.get(place(i))?.unwrap_or_default();
                transaction.put(place(i), &value)?;
                match transaction.commit_with(Durability::Os) {
                    Err(e) if e.kind() == ErrorKind::Conflict => {
                        conflicts.fetch_add(1, Ordering::Relaxed);
                    }
                    done => return done,
                }
            }
        });
        println!(
            "{CLIENTS} clients on {keys} keys: {plain:.0} get and put, {transacted:.0} as a \
             transaction ({:.2}), {} conflicts",
            transacted / plain,
            conflicts.load(Ordering::Relaxed)
        );
    }
}

fn main() -> Result<()> {
    let directory = tempfile::tempdir().expect("a directory for the data");
    let db = Db::builder(directory.path().join("db")).durability(Durability::Os).open()?;
    for i in 0..RECORDS {
        db.put(key(i), [b'v'; VALUE])?;
    }
    db.compact()?;
    db.wait_idle()?;
    cursors(&db)?;
    transactions(&db);
    db.close()?;
    Ok(())
}
