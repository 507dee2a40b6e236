//! The thread that removes elements that no key has any more, a few at a time.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::Store;
use super::rests::Rests;

/// How long the sweeper rests between two steps, and between two rounds.
const REST: Duration = Duration::from_millis(20);
const ROUND: Duration = Duration::from_secs(15 * 60);

/// When the sweeper works, and what it could not do.
#[derive(Default)]
pub struct Sweeper {
    rests: Rests,
    stepped_over: AtomicU64,
}

impl Sweeper {
    /// Sweeps in rounds, until [`Sweeper::end`]. An error is left to the next round: what it meets
    /// is told to clients that meet it, too.
    pub fn run(&self, store: &Store) {
        while self.rests.wait(ROUND) {
            let (mut from, mut stepped_over) = (Some(0), 0);
            while let Some(begin) = from
                && self.rests.rest(REST)
            {
                let swept = store.sweep(begin).unwrap_or_default();
                from = swept.next;
                stepped_over += swept.stepped_over;
            }
            self.stepped_over.store(stepped_over, Ordering::Relaxed);
        }
    }

    /// Damaged records that it has stepped over in its last round.
    pub fn stepped_over(&self) -> u64 {
        self.stepped_over.load(Ordering::Relaxed)
    }

    /// Begins a round soon, since a database was emptied.
    pub fn wake(&self) {
        self.rests.wake();
    }

    /// Ends [`Sweeper::run`].
    pub fn end(&self) {
        self.rests.end();
    }
}
