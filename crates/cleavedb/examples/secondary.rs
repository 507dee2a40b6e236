//! A second handle, usually in another process, reads what a first one writes; and how long that
//! takes, for every preset.
//!
//! `cargo run --release -p cleavedb --example secondary -- 200000` fills each store with this
//! number of values first.

use std::time::{Duration, Instant};

use cleavedb::{Db, Durability, Options, Preset, WriteBatch};

/// Calls of which the median is told.
const CALLS: usize = 31;

/// Bytes of a value.
const VALUE: usize = 400;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let filled = std::env::args().nth(1).map_or(Ok(1000), |count| count.parse())?;
    println!("preset    open_secondary  nothing new  1,000 puts  after a flush");
    for preset in Preset::ALL {
        let dir = tempfile::tempdir()?;
        let path = dir.path().join("db");
        let primary = Db::open(&path, Options::preset(preset))?;
        fill(&primary, filled)?;

        let open = timed(|| Db::open_secondary(&path).map(drop))?;
        let secondary = Db::open_secondary(&path)?;

        let nothing = median(|| timed(|| secondary.catch_up().map(drop)))?;
        let mut number = 0;
        let puts = median(|| {
            for _ in 0..1000 {
                number += 1;
                primary.put_with(key(number), [7; VALUE], Durability::Os)?;
            }
            timed(|| secondary.catch_up().map(drop))
        })?;
        assert!(secondary.contains_key(key(number))?);

        primary.flush()?;
        let flushed = timed(|| secondary.catch_up().map(drop))?;
        let name = preset.to_string();
        println!("{name:8} {open:>15.1?} {nothing:>12.1?} {puts:>11.1?} {flushed:>14.1?}");
    }
    Ok(())
}

fn timed(call: impl FnOnce() -> cleavedb::Result<()>) -> cleavedb::Result<Duration> {
    let begun = Instant::now();
    call().map(|()| begun.elapsed())
}

fn median(mut time: impl FnMut() -> cleavedb::Result<Duration>) -> cleavedb::Result<Duration> {
    let mut times = (0..CALLS).map(|_| time()).collect::<cleavedb::Result<Vec<_>>>()?;
    times.sort_unstable();
    Ok(times[CALLS / 2])
}

fn key(number: u64) -> Vec<u8> {
    format!("key{:09}", number * 7919 % 1_000_000_007).into_bytes()
}

fn fill(db: &Db, count: u64) -> cleavedb::Result<()> {
    for first in (0..count).step_by(100) {
        let mut batch = WriteBatch::new();
        for number in first..count.min(first + 100) {
            batch.put(key(number), [number as u8; VALUE])?;
        }
        db.write_with(&batch, Durability::Os)?;
    }
    Ok(())
}
