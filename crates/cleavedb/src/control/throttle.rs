//! Slows writers down before they must be stopped.
//!
//! Two limits set the pace of writers, and the slower one counts. *Pressure* is how far background
//! work has fallen behind: 0 below the point where it matters, 1 where writers must wait; in
//! between the pace falls exponentially, so writers settle at the speed that the background
//! sustains. It rises with each write by what the last flushes made of a byte of log: otherwise one
//! flush of small values would take writers from half speed to a stop of seconds. The *last
//! MemTable* is filled no faster than the one before it is flushed, so that writers are not blocked
//! for the rest of a flush.
//!
//! Where values stay in the log, a flush makes all the log that its MemTable covers collectable at
//! once, and then its garbage counts. While there is much garbage, a MemTable covers less log
//! ([`Throttle::cover`]): otherwise one flush would take writers from full speed to a stop
//! (decision 0059).

use std::time::{Duration, Instant};

use cleavedb_base::sync::Mutex;
use cleavedb_base::sync::atomic::{AtomicU64, Ordering};

use crate::control::metrics::StallCause;

/// Pace at pressure just above 0 and just below 1, in bytes per second.
const FASTEST: f64 = 2e9;
const SLOWEST: f64 = 4e6;

/// What a MiB of log is taken to need in a flush before the first one has ended, in nanoseconds.
const FIRST_FLUSH: u64 = 10_000_000;

/// Length of log up to which flushes are taken to need as long as one of this length, in bytes.
const SHORT_FLUSH: u64 = 4 << 20;

/// Shorter pauses are accumulated: a sleep is not more precise.
const PAUSE_MIN: Duration = Duration::from_millis(1);

/// Longest pause of one call. The rest of a long batch's pause is left to the following calls.
const PAUSE_MAX: Duration = Duration::from_millis(20);

/// The strongest slow-down of writers that are not stopped.
pub(crate) const SLOWED: f64 = 0.99;

/// How far the background has fallen behind, and its cause.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Pressure {
    pub(crate) level: f64,
    /// By how much a byte of log raises the level when it is flushed.
    rise: f64,
    pub(crate) cause: StallCause,
}

/// What a flush has made of its log, in bytes; or what flushes make of a byte, on average.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Growth {
    /// Written to level 0.
    pub(crate) level0: f64,
    /// Values that have become garbage, by estimate.
    pub(crate) garbage: f64,
    /// Log that writers have written meanwhile.
    pub(crate) meanwhile: f64,
}

impl Pressure {
    /// Pressure of an `amount` that is acceptable up to `start` and not tolerated from `stop` on.
    pub(crate) fn of(cause: StallCause, amount: u64, start: u64, stop: u64) -> Self {
        Self::growing(cause, amount, start, stop, 0.0)
    }

    /// Pressure, as [`Self::of`] has it, of an amount to which a flush adds `growth` bytes for each
    /// byte of log.
    pub(crate) fn growing(
        cause: StallCause,
        amount: u64,
        start: u64,
        stop: u64,
        growth: f64,
    ) -> Self {
        let span = stop.saturating_sub(start).max(1) as f64;
        Self { level: amount.saturating_sub(start) as f64 / span, rise: growth / span, cause }
    }

    /// The level that is expected when `unflushed` bytes of log are flushed. It stops no writer,
    /// since nothing that could end the stop may be under way yet.
    fn expected(self, unflushed: u64) -> f64 {
        let expected = (self.level + self.rise * unflushed as f64).min(SLOWED);
        if self.level > 0.0 { expected.max(self.level.min(1.0)) } else { 0.0 }
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
    state: Mutex<Slowdown>,
}

#[derive(Default)]
struct Slowdown {
    pressure: Option<Pressure>,
    /// What the last flushes made of a byte of log.
    growth: Growth,
    /// Bytes of log that no flush covers yet; those that came while writers were not slowed down
    /// count from the next flush on.
    unflushed: u64,
    /// Nanoseconds per MiB of log of recent flushes.
    flush_nanos: Option<u64>,
    /// Whether the last MemTable is being filled.
    fills_last: bool,
    /// What slows writers down.
    cause: Option<StallCause>,
    /// When the bytes written so far would be done at the set pace.
    until: Option<Instant>,
}

impl Slowdown {
    /// Computes what slows writers down, and returns the nanoseconds per MiB.
    fn update(&mut self) -> u64 {
        let (pressed, filling) = (self.pressed(), self.filling());
        let nanos = pressed.max(filling);
        self.cause = match nanos {
            0 => None,
            _ if pressed >= filling => self.pressure.map(|pressure| pressure.cause),
            _ => Some(StallCause::Flush),
        };
        nanos
    }

