//! Slows writers down before they must be stopped.
//!
//! Two limits set the pace of writers, and the slower one counts. *Pressure* is how far background
//! work has fallen behind: 0 below the point where it matters, 1 where writers must wait; in
//! between the pace falls exponentially, so writers settle at the speed that the background
//! sustains. The *last MemTable* is filled no faster than the one before it is flushed, so that
//! writers are not blocked for the rest of a flush.
//!
//! Where values stay in the log, a flush makes all the log that its MemTable covers collectable at
//! once, and then its garbage counts. While there is much garbage, a MemTable covers less log
//! ([`Throttle::cover`]): otherwise one flush would take writers from full speed to a stop
//! (decision 0030).

use std::time::{Duration, Instant};

use cleavedb_base::sync::Mutex;
use cleavedb_base::sync::atomic::{AtomicU64, Ordering};

use crate::metrics::StallCause;

/// Pace at pressure just above 0 and just below 1, in bytes per second.
const FASTEST: f64 = 2e9;
const SLOWEST: f64 = 8e6;

/// Shorter pauses are accumulated: a sleep is not more precise.
const PAUSE_MIN: Duration = Duration::from_millis(1);

/// Longest pause of one call. The rest of a long batch's pause is left to the following calls.
const PAUSE_MAX: Duration = Duration::from_millis(20);

/// How far the background has fallen behind, and its cause.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Pressure {
    pub(crate) level: f64,
    pub(crate) cause: StallCause,
}

impl Pressure {
    /// Pressure of an `amount` that is acceptable up to `start` and not tolerated from `stop` on.
    pub(crate) fn of(cause: StallCause, amount: u64, start: u64, stop: u64) -> Self {
        let span = stop.saturating_sub(start).max(1) as f64;
        Self { level: amount.saturating_sub(start) as f64 / span, cause }
    }

    /// The greater one.
    pub(crate) fn max(self, other: Self) -> Self {
        if other.level > self.level { other } else { self }
    }
}

/// Turns the pace of writers into pauses.
pub(crate) struct Throttle {
    /// Most log that a MemTable may cover, in bytes.
    log_bytes_per_memtable_max: AtomicU64,
    /// Nanoseconds per MiB for writers; 0 while they are not slowed down. Readable without a lock.
    nanos_per_mib: AtomicU64,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    pressure: Option<Pressure>,
    /// Nanoseconds per MiB of log of recent flushes; 0 before the first one.
    flush_nanos: u64,
    /// Whether the last MemTable is being filled.
    fills_last: bool,
    /// What slows writers down.
    cause: Option<StallCause>,
    /// When the bytes written so far would be done at the set pace.
    until: Option<Instant>,
}

impl State {
    /// Nanoseconds per MiB by the pressure.
    fn pressed(&self) -> u64 {
        let level = self.pressure.map_or(0.0, |pressure| pressure.level.min(1.0));
        if level <= 0.0 {
            return 0;
        }
        let pace = FASTEST * (SLOWEST / FASTEST).powf(level);
        ((1 << 20) as f64 / pace * 1e9) as u64
    }
}

impl Default for Throttle {
    fn default() -> Self {
        Self {
            log_bytes_per_memtable_max: AtomicU64::new(u64::MAX),
            nanos_per_mib: AtomicU64::default(),
            state: Mutex::default(),
        }
    }
}

impl Throttle {
    /// Limits the log that a MemTable covers from now on, in bytes.
    pub(crate) fn cover(&self, log_bytes_per_memtable_max: u64) {
        self.log_bytes_per_memtable_max.store(log_bytes_per_memtable_max, Ordering::Relaxed);
    }

    /// Most log that a MemTable may cover, in bytes.
    pub(crate) fn log_bytes_per_memtable_max(&self) -> u64 {
        self.log_bytes_per_memtable_max.load(Ordering::Relaxed)
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        let mut state = self.state.lock();
        change(&mut state);
        let (pressed, filling) = (state.pressed(), u64::from(state.fills_last) * state.flush_nanos);
        let nanos = pressed.max(filling);
        state.cause = match nanos {
            0 => None,
            _ if pressed >= filling => state.pressure.map(|pressure| pressure.cause),
            _ => Some(StallCause::Flush),
        };
        if nanos == 0 {
            state.until = None;
        }
        self.nanos_per_mib.store(nanos, Ordering::Relaxed);
    }

    /// Sets the pressure, from the job that changed it.
    pub(crate) fn set(&self, pressure: Pressure) {
        self.change(|state| state.pressure = Some(pressure));
    }

