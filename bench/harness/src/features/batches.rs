//! Batches: many puts as one, beside single puts of the same pairs.

use crate::capabilities::Needs;
use crate::error::Result;
use crate::features::Feature;
use crate::features::bench::{Bench, Case, rate};
use crate::features::data::{counted, counter, key};

pub(super) const FEATURE: Feature = Feature {
    name: "batches",
    about: "one client puts new pairs of 100 bytes, singly and in batches of 100",
    figures: &[PUTS, BATCHED, RATIO],
    run,
};

const PUTS: &str = "puts/s";
const BATCHED: &str = "puts/s in batches";
const RATIO: &str = "x puts";

const VALUE: usize = 100;
const BATCH: u64 = 100;

fn run(bench: &mut Bench<'_>) -> Result<Vec<Case>> {
    let Some(store) = bench.store(Needs::default())? else { return Ok(Vec::new()) };
    let Some(batches) = store.capabilities().batches else { return Ok(Vec::new()) };
    let time = bench.time();
    let singly = || rate(1, time, |i| store.put(&key(2 * i), &counter(i, VALUE)));
    let batched = || {
        rate(1, time, |i| {
            let numbers = i * BATCH..(i + 1) * BATCH;
            let pair = |i| (key(2 * i + 1), counter(i, VALUE));
            let pairs: Vec<_> = numbers.map(pair).collect();
            let lent: Vec<_> = pairs.iter().map(|(key, value)| (&key[..], &value[..])).collect();
            batches.write_batch(&lent)
        })
    };
    let (puts, batched) = bench.both(singly, batched)?;
    for last in [2 * (puts.operations - 1), 2 * (batched.operations * BATCH - 1) + 1] {
        let mut found = None;
        store.get(&key(last), &mut |value| found = Some(counted(value)))?;
        if found != Some(last / 2) {
            return Err(bench.wrong(format!("pair {last} holds {found:?}")));
        }
    }
    store.close()?;
    let per_second = batched.per_second * BATCH as f64;
    let figures =
        vec![(PUTS, puts.per_second), (BATCHED, per_second), (RATIO, per_second / puts.per_second)];
    Ok(vec![Case { name: String::new(), figures }])
}
