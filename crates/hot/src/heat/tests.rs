//! Estimates of drawn accesses, of which few keys get most.

use super::*;
use crate::testing::drawn;

/// Accesses to `keys` keys by a Zipf distribution with exponent 0.99: the number of each, by rank.
fn zipf(keys: u64, accesses: u64) -> Vec<u64> {
    let mut sum = 0.0;
    let shares: Vec<f64> = (1..=keys)
        .map(|rank| {
            sum += (rank as f64).powf(-0.99);
            sum
        })
        .collect();
    let mut counts = vec![0; keys as usize];
    for n in 0..accesses {
        let at = drawn(5, n) as f64 / 2f64.powi(64) * sum;
        let rank = shares.partition_point(|share| *share < at);
        counts[rank.min(keys as usize - 1)] += 1;
    }
    counts
}

fn hash(key: u64) -> u64 {
    drawn(6, key)
}

/// Adds the accesses in rounds over all keys.
fn add_all(sketch: &HeatSketch, counts: &[u64]) {
    for round in 0..counts.iter().copied().max().unwrap_or(0) {
        for (key, count) in counts.iter().enumerate() {
            if round < *count {
                sketch.add(hash(key as u64));
            }
        }
    }
}

fn mean(sketch: &HeatSketch, keys: std::ops::Range<u64>) -> f64 {
    let count = keys.end - keys.start;
    keys.map(|key| f64::from(sketch.estimate(hash(key)))).sum::<f64>() / count as f64
}

#[test]
fn it_takes_four_bytes_a_key() {
    let sketch = HeatSketch::new(100_000);
    assert!(sketch.memory() >= 400_000 && sketch.memory() < 400_200, "{}", sketch.memory());
    assert_eq!(HeatSketch::new(0).estimate(7), 0);
}

#[test]
fn estimates_are_exact_or_a_little_too_high() {
    const KEYS: u64 = 50_000;
    let counts = zipf(KEYS, 200_000);
    let sketch = HeatSketch::new(KEYS as usize);
    add_all(&sketch, &counts);
    let (mut wrong, mut off) = (0, 0);
    for (key, count) in counts.iter().enumerate() {
        let (estimate, count) = (u64::from(sketch.estimate(hash(key as u64))), (*count).min(15));
        assert!(estimate >= count, "key {key}: {estimate} of {count} accesses");
        wrong += u64::from(estimate != count);
        off += estimate - count;
    }
    println!("of {KEYS} keys {wrong} are wrong, by {:.2} on average", off as f64 / wrong as f64);
    let strangers = (KEYS..2 * KEYS).filter(|key| sketch.estimate(hash(*key)) > 0).count();
    println!("of {KEYS} keys without an access {strangers} seem to have one");
    assert!(wrong < KEYS / 20 && strangers < KEYS as usize / 20);
}

#[test]
fn hot_keys_are_ordered_before_cold_ones_even_with_four_times_the_keys() {
    const KEYS: u64 = 80_000;
    let sketch = HeatSketch::new(KEYS as usize / 4);
    add_all(&sketch, &zipf(KEYS, 160_000));
    let means: Vec<_> =
        [0..100, 1_000..2_000, 4_000..8_000, 20_000..80_000].map(|keys| mean(&sketch, keys)).into();
    println!("estimates by rank: {means:.2?}");
    assert!(means.windows(2).all(|pair| pair[0] > pair[1] + 0.5), "{means:.2?}");
}

#[test]
fn halving_forgets() {
    let sketch = HeatSketch::new(1_000);
    for key in 0..16 {
        (0..key).for_each(|_| _ = sketch.add(hash(key)));
    }
    let estimates = || -> Vec<u8> { (0..16).map(|key| sketch.estimate(hash(key))).collect() };
    for halvings in 0..5 {
        assert_eq!(estimates(), (0..16).map(|count: u8| count >> halvings).collect::<Vec<_>>());
        sketch.halve();
    }
    (0..40).for_each(|_| _ = sketch.add(hash(3)));
    assert_eq!(sketch.estimate(hash(3)), 15, "a counter stays at its greatest value");
    assert_eq!(sketch.estimate(hash(4)), 0);
}

#[test]
fn accesses_side_by_side_are_counted() {
    const KEYS: u64 = 4_000;
    let sketch = HeatSketch::new(2 * KEYS as usize);
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let sketch = &sketch;
            scope.spawn(move || {
                for n in 0..KEYS {
                    sketch.add(hash((n + thread * 1_000) % KEYS));
                }
            });
        }
    });
    let low = (0..KEYS).filter(|key| sketch.estimate(hash(*key)) < 4).count();
    let high = (0..KEYS).filter(|key| sketch.estimate(hash(*key)) > 4).count();
    assert!(low < 40, "of {KEYS} keys {low} have lost an access");
    assert!(high < 200, "of {KEYS} keys {high} seem to have more");
}
