//! What a million deletes of ranges cost, and reads of other keys beside them.
//!
//! `cargo run --release -p cleavedb-bench-cli --example ranges [PRESET] [COUNT]`

use std::time::Instant;

use cleavedb::{Db, Durability, Options, Preset, Result};

/// Bytes of a value.
const VALUE_LEN: usize = 200;

/// Reads of one measurement.
const READS: u64 = 400_000;

/// A permutation of the numbers below a count: the factor is a prime.
fn scattered(i: u64, count: u64) -> u64 {
    i * 982_451_653 % count
}

fn kept(i: u64) -> String {
    format!("a/{i:08}")
}

fn doomed(i: u64) -> String {
    format!("b/{i:08}")
}

/// Reads of kept keys a second: the median of three rounds.
fn reads(db: &Db, count: u64) -> Result<f64> {
    let mut rounds = Vec::new();
    for _ in 0..3 {
        let start = Instant::now();
        for i in 0..READS {
            let found = db.get(kept(scattered(i, count)))?;
            assert!(found.is_some(), "a kept key is there");
        }
        rounds.push(READS as f64 / start.elapsed().as_secs_f64());
    }
    rounds.sort_by(f64::total_cmp);
    Ok(rounds[1])
}

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let preset = arguments.next().and_then(|name| Preset::from_name(&name)).unwrap_or_default();
    let count = arguments.next().and_then(|count| count.parse().ok()).unwrap_or(1_000_000);
    let dir = std::env::temp_dir().join(format!("cleave-ranges-{}", std::process::id()));
    let options = Options { durability: Durability::Os, ..Options::preset(preset) };
    let db = Db::open(&dir, options)?;
    for i in 0..count {
        db.put(kept(i), [1; VALUE_LEN])?;
        db.put(doomed(i), [2; VALUE_LEN])?;
    }
    db.wait_idle()?;
    reads(&db, count)?;
    println!("{preset}: {count} kept keys, {count} others");
    println!("reads before: {:.0}/s", reads(&db, count)?);
    let start = Instant::now();
    for i in 0..count {
        let from = scattered(i, count);
        db.delete_range(doomed(from)..doomed(from + 1))?;
    }
    println!("deletes of ranges: {:.0}/s", count as f64 / start.elapsed().as_secs_f64());
    println!("reads beside them: {:.0}/s", reads(&db, count)?);
    let start = Instant::now();
    db.wait_idle()?;
    println!("settled after {:.1} s", start.elapsed().as_secs_f64());
    println!("reads then: {:.0}/s", reads(&db, count)?);
    let start = Instant::now();
    let left = db.prefix("b/").keys_only().count();
    println!("{left} of the others are left; found in {:?}", start.elapsed());
    let start = Instant::now();
    db.compact()?;
    println!("compacted in {:.1} s", start.elapsed().as_secs_f64());
    println!("reads then: {:.0}/s", reads(&db, count)?);
    db.close()?;
    let start = Instant::now();
    drop(Db::open(&dir, Options::preset(preset))?);
    println!("opened in {:?}", start.elapsed());
    let _ = std::fs::remove_dir_all(&dir);
    Ok(())
}
