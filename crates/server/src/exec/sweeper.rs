//! The thread that removes elements that no key has any more, a few at a time.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use super::Store;

/// How long the sweeper rests between two steps, and between two rounds.
const REST: Duration = Duration::from_millis(20);
const ROUND: Duration = Duration::from_secs(15 * 60);

/// When the sweeper works.
#[derive(Default)]
pub struct Sweeper {
    is_over: Mutex<bool>,
    wake: Condvar,
    /// Whether a database was emptied since the last round.
    is_wanted: AtomicBool,
}

impl Sweeper {
    /// Sweeps in rounds, until [`Sweeper::end`]. An error is left to the next round: what it meets
    /// is told to clients that meet it, too.
    pub fn run(&self, store: &Store) {
        while self.rests_for(ROUND) {
            let mut from = Some(0);
            while let Some(begin) = from
                && self.rests_for(REST)
            {
                from = store.sweep(begin).unwrap_or(None);
            }
        }
    }

    /// Begins a round soon.
    pub fn wake(&self) {
        self.is_wanted.store(true, Ordering::Release);
        self.wake.notify_one();
    }

    /// Rests for that long, or until it is wanted; whether it goes on then.
    fn rests_for(&self, time: Duration) -> bool {
        let mut is_over = self.is_over.lock();
        if !*is_over && !self.is_wanted.swap(false, Ordering::AcqRel) {
            self.wake.wait_for(&mut is_over, time);
            self.is_wanted.store(false, Ordering::Release);
        }
        !*is_over
    }

    /// Ends [`Sweeper::run`].
    pub fn end(&self) {
        *self.is_over.lock() = true;
        self.wake.notify_one();
    }
}
