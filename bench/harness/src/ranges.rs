//! Hot ranges of keys: the model of Meta's production workloads.
//!
//! Source: Cao et al., "Characterizing, Modeling, and Benchmarking RocksDB Key-Value Workloads at
//! Facebook" (FAST 2020), section 6, and the benchmark `mixgraph` of `db_bench`
//! (`GenerateTwoTermExpKeys` in `tools/db_bench_tool.cc`), with the parameters that RocksDB's wiki
//! gives for the workload `All_dist` of ZippyDB: the key space is cut into 30 ranges whose hotness
//! falls by a sum of two exponentials, and the keys of a range have the popularity of a power
//! function. Ranges are neighbours in key order only if keys are
//! ([`crate::keys::KeyOrder::Shuffled`] or `Ordered`). `db_bench` takes range and key from one
//! random number, ours from two.

use rand_core::SeedableRng;
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::hash::fnv_hash;
use crate::random::{below, unit};

/// `keyrange_num`.
const RANGES: usize = 30;
/// `keyrange_dist_a` to `keyrange_dist_d`: hotness of range x is a * e^(b*x) + c * e^(d*x).
const RANGE_HOTNESS: [f64; 4] = [14.18, -2.917, 0.0164, -0.08082];
/// `key_dist_a` and `key_dist_b`: popularity of the key of rank x is a * x^b, summed.
const KEY_POPULARITY: [f64; 2] = [0.002312, 0.3467];
/// Seed of the order in which hot and cold ranges lie side by side; `db_bench` too fixes it.
const ORDER_SEED: u64 = 42;

/// Chooses a range by its hotness, then a key of it by its popularity.
#[derive(Clone, Debug)]
pub struct KeyRanges {
    /// Where each range ends on a scale from 0 to 1, and its place in the key space.
    ends: Vec<(f64, u64)>,
}

impl Default for KeyRanges {
    fn default() -> Self {
        Self::new()
    }
}

impl KeyRanges {
    /// With the parameters of the source.
    pub fn new() -> Self {
        let [a, b, c, d] = RANGE_HOTNESS;
        let hotness = |x: f64| a * (b * x).exp() + c * (d * x).exp();
        // `db_bench` counts in whole parts of the coldest range's share, rounded down.
        let parts = (1.0 / hotness(RANGES as f64)).floor() + 1.0;
        let share = |x: usize| (parts * hotness(x as f64)).floor();
        let shares: Vec<f64> = (1..=RANGES).map(share).collect();
        let whole: f64 = shares.iter().sum();
        let mut places: Vec<u64> = (0..RANGES as u64).collect();
        let mut random = Xoshiro256PlusPlus::seed_from_u64(ORDER_SEED);
        for left in (1..RANGES).rev() {
            places.swap(left, below(&mut random, left as u64 + 1) as usize);
        }
        let mut end = 0.0;
        let ends = shares.into_iter().zip(places).map(|(share, place)| {
            end += share / whole;
            (end, place)
        });
        Self { ends: ends.collect() }
    }

    /// The number of a record below `records`.
    pub fn next(&self, random: &mut Xoshiro256PlusPlus, records: u64) -> u64 {
        let ranges = RANGES as u64;
        let point = unit(random);
        let place = self.ends.iter().find(|(end, _)| point < *end).map_or(0, |(_, place)| *place);
        let (from, to) = (place * records / ranges, (place + 1) * records / ranges);
        let [a, b] = KEY_POPULARITY;
        let rank = (unit(random) / a).powf(1.0 / b).ceil();
        // The power function ranks keys; the hash spreads the ranks over the range.
        let offset = fnv_hash(rank as u64) % (to - from).max(1);
        (from + offset).min(records - 1)
    }
}

#[cfg(test)]
mod tests {
    use rand_core::SeedableRng;
    use rand_xoshiro::Xoshiro256PlusPlus;

    use super::{KeyRanges, RANGES};

    #[test]
    fn a_few_ranges_draw_most_requests_and_stay_where_they_are() {
        let ranges = KeyRanges::new();
        let mut random = Xoshiro256PlusPlus::seed_from_u64(1);
        let (records, draws) = (30_000, 300_000);
        let mut counts = [0u64; RANGES];
        for _ in 0..draws {
            let record = ranges.next(&mut random, records);
            counts[(record * RANGES as u64 / records) as usize] += 1;
        }
        counts.sort_unstable();
        let hottest = counts[RANGES - 1] as f64 / f64::from(draws);
        // 538 of 667 parts; without the rounding it would be 0.791.
        assert!((hottest - 0.807).abs() < 0.005, "{hottest}");
        assert!(counts[0] > 0);
    }

    #[test]
    fn the_smallest_store_has_a_record_to_choose() {
        let ranges = KeyRanges::new();
        let mut random = Xoshiro256PlusPlus::seed_from_u64(1);
        for records in [1, 2, 29, 31] {
            assert!((0..1000).all(|_| ranges.next(&mut random, records) < records));
        }
    }
}
