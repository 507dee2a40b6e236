//! Values that cost little to make, do not compress, and say whose they are.
//!
//! A value is a function of its key, its version and its size: eight bytes that carry the version,
//! then words of a fixed random pool, each XORed with a seed drawn from all three. Making 1 KiB is
//! one pass over memory that stays in the first-level cache, as fast as a copy; two values never
//! share a word, even where they use the same stretch of the pool, so no codec finds anything.
//! A reader recomputes the value from the version it finds and compares every byte.

use rand_core::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

/// Smallest size of a value: the version has to fit.
pub const MIN_VALUE_LEN: usize = VERSION_LEN;

const VERSION_LEN: usize = 8;
/// Words taken from the pool with one seed; longer values draw a new seed for each such run.
const RUN_WORDS: usize = 1024;
/// A run may start anywhere in the first half, so the pool is two runs (16 KiB).
const POOL_WORDS: usize = 2 * RUN_WORDS;
const POOL_SEED: u64 = 0x0C1E_A7ED_B000_0001;

/// Makes and checks the values of one run, all of one size.
#[derive(Clone, Debug)]
pub struct Values {
    pool: Box<[u64]>,
    size: usize,
}

/// Why bytes are not a value of their key.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum Mismatch {
    /// The length is not that of any value of this run.
    #[error("value has {found} bytes, expected {expected}")]
    Length {
        /// Bytes that came back.
        found: usize,
        /// Bytes of every value of the run.
        expected: usize,
    },
    /// The bytes are not those that the version at their start calls for, for this key.
    #[error("value's bytes are not those of its key (version field {version:#x})")]
    Content {
        /// The version that the bytes claim.
        version: u64,
    },
}

impl Values {
    /// Values of `size` bytes; `size` must be at least [`MIN_VALUE_LEN`].
    pub fn new(size: usize) -> Self {
        assert!(size >= MIN_VALUE_LEN, "a value has at least {MIN_VALUE_LEN} bytes");
        let mut random = Xoshiro256PlusPlus::seed_from_u64(POOL_SEED);
        Self { pool: (0..POOL_WORDS).map(|_| random.next_u64()).collect(), size }
    }

    /// Bytes of every value.
    pub fn size(&self) -> usize {
        self.size
    }

    /// A buffer for [`fill`](Self::fill).
    pub fn buffer(&self) -> Vec<u8> {
        vec![0; self.size]
    }

    /// Writes the value of `version` for the key that hashes to `hash` over all of `out`.
    pub fn fill(&self, hash: u64, version: u64, out: &mut [u8]) {
        let (head, body) = out.split_at_mut(VERSION_LEN);
        head.copy_from_slice(&(version ^ mix(hash)).to_le_bytes());
        let seed = mix(hash ^ mix(version ^ self.size as u64));
        for (run, bytes) in body.chunks_mut(RUN_WORDS * 8).enumerate() {
            let (seed, pool) = self.run(seed, run);
            let (words, tail) = bytes.as_chunks_mut::<8>();
            for (word, pooled) in words.iter_mut().zip(pool) {
                *word = (pooled ^ seed).to_le_bytes();
            }
            tail.copy_from_slice(&tail_word(seed, pool, words.len())[..tail.len()]);
        }
    }

    /// Checks that `value` is some version of the key that hashes to `hash`; returns the version.
    pub fn check(&self, hash: u64, value: &[u8]) -> Result<u64, Mismatch> {
        if value.len() != self.size {
            return Err(Mismatch::Length { found: value.len(), expected: self.size });
        }
        let (head, body) = value.split_first_chunk::<VERSION_LEN>().expect("sized above");
        let version = u64::from_le_bytes(*head) ^ mix(hash);
        let seed = mix(hash ^ mix(version ^ self.size as u64));
        for (run, bytes) in body.chunks(RUN_WORDS * 8).enumerate() {
            let (seed, pool) = self.run(seed, run);
            let (words, tail) = bytes.as_chunks::<8>();
            // Differences are gathered, not branched on, so that the loop runs in vector registers.
            let difference = words.iter().zip(pool).fold(0, |difference, (word, pooled)| {
                difference | (u64::from_le_bytes(*word) ^ pooled ^ seed)
            });
            if difference != 0 || tail != &tail_word(seed, pool, words.len())[..tail.len()] {
                return Err(Mismatch::Content { version });
            }
        }
        Ok(version)
    }

    /// Seed and pool words of the `run`th run of a value.
    fn run(&self, seed: u64, run: usize) -> (u64, &[u64]) {
        let seed = if run == 0 { seed } else { mix(seed.wrapping_add(run as u64)) };
        let start = (seed >> 32) as usize % RUN_WORDS;
        (seed, &self.pool[start..start + RUN_WORDS])
    }
}

/// The word after the first `whole` ones of a run, for sizes that are no multiple of eight.
fn tail_word(seed: u64, pool: &[u64], whole: usize) -> [u8; 8] {
    (pool[whole % RUN_WORDS] ^ seed).to_le_bytes()
}

/// The finalizer of SplitMix64: every bit of the result depends on every bit of the input.
fn mix(input: u64) -> u64 {
    let mut z = input.wrapping_add(0x9E37_79B9_7F4A_7C15);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::{Mismatch, Values};

    #[test]
    fn a_value_says_whose_it_is() {
        for size in [8, 9, 16, 23, 100, 1024, 8199, 8200, 8201, 100_000] {
            let values = Values::new(size);
            let mut value = values.buffer();
            values.fill(7, 42, &mut value);
            assert_eq!(values.check(7, &value), Ok(42), "size {size}");
            assert!(size < 16 || values.check(8, &value).is_err(), "another key, size {size}");
        }
    }

    #[test]
    fn every_wrong_byte_is_seen() {
        let values = Values::new(1001);
        let mut value = values.buffer();
        values.fill(3, 1 << 48, &mut value);
        for at in 0..value.len() {
            value[at] ^= 0x10;
            assert!(matches!(values.check(3, &value), Err(Mismatch::Content { .. })), "byte {at}");
            value[at] ^= 0x10;
        }
        assert!(matches!(values.check(3, &value[1..]), Err(Mismatch::Length { .. })));
    }

    #[test]
    fn no_two_values_share_a_word() {
        let values = Values::new(16 * 1024);
        let mut seen = std::collections::HashSet::new();
        for version in 0..32 {
            let mut value = values.buffer();
            values.fill(9, version, &mut value);
            let (words, _) = value.as_chunks::<8>();
            assert!(words.iter().all(|word| seen.insert(*word)), "version {version}");
        }
    }
}
