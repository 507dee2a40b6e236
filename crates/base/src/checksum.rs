//! Checksums: XXH3, which runs at memory speed on every machine without special instructions.
//!
//! 32 bits are stored. A record has two of them (payload and header), see [`crate::record`].

use xxhash_rust::xxh3::{Xxh3, xxh3_64_with_seed};

/// 64-bit hash of `bytes`; the one hash of the project, for filters, hash tables and checksums.
#[inline]
pub fn hash64(bytes: &[u8], seed: u64) -> u64 {
    xxh3_64_with_seed(bytes, seed)
}

/// As [`hash64`], for bytes that come in pieces.
pub struct Hash64(Xxh3);

impl Hash64 {
    /// The hash of no bytes yet.
    pub fn new(seed: u64) -> Self {
        Self(Xxh3::with_seed(seed))
    }

    /// Adds the next piece.
    pub fn update(&mut self, piece: &[u8]) {
        self.0.update(piece);
    }

    /// The hash of all pieces.
    pub fn finish(&self) -> u64 {
        self.0.digest()
    }
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
