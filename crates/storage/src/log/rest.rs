//! The sleep of the drain thread, while there is nothing to drain.
//!
//! The sleeper stores the position from which on it has work. Writers check it after they have
//! stored how far the log is filled, and pay nothing else; the one that reaches the position wakes
//! the sleeper. No wake-up is missed: the sleeper stores its position first and then reads the fill
//! mark by an atomic exchange, as writers set the mark by one. Of two exchanges one is first:
//! either the sleeper sees the mark, or the writer sees the position.

use cleavedb_base::planted::{Bug, planted};
use cleavedb_base::sync::atomic::{AtomicU64, Ordering};
use cleavedb_base::sync::{Condvar, Mutex};

/// The position that stands for: no thread sleeps.
const AWAKE: u64 = u64::MAX;

/// The sleep of one thread.
pub(super) struct Rest {
    /// Log position from which on the sleeper has work.
    wakes_at: AtomicU64,
    /// Held while falling asleep; a waker waits for it.
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
    /// `has_work`, which must look at the log by [`super::buffer::LogBuffer::filled_at_last`].
    /// Returns whether it slept.
    pub(super) fn sleep(&self, position: u64, has_work: impl Fn() -> bool) -> bool {
        let mut falling = self.falling.lock();
        let early = planted(Bug::RestsUnannounced).then(&has_work);
        self.wakes_at.swap(position, Ordering::AcqRel);
        if early.unwrap_or_else(has_work) {
            // By an exchange: the next sleep must see what the last waker did before it woke this
            // one.
            self.wakes_at.swap(AWAKE, Ordering::AcqRel);
            return false;
        }
        while self.wakes_at.load(Ordering::Acquire) != AWAKE {
            self.woken.wait(&mut falling);
        }
        true
    }

    /// Called when the log is filled up to `position`: wakes a sleeper that waits for it.
    #[inline]
    pub(super) fn written_upto(&self, position: u64) {
        if position >= self.wakes_at.load(Ordering::Relaxed) {
            self.wake();
        }
    }

    /// Wakes the sleeper after a change of what `has_work` looks at.
    #[cold]
    pub(super) fn wake(&self) {
        // Of several concurrent wakers one wakes.
        if self.wakes_at.swap(AWAKE, Ordering::AcqRel) != AWAKE {
            drop(self.falling.lock());
            self.woken.notify_all();
        }
    }
}
