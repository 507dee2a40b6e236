//! Slowing writers down before they must be stopped.
//!
//! Pressure is how far background work has fallen behind: 0 below the point where it matters, 1
//! where writers must wait. In between, every written byte costs a pause that grows exponentially,
//! so writers settle at the speed that the background sustains, instead of running into a wall.

use std::time::Duration;

use cleavedb_base::sync::Mutex;
use cleavedb_base::sync::atomic::{AtomicU64, Ordering};

use crate::metrics::StallCause;

/// Pace at pressure just above 0 and just below 1, in bytes per second.
const FASTEST: f64 = 2e9;
const SLOWEST: f64 = 8e6;

/// Pauses shorter than this are saved up: a sleep is no more exact.
const PAUSE_MIN: Duration = Duration::from_millis(1);

/// How far behind the background is, and why.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Pressure {
    pub(crate) level: f64,
    pub(crate) cause: StallCause,
}

impl Pressure {
    /// Pressure of an `amount` that is fine up to `start` and unbearable at `stop`.
    pub(crate) fn of(cause: StallCause, amount: u64, start: u64, stop: u64) -> Self {
        let span = stop.saturating_sub(start).max(1) as f64;
        Self { level: amount.saturating_sub(start) as f64 / span, cause }
    }

    /// The greater one.
    pub(crate) fn max(self, other: Self) -> Self {
        if other.level > self.level { other } else { self }
    }
}

/// Turns pressure into pauses.
#[derive(Default)]
pub(crate) struct Throttle {
    /// Nanoseconds of pause per MiB written; 0 while there is no pressure. Readable without a lock.
    nanos_per_mib: AtomicU64,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    pressure: Option<Pressure>,
    owed: Duration,
}

impl Throttle {
    /// Sets the pressure, from the job that changed it.
    pub(crate) fn set(&self, pressure: Pressure) {
        let mut state = self.state.lock();
        let level = pressure.level.min(1.0);
        let pace = FASTEST * (SLOWEST / FASTEST).powf(level);
        let nanos = if level <= 0.0 { 0 } else { ((1 << 20) as f64 / pace * 1e9) as u64 };
        if nanos == 0 {
            state.owed = Duration::ZERO;
        }
        state.pressure = Some(pressure);
        self.nanos_per_mib.store(nanos, Ordering::Relaxed);
    }

    /// Sets the pressure, if it is greater than what was set.
    pub(crate) fn raise(&self, pressure: Pressure) {
        let lower = self.state.lock().pressure.is_none_or(|old| old.level < pressure.level);
        if lower && pressure.level > 0.0 {
            self.set(pressure);
        }
    }

    /// Whether nobody needs to slow down.
    #[inline]
    pub(crate) fn is_idle(&self) -> bool {
        self.nanos_per_mib.load(Ordering::Relaxed) == 0
    }

    /// The cause for which writers must wait now, if they must.
    pub(crate) fn stop(&self) -> Option<StallCause> {
        if self.nanos_per_mib.load(Ordering::Relaxed) == 0 {
            return None;
        }
        self.state.lock().pressure.filter(|p| p.level >= 1.0).map(|p| p.cause)
    }

    /// The pause that a writer of `bytes` owes now.
    #[inline]
    pub(crate) fn pause(&self, bytes: u64) -> Option<(StallCause, Duration)> {
        let nanos = self.nanos_per_mib.load(Ordering::Relaxed);
        if nanos == 0 {
            return None;
        }
        let mut state = self.state.lock();
        state.owed += Duration::from_nanos((bytes * nanos) >> 20);
        if state.owed < PAUSE_MIN {
            return None;
        }
        let cause = state.pressure?.cause;
        Some((cause, std::mem::take(&mut state.owed)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_with_pressure_and_end_with_it() {
        let throttle = Throttle::default();
        assert_eq!(throttle.pause(1 << 30), None);
        let mut last = Duration::ZERO;
        for amount in [11, 50, 90, 99] {
            throttle.set(Pressure::of(StallCause::Compaction, amount, 10, 100));
            let (cause, pause) = throttle.pause(64 << 20).unwrap();
            assert!(pause > last && cause == StallCause::Compaction, "{amount}: {pause:?}");
            assert_eq!(throttle.stop(), None);
            last = pause;
        }
        throttle.set(Pressure::of(StallCause::Space, 100, 10, 100));
        assert_eq!(throttle.stop(), Some(StallCause::Space));
        throttle.set(Pressure::of(StallCause::Space, 10, 10, 100));
        assert_eq!((throttle.stop(), throttle.pause(1 << 30)), (None, None));
    }
}
