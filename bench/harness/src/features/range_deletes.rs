//! Deletes of ranges: many small ones between keys that stay, and what the reads of these cost
//! beside them, as a multiple of what they cost before.

use std::time::{Duration, Instant};

use crate::capabilities::{Needs, RangeDeletes};
use crate::engine::Engine;
use crate::error::Result;
use crate::features::Feature;
use crate::features::bench::{Bench, Case, Rate, rate, wrong};
use crate::features::data::{counted, counter, fill, key, scattered};

pub(super) const FEATURE: Feature = Feature {
    name: "range-deletes",
    about: "1 M keys stay, two others between each pair go by one delete of a range, for 5 s at \
            most; values of 100 bytes",
    figures: &[
        DELETED,
        DELETES,
        GETS,
        GETS_BESIDE,
        GETS_SETTLED,
        SEEKS,
        SEEKS_BESIDE,
        SEEKS_SETTLED,
    ],
    run,
};

const DELETED: &str = "ranges deleted";
const DELETES: &str = "deletes of ranges/s";
const GETS: &str = "gets/s before";
const GETS_BESIDE: &str = "x beside the deletes";
const GETS_SETTLED: &str = "x settled";
const SEEKS: &str = "seeks/s before";
const SEEKS_BESIDE: &str = "seeks x beside";
const SEEKS_SETTLED: &str = "seeks x settled";

const KEPT: u64 = 1_000_000;
const VALUE: usize = 100;
/// Longest time for the deletes, in times of a loop.
const PATIENCE: u32 = 5;
/// Distance of two keys that stay.
const STEP: u64 = 3;

fn run(bench: &mut Bench<'_>) -> Result<Vec<Case>> {
    let Some(store) = bench.store(Needs::default())? else { return Ok(Vec::new()) };
    let Some(ranges) = store.capabilities().range_deletes else { return Ok(Vec::new()) };
    let kept = bench.count(KEPT);
    fill(&*store, kept * STEP, |number| (key(number), counter(number, VALUE)))?;
    store.wait_idle()?;
    reads(bench, &*store, kept)?;
    let (gets, seeks) = reads(bench, &*store, kept)?;
    let deletes = delete(ranges, kept, bench.time() * PATIENCE)?;
    let beside = reads(bench, &*store, kept)?;
    store.wait_idle()?;
    // Compactions have written the tables anew, and caches do not know them yet.
    reads(bench, &*store, kept)?;
    let settled = reads(bench, &*store, kept)?;
    let left = store.scan(&[], usize::MAX, &mut |_, _| {})? as u64;
    let expected = kept * STEP - deletes.operations * (STEP - 1);
    if left != expected {
        return Err(bench.wrong(format!("{left} keys are left, not {expected}")));
    }
    store.close()?;
    let figures = vec![
        (DELETED, deletes.operations as f64),
        (DELETES, deletes.per_second),
        (GETS, gets),
        (GETS_BESIDE, beside.0 / gets),
        (GETS_SETTLED, settled.0 / gets),
        (SEEKS, seeks),
        (SEEKS_BESIDE, beside.1 / seeks),
        (SEEKS_SETTLED, settled.1 / seeks),
    ];
    Ok(vec![Case { name: String::new(), figures }])
}

/// Deletes the ranges between keys that stay, as many as there is time for.
fn delete(ranges: &dyn RangeDeletes, kept: u64, patience: Duration) -> Result<Rate> {
    let (mut done, start) = (0, Instant::now());
    while done == 0 || done < kept && start.elapsed() < patience {
        // In an order without a pattern: 982451653 is a prime, so that each is met once.
        let from = (u128::from(done) * 982_451_653 % u128::from(kept)) as u64 * STEP;
        ranges.delete_range(&key(from + 1), &key(from + STEP))?;
        done += 1;
    }
    Ok(Rate::since(start, done))
}

/// Gets of keys that stay a second, and seeks of them.
fn reads(bench: &Bench<'_>, store: &dyn Engine, kept: u64) -> Result<(f64, f64)> {
    let time = bench.time() / 2;
    let right = |number: u64, found: Option<u64>| match found {
        Some(found) if found == number => Ok(()),
        _ => Err(wrong(store.name(), format!("key {number} holds {found:?}"))),
    };
    let gets = rate(1, time, |i| {
        let number = scattered(i, kept) * STEP;
        let mut found = None;
        store.get(&key(number), &mut |value| found = Some(counted(value)))?;
        right(number, found)
    })?;
    let seeks = rate(1, time, |i| {
        let number = scattered(i, kept) * STEP;
        let mut found = None;
        store.scan(&key(number), 1, &mut |_, value| found = Some(counted(value)))?;
        right(number, found)
    })?;
    Ok((gets.per_second, seeks.per_second))
}
