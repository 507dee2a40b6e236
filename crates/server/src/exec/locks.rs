//! Locks of keys: a write holds those of its keys from its first read until it is committed.

use std::time::{Duration, Instant};

use parking_lot::{Mutex, MutexGuard};
use smallvec::SmallVec;
use xxhash_rust::xxh3::xxh3_64;

/// Number of locks, which all keys share: a power of two.
const STRIPES: usize = 4096;

/// How long a thread waits for a lock of a key: one that holds it for longer, as a script may, must
/// not take the threads of all who wait.
const WAIT: Duration = Duration::from_millis(2);

/// How long a thread that may not wait does so for the lock of a key: a commit takes less, and to
/// hand the command to another thread costs more.
const WAIT_BRIEF: Duration = Duration::from_micros(50);

/// How long a thread waits for all locks: it holds some of them meanwhile.
const WAIT_FOR_ALL: Duration = Duration::from_millis(20);

/// How long it rests then before it tries again, if it has nothing else to do.
const REST: Duration = Duration::from_millis(10);

/// The locks of all keys of a server.
pub struct Locks(Box<[Mutex<()>]>);

/// The held locks of a command, or of several in a row, with their numbers.
pub type Held<'a> = SmallVec<[(usize, MutexGuard<'a, ()>); 2]>;

impl Default for Locks {
    fn default() -> Self {
        Self((0..STRIPES).map(|_| Mutex::default()).collect())
    }
}

impl Locks {
    /// Takes the locks of `keys`, in whatever database, since some commands have two. If others
    /// hold one, and do so longer than a wait that `may_wait` allows, or than [`WAIT_BRIEF`], there
    /// are none.
    pub fn take<'a, 'k>(
        &'a self,
        keys: impl Iterator<Item = &'k [u8]>,
        may_wait: bool,
    ) -> Option<Held<'a>> {
        let mut held = Held::new();
        self.take_more(&mut held, keys, may_wait).then_some(held)
    }

    /// Takes the locks of `keys` beside those that are held. Waits only where none is held, since
    /// other threads may wait for those. Returns whether it has them; if not, none is added.
    pub fn take_more<'a, 'k>(
        &'a self,
        held: &mut Held<'a>,
        keys: impl Iterator<Item = &'k [u8]>,
        may_wait: bool,
    ) -> bool {
        let before = held.len();
        let mut stripes: SmallVec<[usize; 2]> = keys.map(stripe_of).collect();
        // One order for all, so that no two wait for each other.
        stripes.sort_unstable();
        stripes.dedup();
        stripes.retain(|stripe| held.iter().all(|(held, _)| held != stripe));
        for stripe in stripes {
            let wait = if may_wait { WAIT } else { WAIT_BRIEF };
            let until = || (before == 0).then(|| Instant::now() + wait);
            match self.one(stripe, until) {
                Some(one) => held.push(one),
                None => {
                    held.truncate(before);
                    return false;
                }
            }
        }
        true
    }

    /// Takes the lock of a key, and waits for it, however long.
    pub fn wait_for(&self, key: &[u8]) -> MutexGuard<'_, ()> {
        self.0[stripe_of(key)].lock()
    }

    /// Takes all locks, for what changes keys that it does not name. If others hold one, and do so
    /// longer than a wait that `may_wait` allows, there are none.
    pub fn take_all(&self, may_wait: bool) -> Option<Held<'_>> {
        let until = may_wait.then(|| Instant::now() + WAIT_FOR_ALL);
        (0..STRIPES).map(|stripe| self.one(stripe, || until)).collect()
    }

    /// Takes all locks, and waits for them, however long.
    pub fn wait_for_all(&self) -> Held<'_> {
        loop {
            if let Some(held) = self.take_all(true) {
                return held;
            }
            std::thread::sleep(REST);
        }
    }

    /// A lock, if it is free now, or gets free `until` then.
    fn one(
        &self,
        number: usize,
        until: impl Fn() -> Option<Instant>,
    ) -> Option<(usize, MutexGuard<'_, ()>)> {
        let stripe = &self.0[number];
        let held = stripe.try_lock().or_else(|| stripe.try_lock_until(until()?));
        held.map(|held| (number, held))
    }
}

fn stripe_of(key: &[u8]) -> usize {
    xxh3_64(key) as usize % STRIPES
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
        let mut more = take(&["c"], true).unwrap();
        let wanted = |keys: &'static [&'static str]| keys.iter().map(|key| key.as_bytes());
        assert!(!locks.take_more(&mut more, wanted(&["d", "b"]), true) && more.len() == 1);
        assert!(locks.take_more(&mut more, wanted(&["c", "d"]), false) && more.len() == 2);
        drop((held, more));
        assert_eq!(locks.take_all(true).unwrap().len(), STRIPES);
    }

    #[test]
    fn who_waits_for_all_keys_leaves_them_to_others_meanwhile() {
        let locks = Locks::default();
        let last = (0_u32..).map(u32::to_be_bytes).find(|key| stripe_of(key) == STRIPES - 1);
        let last = last.unwrap();
        std::thread::scope(|scope| {
            let held = locks.take([&last[..]].into_iter(), false).unwrap();
            let waiting = scope.spawn(|| locks.wait_for_all().len());
            let mut taken = 0;
            for _ in 0..50 {
                std::thread::sleep(Duration::from_millis(10));
                taken += usize::from(locks.take([&b"a"[..]].into_iter(), true).is_some());
            }
            assert!(taken > 5, "{taken} times of 50");
            drop(held);
            assert_eq!(waiting.join().unwrap(), STRIPES);
        });
    }
}
