//! Keys that reads have found hot, for the next flush: a small table that forgets.
//!
//! The paper (algorithm 1) moves a pair to the hot store while it is read. Here the reader leaves
//! its key in a slot that its hash selects, and a flush moves the newest version: a read neither
//! writes nor waits. A key that loses its slot to another one is read again, if it is hot.

use std::time::{Duration, Instant};

use cleavedb_base::sync::Mutex;
use cleavedb_base::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

/// Slots of the table.
pub const SLOTS: usize = 4096;

/// Keys that are enough for a flush that begins for them alone: half of those that may wait.
const ENOUGH: usize = SLOTS / 2;

/// Time for which keys wait for a flush that begins for other reasons.
const PATIENCE: Duration = Duration::from_secs(10);

/// Longest tree key that may wait, in bytes, so that a full table takes little memory.
const KEY_MAX: usize = 512;

/// Length of a key from which the memory of a full table is guessed, in bytes.
const KEY_GUESSED: usize = 32;

/// The table.
pub(crate) struct Promotions {
    slots: Box<[Mutex<Option<Box<[u8]>>>]>,
    /// Taken slots.
    taken: AtomicUsize,
    /// When the table was made, and after how many milliseconds keys were last taken.
    begun: Instant,
    last_taken: AtomicU64,
    /// Whether a flush was asked for since then.
    asked: AtomicBool,
}

impl Promotions {
    pub(crate) fn new() -> Self {
        Self {
            slots: (0..SLOTS).map(|_| Mutex::new(None)).collect(),
            taken: AtomicUsize::new(0),
            begun: Instant::now(),
            last_taken: AtomicU64::new(0),
            asked: AtomicBool::new(false),
        }
    }

    /// Leaves the key with this hash, unless its slot is in use right now.
    pub(crate) fn propose(&self, hash: u64, encoded_key: &[u8]) {
        let slot = &self.slots[hash as usize % SLOTS];
        if let Some(mut slot) = slot.try_lock()
            && encoded_key.len() <= KEY_MAX
            && slot.as_deref() != Some(encoded_key)
            && slot.replace(encoded_key.into()).is_none()
        {
            self.taken.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Whether enough keys wait for a flush that begins for them alone. Such flushes cost
    /// writers more than they gain if there are many of them: if it would cut a MemTable that is
    /// not small, the keys must have waited for some time.
    pub(crate) fn want_flush(&self, is_small: impl Fn() -> bool) -> bool {
        self.taken.load(Ordering::Relaxed) >= ENOUGH && (is_small() || self.have_waited())
    }

    fn have_waited(&self) -> bool {
        // Another thread may take versions, and note a later time, between the two.
        let waited = self.millis().saturating_sub(self.last_taken.load(Ordering::Relaxed));
        waited >= PATIENCE.as_millis() as u64
    }

    fn millis(&self) -> u64 {
        self.begun.elapsed().as_millis() as u64
    }

    /// Notes that a flush is asked for; returns whether it was not since keys were last taken.
    pub(crate) fn ask(&self) -> bool {
        !self.asked.load(Ordering::Relaxed) && !self.asked.swap(true, Ordering::Relaxed)
    }

    /// Bytes of memory.
    pub(crate) const fn memory() -> usize {
        SLOTS * (size_of::<Mutex<Option<Box<[u8]>>>>() + KEY_GUESSED)
    }

    /// Takes all keys.
    pub(crate) fn take(&self) -> Vec<Box<[u8]>> {
        let taken: Vec<_> = self.slots.iter().filter_map(|slot| slot.lock().take()).collect();
        self.taken.fetch_sub(taken.len(), Ordering::Relaxed);
        self.last_taken.store(self.millis(), Ordering::Relaxed);
        self.asked.store(false, Ordering::Relaxed);
        taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_takes_one_slot_and_another_key_may_take_its_place() {
        let promotions = Promotions::new();
        let slots = SLOTS as u64;
        let keys = [(5, "a"), (5, "a"), (6, "b"), (5 + slots, "c")];
        keys.into_iter().for_each(|(hash, key)| promotions.propose(hash, key.as_bytes()));
        promotions.propose(7, &[0; KEY_MAX + 1]);
        assert_eq!(promotions.taken.load(Ordering::Relaxed), 2);
        assert_eq!(promotions.take(), [Box::from(*b"c"), Box::from(*b"b")]);
        assert_eq!((promotions.taken.load(Ordering::Relaxed), promotions.take().len()), (0, 0));
    }

    #[test]
    fn a_flush_is_asked_for_once_when_enough_wait() {
        let promotions = Promotions::new();
        let propose = |hash: u64| promotions.propose(hash, &hash.to_be_bytes());
        (1..ENOUGH as u64).for_each(propose);
        assert!(!promotions.want_flush(|| true));
        propose(0);
        assert!(promotions.want_flush(|| true));
        assert!(!promotions.want_flush(|| false), "they have not waited for ten seconds");
        assert_eq!((promotions.ask(), promotions.ask()), (true, false));
        assert_eq!(promotions.take().len(), ENOUGH);
        assert!(!promotions.want_flush(|| true) && promotions.ask());
    }
}
