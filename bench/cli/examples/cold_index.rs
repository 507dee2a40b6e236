//! Whether HoaKV's cold index (section 3.6: on disk, from a key to its heat and its group, written
//! at each access) would tell more than the sketch of heat and the bounds of groups, which are in
//! memory: how often the two decide alike that a key is hot, and what each costs.
//!
//! All keys are counted in the sketch; in the engine those that are hot are counted elsewhere, so
//! that it has room for others.
//!
//! `cargo run --release --manifest-path bench/cli/Cargo.toml --example cold_index`

use std::collections::BTreeMap;
use std::hint::black_box;
use std::time::Instant;

use cleavedb_bench::distribution::{Chooser, Distribution, Skew};
use cleavedb_hot::HeatSketch;
use rand_core::SeedableRng;
use rand_xoshiro::Xoshiro256PlusPlus;

/// Records, and those that a hot store of 256 MiB holds, at 1 KiB.
const RECORDS: u64 = 2_000_000;
const HOT: u64 = 256 << 10;

/// Keys of which the sketch tells the heat, and accesses after which it is halved, for each record
/// that fills the store, as in the engine (`crates/hot/src/store.rs`).
const SKETCHED: u64 = 2;
const HALF_LIFE: u64 = 4;

const ACCESSES: u64 = 20_000_000;

/// Groups of 64 MiB.
const GROUPS: u64 = 32;

/// An entry of the index as the paper has it: heat, key and number of the group; and a page.
const ENTRY: u64 = 2 + 24 + 2;
const PAGE: u64 = 4096;

/// A hash of a record's number (the finalizer of SplitMix64).
fn hash(record: u64) -> u64 {
    let mixed = (record ^ record >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ mixed >> 31
}

/// Accesses of keys that are hot by an exact count, by the sketch, and by both.
fn decisions(distribution: Distribution, limit: u8) -> [u64; 3] {
    let sketch = HeatSketch::new((HOT * SKETCHED) as usize);
    let mut exact = vec![0u8; RECORDS as usize];
    let mut random = Xoshiro256PlusPlus::seed_from_u64(42);
    let mut chooser = Chooser::new(distribution, RECORDS, 1, Skew::default());
    let mut hot = [0; 3];
    for access in 1..=ACCESSES {
        let record = chooser.next(&mut random, RECORDS);
        let count = &mut exact[record as usize];
        *count = (*count + 1).min(15);
        let (by_count, by_sketch) = (*count >= limit, sketch.add(hash(record)) >= limit);
        let each = [by_count, by_sketch, by_count && by_sketch];
        hot.iter_mut().zip(each).for_each(|(sum, is_hot)| *sum += u64::from(is_hot));
        if access.is_multiple_of(HOT * HALF_LIFE) {
            sketch.halve();
            exact.iter_mut().for_each(|count| *count /= 2);
        }
    }
    hot
}

/// Nanoseconds of each of many calls.
fn nanoseconds(mut call: impl FnMut(u64)) -> f64 {
    const CALLS: u64 = 5_000_000;
    let begin = Instant::now();
    (0..CALLS).for_each(|at| call(hash(at)));
    begin.elapsed().as_nanos() as f64 / CALLS as f64
}

fn main() {
    println!("Hundredths of all accesses that are of hot keys, by HeatLimit:");
    println!("distribution  limit   exact  sketch    both");
    for (name, distribution) in
        [("Zipfian", Distribution::Zipfian), ("uniform", Distribution::Uniform)]
    {
        for limit in [3, 4, 6, 10] {
            let [exact, sketch, both] =
                decisions(distribution, limit).map(|count| 100.0 * count as f64 / ACCESSES as f64);
            println!("{name:12} {limit:6} {exact:7.2} {sketch:7.2} {both:7.2}");
        }
    }
    let sketch = HeatSketch::new((HOT * SKETCHED) as usize);
    let counted = nanoseconds(|hash| _ = black_box(sketch.add(hash)));
    let bound = |group: u64| (group << 59).to_be_bytes().to_vec();
    let groups: BTreeMap<Vec<u8>, u64> = (0..GROUPS).map(|group| (bound(group), group)).collect();
    let found = nanoseconds(|hash| {
        let upto = ..=hash.to_be_bytes().to_vec();
        _ = black_box(groups.range(upto).next_back());
    });
    println!(
        "sketch: {counted:.0} ns an access, {} KiB; group by its bounds: {found:.0} ns",
        sketch.memory() >> 10
    );
    println!(
        "the index on disk: {} MiB, and a page of {PAGE} bytes is written for an access",
        (RECORDS * ENTRY) >> 20
    );
}