    /// Sets the pressure, if it is greater than what was set.
    pub(crate) fn raise(&self, pressure: Pressure) {
        self.change(|state| {
            let lower = state.pressure.is_none_or(|old| old.level < pressure.level);
            if lower && pressure.level > 0.0 {
                state.pressure = Some(pressure);
            }
        });
    }

    /// Checks whether the last MemTable is being filled, while all others wait for their flush:
    /// under the lock, so that the latest check wins.
    pub(crate) fn fills_last(&self, fills_last: impl FnOnce() -> bool) {
        self.change(|state| state.fills_last = fills_last());
    }

    /// Records a flush of `bytes` of log; the pace is an average of the last few.
    pub(crate) fn flushed(&self, bytes: u64, took: Duration) {
        let nanos = (took.as_nanos() << 20) / u128::from(bytes.max(1));
        let nanos = u64::try_from(nanos).unwrap_or(u64::MAX);
        self.change(|state| {
            let before = if state.flush_nanos == 0 { nanos } else { state.flush_nanos };
            state.flush_nanos = before / 2 + nanos / 2;
        });
    }

    /// Whether writers are not slowed down.
    #[inline]
    pub(crate) fn is_idle(&self) -> bool {
        self.nanos_per_mib.load(Ordering::Relaxed) == 0
    }

    /// The cause for which writers must wait now, if they must.
    pub(crate) fn stop(&self) -> Option<StallCause> {
        if self.is_idle() {
            return None;
        }
        self.state.lock().pressure.filter(|p| p.level >= 1.0).map(|p| p.cause)
    }

    /// The pause that a writer of `bytes` owes at the moment `now`.
    pub(crate) fn pause(&self, bytes: u64, now: Instant) -> Option<(StallCause, Duration)> {
        let mut state = self.state.lock();
        let cause = state.cause?;
        let nanos = u128::from(self.nanos_per_mib.load(Ordering::Relaxed));
        let cost = u64::try_from((u128::from(bytes) * nanos) >> 20).unwrap_or(u64::MAX);
        let before = state.until.map_or(now, |until| until.max(now));
        let until = before.checked_add(Duration::from_nanos(cost)).unwrap_or(before);
        state.until = Some(until);
        let pause = until - now;
        (pause >= PAUSE_MIN).then_some((cause, pause.min(PAUSE_MAX)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_with_pressure_and_end_with_it() {
        let now = Instant::now();
        assert_eq!(Throttle::default().pause(1 << 30, now), None);
        let mut last = 0;
        for amount in [11, 50, 90, 99] {
            let throttle = Throttle::default();
            throttle.set(Pressure::of(StallCause::Compaction, amount, 10, 100));
            // The pauses of many writes, with the sleeping time of each.
            let (mut now, mut pauses) = (now, Duration::ZERO);
            for _ in 0..64 {
                while let Some((cause, pause)) = throttle.pause(64 << 10, now) {
                    assert!(cause == StallCause::Compaction && pause <= PAUSE_MAX);
                    pauses += pause;
                    now += pause;
                    if pause < PAUSE_MAX {
                        break;
                    }
                }
            }
            assert!(pauses.as_nanos() > last, "{amount}: {pauses:?}");
            assert_eq!(throttle.stop(), None);
            last = pauses.as_nanos();
            throttle.set(Pressure::of(StallCause::Space, 100, 10, 100));
            assert_eq!(throttle.stop(), Some(StallCause::Space));
            throttle.set(Pressure::of(StallCause::Space, 10, 10, 100));
            assert_eq!((throttle.stop(), throttle.pause(1 << 30, now)), (None, None));
        }
    }

    #[test]
    fn the_last_memtable_is_filled_at_the_pace_of_flushes() {
        let (throttle, start) = (Throttle::default(), Instant::now());
        throttle.fills_last(|| true);
        assert_eq!(throttle.pause(1 << 20, start), None, "nothing was flushed yet");
        throttle.flushed(64 << 20, Duration::from_millis(640));
        let mut now = start;
        for _ in 0..1000 {
            if let Some((cause, pause)) = throttle.pause(1 << 14, now) {
                assert_eq!(cause, StallCause::Flush);
                now += pause;
            }
        }
        let (wanted, took) = (Duration::from_micros(156_250), now - start);
        assert!(took.abs_diff(wanted) < 2 * PAUSE_MIN, "16,000 KiB in {took:?}");
        throttle.fills_last(|| false);
        assert!(throttle.is_idle() && throttle.pause(1 << 20, now).is_none());
    }
}
