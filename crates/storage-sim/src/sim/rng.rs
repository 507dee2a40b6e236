//! A small seeded generator (SplitMix64), so that a test run is a function of its seed.
//!
//! What is drawn from its numbers is written here: a crate may draw in another way in its next
//! version, and a seed that a failed test has printed would no longer show the failure.

use rand_core::{Rng as _, SeedableRng};
use rand_xoshiro::SplitMix64;

/// A generator of pseudo-random numbers; the same seed gives the same numbers for ever.
#[derive(Clone, Debug)]
pub struct Rng(SplitMix64);

impl Rng {
    /// A generator that starts at `seed`; every seed is as good as any other.
    pub fn new(seed: u64) -> Self {
        Self(SplitMix64::seed_from_u64(seed))
    }

    /// The next 64 bits.
    pub fn next_u64(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// A number below `bound`, which is not 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        debug_assert!(bound > 0, "no number is below 0");
        // The high half of a 128-bit product: as even as a division, without one.
        ((u128::from(self.next_u64()) * u128::from(bound)) >> 64) as u64
    }

    /// An index of a slice of `len` elements, which is not empty.
    pub fn index(&mut self, len: usize) -> usize {
        self.below(len as u64) as usize
    }

    /// True in `percent` of 100 cases.
    pub fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    /// Fills `bytes`.
    pub fn fill(&mut self, bytes: &mut [u8]) {
        for part in bytes.chunks_mut(8) {
            part.copy_from_slice(&self.next_u64().to_le_bytes()[..part.len()]);
        }
    }

    /// Puts `items` into a random order.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for i in (1..items.len()).rev() {
            items.swap(i, self.index(i + 1));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_numbers_are_those_of_splitmix64() {
        let mut rng = Rng::new(1_234_567);
        let expected = [6_457_827_717_110_365_317, 3_203_168_211_198_807_973];
        assert_eq!([rng.next_u64(), rng.next_u64()], expected);
    }

    #[test]
    fn bounds_and_chances_hold() {
        let mut rng = Rng::new(1);
        let hits = (0..10_000).filter(|_| rng.chance(10)).count();
        assert!((800..1200).contains(&hits), "{hits}");
        assert!((0..1000).all(|_| rng.below(7) < 7));
        let mut items: Vec<u32> = (0..100).collect();
        rng.shuffle(&mut items);
        assert_ne!(items, (0..100).collect::<Vec<_>>());
        items.sort_unstable();
        assert_eq!(items, (0..100).collect::<Vec<_>>());
    }
}
