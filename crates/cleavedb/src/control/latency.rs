//! Latencies: how long operations take, in histograms that threads fill side by side.
//!
//! A database that does not ask for them pays a branch for each operation, and no memory. Each
//! thread has one of some shards for its own, mostly, so that its lock and its lines stay in the
//! cache of its processor. Of how many operations one is timed is a number; which one is drawn at
//! random, since a fixed step could meet the same operation of a loop each time.

use std::cell::Cell;
use std::fmt;
use std::time::{Duration, Instant};

use cleavedb_base::sync::Mutex;
use cleavedb_base::sync::real::{AtomicU64, Ordering};
use hdrhistogram::Histogram;

/// Shards of the histograms; threads beyond share them.
const SHARDS: u64 = 8;

/// Decimal digits kept of every time: a bucket is at most a hundredth wide.
const DIGITS: u8 = 2;

/// Longest time told apart, ten minutes in nanoseconds; a longer one counts as this.
const LONGEST: u64 = 600_000_000_000;

/// An operation whose latency is measured, as its caller sees it, whether or not it succeeds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Operation {
    /// A look-up of one key, with its value.
    Get,
    /// A look-up of several keys, all together.
    MultiGet,
    /// A write call with [`crate::Durability::Buffered`] or [`crate::Durability::Os`].
    Write,
    /// A write call with [`crate::Durability::Sync`].
    SyncedWrite,
    /// A search of a cursor for a key or an end.
    Seek,
    /// A step of a cursor or a range to the next key or the previous one, without the value.
    Next,
    /// A wait of a write call for background work; a part of the write. All are timed.
    Stall,
}

impl Operation {
    /// All operations.
    pub const ALL: [Self; 7] = [
        Self::Get,
        Self::MultiGet,
        Self::Write,
        Self::SyncedWrite,
        Self::Seek,
        Self::Next,
        Self::Stall,
    ];

    /// Name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::MultiGet => "multi_get",
            Self::Write => "write",
            Self::SyncedWrite => "synced_write",
            Self::Seek => "seek",
            Self::Next => "next",
            Self::Stall => "stall",
        }
    }
}

/// The latencies of one operation ([`crate::Options::latency_sampling`]).
#[derive(Clone)]
pub struct OperationLatency {
    /// The operation.
    pub operation: Operation,
    histogram: Histogram<u64>,
    /// The number of operations of which one was timed.
    period: u64,
}

impl OperationLatency {
    /// Operations: those that were timed, times the number of which one is timed.
    pub fn count(&self) -> u64 {
        self.histogram.len().saturating_mul(self.period)
    }

    /// The time that a part `quantile` of the operations took at most: 0.5 for the median. At
    /// most a hundredth too long.
    pub fn quantile(&self, quantile: f64) -> Duration {
        Duration::from_nanos(self.histogram.value_at_quantile(quantile))
    }

    /// The longest time that was measured.
    pub fn max(&self) -> Duration {
        Duration::from_nanos(self.histogram.max())
    }

    /// The mean time.
    pub fn mean(&self) -> Duration {
        Duration::from_nanos(self.histogram.mean() as u64)
    }

    /// Operations that took no longer than each of these times, which ascend.
    pub fn up_to(&self, bounds: &[Duration]) -> Vec<u64> {
        let mut counts = vec![0; bounds.len()];
        for recorded in self.histogram.iter_recorded() {
            let time = Duration::from_nanos(recorded.value_iterated_to());
            let first = bounds.partition_point(|bound| *bound < time);
            let count = recorded.count_at_value().saturating_mul(self.period);
            counts[first..].iter_mut().for_each(|upto| *upto += count);
        }
        counts
    }
}

impl fmt::Debug for OperationLatency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OperationLatency")
            .field("operation", &self.operation)
            .field("count", &self.count())
            .field("median", &self.quantile(0.5))
            .field("max", &self.max())
            .finish()
    }
}

