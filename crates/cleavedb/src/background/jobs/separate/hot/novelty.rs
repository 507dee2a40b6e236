//! Whether the keys of a flush are new, by a sample of them.
//!
//! The paper (algorithm 1) writes a new pair to the ColdStore, whatever its heat. Here a flush
//! nearly all of whose keys are new is a load, and heats nothing; among updates a new key counts as
//! any other.

use cleavedb_base::Result;

/// The sample.
#[derive(Default)]
pub(super) struct Novelty {
    keys: u64,
    sampled: u64,
    new: u64,
}

impl Novelty {
    /// One in this number of keys is sampled.
    const INTERVAL: u64 = 64;

    /// Samples that are enough to tell.
    const ENOUGH: u64 = 16;

    /// Meets a key that is not hot; `is_known` asks whether the tables may have it. A filter that
    /// cannot be read makes the key a known one.
    pub(super) fn meet(&mut self, is_known: impl FnOnce() -> Result<bool>) {
        self.keys += 1;
        if self.keys.is_multiple_of(Self::INTERVAL) {
            self.sampled += 1;
            self.new += u64::from(matches!(is_known(), Ok(false)));
        }
    }

    /// Whether nearly all keys so far are new.
    pub(super) fn is_load(&self) -> bool {
        self.sampled >= Self::ENOUGH && self.new >= self.sampled - self.sampled / 8
    }
}
