//! Values that cost little to make, do not compress, and say whose they are.
//!
//! A value is a function of its key, its version and its size: eight bytes that carry the version,
//! then words of a fixed random pool, each XORed with a seed drawn from all three. Making 1 KiB is
//! one pass over memory that stays in the first-level cache, as fast as a copy; two values never
//! share a word, even where they use the same stretch of the pool, so no codec finds anything.
//! A reader recomputes the value from the version and the length that it finds and compares every
//! byte: a value that was cut or extended does not even give its version back.

use pulp::Arch;
use rand_core::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::hash::mix;
use crate::sizes::{MIN_VALUE_LEN, SizeTable, ValueSizes};

const VERSION_LEN: usize = MIN_VALUE_LEN;
/// Words taken from the pool with one seed; longer values draw a new seed for each such run.
const RUN_WORDS: usize = 1024;
/// A run may start anywhere in the first half, so the pool is two runs (16 KiB).
const POOL_WORDS: usize = 2 * RUN_WORDS;
const POOL_SEED: u64 = 0x0C1E_A7ED_B000_0001;

/// Makes and checks the values of one run.
#[derive(Clone, Debug)]
pub struct Values {
    pool: Box<[u64]>,
    sizes: SizeTable,
    /// The widest vector registers that the processor has.
    vectors: Arch,
}

/// Why bytes are not a value of their key.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum Mismatch {
    /// The bytes cannot hold a version.
    #[error("value has {0} bytes, fewer than any that was written")]
    Short(usize),
    /// The bytes are not those that the version at their start calls for, for this key and length.
    #[error("value's {len} bytes are not those of its key (version field {version:#x})")]
    Content {
        /// Bytes that came back.
        len: usize,
        /// The version that the bytes claim.
        version: u64,
    },
}

impl Values {
    /// Values whose sizes are distributed as `sizes` says.
    pub fn new(sizes: &ValueSizes) -> Self {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(POOL_SEED);
        let pool = (0..POOL_WORDS).map(|_| random.next_u64()).collect();
        Self { pool, sizes: sizes.table(), vectors: Arch::new() }
    }

    /// How large they are.
    pub fn sizes(&self) -> &SizeTable {
        &self.sizes
    }

    /// Makes `out` the value of `version` for the key that hashes to `hash`, in its own size.
    pub fn fill(&self, hash: u64, version: u64, out: &mut Vec<u8>) {
        self.fill_sized(hash, version, self.sizes.size(hash, version), out);
    }

    /// The same in a size of the caller's choice; smaller ones become [`MIN_VALUE_LEN`].
    pub fn fill_sized(&self, hash: u64, version: u64, size: usize, out: &mut Vec<u8>) {
        out.resize(size.max(MIN_VALUE_LEN), 0);
        let (mask, seed) = seeds(hash, version, out.len());
        let (head, body) = out.split_at_mut(VERSION_LEN);
        head.copy_from_slice(&(version ^ mask).to_le_bytes());
        for (run, bytes) in body.chunks_mut(RUN_WORDS * 8).enumerate() {
            let (seed, pool) = self.run(seed, run);
            let (words, tail) = bytes.as_chunks_mut::<8>();
            self.vectors.dispatch(|| {
                for (word, pooled) in words.iter_mut().zip(pool) {
                    *word = (pooled ^ seed).to_le_bytes();
                }
            });
            tail.copy_from_slice(&tail_word(seed, pool, words.len())[..tail.len()]);
        }
    }

