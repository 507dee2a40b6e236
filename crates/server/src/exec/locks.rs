//! Locks of keys: a write holds those of its keys from its first read until it is committed.

use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use smallvec::SmallVec;
use xxhash_rust::xxh3::xxh3_64;

/// Number of locks, which all keys share: a power of two.
const STRIPES: usize = 4096;

/// How long a thread waits for a lock of a key: one that holds it for longer, as a script may, must
/// not take the threads of all who wait.
const WAIT: Duration = Duration::from_millis(2);

/// The locks of all keys of a server.
pub struct Locks(Box<[Mutex<()>]>);

/// The held locks of a command.
pub type Held<'a> = SmallVec<[MutexGuard<'a, ()>; 2]>;

impl Default for Locks {
    fn default() -> Self {
        Self((0..STRIPES).map(|_| Mutex::default()).collect())
    }
}

impl Locks {
    /// Takes the locks of `keys`, in whatever database, since some commands have two. If others
    /// hold one, and do so longer than a wait that `may_wait` allows, there are none.
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
        let locks = stripes.into_iter().map(|stripe| &self.0[stripe]);
        let held = locks.map(|it| if may_wait { it.try_lock_for(WAIT) } else { it.try_lock() });
        held.collect()
    }

    /// Takes all locks, for what changes keys that it does not name; waits for them, however long,
    /// if `may_wait`.
    pub fn take_all(&self, may_wait: bool) -> Option<Held<'_>> {
        let locks = self.0.iter();
        let held = locks.map(|it| if may_wait { Some(it.lock()) } else { it.try_lock() });
        held.collect()
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
        assert!(take(&["c", "b"], true).is_none());
        assert!(locks.take_all(false).is_none());
        drop(held);
        assert_eq!(locks.take_all(true).unwrap().len(), STRIPES);
    }
}
