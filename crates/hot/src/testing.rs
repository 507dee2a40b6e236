//! Shared by the tests of this crate: numbers drawn by a seed, and records that have a hash.

use std::collections::HashMap;

use cleavedb_base::checksum::hash64;

use crate::slot::Slot;

/// The `n`-th number that `seed` draws.
pub fn drawn(seed: u64, n: u64) -> u64 {
    hash64(&n.to_le_bytes(), seed)
}

/// Hashes of the keys of records, by their places.
#[derive(Default)]
pub struct Records(HashMap<Slot, u64>);

impl Records {
    /// The place with number `n`.
    pub fn slot(n: u32) -> Slot {
        Slot { segment: (n >> 16) as u16, record: n as u16 }
    }

    pub fn add(&mut self, slot: Slot, hash: u64) {
        assert!(self.0.insert(slot, hash).is_none(), "{slot:?} is in use");
    }

    pub fn remove(&mut self, slot: Slot) {
        self.0.remove(&slot);
    }

    pub fn hash_of(&self, slot: Slot) -> u64 {
        self.0[&slot]
    }
}
