//! The thread that removes elements that no key has any more, a few at a time.

use std::time::Duration;

use super::Store;
use super::rests::Rests;

/// How long the sweeper rests between two steps, and between two rounds.
const REST: Duration = Duration::from_millis(20);
const ROUND: Duration = Duration::from_secs(15 * 60);

/// When the sweeper works.
#[derive(Default)]
pub struct Sweeper(Rests);

impl Sweeper {
    /// Sweeps in rounds, until [`Sweeper::end`]. An error is left to the next round: what it meets
    /// is told to clients that meet it, too.
    pub fn run(&self, store: &Store) {
        while self.0.wait(ROUND) {
            let mut from = Some(0);
            while let Some(begin) = from
                && self.0.rest(REST)
            {
                from = store.sweep(begin).unwrap_or(None);
            }
        }
    }

    /// Begins a round soon, since a database was emptied.
    pub fn wake(&self) {
        self.0.wake();
    }

    /// Ends [`Sweeper::run`].
    pub fn end(&self) {
        self.0.end();
    }
}