    /// Checks that `value` is some version of the key that hashes to `hash`; returns the version.
    pub fn check(&self, hash: u64, value: &[u8]) -> Result<u64, Mismatch> {
        let (head, body) =
            value.split_first_chunk::<VERSION_LEN>().ok_or(Mismatch::Short(value.len()))?;
        let version = u64::from_le_bytes(*head) ^ mask(hash, value.len());
        let (_, seed) = seeds(hash, version, value.len());
        for (run, bytes) in body.chunks(RUN_WORDS * 8).enumerate() {
            let (seed, pool) = self.run(seed, run);
            let (words, tail) = bytes.as_chunks::<8>();
            // Differences are gathered, not branched on, so that the loop runs in vector registers.
            let difference = self.vectors.dispatch(|| {
                words.iter().zip(pool).fold(0, |difference, (word, pooled)| {
                    difference | (u64::from_le_bytes(*word) ^ pooled ^ seed)
                })
            });
            if difference != 0 || tail != &tail_word(seed, pool, words.len())[..tail.len()] {
                return Err(Mismatch::Content { len: value.len(), version });
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

/// What the version in a value's head is hidden behind.
fn mask(hash: u64, len: usize) -> u64 {
    mix(hash ^ (len as u64).rotate_left(32))
}

/// The mask of a value's version, and the seed of its words.
fn seeds(hash: u64, version: u64, len: usize) -> (u64, u64) {
    // Any odd factor will do: it keeps versions, which differ in few bits, apart.
    const SPREAD: u64 = 0xD6E8_FEB8_6659_FD93;
    let mask = mask(hash, len);
    (mask, mix(mask ^ version.wrapping_mul(SPREAD)))
}

/// The word after the first `whole` ones of a run, for sizes that are no multiple of eight.
fn tail_word(seed: u64, pool: &[u64], whole: usize) -> [u8; 8] {
    (pool[whole % RUN_WORDS] ^ seed).to_le_bytes()
}

#[cfg(test)]
mod tests {
    use super::{Mismatch, Values};
    use crate::sizes::{MIN_VALUE_LEN, ValueSizes};

    fn fixed(size: usize) -> Values {
        Values::new(&ValueSizes::Fixed(size))
    }

    #[test]
    fn a_value_says_whose_it_is() {
        for size in [8, 9, 16, 23, 100, 1024, 8199, 8200, 8201, 100_000] {
            let values = fixed(size);
            let mut value = Vec::new();
            values.fill(7, 42, &mut value);
            assert_eq!((values.check(7, &value), value.len()), (Ok(42), size));
            assert!(size < 16 || values.check(8, &value).is_err(), "another key, size {size}");
        }
    }

    #[test]
    fn every_wrong_byte_and_every_cut_is_seen() {
        let values = fixed(1001);
        let mut value = Vec::new();
        values.fill(3, 1 << 48, &mut value);
        for at in 0..value.len() {
            value[at] ^= 0x10;
            assert!(matches!(values.check(3, &value), Err(Mismatch::Content { .. })), "byte {at}");
            value[at] ^= 0x10;
        }
        for cut in 9..value.len() {
            assert!(values.check(3, &value[..cut]).is_err(), "cut to {cut}");
        }
        assert_ne!(values.check(3, &value[..8]), Ok(1 << 48), "the head alone");
        assert_eq!(values.check(3, &value[..7]), Err(Mismatch::Short(7)));
    }

    #[test]
    fn sizes_may_differ_from_version_to_version() {
        let values = Values::new(&ValueSizes::Uniform(8, 500));
        let mut lengths = std::collections::HashSet::new();
        for version in 0..1000 {
            let mut value = Vec::new();
            values.fill(5, version, &mut value);
            lengths.insert(value.len());
            assert_eq!(values.check(5, &value), Ok(version));
        }
        assert!(lengths.len() > 300, "{}", lengths.len());
        let mut value = Vec::new();
        values.fill_sized(5, 1, 3, &mut value);
        assert_eq!(value.len(), MIN_VALUE_LEN);
    }

    #[test]
    fn no_two_values_share_a_word() {
        let values = fixed(16 * 1024);
        let mut seen = std::collections::HashSet::new();
        for version in 0..32 {
            let mut value = Vec::new();
            values.fill(9, version, &mut value);
            let (words, _) = value.as_chunks::<8>();
            assert!(words.iter().all(|word| seen.insert(*word)), "version {version}");
        }
    }
}
