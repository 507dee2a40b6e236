//! Whether the keys of a flush are new, by a sample of them.
//!
//! The paper (algorithm 1) writes a new pair to the ColdStore, whatever its heat. Here a flush
//! most of whose keys are new is a load, and the first write of a key does not heat it; among
//! updates a new key counts as any other.

use cleavedb_base::Result;
use cleavedb_base::planted::{Bug, planted};

/// The sample.
#[derive(Default)]
pub(super) struct Novelty {
    keys: u64,
    sampled: u64,
    new: u64,
}

impl Novelty {
    /// One in this number of keys is sampled, behind the first ones.
    const INTERVAL: u64 = 64;

    /// Keys that are sampled first, and are enough to tell.
    const ENOUGH: u64 = 16;

    /// Meets a key that is not hot; `is_known` asks whether the tables may have it. A filter that
    /// cannot be read makes the key a known one.
    pub(super) fn meet(&mut self, is_known: impl FnOnce() -> Result<bool>) {
        self.keys += 1;
        if self.keys <= Self::ENOUGH || self.keys.is_multiple_of(Self::INTERVAL) {
            self.sampled += 1;
            self.new += u64::from(matches!(is_known(), Ok(false)));
        }
    }

    /// How many of the writes of a key do not heat it.
    pub(super) fn inserts(&self) -> u64 {
        u64::from(self.is_load() && !planted(Bug::LoadHeats))
    }

    /// Whether most keys so far are new. Of a load some seem to be known: each run of the index
    /// takes about one in a hundred absent keys for one of its own.
    fn is_load(&self) -> bool {
        self.sampled >= Self::ENOUGH && self.new > self.sampled / 2
    }
}
