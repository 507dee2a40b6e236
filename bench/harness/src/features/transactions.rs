//! Transactions: clients add to counters, which is a read and a write of each as one step, beside
//! plain reads and a batch of the same writes, which may lose what others add meanwhile.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::capabilities::{Batches, Needs, Transaction, Transactions};
use crate::engine::Engine;
use crate::error::Result;
use crate::features::Feature;
use crate::features::bench::{Bench, Case, Rate, rate};
use crate::features::data::{counted, counter, fill, key, scattered, total};

pub(super) const FEATURE: Feature = Feature {
    name: "transactions",
    about: "4 clients add to two of 1 M counters of 100 bytes, or all to a single one",
    figures: &[PLAIN, TRANSACTIONS, RATIO, CONFLICTS],
    run,
};

const PLAIN: &str = "plain reads and batches/s";
const TRANSACTIONS: &str = "transactions/s";
const RATIO: &str = "x plain";
const CONFLICTS: &str = "conflicts for each commit";

const RECORDS: u64 = 1_000_000;
const VALUE: usize = 100;
const CLIENTS: u64 = 4;

fn run(bench: &mut Bench<'_>) -> Result<Vec<Case>> {
    let needs = Needs { transactions: true, ..Needs::default() };
    let Some(store) = bench.store(needs)? else { return Ok(Vec::new()) };
    let has = store.capabilities();
    let Some((transactions, batches)) = has.transactions.zip(has.batches) else {
        return Ok(Vec::new());
    };
    let records = bench.count(RECORDS);
    fill(&*store, records, |number| (key(number), counter(0, VALUE)))?;
    store.wait_idle()?;
    let cases = [("1 M keys", records), ("1 key", 1)].map(|(name, keys)| {
        let figures = measure(bench, &*store, transactions, batches, keys)?;
        Ok(Case { name: name.to_owned(), figures })
    });
    let cases = cases.into_iter().collect::<Result<_>>()?;
    store.close()?;
    Ok(cases)
}

fn measure(
    bench: &mut Bench<'_>,
    store: &dyn Engine,
    transactions: &dyn Transactions,
    batches: &dyn Batches,
    keys: u64,
) -> Result<Vec<(&'static str, f64)>> {
    let time = bench.time();
    let plainly = || {
        rate(CLIENTS, time, |i| {
            let mut pairs = Vec::with_capacity(2);
            for key in chosen(i, keys) {
                let mut count = 0;
                store.get(&key, &mut |value| count = counted(value))?;
                pairs.push((key, counter(count + 1, VALUE)));
            }
            let lent: Vec<_> = pairs.iter().map(|(key, value)| (&key[..], &value[..])).collect();
            batches.write_batch(&lent)
        })
    };
    let conflicts = AtomicU64::new(0);
    let transacted = || -> Result<(Rate, u64)> {
        let before = total(store)?;
        let done = rate(CLIENTS, time, |i| {
            let met = transactions.transact(&mut |transaction| {
                chosen(i, keys).try_for_each(|key| add(transaction, &key))
            })?;
            conflicts.fetch_add(met, Relaxed);
            Ok(())
        })?;
        Ok((done, total(store)? - before))
    };
    let (plain, (transacted, added)) = bench.both(plainly, transacted)?;
    let expected = transacted.operations * chosen(0, keys).count() as u64;
    if added != expected {
        return Err(bench.wrong(format!("counters grew by {added}, not by {expected}")));
    }
    Ok(vec![
        (PLAIN, plain.per_second),
        (TRANSACTIONS, transacted.per_second),
        (RATIO, transacted.per_second / plain.per_second),
        (CONFLICTS, conflicts.into_inner() as f64 / transacted.operations as f64),
    ])
}

/// The keys of an operation: two different ones, if there are two.
fn chosen(i: u64, keys: u64) -> impl Iterator<Item = [u8; 16]> {
    let first = scattered(i, keys);
    let other = (keys > 1).then(|| (first + 1 + scattered(!i, keys - 1)) % keys);
    [Some(first), other].into_iter().flatten().map(key)
}

fn add(transaction: &mut dyn Transaction, key: &[u8]) -> Result<()> {
    let mut count = 0;
    transaction.get(key, &mut |value| count = counted(value))?;
    transaction.put(key, &counter(count + 1, VALUE))
}
