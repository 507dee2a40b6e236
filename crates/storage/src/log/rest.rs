//! The sleep of who drains, while there is nothing to drain.
//!
//! The sleeper leaves word from which position on it has work. Writers look at the word when they
//! have marked how far the log is filled, and pay nothing else; the one that reaches the position
//! wakes the sleeper. No wake-up is missed: who falls asleep leaves word first and then looks at
//! the mark, by an exchange, as the mark is made by one. Of two exchanges one is first: either the
//! sleeper sees the mark, or who made it sees the word.

use cleavedb_base::planted::{Bug, planted};
use cleavedb_base::sync::atomic::{AtomicU64, Ordering};
use cleavedb_base::sync::{Condvar, Mutex};

/// The word that nobody sleeps.
const AWAKE: u64 = u64::MAX;

/// Where one thread sleeps.
pub(super) struct Rest {
    /// Log position from which on the sleeper has work.
    wakes_at: AtomicU64,
    /// Held while falling asleep, which whoever wakes waits for.
    falling: Mutex<()>,
    woken: Condvar,
}

impl Default for Rest {
    fn default() -> Self {
        let (falling, woken) = Default::default();
        Self { wakes_at: AtomicU64::new(AWAKE), falling, woken }
    }
}

impl Rest {
    /// Sleeps until the log is filled up to `position`, or [`Rest::wake`]. Not at all if
    /// `has_work`, which must look at the log by [`super::ring::LogBuffer::filled_at_last`].
    /// Returns whether it slept.
    pub(super) fn sleep(&self, position: u64, has_work: impl Fn() -> bool) -> bool {
        let mut falling = self.falling.lock();
        let early = planted(Bug::RestsUnannounced).then(&has_work);
        self.wakes_at.swap(position, Ordering::AcqRel);
        if early.unwrap_or_else(has_work) {
            // By an exchange: the next sleep has to know what whoever woke this one did before.
            self.wakes_at.swap(AWAKE, Ordering::AcqRel);
            return false;
        }
        while self.wakes_at.load(Ordering::Acquire) != AWAKE {
            self.woken.wait(&mut falling);
        }
        true
    }

    /// The log is filled up to `position`.
    #[inline]
    pub(super) fn written_upto(&self, position: u64) {
        if position >= self.wakes_at.load(Ordering::Relaxed) {
            self.wake();
        }
    }

    /// Wakes who sleeps, after something has changed that it asks for when it falls asleep.
    #[cold]
    pub(super) fn wake(&self) {
        // Of many who come at once, one wakes.
        if self.wakes_at.swap(AWAKE, Ordering::AcqRel) != AWAKE {
            drop(self.falling.lock());
            self.woken.notify_all();
        }
    }
}
