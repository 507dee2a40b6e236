//! The thread that removes elements that no key has any more, a few at a time.

use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use super::Store;

/// How long the sweeper rests between two steps, and between two rounds.
const REST: Duration = Duration::from_millis(20);
const ROUND: Duration = Duration::from_secs(15 * 60);

/// When the sweeper works.
#[derive(Default)]
pub struct Sweeper {
    asked: Mutex<AskedSweeps>,
    wake: Condvar,
}

#[derive(Default)]
struct AskedSweeps {
    is_over: bool,
    /// Whether a database was emptied since the begin of the last round.
    is_wanted: bool,
}

impl Sweeper {
    /// Sweeps in rounds, until [`Sweeper::end`]. An error is left to the next round: what it meets
    /// is told to clients that meet it, too.
    pub fn run(&self, store: &Store) {
        while self.waits_for_round() {
            let mut from = Some(0);
            while let Some(begin) = from
                && self.rests()
            {
                from = store.sweep(begin).unwrap_or(None);
            }
        }
    }

    /// Begins a round soon.
    pub fn wake(&self) {
        self.asked.lock().is_wanted = true;
        self.wake.notify_one();
    }

    /// Waits for the next round; whether there is one.
    fn waits_for_round(&self) -> bool {
        let mut asked = self.asked.lock();
        let is_idle = |asked: &mut AskedSweeps| !asked.is_over && !asked.is_wanted;
        self.wake.wait_while_for(&mut asked, is_idle, ROUND);
        asked.is_wanted = false;
        !asked.is_over
    }

    /// Rests between two steps; whether the round goes on.
    fn rests(&self) -> bool {
        let mut asked = self.asked.lock();
        self.wake.wait_while_for(&mut asked, |asked| !asked.is_over, REST);
        !asked.is_over
    }

    /// Ends [`Sweeper::run`].
    pub fn end(&self) {
        self.asked.lock().is_over = true;
        self.wake.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    #[test]
    fn what_is_wanted_during_a_round_has_one_of_its_own() {
        let (sweeper, begun) = (Sweeper::default(), Instant::now());
        sweeper.wake();
        assert!(sweeper.waits_for_round());
        sweeper.wake();
        assert!(sweeper.rests() && sweeper.waits_for_round());
        sweeper.end();
        assert!(!sweeper.rests() && !sweeper.waits_for_round());
        assert!(begun.elapsed() < ROUND);
    }
}
