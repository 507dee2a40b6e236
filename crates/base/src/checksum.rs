//! Checksums: XXH3, which runs at memory speed on every machine without special instructions.
//!
//! 32 bits are stored. A record has two of them (payload and header), see [`crate::record`].

use xxhash_rust::xxh3::xxh3_64_with_seed;

/// 64-bit hash of `bytes`; the one hash of the project, for filters, hash tables and checksums.
#[inline]
pub fn hash64(bytes: &[u8], seed: u64) -> u64 {
    xxh3_64_with_seed(bytes, seed)
}

/// 32-bit checksum of `bytes`. Never 0, so that a zeroed field never matches.
#[inline]
pub fn check32(bytes: &[u8], seed: u64) -> u32 {
    fold(hash64(bytes, seed))
}

/// Folds a 64-bit hash into a checksum that is never 0.
#[inline]
pub fn fold(hash: u64) -> u32 {
    let folded = (hash ^ (hash >> 32)) as u32;
    if folded == 0 { 1 } else { folded }
}
