//! Conditional writes: compare and swap, beside a read and a put that do not hold together. An
//! engine without such a call makes one of its transactions, as its users would.

use crate::capabilities::{Capabilities, Needs};
use crate::error::Result;
use crate::features::Feature;
use crate::features::bench::{Bench, Case, rate};
use crate::features::data::{counted, counter, fill, key, scattered, total};

pub(super) const FEATURE: Feature = Feature {
    name: "conditional-writes",
    about: "4 clients read one of 200 k values of 100 bytes, and swap it for another",
    figures: &[PLAIN, SWAPS, RATIO],
    run,
};

const PLAIN: &str = "reads and puts/s";
const SWAPS: &str = "reads and swaps/s";
const RATIO: &str = "x puts";

const RECORDS: u64 = 200_000;
const VALUE: usize = 100;
const CLIENTS: u64 = 4;

fn run(bench: &mut Bench<'_>) -> Result<Vec<Case>> {
    let needs = Needs { transactions: true, ..Needs::default() };
    let Some(store) = bench.store(needs)? else { return Ok(Vec::new()) };
    let has = store.capabilities();
    if has.conditional_writes.is_none() && has.transactions.is_none() {
        return Ok(Vec::new());
    }
    let (records, time) = (bench.count(RECORDS), bench.time());
    fill(&*store, records, |number| (key(number), counter(0, VALUE)))?;
    store.wait_idle()?;
    let read = |key: &[u8]| -> Result<u64> {
        let mut count = 0;
        store.get(key, &mut |value| count = counted(value))?;
        Ok(count)
    };
    let plainly = || {
        rate(CLIENTS, time, |i| {
            let key = key(scattered(i, records));
            store.put(&key, &counter(read(&key)? + 1, VALUE))
        })
    };
    let swapping = || {
        let before = total(&*store)?;
        let done = rate(CLIENTS, time, |i| {
            let key = key(scattered(i, records));
            while !swap(has, &key, read(&key)?)? {}
            Ok(())
        })?;
        Ok((done, total(&*store)? - before))
    };
    let (plain, (swaps, added)) = bench.both(plainly, swapping)?;
    if added != swaps.operations {
        return Err(bench.wrong(format!("{} swaps added {added}", swaps.operations)));
    }
    store.close()?;
    let figures = vec![
        (PLAIN, plain.per_second),
        (SWAPS, swaps.per_second),
        (RATIO, swaps.per_second / plain.per_second),
    ];
    Ok(vec![Case { name: String::new(), figures }])
}

/// Adds 1 to the counter of `key` if it is at `count`; returns whether it was.
fn swap(has: Capabilities<'_>, key: &[u8], count: u64) -> Result<bool> {
    let (old, new) = (counter(count, VALUE), counter(count + 1, VALUE));
    if let Some(calls) = has.conditional_writes {
        return calls.compare_and_swap(key, &old, &new);
    }
    let mut swapped = false;
    if let Some(transactions) = has.transactions {
        transactions.transact(&mut |transaction| {
            swapped = false;
            transaction.get(key, &mut |value| swapped = value == old)?;
            if swapped { transaction.put(key, &new) } else { Ok(()) }
        })?;
    }
    Ok(swapped)
}