    /// Nanoseconds per MiB by the flush for which the last MemTable waits.
    fn filling(&self) -> u64 {
        if self.fills_last { self.flush_nanos.unwrap_or(FIRST_FLUSH) } else { 0 }
    }

    /// Nanoseconds per MiB by the pressure.
    fn pressed(&self) -> u64 {
        let level = self.pressure.map_or(0.0, |pressure| pressure.expected(self.unflushed));
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
    /// A throttle for MemTables that cover at most this number of bytes of log at first, if one is
    /// given.
    pub(crate) fn covering(log_bytes_per_memtable_max: Option<u64>) -> Self {
        let throttle = Self::default();
        log_bytes_per_memtable_max.into_iter().for_each(|most| throttle.cover(most));
        throttle
    }

    /// Limits the log that a MemTable covers from now on, in bytes.
    pub(crate) fn cover(&self, log_bytes_per_memtable_max: u64) {
        self.log_bytes_per_memtable_max.store(log_bytes_per_memtable_max, Ordering::Relaxed);
    }

    /// Most log that a MemTable may cover, in bytes.
    pub(crate) fn log_bytes_per_memtable_max(&self) -> u64 {
        self.log_bytes_per_memtable_max.load(Ordering::Relaxed)
    }

    fn change(&self, change: impl FnOnce(&mut Slowdown)) {
        let mut state = self.state.lock();
        change(&mut state);
        let nanos = state.update();
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

    /// Records what a flush has made of `bytes` of log, behind which others are unflushed.
    pub(crate) fn flushed(&self, bytes: u64, made: Growth) {
        let average = |before: f64, made: f64| before / 2.0 + made / bytes.max(1) as f64 / 2.0;
        self.change(|state| {
            state.growth.level0 = average(state.growth.level0, made.level0);
            state.growth.garbage = average(state.growth.garbage, made.garbage);
            state.growth.meanwhile = average(state.growth.meanwhile, made.meanwhile);
            state.unflushed = made.meanwhile as u64;
        });
    }

    /// What the last flushes made of a byte of log.
    pub(crate) fn growth(&self) -> Growth {
        self.state.lock().growth
    }

    /// Records how long a flush of `bytes` of log took; the pace is an average of the last few. A
    /// short flush takes the time of its syncs, which says nothing of longer ones.
    pub(crate) fn flush_took(&self, bytes: u64, took: Duration) {
        let nanos = (took.as_nanos() << 20) / u128::from(bytes.max(SHORT_FLUSH));
        let nanos = u64::try_from(nanos).unwrap_or(u64::MAX);
        self.change(|state| {
            let before = state.flush_nanos.unwrap_or(nanos);
            state.flush_nanos = Some(before / 2 + nanos / 2);
        });
    }

    /// Whether writers are not slowed down.
    #[inline]
    pub(crate) fn is_idle(&self) -> bool {
        self.nanos_per_mib.load(Ordering::Relaxed) == 0
    }

    /// The pace to which writers are slowed down, in bytes per second, and what they would wait
    /// for, if they are.
    pub(crate) fn pace(&self) -> Option<(u64, StallCause)> {
        let nanos = self.nanos_per_mib.load(Ordering::Relaxed);
        let pace = (1_000_000_000u64 << 20).checked_div(nanos)?;
        Some((pace, self.state.lock().cause?))
    }

    /// The cause for which writers must wait now, if they must.
    pub(crate) fn stop(&self) -> Option<StallCause> {
        if self.is_idle() {
            return None;
        }
        self.state.lock().pressure.filter(|p| p.level >= 1.0).map(|p| p.cause)
    }

    /// Whether a pause that earlier writers owe is not over at the moment `now`.
    pub(crate) fn is_owed(&self, now: Instant) -> bool {
        self.state
            .lock()
            .until
            .is_some_and(|until| until.saturating_duration_since(now) >= PAUSE_MIN)
    }

    /// The pause that a writer of `bytes` owes at the moment `now`.
    pub(crate) fn pause(&self, bytes: u64, now: Instant) -> Option<(StallCause, Duration)> {
        let mut state = self.state.lock();
        state.unflushed += bytes;
        let nanos = state.update();
        let cause = state.cause?;
        self.nanos_per_mib.store(nanos, Ordering::Relaxed);
        let nanos = u128::from(nanos);
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
            let slowed = throttle.pace();
            assert!(slowed.is_some_and(|(pace, cause)| {
                pace >= SLOWEST as u64 && cause == StallCause::Compaction
            }));
            last = pauses.as_nanos();
            throttle.set(Pressure::of(StallCause::Space, 100, 10, 100));
            assert_eq!(throttle.stop(), Some(StallCause::Space));
            throttle.set(Pressure::of(StallCause::Space, 10, 10, 100));
            assert_eq!((throttle.stop(), throttle.pause(1 << 30, now)), (None, None));
            assert_eq!(throttle.pace(), None);
        }
    }

    #[test]
    fn a_pause_is_owed_until_it_is_over() {
        let (throttle, now) = (Throttle::default(), Instant::now());
        assert!(!throttle.is_owed(now));
        throttle.set(Pressure::of(StallCause::Compaction, 99, 10, 100));
        assert!(!throttle.is_owed(now), "nothing was written yet");
        let (_, pause) = throttle.pause(64 << 10, now).unwrap();
        assert!(throttle.is_owed(now) && !throttle.is_owed(now + pause));
        throttle.pause(1 << 30, now);
        throttle.set(Pressure::of(StallCause::Compaction, 0, 10, 100));
        assert!(!throttle.is_owed(now), "writers are slowed down no more");
    }

    #[test]
    fn pressure_rises_with_what_is_written_between_two_flushes() {
        let now = Instant::now();
        let throttle = Throttle::default();
        let made = Growth { level0: (48 << 20) as f64, ..Growth::default() };
        for _ in 0..20 {
            throttle.flushed(64 << 20, made);
        }
        let growth = throttle.growth().level0;
        assert!((growth - 0.75).abs() < 1e-3, "{growth}");
        let level0 = |mib: u64| {
            Pressure::growing(StallCause::Compaction, mib << 20, 128 << 20, 256 << 20, growth)
        };
        // The pace falls as if what is written had reached level 0, but never to 0.
        let nanos = || throttle.nanos_per_mib.load(Ordering::Relaxed);
        throttle.set(level0(160));
        let begun = nanos();
        throttle.pause(64 << 20, now);
        let expected = nanos();
        throttle.pause(1 << 30, now);
        let (most, stop) = (nanos(), throttle.stop());
        throttle.flushed(64 << 20, made);
        throttle.set(level0(208));
        let differs = expected.abs_diff(nanos());
        // What came during the flush is expected as well.
        throttle.flushed(64 << 20, Growth { meanwhile: (64 << 20) as f64, ..made });
        throttle.set(level0(160));
        assert!(nanos().abs_diff(expected) < expected / 1000);
        assert!(begun < expected && differs < expected / 1000, "{differs} of {expected}");
        assert!(expected < most && stop.is_none());
        throttle.set(level0(256));
        assert!(throttle.stop().is_some() && nanos() > most);
        throttle.set(level0(128));
        assert!(throttle.is_idle());
    }

    #[test]
    fn the_last_memtable_is_filled_at_the_pace_of_flushes() {
        let (throttle, start) = (Throttle::default(), Instant::now());
        throttle.fills_last(|| true);
        let first = Some((StallCause::Flush, Duration::from_nanos(FIRST_FLUSH)));
        assert_eq!(throttle.pause(1 << 20, start), first, "nothing was flushed yet");
        let start = start + Duration::from_nanos(FIRST_FLUSH);
        throttle.flush_took(64 << 20, Duration::from_millis(640));
        throttle.flush_took(1000, Duration::from_millis(40));
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
