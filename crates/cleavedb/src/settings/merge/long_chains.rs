//! LongChains: keys with many operands, and when their values are written anew.
//!
//! Jobs shorten chains where they meet them. Until then each read walks through a whole chain, and
//! of a counter that is only counted up, a MemTable holds hundreds of thousands. So writes of
//! operands count those that a key has, one write in eight; readers and flushes count what they
//! meet. Keys with many are noted, and the next writes of operands put their values.

use std::collections::BTreeSet;

use cleavedb_base::SeqNo;
use cleavedb_base::sync::Mutex;
use cleavedb_base::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use cleavedb_index::operands::OPERANDS_MAX;

/// Bytes of operands that a reader should not meet at each read.
const OPERAND_BYTES_MAX: usize = 1024;

/// What an operand costs a reader beside its bytes, in bytes of a value that it could copy.
const OPERAND_COST: usize = 128;

/// Of this number of operands that are written, the writer of one counts those that its key has.
pub(crate) const OPERANDS_COUNTED: usize = 8;

/// A multiplier that spreads numbers which follow each other (2^64 divided by the golden ratio).
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// Most keys that are remembered. A key that is left out is met again.
const KEYS_MAX: usize = 1024;

/// Groups of keys, by their hashes, in which a writer whose attempt has failed lets others wait.
const WAITS: usize = 64;

/// The operands of a key above its value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ChainLength {
    pub(crate) operands: usize,
    pub(crate) bytes: usize,
}

impl ChainLength {
    pub(crate) fn add(&mut self, operand: &[u8]) {
        self.operands += 1;
        self.bytes += operand.len();
    }

    /// Whether a reader should not meet them at each read.
    pub(crate) fn is_long(self) -> bool {
        self.operands > OPERANDS_MAX || self.bytes > OPERAND_BYTES_MAX
    }

    /// Whether a value of `len` bytes is to be written anew: not if it is much longer than the
    /// operands, since then reads gain less than the write costs.
    pub(crate) fn outweighs(self, len: usize) -> bool {
        self.is_long() && len / 4 <= self.bytes + OPERAND_COST * self.operands
    }
}

/// Tree keys whose values should be written anew.
pub(crate) struct LongChains {
    any: AtomicBool,
    keys: Mutex<BTreeSet<Box<[u8]>>>,
    /// The sequence number up to which no writer counts the operands of a key of each group.
    waits: [AtomicU64; WAITS],
}

impl Default for LongChains {
    fn default() -> Self {
        let waits = std::array::from_fn(|_| AtomicU64::new(0));
        Self { any: AtomicBool::new(false), keys: Mutex::default(), waits }
    }
}

impl LongChains {
    /// Remembers a key.
    #[cold]
    pub(crate) fn add(&self, encoded_key: &[u8]) {
        let mut keys = self.keys.lock();
        if keys.len() < KEYS_MAX {
            keys.insert(encoded_key.into());
            // Relaxed: a hint, the lock orders the keys.
            self.any.store(true, Ordering::Relaxed);
        }
    }

    /// Takes one of the keys.
    #[inline]
    pub(crate) fn take(&self) -> Option<Box<[u8]>> {
        if !self.any.load(Ordering::Relaxed) {
            return None;
        }
        let mut keys = self.keys.lock();
        let taken = keys.pop_first();
        self.any.store(!keys.is_empty(), Ordering::Relaxed);
        taken
    }

    /// Whether the writer of an operand counts those of its key, whose hash is `hash`: one in
    /// [`OPERANDS_COUNTED`] does, drawn by the sequence number that is visible now.
    #[inline]
    pub(crate) fn is_counted(&self, hash: u64, visible: SeqNo) -> bool {
        let drawn = (visible ^ hash).wrapping_mul(GOLDEN) >> 32;
        drawn.is_multiple_of(OPERANDS_COUNTED as u64)
            && self.wait(hash).load(Ordering::Relaxed) <= visible
    }

    /// Notes that the value of a key with these operands could not be written anew at `visible`. It
    /// is tried again after half as many commits, so that what a writer spends on attempts does not
    /// grow with the chain.
    pub(crate) fn failed(&self, hash: u64, visible: SeqNo, chain: ChainLength) {
        self.wait(hash).store(visible + chain.operands as u64 / 2, Ordering::Relaxed);
    }

    fn wait(&self, hash: u64) -> &AtomicU64 {
        &self.waits[(hash >> 32) as usize % WAITS]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_values_are_written_anew_soon_and_long_ones_later() {
        let chain = |operands, bytes| ChainLength { operands, bytes };
        assert!(!chain(OPERANDS_MAX, 40).outweighs(10));
        assert!(chain(OPERANDS_MAX + 1, 45).outweighs(10));
        assert!(chain(1, OPERAND_BYTES_MAX + 1).outweighs(4000));
        assert!(!chain(OPERANDS_MAX + 1, 45).outweighs(100_000));
        assert!(chain(200, 1000).outweighs(100_000));
    }

    #[test]
    fn an_attempt_that_failed_lets_its_keys_wait() {
        let chains = &LongChains::default();
        let counted =
            |hash, from: u64| (from..from + 800).filter(move |at| chains.is_counted(hash, *at));
        let (mine, other) = (1 << 32, 2 << 32);
        assert!((50..200).contains(&counted(mine, 0).count()));
        chains.failed(mine, 0, ChainLength { operands: 2000, bytes: 0 });
        assert_eq!(counted(mine, 0).count(), 0);
        assert_ne!(counted(other, 0).count(), 0);
        assert_ne!(counted(mine, 1000).count(), 0);
    }
}
