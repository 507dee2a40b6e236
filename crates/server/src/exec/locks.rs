//! Locks of keys: a write holds those of its keys from its first read until it is committed.

use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::{Mutex, MutexGuard};
use smallvec::SmallVec;
use xxhash_rust::xxh3::xxh3_64;

/// Number of locks, which all keys share: a power of two.
const STRIPES: usize = 4096;

/// The locks of all keys of a server.
pub struct Locks {
    stripes: Box<[Mutex<()>]>,
    /// Commands that have waited for another one.
    waits: AtomicU64,
}

/// The held locks of a command.
pub type Held<'a> = SmallVec<[MutexGuard<'a, ()>; 2]>;

impl Default for Locks {
    fn default() -> Self {
        let stripes = (0..STRIPES).map(|_| Mutex::default()).collect();
        Self { stripes, waits: AtomicU64::new(0) }
    }
}

impl Locks {
    /// Takes the locks of `keys`, in whatever database, since some commands have two; waits for
    /// those that others hold if `may_wait`, else has none.
    pub fn take<'a, 'k>(
        &'a self,
        keys: impl Iterator<Item = &'k [u8]>,
        may_wait: bool,
    ) -> Option<Held<'a>> {
        let stripe = |key| xxh3_64(key) as usize % STRIPES;
        let mut stripes: SmallVec<[usize; 2]> = keys.map(stripe).collect();
        // One order for all, so that no two wait for each other.
        stripes.sort_unstable();
        stripes.dedup();
        stripes.into_iter().map(|stripe| self.one(&self.stripes[stripe], may_wait)).collect()
    }

    /// Takes all locks: for what changes keys that it does not name.
    pub fn take_all(&self, may_wait: bool) -> Option<Held<'_>> {
        self.stripes.iter().map(|stripe| self.one(stripe, may_wait)).collect()
    }

    fn one<'a>(&self, stripe: &'a Mutex<()>, may_wait: bool) -> Option<MutexGuard<'a, ()>> {
        stripe.try_lock().or_else(|| {
            self.waits.fetch_add(1, Ordering::Relaxed);
            may_wait.then(|| stripe.lock())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_held_by_one() {
        let locks = Locks::default();
        let take = |keys: &'static [&'static str], may_wait| {
            locks.take(keys.iter().map(|key| key.as_bytes()), may_wait)
        };
        let held = take(&["a", "b", "a"], true).unwrap();
        assert_eq!(held.len(), 2);
        assert!(take(&["a"], false).is_none() && take(&["c", "b"], false).is_none());
        drop(take(&["c"], false).unwrap());
        assert!(locks.take_all(false).is_none());
        drop(held);
        assert_eq!(locks.take_all(true).unwrap().len(), STRIPES);
    }
}
