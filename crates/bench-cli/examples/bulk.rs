//! What a bulk load costs, beside puts in the order of keys and beside the device.
//!
//! `cargo run --release -p cleavedb-bench-cli --example bulk [PRESET|all] [MIB] [ROUNDS] [DIR]`

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;
use std::time::Instant;

use cleavedb::{Db, Durability, Options, Preset, Result};

/// Lengths of values.
const LENS: [usize; 3] = [100, 1024, 16 << 10];

/// Bytes that are written at once to the file that measures the device.
const PIECE: usize = 1 << 20;

const MIB: f64 = (1 << 20) as f64;

/// The key of a number; keys ascend with their numbers.
fn key(i: u64) -> [u8; 16] {
    (u128::from(i) << 16).to_be_bytes()
}

/// A value that cannot be compressed, in `out`.
fn fill(out: &mut [u8], mut seed: u64) {
    for piece in out.chunks_mut(8) {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let bytes = (seed ^ (seed >> 29)).to_le_bytes();
        piece.copy_from_slice(&bytes[..piece.len()]);
    }
}

/// Bytes that this process has written to devices.
fn written() -> u64 {
    let facts = fs::read_to_string("/proc/self/io").unwrap_or_default();
    let line = facts.lines().find_map(|line| line.strip_prefix("write_bytes: "));
    line.and_then(|number| number.parse().ok()).unwrap_or_default()
}

/// Seconds in which the device takes this number of bytes in one file, written and synced.
fn device(dir: &Path, bytes: u64) -> io::Result<f64> {
    let path = dir.join("plain");
    let mut piece = vec![0; PIECE];
    fill(&mut piece, 7);
    let start = Instant::now();
    let mut file = File::create(&path)?;
    for _ in 0..bytes.div_ceil(PIECE as u64) {
        file.write_all(&piece)?;
    }
    file.sync_all()?;
    let seconds = start.elapsed().as_secs_f64();
    fs::remove_file(path)?;
    Ok(seconds)
}

/// Runs `store` on a new database; returns its seconds, those until no job is due, and the bytes
/// written to the device.
fn timed(
    dir: &Path,
    preset: Preset,
    store: impl FnOnce(&Db) -> Result<()>,
) -> Result<(f64, f64, u64)> {
    let path = dir.join("db");
    let options = Options { durability: Durability::Os, ..Options::preset(preset) };
    let db = Db::open(&path, options)?;
    let (start, before) = (Instant::now(), written());
    store(&db)?;
    let stored = start.elapsed().as_secs_f64();
    db.wait_idle()?;
    let done = (stored, start.elapsed().as_secs_f64(), written() - before);
    drop(db);
    let _ = fs::remove_dir_all(&path);
    Ok(done)
}

fn measure(dir: &Path, preset: Preset, len: usize, mib: u64) -> Result<()> {
    let count = (mib << 20) / (len as u64 + 16);
    let bytes = count * (len as u64 + 16);
    let (loaded, _, to_device) = timed(dir, preset, |db| {
        let (mut load, mut value) = (db.bulk_load()?, vec![0; len]);
        for i in 0..count {
            fill(&mut value, i);
            load.put(key(i), &value)?;
        }
        load.finish().map(drop)
    })?;
    let (put, settled, put_to_device) = timed(dir, preset, |db| {
        let mut value = vec![0; len];
        for i in 0..count {
            fill(&mut value, i);
            db.put(key(i), &value)?;
        }
        // As durable as a load.
        db.flush()?;
        db.sync()
    })?;
    let plain = device(dir, bytes).expect("the directory can be written");
    let rate = |seconds: f64| bytes as f64 / MIB / seconds;
    println!(
        "{preset:8} {len:6} B: load {:8.0}/s {:5.0} MiB/s, {:.2} written per byte; put {:8.0}/s \
         {:5.0} MiB/s, settled {:5.0} MiB/s, {:.2} written; device {:5.0} MiB/s; load is {:.2} of \
         the device, {:.1} puts, {:.1} puts settled",
        count as f64 / loaded,
        rate(loaded),
        to_device as f64 / bytes as f64,
        count as f64 / put,
        rate(put),
        rate(settled),
        put_to_device as f64 / bytes as f64,
        rate(plain),
        plain / loaded,
        put / loaded,
        settled / loaded,
    );
    Ok(())
}

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number =
        |at: usize, or: u64| arguments.get(at).and_then(|it| it.parse().ok()).unwrap_or(or);
    let one = arguments.first().and_then(|name| Preset::from_name(name));
    let (mib, rounds) = (number(1, 1024), number(2, 3));
    let parent = arguments.get(3).map_or_else(std::env::temp_dir, Into::into);
    let dir = parent.join(format!("cleave-bulk-{}", std::process::id()));
    fs::create_dir_all(&dir).expect("the directory can be made");
    for preset in Preset::ALL.into_iter().filter(|preset| one.is_none_or(|one| one == *preset)) {
        for len in LENS {
            (0..rounds).try_for_each(|_| measure(&dir, preset, len, mib))?;
        }
    }
    let _ = fs::remove_dir_all(&dir);
    Ok(())
}
