//! Keys and values of the workloads of features.

use crate::engine::Engine;
use crate::error::Result;
use crate::hash::mix;

/// Pairs of a batch that fills a store.
const BATCH: u64 = 1000;

/// The key of a number; keys ascend with their numbers.
pub fn key(number: u64) -> [u8; 16] {
    (u128::from(number) << 64).to_be_bytes()
}

/// A number below `count` that looks random: always the same for the same `i`.
pub fn scattered(i: u64, count: u64) -> u64 {
    ((u128::from(mix(i)) * u128::from(count)) >> 64) as u64
}

/// A value that holds `count` and fills `len` bytes.
pub fn counter(count: u64, len: usize) -> Vec<u8> {
    let mut value = vec![0; len];
    value[..8].copy_from_slice(&count.to_le_bytes());
    value
}

/// The count that a value of [`counter`] holds; 0 if it is no such value.
pub fn counted(value: &[u8]) -> u64 {
    value.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes))
}

/// The sum of all counters of a store.
pub fn total(store: &dyn Engine) -> Result<u64> {
    let mut sum = 0;
    store.scan(&[], usize::MAX, &mut |_, value| sum += counted(value))?;
    Ok(sum)
}

/// Puts `count` pairs in the order of their numbers: in batches, where the engine has them.
pub fn fill(
    store: &dyn Engine,
    count: u64,
    pair: impl Fn(u64) -> ([u8; 16], Vec<u8>),
) -> Result<()> {
    let Some(batches) = store.capabilities().batches else {
        return (0..count).map(pair).try_for_each(|(key, value)| store.put(&key, &value));
    };
    for first in (0..count).step_by(BATCH as usize) {
        let pairs: Vec<_> = (first..count.min(first + BATCH)).map(&pair).collect();
        let lent: Vec<_> = pairs.iter().map(|(key, value)| (&key[..], &value[..])).collect();
        batches.write_batch(&lent)?;
    }
    Ok(())
}
