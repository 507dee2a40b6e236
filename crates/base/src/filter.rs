//! Split-block Bloom filter: one cache line tells that a table or a group does not hold a key.
//!
//! The filter is an array of 32-byte blocks of eight 32-bit words. A key's 64-bit hash picks one
//! block by its lower half and one bit in each of the eight words by its upper half, so a look-up
//! touches 32 bytes. At the default 10 bits a key about 1 in 100 absent keys passes.
//!
//! Hash groups are chosen by the upper bits of the same hash, which all keys of a group share. Had
//! they chosen the block, too, as in filters of version 1, the filter of one of 128 groups would
//! use one block in 128, and nearly every absent key would pass.
//!
//! Invariant: a key whose hash was added always passes. Every hash is `hash64(encoded_key, 0)`.
//!
//! Encoding (`docs/format.md`, "Table"): a version byte, then the blocks, each as eight
//! little-endian words.

use crate::error::{Error, Result};

/// Version of the encoding.
const VERSION: u8 = 2;

/// The version in which the halves of the hash change places; it is read, and not written.
const VERSION_SWAPPED: u8 = 1;

const WORDS: usize = 8;
const BLOCK_LEN: usize = WORDS * 4;

/// Odd multipliers that turn one 32-bit hash into eight bit positions; those of Apache Parquet.
const SALT: [u32; WORDS] = [
    0x47b6_137b,
    0x4497_4d91,
    0x8824_ad5b,
    0xa2b7_289d,
    0x7054_95c7,
    0x2df1_424b,
    0x9efc_4947,
    0x5c6b_fb31,
];

/// Eight words in one half of a cache line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(align(32))]
struct FilterBlock([u32; WORDS]);

/// A filter over the keys of one table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BloomFilter {
    blocks: Vec<FilterBlock>,
    /// Bits by which a hash is rotated first: 32 in a filter of version 1, which swaps its halves.
    turn: u32,
}

#[inline]
fn block_index(hash: u64, blocks: usize) -> usize {
    ((u64::from(hash as u32) * blocks as u64) >> 32) as usize
}

#[inline]
fn mask(hash: u64) -> [u32; WORDS] {
    let upper = (hash >> 32) as u32;
    SALT.map(|salt| 1 << (upper.wrapping_mul(salt) >> 27))
}

impl BloomFilter {
    /// The filter of the keys with `hashes`, at about `bits_per_key` bits each.
    pub fn build(hashes: &[u64], bits_per_key: u32) -> Self {
        let mut filter = Self::with_room(hashes.len(), bits_per_key);
        hashes.iter().for_each(|hash| filter.insert(*hash));
        filter
    }

    /// A filter without keys, in which `keys` will have about `bits_per_key` bits each.
    pub fn with_room(keys: usize, bits_per_key: u32) -> Self {
        let bits = keys as u64 * u64::from(bits_per_key);
        let count = bits.div_ceil(BLOCK_LEN as u64 * 8).min(u64::from(u32::MAX)) as usize;
        Self { blocks: vec![FilterBlock::default(); count], turn: 0 }
    }

    /// Adds the key with `hash`.
    #[inline]
    pub fn insert(&mut self, hash: u64) {
        let (count, hash) = (self.blocks.len(), hash.rotate_left(self.turn));
        if count == 0 {
            return;
        }
        let block = &mut self.blocks[block_index(hash, count)];
        for (word, bit) in block.0.iter_mut().zip(mask(hash)) {
            *word |= bit;
        }
    }

    /// The share of absent keys that pass a filter with `bits_per_key` bits for each of its keys. A
    /// block has Poisson-distributed keys, and of the 32 bits of each word about as many are set:
    /// this is the mean of (1 - (31/32)^keys)^8, multiplied out.
    pub fn false_rate(bits_per_key: f64) -> f64 {
        let mean = (BLOCK_LEN * 8) as f64 / bits_per_key.max(1.0);
        let mut choices = 1.0;
        let terms = (0..=WORDS).map(|taken| {
            let clear = (31.0f64 / 32.0).powi(taken as i32);
            let term = choices * (mean * (clear - 1.0)).exp();
            choices *= -((WORDS - taken) as f64) / (taken + 1) as f64;
            term
        });
        terms.sum::<f64>().clamp(0.0, 1.0)
    }

    /// Whether a key with `hash` may be in the table; `false` is certain. A filter without blocks
    /// (0 bits a key) passes every key.
    #[inline]
    pub fn may_contain(&self, hash: u64) -> bool {
        if self.blocks.is_empty() {
            return true;
        }
        let hash = hash.rotate_left(self.turn);
        let block = &self.blocks[block_index(hash, self.blocks.len())];
        let mut missing = 0;
        for (word, bit) in block.0.iter().zip(mask(hash)) {
            missing |= !word & bit;
        }
        missing == 0
    }

    /// Memory that the filter holds, in bytes.
    pub fn memory(&self) -> usize {
        self.blocks.len() * BLOCK_LEN
    }

