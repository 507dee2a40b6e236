//! Clock: the time in which modelled devices work.
//!
//! Virtual time passes only while a caller waits for a device: it can be read, and it is the same
//! in every run, but callers on several threads would wait one after another. Real time passes by
//! itself, and a caller that waits for a device sleeps.

use std::cell::Cell;
use std::sync::Arc;
use std::time::{Duration, Instant};

use cleavedb_base::sync::atomic::{AtomicU64, Ordering};
use cleavedb_base::sync::thread;

/// Waits shorter than this are saved up: a sleep is no more exact.
const SLEEP_MIN: i64 = 100_000;

/// Most nanoseconds that a sleep which was too long is allowed to shorten later ones.
const CREDIT_MAX: i64 = 1_000_000;

thread_local! {
    /// Nanoseconds that this thread has still to sleep; less than nothing if it slept too long.
    static OWED: Cell<i64> = const { Cell::new(0) };
}

#[derive(Debug)]
enum Source {
    /// Nanoseconds that have passed.
    Virtual(AtomicU64),
    /// When it began, and how many times faster than the real one it runs.
    Real { begun: Instant, speed: f64 },
}

/// A clock that devices share; clones show the same time.
#[derive(Clone, Debug)]
pub struct Clock(Arc<Source>);

impl Clock {
    /// Time that passes only by waiting, for one thread.
    pub fn virtual_time() -> Self {
        Self(Arc::new(Source::Virtual(AtomicU64::new(0))))
    }

    /// Real time, `speed` times as fast: at 10 a device takes a tenth of its time.
    ///
    /// # Panics
    /// If `speed` is not a finite number above 0.
    pub fn real_time(speed: f64) -> Self {
        assert!(speed.is_finite() && speed > 0.0, "a speed of {speed}");
        Self(Arc::new(Source::Real { begun: Instant::now(), speed }))
    }

    /// Time since the clock was made.
    pub fn now(&self) -> Duration {
        Duration::from_nanos(self.nanos())
    }

    /// As [`Clock::now`], in nanoseconds. A thread that owes sleep is ahead of the real time.
    pub(super) fn nanos(&self) -> u64 {
        match &*self.0 {
            Source::Virtual(now) => now.load(Ordering::Relaxed),
            Source::Real { begun, speed } => {
                let real = begun.elapsed().as_nanos() as i64 + OWED.get();
                (real.max(0) as f64 * speed) as u64
            }
        }
    }

    /// Returns when the time is `until`; at once if it is later.
    pub(super) fn wait_until(&self, until: u64) {
        match &*self.0 {
            Source::Virtual(now) => _ = now.fetch_max(until, Ordering::Relaxed),
            Source::Real { begun, speed } => {
                let until = (until as f64 / speed) as i64;
                let missing = || until - begun.elapsed().as_nanos() as i64;
                let owed = missing();
                if owed <= OWED.get() {
                    return;
                }
                OWED.set(owed);
                if owed >= SLEEP_MIN {
                    thread::sleep(Duration::from_nanos(owed as u64));
                    OWED.set(missing().max(-CREDIT_MAX));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn virtual_time_passes_by_waiting_only() {
        let clock = Clock::virtual_time();
        assert_eq!(clock.now(), Duration::ZERO);
        clock.wait_until(500);
        clock.wait_until(200);
        assert_eq!(clock.clone().now(), Duration::from_nanos(500));
    }

    #[test]
    fn real_waits_last_as_long_as_they_should_and_a_faster_clock_waits_less() {
        for speed in [1.0, 10.0] {
            let clock = Clock::real_time(speed);
            let begun = Instant::now();
            // Each alone is too short to sleep for.
            for step in 1..=300 {
                clock.wait_until(step * 50_000);
            }
            let least = Duration::from_micros(15_000).div_f64(speed);
            let saved_up = Duration::from_nanos((SLEEP_MIN + CREDIT_MAX) as u64);
            assert!(begun.elapsed() + saved_up >= least, "{:?} at {speed}", begun.elapsed());
        }
    }
}
