//! How a thread rests between two steps of its work, until it is woken, or ended.

use std::time::Duration;

use parking_lot::{Condvar, Mutex};

/// When a thread works.
#[derive(Default)]
pub(super) struct Rests {
    asked: Mutex<Asked>,
    bell: Condvar,
}

#[derive(Default)]
struct Asked {
    is_over: bool,
    /// Whether work is wanted, since it was last begun.
    is_wanted: bool,
}

impl Rests {
    /// Has the thread work soon.
    pub(super) fn wake(&self) {
        self.asked.lock().is_wanted = true;
        self.bell.notify_one();
    }

    /// Waits until work is wanted, or for some time; whether there is any.
    pub(super) fn wait(&self, time: Duration) -> bool {
        let mut asked = self.asked.lock();
        let is_idle = |asked: &mut Asked| !asked.is_over && !asked.is_wanted;
        self.bell.wait_while_for(&mut asked, is_idle, time);
        asked.is_wanted = false;
        !asked.is_over
    }

    /// Rests between two steps of work; whether it goes on.
    pub(super) fn rest(&self, time: Duration) -> bool {
        let mut asked = self.asked.lock();
        self.bell.wait_while_for(&mut asked, |asked| !asked.is_over, time);
        !asked.is_over
    }

    /// Ends the work.
    pub(super) fn end(&self) {
        self.asked.lock().is_over = true;
        self.bell.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    #[test]
    fn what_is_wanted_during_a_round_has_one_of_its_own() {
        let (rests, begun, long) = (Rests::default(), Instant::now(), Duration::from_secs(600));
        rests.wake();
        assert!(rests.wait(long));
        rests.wake();
        assert!(rests.rest(Duration::from_millis(1)) && rests.wait(long));
        rests.end();
        assert!(!rests.rest(long) && !rests.wait(long));
        assert!(begun.elapsed() < long);
    }
}