    /// Appends the encoding to `out`.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.reserve(1 + self.memory());
        out.push(if self.turn == 0 { VERSION } else { VERSION_SWAPPED });
        for word in self.blocks.iter().flat_map(|block| block.0) {
            out.extend_from_slice(&word.to_le_bytes());
        }
    }

    /// Reads a filter that fills `bytes`.
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        let (&version, body) =
            bytes.split_first().ok_or_else(|| Error::corruption("filter is empty"))?;
        let turn = match version {
            VERSION => 0,
            VERSION_SWAPPED => 32,
            _ => {
                let error = Error::corruption("filter has an unknown version");
                return Err(error.with("version", version));
            }
        };
        let (chunks, rest) = body.as_chunks::<BLOCK_LEN>();
        if !rest.is_empty() || chunks.len() > u32::MAX as usize {
            return Err(Error::corruption("filter has an invalid length"));
        }
        let blocks = chunks.iter().map(|chunk| {
            let mut block = FilterBlock::default();
            for (word, bytes) in block.0.iter_mut().zip(chunk.as_chunks::<4>().0) {
                *word = u32::from_le_bytes(*bytes);
            }
            block
        });
        Ok(Self { blocks: blocks.collect(), turn })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checksum::hash64;

    fn hashes(range: std::ops::Range<u64>) -> Vec<u64> {
        range.map(|i| hash64(&i.to_be_bytes(), 0)).collect()
    }

    #[test]
    fn added_keys_pass_and_about_one_in_a_hundred_others() {
        let filter = BloomFilter::build(&hashes(0..100_000), 10);
        assert!(hashes(0..100_000).iter().all(|&h| filter.may_contain(h)));
        let passed = hashes(100_000..200_000).iter().filter(|&&h| filter.may_contain(h)).count();
        assert!(passed < 1_500, "{passed} of 100000 absent keys passed");
    }

    #[test]
    fn a_filter_round_trips_and_other_bytes_are_refused() {
        for n in [0, 1, 25, 26, 1000] {
            let filter = BloomFilter::build(&hashes(0..n), 10);
            let mut bytes = Vec::new();
            filter.encode(&mut bytes);
            assert_eq!(BloomFilter::decode(&bytes).unwrap(), filter);
            for len in 0..bytes.len() {
                assert!(
                    len % 32 == 1 || BloomFilter::decode(&bytes[..len]).is_err(),
                    "length {len}"
                );
            }
            bytes[0] = 9;
            assert!(BloomFilter::decode(&bytes).is_err(), "an unknown version");
        }
    }

    #[test]
    fn the_share_of_false_answers_is_about_the_one_that_is_told() {
        for bits in [6, 10, 16] {
            let mut filter = BloomFilter::with_room(20_000, bits);
            hashes(0..20_000).into_iter().for_each(|hash| filter.insert(hash));
            assert_eq!(filter, BloomFilter::build(&hashes(0..20_000), bits));
            let passed = hashes(20_000..220_000).iter().filter(|&&h| filter.may_contain(h)).count();
            let told = BloomFilter::false_rate(f64::from(bits)) * 200_000.0;
            let ratio = passed as f64 / told;
            assert!((0.8..1.2).contains(&ratio), "{bits} bits: {passed} of {told:.0}");
        }
    }

    /// The filter of a hash group let nearly every absent key pass: its keys share the upper bits
    /// of their hashes, which chose the block.
    #[test]
    fn keys_that_share_the_upper_bits_of_their_hashes_use_the_whole_filter() {
        let of_group = |hash: &u64| hash >> 57 == 5;
        let inside: Vec<u64> = hashes(0..500_000).into_iter().filter(of_group).collect();
        let absent = hashes(500_000..2_500_000).into_iter().filter(of_group);
        let filter = BloomFilter::build(&inside, 16);
        let (asked, passed) = absent.fold((0, 0), |(asked, passed), hash| {
            (asked + 1, passed + u32::from(filter.may_contain(hash)))
        });
        assert!(asked > 15_000 && passed < asked / 500, "{passed} of {asked} absent keys passed");
    }

    /// A filter of version 1 is read as it was written, and stays one.
    #[test]
    fn filters_whose_halves_are_swapped_are_read() {
        let swapped = |hash: &u64| hash.rotate_left(32);
        let mut bytes = Vec::new();
        let keys: Vec<u64> = hashes(0..1000).iter().map(swapped).collect();
        BloomFilter::build(&keys, 10).encode(&mut bytes);
        bytes[0] = VERSION_SWAPPED;
        let read = BloomFilter::decode(&bytes).unwrap();
        assert!(hashes(0..1000).iter().all(|hash| read.may_contain(*hash)));
        let passed = hashes(1000..11_000).iter().filter(|hash| read.may_contain(**hash)).count();
        assert!(passed < 200, "{passed}");
        let mut again = Vec::new();
        read.encode(&mut again);
        assert_eq!(again, bytes);
    }

    #[test]
    fn without_bits_every_key_may_be_there() {
        assert!(BloomFilter::build(&hashes(0..10), 0).may_contain(7));
    }
}
