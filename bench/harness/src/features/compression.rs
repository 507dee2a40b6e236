//! Compression of values: orders as JSON, put in a random order, read at random with all of them in
//! memory and with memory for half of them, uncompressed.

use std::path::Path;

use crate::capabilities::{Codec, Needs};
use crate::engine::Engine;
use crate::error::Result;
use crate::features::Feature;
use crate::features::bench::{Bench, Case, each, rate, wrong};
use crate::features::data::{key, scattered};
use crate::features::orders::order;
use crate::hash::mix;
use crate::system::{MemoryLimit, Usage, drop_caches};

pub(super) const FEATURE: Feature = Feature {
    name: "compression",
    about: "200 k orders of 1 KiB as JSON; gets at random, all in memory and with memory for half \
            of the uncompressed bytes",
    figures: &[SIZE, SMALLER, PUTS, PUTS_RATIO, CACHED, CACHED_RATIO, HALF, HALF_RATIO],
    run,
};

const SIZE: &str = "MiB on disk";
const SMALLER: &str = "x smaller";
const PUTS: &str = "puts/s";
const PUTS_RATIO: &str = "puts x plain";
const CACHED: &str = "gets/s in memory";
const CACHED_RATIO: &str = "x plain";
const HALF: &str = "gets/s in half the memory";
const HALF_RATIO: &str = "half x plain";

const RECORDS: u64 = 200_000;
/// Bytes of an order and its key, about.
const RECORD: u64 = 1050;
/// Part of the limited memory that is the engine's own.
const OWN: u64 = 4;
/// The least limit: what the process itself needs.
const LIMIT_MIN: u64 = 96 << 20;

/// What was measured of one codec.
struct Measured {
    bytes: f64,
    puts: f64,
    cached: f64,
    half: Option<f64>,
}

fn run(bench: &mut Bench<'_>) -> Result<Vec<Case>> {
    let mut found = Vec::new();
    for codec in Codec::ALL {
        let measured = measure(bench, codec)?;
        found.extend(measured.map(|measured| (codec, measured)));
    }
    // An engine that only stores values as they are has no compression.
    let [(Codec::Plain, plain), (_, _), ..] = &found[..] else { return Ok(Vec::new()) };
    let case = |(codec, one): &(Codec, Measured)| {
        let half_ratio = one.half.zip(plain.half).map(|(half, plain)| half / plain);
        let figures = [
            (SIZE, Some(one.bytes / f64::from(1 << 20))),
            (SMALLER, Some(plain.bytes / one.bytes)),
            (PUTS, Some(one.puts)),
            (PUTS_RATIO, Some(one.puts / plain.puts)),
            (CACHED, Some(one.cached)),
            (CACHED_RATIO, Some(one.cached / plain.cached)),
            (HALF, one.half),
            (HALF_RATIO, half_ratio),
        ];
        let known = figures.into_iter().filter_map(|(name, value)| Some((name, value?)));
        Case { name: codec.name().to_owned(), figures: known.collect() }
    };
    Ok(found.iter().map(case).collect())
}

/// Measures one codec; `None` if the engine does not have it.
fn measure(bench: &Bench<'_>, codec: Codec) -> Result<Option<Measured>> {
    let records = bench.count(RECORDS);
    let limit = (records * RECORD / 2).max(LIMIT_MIN);
    let needs = Needs { codec, memory: Some(limit / OWN), ..Needs::default() };
    let directory = bench.directory()?;
    let Some(store) = bench.open(&directory, needs)? else { return Ok(None) };
    let puts = each(records, |number| store.put(&place(number), &order(number)))?;
    store.wait_idle()?;
    store.close()?;
    let absent = || bench.wrong("the store is not opened again".to_owned());
    let store = bench.open(&directory, needs)?.ok_or_else(absent)?;
    let bytes = Usage::of(&directory).allocated as f64;
    // Once through, so that all is in the page cache.
    let there = store.scan(&[], usize::MAX, &mut |_, _| {})? as u64;
    if there != records {
        return Err(bench.wrong(format!("{there} orders are there of {records}")));
    }
    let cached = gets(bench, &*store, records)?;
    store.close()?;
    let half = limited(bench, &directory, needs, (limit, records))?;
    Ok(Some(Measured { bytes, puts: puts.per_second, cached, half }))
}

/// Gets a second with this limit of memory; `None` if it cannot be set.
fn limited(
    bench: &Bench<'_>,
    directory: &Path,
    needs: Needs,
    (limit, records): (u64, u64),
) -> Result<Option<f64>> {
    let Ok(limit) = MemoryLimit::set(limit) else { return Ok(None) };
    // What was cached before the limit does not count against it.
    if !drop_caches() {
        return Ok(None);
    }
    let absent = || bench.wrong("the store is not opened again".to_owned());
    let store = bench.open(directory, needs)?.ok_or_else(absent)?;
    gets(bench, &*store, records)?;
    let half = gets(bench, &*store, records)?;
    store.close()?;
    drop(limit);
    Ok(Some(half))
}

fn gets(bench: &Bench<'_>, store: &dyn Engine, records: u64) -> Result<f64> {
    let done = rate(1, bench.time(), |i| {
        let number = scattered(i, records);
        let mut len = None;
        store.get(&place(number), &mut |value| len = Some(value.len()))?;
        match len {
            Some(980..) => Ok(()),
            _ => Err(wrong(store.name(), format!("order {number} has {len:?} bytes"))),
        }
    })?;
    Ok(done.per_second)
}

/// The key of an order: its place among the others is random.
fn place(number: u64) -> [u8; 16] {
    key(mix(number))
}
