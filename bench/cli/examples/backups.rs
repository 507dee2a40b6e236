//! What backups cost: the first one, one without changes, and two after updates of 1% of the data,
//! scattered over all keys and in one range of them.
//!
//! `cargo run --release --manifest-path bench/cli/Cargo.toml --example backups [PRESET] [COUNT]`

use std::time::Instant;

use cleavedb::{Backups, Db, Durability, Options, Preset, Result};
use cleavedb_units as units;

/// Bytes of a value.
const VALUE_LEN: usize = 1024;

/// A permutation of the numbers below a count: the factor is a prime.
fn scattered(i: u64, count: u64) -> u64 {
    i * 982_451_653 % count
}

/// A value that cannot be compressed.
fn value(seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut value = Vec::with_capacity(VALUE_LEN);
    while value.len() < VALUE_LEN {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        value.extend_from_slice(&state.to_le_bytes());
    }
    value
}

fn put(db: &Db, keys: impl Iterator<Item = u64>, round: u64) -> Result<()> {
    for key in keys {
        db.put(format!("key{key:012}"), value(key << 8 | round))?;
    }
    db.wait_idle()
}

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let preset = arguments.next().and_then(|name| Preset::from_name(&name)).unwrap_or_default();
    let count: u64 = arguments.next().and_then(|it| it.parse().ok()).unwrap_or(1_000_000);
    let dir = std::env::temp_dir().join(format!("cleave-backups-{}", std::process::id()));
    let options = Options { durability: Durability::Os, ..Options::preset(preset) };
    std::fs::create_dir(&dir).expect("there is a directory for temporary files");
    let (db, backups) = (Db::open(dir.join("db"), options)?, dir.join("backups"));
    put(&db, (0..count).map(|i| scattered(i, count)), 0)?;
    db.sync()?;
    println!("{preset}: {count} values of {VALUE_LEN} bytes");
    let mut first = 0;
    let mut back_up = |what: &str| -> Result<()> {
        let start = Instant::now();
        let report = db.backup(&backups)?;
        let seconds = start.elapsed().as_secs_f64();
        first = first.max(report.bytes);
        println!(
            "{what}: {} of {} copied ({:.2}% of the first), {} files linked, in {seconds:.2} s",
            units::bytes(report.copied_bytes),
            units::bytes(report.bytes),
            100.0 * report.copied_bytes as f64 / first as f64,
            report.linked,
        );
        Ok(())
    };
    back_up("first")?;
    back_up("without a change")?;
    put(&db, (0..count / 100).map(|i| scattered(i, count)), 1)?;
    back_up("1% updated, scattered")?;
    put(&db, count / 2..count / 2 + count / 100, 2)?;
    back_up("1% updated, in a range")?;
    db.close()?;
    let start = Instant::now();
    Backups::open(&backups)?.restore(None, dir.join("restored"))?;
    println!("restored and checked in {:.2} s", start.elapsed().as_secs_f64());
    let _ = std::fs::remove_dir_all(&dir);
    Ok(())
}
