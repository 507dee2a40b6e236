//! Values that cost little to make, do not compress, and say whose they are.
//!
//! A value is a function of its key, its version and its size: words of a fixed random pool, each
//! XORed with a seed drawn from all three, the first replaced by one that carries the version.
//! Making 1 KiB is one pass over memory that stays in the first-level cache, as fast as a copy; two
//! values never share a word, even where they use the same stretch of the pool, so no codec finds
//! anything.
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
/// Words of a cache line; a run starts at a multiple of these.
const LINE_WORDS: usize = 8;
const LINE_LEN: usize = 8 * LINE_WORDS;
const POOL_SEED: u64 = 0x0C1E_A7ED_B000_0001;

/// Memory for a value. It begins at a cache line: vector stores that cross two take twice the time.
#[derive(Debug, Default)]
pub struct ValueBuffer(Vec<u8>);

impl ValueBuffer {
    /// Has room for `largest` bytes.
    pub fn with_room(largest: usize) -> Self {
        Self(vec![0; largest.next_multiple_of(LINE_LEN) + LINE_LEN])
    }

    /// The cache lines that hold the first `len` bytes.
    fn lines(&mut self, len: usize) -> &mut [[u8; LINE_LEN]] {
        let len = len.next_multiple_of(LINE_LEN);
        if self.0.len() < len + LINE_LEN {
            self.0.resize(len + LINE_LEN, 0);
        }
        let skipped = self.0.as_ptr().addr().wrapping_neg() % LINE_LEN;
        self.0[skipped..skipped + len].as_chunks_mut().0
    }
}

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

    /// Makes the value of `version` for the key that hashes to `hash`, in its own size.
    pub fn make<'a>(&self, hash: u64, version: u64, buffer: &'a mut ValueBuffer) -> &'a [u8] {
        self.make_sized(hash, version, self.sizes.size(hash, version), buffer)
    }

    /// Makes the value of [`Values::make`] in a size of the caller's choice; smaller ones become
    /// [`MIN_VALUE_LEN`].
    pub fn make_sized<'a>(
        &self,
        hash: u64,
        version: u64,
        size: usize,
        buffer: &'a mut ValueBuffer,
    ) -> &'a [u8] {
        let size = size.max(MIN_VALUE_LEN);
        // Whole lines, whatever the size: code for what is left over would cost more than it saves.
        let lines = buffer.lines(size);
        let (mask, seed) = seeds(hash, version, size);
        for (run, lines) in lines.chunks_mut(RUN_WORDS / LINE_WORDS).enumerate() {
            let (seed, pool) = self.run(seed, run);
            let words = lines.as_flattened_mut().as_chunks_mut::<8>().0;
            self.vectors.dispatch(|| {
                for (word, pooled) in words.iter_mut().zip(pool) {
                    *word = (pooled ^ seed).to_le_bytes();
                }
            });
        }
        // One word was made for nothing, so that the others lie at their vectors' addresses.
        let out = &mut lines.as_flattened_mut()[..size];
        out[..VERSION_LEN].copy_from_slice(&(version ^ mask).to_le_bytes());
        out
    }

    /// Checks that `value` is some version of the key that hashes to `hash`; returns the version.
    pub fn check(&self, hash: u64, value: &[u8]) -> Result<u64, Mismatch> {
        let head = value.first_chunk::<VERSION_LEN>().ok_or(Mismatch::Short(value.len()))?;
        let version = u64::from_le_bytes(*head) ^ mask(hash, value.len());
        let (_, seed) = seeds(hash, version, value.len());
        let mut skipped = 1;
        for (run, bytes) in value.chunks(RUN_WORDS * 8).enumerate() {
            let (seed, pool) = self.run(seed, run);
            let (words, tail) = bytes.as_chunks::<8>();
            let pairs = words[skipped..].iter().zip(&pool[skipped..]);
            // Differences are gathered, not branched on, so that the loop runs in vector registers.
            let difference = self.vectors.dispatch(|| {
                pairs.fold(0, |difference, (word, pooled)| {
                    difference | (u64::from_le_bytes(*word) ^ pooled ^ seed)
                })
            });
            let tail_differs =
                !tail.is_empty() && tail != &tail_word(seed, pool, words.len())[..tail.len()];
            if difference != 0 || tail_differs {
                return Err(Mismatch::Content { len: value.len(), version });
            }
            // Only the first word of all is the version's.
            skipped = 0;
        }
        Ok(version)
    }

    /// Seed and pool words of the `run`th run of a value.
    fn run(&self, seed: u64, run: usize) -> (u64, &[u64]) {
        let seed = if run == 0 { seed } else { mix(seed.wrapping_add(run as u64)) };
        let start = (seed >> 32) as usize % RUN_WORDS / LINE_WORDS * LINE_WORDS;
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
    use super::{Mismatch, ValueBuffer, Values};
    use crate::sizes::{MIN_VALUE_LEN, ValueSizes};

    fn fixed(size: usize) -> Values {
        Values::new(&ValueSizes::Fixed(size))
    }

    fn made(values: &Values, hash: u64, version: u64) -> Vec<u8> {
        values.make(hash, version, &mut ValueBuffer::default()).to_vec()
    }

    #[test]
    fn a_value_says_whose_it_is() {
        for size in [8, 9, 16, 23, 100, 1024, 8199, 8200, 8201, 100_000] {
            let values = fixed(size);
            let value = made(&values, 7, 42);
            assert_eq!((values.check(7, &value), value.len()), (Ok(42), size));
            assert!(size < 16 || values.check(8, &value).is_err(), "another key, size {size}");
        }
    }

    #[test]
    fn every_wrong_byte_and_every_cut_is_seen() {
        let values = fixed(1001);
        let mut value = made(&values, 3, 1 << 48);
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
            let value = made(&values, 5, version);
            lengths.insert(value.len());
            assert_eq!(values.check(5, &value), Ok(version));
        }
        assert!(lengths.len() > 300, "{}", lengths.len());
        let mut buffer = ValueBuffer::default();
        assert_eq!(values.make_sized(5, 1, 3, &mut buffer).len(), MIN_VALUE_LEN);
    }

    #[test]
    fn values_begin_at_a_cache_line_and_leave_nothing_behind() {
        let values = fixed(1024);
        let mut buffer = ValueBuffer::with_room(16);
        for size in [16, 5000, 100, 8192, 64] {
            let value = values.make_sized(1, 2, size, &mut buffer);
            assert_eq!((value.as_ptr().addr() % 64, value.len()), (0, size));
            assert_eq!(values.check(1, value), Ok(2));
        }
    }

    #[test]
    fn no_two_values_share_a_word() {
        let values = fixed(16 * 1024);
        let mut seen = std::collections::HashSet::new();
        for version in 0..32 {
            let value = made(&values, 9, version);
            let (words, _) = value.as_chunks::<8>();
            assert!(words.iter().all(|word| seen.insert(*word)), "version {version}");
        }
    }
}