/// A histogram of each operation, made by its first time.
type Histograms = [Option<Box<Histogram<u64>>>; Operation::ALL.len()];

#[derive(Default)]
#[repr(align(128))]
struct HistogramShard(Mutex<Histograms>);

/// The latencies of a database.
pub(crate) struct Latencies {
    /// The number of operations of which one is timed.
    period: u32,
    shards: [HistogramShard; SHARDS as usize],
}

/// Chooses the operations of a thread that are timed.
#[derive(Clone, Copy)]
struct Sampler {
    /// State of a generator of random numbers (xorshift), which no thread begins with 0; 0 before
    /// the first operation.
    random: u64,
    /// Operations until the next one that is timed.
    left: u64,
    shard: u64,
}

thread_local! {
    static OWN: Cell<Sampler> = const { Cell::new(Sampler { random: 0, left: 0, shard: 0 }) };
}

/// Threads that have measured.
static THREADS: AtomicU64 = AtomicU64::new(0);

/// Measures an operation from its making to its drop.
pub(crate) struct Timer<'a>(Option<(&'a Latencies, Operation, Instant)>);

impl<'a> Timer<'a> {
    /// Begins to measure, if `latencies` are measured, and if it is the turn of this operation.
    #[inline]
    pub(crate) fn of(latencies: &'a Option<Box<Latencies>>, operation: Operation) -> Self {
        let started = Latencies::started(latencies);
        Self(latencies.as_deref().zip(started).map(|(all, start)| (all, operation, start)))
    }
}

impl Drop for Timer<'_> {
    #[inline]
    fn drop(&mut self) {
        if let Some((latencies, operation, start)) = &self.0 {
            latencies.record(*operation, start.elapsed());
        }
    }
}

impl Latencies {
    /// Latencies of one operation of `period`; `None` if that is 0.
    pub(crate) fn new(period: u32) -> Option<Box<Self>> {
        (period > 0).then(|| Box::new(Self { period, shards: Default::default() }))
    }

    /// The time now, if `latencies` are measured, and if it is the turn of the operation that
    /// begins; it ends with [`Latencies::ended`].
    #[inline]
    pub(crate) fn started(latencies: &Option<Box<Self>>) -> Option<Instant> {
        let latencies = latencies.as_ref()?;
        latencies.is_next().then(Instant::now)
    }

    /// Records an operation that began at `start`, if it is one that is timed.
    #[inline]
    pub(crate) fn ended(
        latencies: &Option<Box<Self>>,
        operation: Operation,
        start: Option<Instant>,
    ) {
        if let (Some(start), Some(latencies)) = (start, latencies) {
            latencies.record(operation, start.elapsed());
        }
    }

    fn is_next(&self) -> bool {
        let mut own = own();
        let is_next = own.left == 0;
        if is_next {
            // Uniform from 0 to twice the period, so that the mean step is the period.
            own.random ^= own.random << 13;
            own.random ^= own.random >> 7;
            own.random ^= own.random << 17;
            own.left = (own.random >> 16) % (2 * u64::from(self.period) - 1);
        } else {
            own.left -= 1;
        }
        OWN.set(own);
        is_next
    }

    #[cold]
    fn record(&self, operation: Operation, took: Duration) {
        let nanos = u64::try_from(took.as_nanos()).unwrap_or(LONGEST).clamp(1, LONGEST);
        let mut histograms = self.shards[(own().shard % SHARDS) as usize].0.lock();
        let histogram = histograms[operation as usize].get_or_insert_with(|| Box::new(empty()));
        let recorded = histogram.record(nanos);
        debug_assert!(recorded.is_ok(), "a histogram grows as needed");
    }

    /// Records a stall, which is rare, so that each one is.
    pub(crate) fn stalled(latencies: &Option<Box<Self>>, took: Duration) {
        if let Some(latencies) = latencies {
            latencies.record(Operation::Stall, took);
        }
    }

