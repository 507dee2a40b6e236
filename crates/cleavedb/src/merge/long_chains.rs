//! LongChains: keys of which reads or flushes have met many operands, to be written anew.

use std::collections::BTreeSet;

use cleavedb_base::sync::Mutex;
use cleavedb_base::sync::atomic::{AtomicBool, Ordering};

/// Most keys that are remembered. A key that is left out is met again.
const KEYS_MAX: usize = 1024;

/// Tree keys whose values should be written anew.
#[derive(Default)]
pub(crate) struct LongChains {
    any: AtomicBool,
    keys: Mutex<BTreeSet<Box<[u8]>>>,
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
}
