//! Merges: counters that are added to without a read, beside a read and a put of each.

use std::cell::RefCell;

use crate::capabilities::Needs;
use crate::error::Result;
use crate::features::Feature;
use crate::features::bench::{Bench, Case, each, rate};
use crate::features::data::{counted, counter, key, scattered};

pub(super) const FEATURE: Feature = Feature {
    name: "merges",
    about: "one client adds to 100 k counters at random, by merges and by reads and puts; then all \
            counters are read",
    figures: &[PLAIN, MERGES, RATIO, READ, READ_RATIO],
    run,
};

const PLAIN: &str = "reads and puts/s";
const MERGES: &str = "merges/s";
const RATIO: &str = "x reads and puts";
const READ: &str = "reads of merged/s";
const READ_RATIO: &str = "x reads of put";

const COUNTERS: u64 = 100_000;
/// Counters that are put have their own keys, above the others.
const PUT: u64 = 1 << 32;

fn run(bench: &mut Bench<'_>) -> Result<Vec<Case>> {
    let Some(store) = bench.store(Needs::default())? else { return Ok(Vec::new()) };
    let Some(merges) = store.capabilities().merges else { return Ok(Vec::new()) };
    let (counters, time) = (bench.count(COUNTERS), bench.time());
    let read = |number: u64| -> Result<u64> {
        let mut count = 0;
        store.get(&key(PUT + number), &mut |value| count = counted(value))?;
        Ok(count)
    };
    let plainly = || {
        rate(1, time, |i| {
            let number = scattered(i, counters);
            store.put(&key(PUT + number), &counter(read(number)? + 1, 8))
        })
    };
    let merging = || rate(1, time, |i| merges.add(&key(scattered(i, counters)), 1));
    let (plain, merged) = bench.both(plainly, merging)?;
    let sums = RefCell::new((0, 0));
    let reading = || {
        each(counters, |number| {
            sums.borrow_mut().0 += merges.count(&key(number))?;
            Ok(())
        })
    };
    let reading_put = || {
        each(counters, |number| {
            sums.borrow_mut().1 += read(number)?;
            Ok(())
        })
    };
    let (reads, reads_put) = bench.both(reading, reading_put)?;
    let expected = (merged.operations, plain.operations);
    if sums.into_inner() != expected {
        return Err(bench.wrong(format!("the counters do not add up to {expected:?}")));
    }
    store.close()?;
    let figures = vec![
        (PLAIN, plain.per_second),
        (MERGES, merged.per_second),
        (RATIO, merged.per_second / plain.per_second),
        (READ, reads.per_second),
        (READ_RATIO, reads.per_second / reads_put.per_second),
    ];
    Ok(vec![Case { name: String::new(), figures }])
}