    /// What was measured so far, of operations that occurred; forgotten then if `reset`.
    pub(crate) fn measured(&self, reset: bool) -> Vec<OperationLatency> {
        let mut sums: [Option<Histogram<u64>>; Operation::ALL.len()] = Default::default();
        for shard in &self.shards {
            let mut histograms = shard.0.lock();
            for (sum, histogram) in sums.iter_mut().zip(histograms.iter_mut()) {
                let Some(own) = histogram.as_deref() else { continue };
                let added = sum.get_or_insert_with(empty).add(own);
                debug_assert!(added.is_ok(), "a histogram grows as needed");
                if reset {
                    *histogram = None;
                }
            }
        }
        let measured = Operation::ALL.into_iter().zip(sums);
        measured
            .filter_map(|(operation, histogram)| {
                let all = operation == Operation::Stall;
                let period = if all { 1 } else { u64::from(self.period) };
                Some(OperationLatency { operation, histogram: histogram?, period })
            })
            .collect()
    }
}

/// The state of this thread, begun if it is new.
#[inline]
fn own() -> Sampler {
    let own = OWN.get();
    if own.random != 0 { own } else { begun() }
}

#[cold]
fn begun() -> Sampler {
    let shard = THREADS.fetch_add(1, Ordering::Relaxed);
    // Any odd number spreads the threads.
    let own =
        Sampler { random: (shard + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1, left: 0, shard };
    OWN.set(own);
    own
}

/// A histogram that grows with what it records: from some hundred bytes to 34 KiB.
fn empty() -> Histogram<u64> {
    Histogram::new(DIGITS).expect("the number of digits is a constant")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_of_all_threads_are_joined_and_quantiles_right() {
        let latencies = Latencies::new(1).unwrap();
        std::thread::scope(|scope| {
            for thread in 0..10u64 {
                let latencies = &latencies;
                scope.spawn(move || {
                    for micros in (thread + 1..=1000).step_by(10) {
                        latencies.record(Operation::Get, Duration::from_micros(micros));
                    }
                });
            }
        });
        latencies.record(Operation::Seek, Duration::from_secs(3600));
        let measured = latencies.measured(true);
        let [get, seek] = &measured[..] else { panic!("{measured:?}") };
        assert_eq!(
            (get.operation, get.count(), seek.operation),
            (Operation::Get, 1000, Operation::Seek)
        );
        for (part, micros) in [(0.5, 500.0), (0.9, 900.0), (0.99, 990.0), (0.999, 999.0)] {
            let error = get.quantile(part).as_secs_f64() * 1e6 / micros - 1.0;
            assert!((0.0..0.01).contains(&error), "{part}: {error}");
        }
        assert!(seek.max().as_secs().abs_diff(600) <= 6, "{seek:?}");
        assert!((get.mean().as_secs_f64() * 1e6 - 500.5).abs() < 5.0);
        let bounds = [100, 500, 2000].map(Duration::from_micros);
        let counts = get.up_to(&bounds);
        assert!(counts[0].abs_diff(100) <= 1 && counts[1].abs_diff(500) <= 4, "{counts:?}");
        assert_eq!(counts[2], 1000);
        assert!(latencies.measured(false).is_empty(), "they were taken");
    }

    #[test]
    fn one_of_as_many_as_was_asked_for_is_timed() {
        for period in [1, 2, 7, 100, u32::MAX] {
            let latencies = Latencies::new(period);
            let all = 200_000;
            // A loop of two operations.
            for _ in 0..all / 2 {
                drop(Timer::of(&latencies, Operation::Get));
                drop(Timer::of(&latencies, Operation::Write));
            }
            for measured in latencies.unwrap().measured(false) {
                let share = measured.count() as f64 / f64::from(all / 2);
                let few = period == u32::MAX;
                assert!(few || (0.8..1.2).contains(&share), "{period}: {share} of {measured:?}");
            }
        }
        assert!(Latencies::new(0).is_none());
    }
}
