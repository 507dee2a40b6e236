//! Bulk loads: sorted pairs into an empty store, beside puts of the same pairs in the same order
//! and beside one file that is written and synced.

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::time::Instant;

use crate::capabilities::Needs;
use crate::error::{BenchError, Result};
use crate::features::Feature;
use crate::features::bench::{Bench, Case};
use crate::features::data::key;
use crate::sizes::ValueSizes;
use crate::units;
use crate::values::{ValueBuffer, Values};

pub(super) const FEATURE: Feature = Feature {
    name: "bulk-loads",
    about: "128 MiB in the order of keys of 16 bytes, durable at the end; values do not compress",
    figures: &[LOAD, PUTS, SETTLED, FILE, OF_FILE, RATIO, SETTLED_RATIO],
    run,
};

const LOAD: &str = "load MiB/s";
const PUTS: &str = "puts MiB/s";
const SETTLED: &str = "puts settled MiB/s";
const FILE: &str = "file MiB/s";
const OF_FILE: &str = "load x file";
const RATIO: &str = "load x puts";
const SETTLED_RATIO: &str = "load x settled";

const BYTES: u64 = 128 << 20;
const SIZES: [usize; 3] = [100, 1024, 16 << 10];
const KEY: u64 = 16;
/// Bytes that are written at once to the one file.
const PIECE: usize = 1 << 20;

fn run(bench: &mut Bench<'_>) -> Result<Vec<Case>> {
    let mut cases = Vec::new();
    for size in SIZES {
        cases.extend(measure(bench, size)?);
    }
    Ok(cases)
}

fn measure(bench: &mut Bench<'_>, size: usize) -> Result<Option<Case>> {
    let count = bench.count(BYTES / (size as u64 + KEY));
    let bytes = count * (size as u64 + KEY);
    let Some(loaded) = load(bench, size, count)? else { return Ok(None) };
    let (put, settled) = puts(bench, size, count)?;
    let file = file(&bench.directory()?, size, count)?;
    let speed = |seconds: f64| bytes as f64 / f64::from(1 << 20) / seconds;
    let figures = vec![
        (LOAD, speed(loaded)),
        (PUTS, speed(put)),
        (SETTLED, speed(settled)),
        (FILE, speed(file)),
        (OF_FILE, file / loaded),
        (RATIO, put / loaded),
        (SETTLED_RATIO, settled / loaded),
    ];
    Ok(Some(Case { name: format!("values of {}", units::bytes(size as u64)), figures }))
}

/// Seconds of a load; `None` if the engine has none.
fn load(bench: &Bench<'_>, size: usize, count: u64) -> Result<Option<f64>> {
    let Some(store) = bench.store(Needs::default())? else { return Ok(None) };
    let Some(loads) = store.capabilities().bulk_loads else { return Ok(None) };
    let (values, mut buffer) = (Values::new(&ValueSizes::Fixed(size)), ValueBuffer::default());
    let start = Instant::now();
    let mut load = loads.bulk_load()?;
    (0..count).try_for_each(|i| load.put(&key(i), values.make(i, 0, &mut buffer)))?;
    load.finish()?;
    let seconds = start.elapsed().as_secs_f64();
    let (mut read, mut right) = (0, true);
    store.scan(&[], usize::MAX, &mut |found, value| {
        right &= found == key(read) && value == values.make(read, 0, &mut buffer);
        read += 1;
    })?;
    if read != count || !right {
        return Err(bench.wrong(format!("{read} pairs are there of {count}, all right: {right}")));
    }
    store.close()?;
    Ok(Some(seconds))
}

/// Seconds of puts until all are flushed or synced, and until no background work is left.
fn puts(bench: &Bench<'_>, size: usize, count: u64) -> Result<(f64, f64)> {
    let absent = || bench.wrong("the store is not opened again".to_owned());
    let store = bench.store(Needs::default())?.ok_or_else(absent)?;
    let (values, mut buffer) = (Values::new(&ValueSizes::Fixed(size)), ValueBuffer::default());
    let start = Instant::now();
    (0..count).try_for_each(|i| store.put(&key(i), values.make(i, 0, &mut buffer)))?;
    let seconds = start.elapsed().as_secs_f64();
    store.wait_idle()?;
    let settled = start.elapsed().as_secs_f64();
    store.close()?;
    Ok((seconds, settled))
}

/// Seconds in which the device takes the same bytes in one file, written and synced.
fn file(directory: &Path, size: usize, count: u64) -> Result<f64> {
    let path = directory.join("file");
    let failed = |action| BenchError::io(action, &path);
    let (values, mut buffer) = (Values::new(&ValueSizes::Fixed(PIECE)), ValueBuffer::default());
    let mut left = count * (size as u64 + KEY);
    let start = Instant::now();
    let mut file = File::create(&path).map_err(failed("create"))?;
    while left > 0 {
        let piece = values.make(left, 0, &mut buffer);
        let piece = &piece[..PIECE.min(left.try_into().unwrap_or(PIECE))];
        file.write_all(piece).map_err(failed("write"))?;
        left -= piece.len() as u64;
    }
    file.sync_all().map_err(failed("sync"))?;
    let seconds = start.elapsed().as_secs_f64();
    fs::remove_file(&path).map_err(failed("delete"))?;
    Ok(seconds)
}
