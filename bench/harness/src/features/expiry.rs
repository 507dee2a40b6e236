//! Expiry: puts of values that live for a time beside other puts, and when their space is back once
//! they have expired, without a call.

use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::capabilities::Needs;
use crate::error::Result;
use crate::features::Feature;
use crate::features::bench::{Bench, Case, each};
use crate::features::data::{key, scattered};
use crate::sizes::ValueSizes;
use crate::system::Usage;
use crate::values::{ValueBuffer, Values};

pub(super) const FEATURE: Feature = Feature {
    name: "expiry",
    about: "100 k values of 1 KiB live for 4 s, as many stay; nothing is called meanwhile",
    figures: &[PUTS, EXPIRING, RATIO, FOUND, BACK],
    run,
};

const PUTS: &str = "puts/s";
const EXPIRING: &str = "puts/s with a lifetime";
const RATIO: &str = "x puts";
const FOUND: &str = "% found after it";
const BACK: &str = "s until 80% of their space is back";

const RECORDS: u64 = 100_000;
const VALUE: usize = 1024;
/// How long values live, in times of a loop; whole seconds, as some engines count them.
const LIFETIME: u32 = 4;
/// Longest wait for the space, in times of a loop.
const PATIENCE: u32 = 8;
const LOOK: Duration = Duration::from_millis(100);
/// Keys of values that stay are above the others.
const STAY: u64 = 1 << 32;

fn run(bench: &mut Bench<'_>) -> Result<Vec<Case>> {
    let lifetime = (bench.time() * LIFETIME).max(Duration::from_secs(1));
    let needs = Needs { lifetime: Some(lifetime), ..Needs::default() };
    let directory = bench.directory()?;
    // First the values that stay: a store may have one time for all that it is given.
    let Some(store) = bench.open(&directory, Needs::default())? else { return Ok(Vec::new()) };
    let records = bench.count(RECORDS);
    let (values, mut buffer) = (Values::new(&ValueSizes::Fixed(VALUE)), ValueBuffer::default());
    let puts = each(records, |i| {
        let number = scattered(i, records);
        store.put(&key(STAY + number), values.make(number, 0, &mut buffer))
    })?;
    store.wait_idle()?;
    store.close()?;
    let Some(store) = bench.open(&directory, needs)? else { return Ok(Vec::new()) };
    let Some(expiry) = store.capabilities().expiry else { return Ok(Vec::new()) };
    let start = Instant::now();
    let expiring = each(records, |i| {
        let value = values.make(i, 0, &mut buffer);
        expiry.put_for(&key(i), value, lifetime)
    })?;
    store.wait_idle()?;
    // Of what the values themselves take; logs and reserves come and go as they do.
    let goal = Usage::of(&directory).allocated.saturating_sub(records * VALUE as u64 / 5 * 4);
    sleep(lifetime.saturating_sub(start.elapsed()));
    let back = until(&directory, goal, bench.time() * PATIENCE);
    let mut found = 0;
    for i in 0..records {
        found += u64::from(store.get(&key(i), &mut |_| {})?);
    }
    store.close()?;
    let figures = [
        (PUTS, Some(puts.per_second)),
        (EXPIRING, Some(expiring.per_second)),
        (RATIO, Some(expiring.per_second / puts.per_second)),
        (FOUND, Some(found as f64 * 100.0 / records as f64)),
        (BACK, back),
    ];
    let known = figures.into_iter().filter_map(|(name, value)| Some((name, value?)));
    Ok(vec![Case { name: String::new(), figures: known.collect() }])
}

/// Seconds until `directory` takes no more than `goal` bytes; `None` if patience ends before.
fn until(directory: &Path, goal: u64, patience: Duration) -> Option<f64> {
    let start = Instant::now();
    while Usage::of(directory).allocated > goal {
        if start.elapsed() > patience {
            return None;
        }
        sleep(LOOK);
    }
    Some(start.elapsed().as_secs_f64())
}
