//! How often commands were called, and how long they took: sums and buckets, by worker.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::command::table::{COMMANDS, CommandRow};

/// Buckets of times: eight for each doubling, from 64 nanoseconds to a minute.
const BUCKETS: usize = 232;
const UNIT_NANOS: u64 = 64;
const PARTS_BITS: u32 = 3;
const PARTS: u64 = 1 << PARTS_BITS;

/// The bucket of a time.
fn bucket(time: Duration) -> usize {
    let units = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX) / UNIT_NANOS;
    let shift = units.max(PARTS).ilog2() - PARTS_BITS;
    let bucket = u64::from(shift) * PARTS + (units >> shift);
    (bucket as usize).min(BUCKETS - 1)
}

/// The time that no call in a bucket reached.
fn bound(bucket: usize) -> Duration {
    let bucket = bucket as u64;
    let shift = (bucket / PARTS).saturating_sub(1);
    Duration::from_nanos(((bucket - shift * PARTS + 1) << shift) * UNIT_NANOS)
}

/// How a call ended in an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallError {
    /// While it ran.
    Failed,
    /// Before it ran.
    Rejected,
}

/// The calls of one command by one worker.
struct CommandTimes {
    nanos: AtomicU64,
    failed: AtomicU64,
    rejected: AtomicU64,
    buckets: [AtomicU64; BUCKETS],
}

/// The calls by one worker, by the row of their command.
pub struct WorkerTimes {
    commands: Vec<OnceLock<Box<CommandTimes>>>,
}

impl Default for WorkerTimes {
    fn default() -> Self {
        Self { commands: COMMANDS.iter().map(|_| OnceLock::new()).collect() }
    }
}

impl WorkerTimes {
    /// Counts `calls` of a command, which ended together `time` after their begin, of which they
    /// took `part`.
    pub fn add(&self, command: &CommandRow, calls: u64, time: Duration, part: Duration) {
        let Some(times) = self.of(command) else { return };
        times.nanos.fetch_add(part.as_nanos() as u64, Ordering::Relaxed);
        times.buckets[bucket(time)].fetch_add(calls, Ordering::Relaxed);
    }

    /// Counts a call whose reply was an error; one that ran is counted by [`Self::add`] as well.
    pub fn add_error(&self, command: &CommandRow, error: CallError) {
        let Some(times) = self.of(command) else { return };
        match error {
            CallError::Failed => &times.failed,
            CallError::Rejected => &times.rejected,
        }
        .fetch_add(1, Ordering::Relaxed);
    }

    fn of(&self, command: &CommandRow) -> Option<&CommandTimes> {
        let times = self.commands.get(COMMANDS.element_offset(command)?)?;
        Some(times.get_or_init(|| {
            let [nanos, failed, rejected] = [const { AtomicU64::new(0) }; 3];
            let buckets = [const { AtomicU64::new(0) }; BUCKETS];
            Box::new(CommandTimes { nanos, failed, rejected, buckets })
        }))
    }

    /// Forgets all calls.
    pub fn reset(&self) {
        for CommandTimes { nanos, failed, rejected, buckets } in
            self.commands.iter().filter_map(OnceLock::get).map(|times| &**times)
        {
            let counts = [nanos, failed, rejected].into_iter().chain(buckets);
            counts.for_each(|count| count.store(0, Ordering::Relaxed));
        }
    }

    /// Adds what it has counted to `sums`, which has a place for each row.
    pub fn add_to(&self, sums: &mut [CallSums]) {
        for (times, sum) in self.commands.iter().zip(sums) {
            let Some(times) = times.get() else { continue };
            let count = |count: &AtomicU64| count.load(Ordering::Relaxed);
            sum.time += Duration::from_nanos(count(&times.nanos));
            sum.failed += count(&times.failed);
            sum.rejected += count(&times.rejected);
            sum.buckets.resize(BUCKETS, 0);
            sum.buckets.iter_mut().zip(&times.buckets).for_each(|(sum, of)| *sum += count(of));
        }
    }
}

/// Calls, of one command or of several.
#[derive(Clone, Debug, Default)]
pub struct CallSums {
    /// The time that they took.
    pub time: Duration,
    /// Calls that ran and ended with an error.
    pub failed: u64,
    /// Calls that were refused before they ran.
    pub rejected: u64,
    /// How many ended in each bucket of times; none before the first one.
    buckets: Vec<u64>,
}

impl CallSums {
    /// Number of calls that ran.
    pub fn calls(&self) -> u64 {
        self.buckets.iter().sum()
    }

    /// How many calls ended within each doubled time, in microseconds as Redis rounds them, where
    /// that are more than within the time before.
    pub fn doublings(&self) -> Vec<(u64, u64)> {
        let mut found: Vec<(u64, u64)> = Vec::new();
        for nanos in (0..).map(|shift| 1024_u64 << shift) {
            let end = bucket(Duration::from_nanos(nanos));
            let calls = self.buckets.iter().take(end).sum();
            if found.last().map_or(0, |(_, calls)| *calls) < calls {
                found.push(((nanos + nanos / 128 - 1) / 1000, calls));
            }
            if end == BUCKETS - 1 {
                break;
            }
        }
        found
    }

    /// Adds other calls.
    pub fn add(&mut self, other: &Self) {
        self.time += other.time;
        self.failed += other.failed;
        self.rejected += other.rejected;
        self.buckets.resize(self.buckets.len().max(other.buckets.len()), 0);
        self.buckets.iter_mut().zip(&other.buckets).for_each(|(sum, of)| *sum += of);
    }

    /// The calls since `before`, which were counted then; all, if they were forgotten meanwhile.
    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        let old = |at: usize| before.buckets.get(at).copied().unwrap_or(0);
        if self.buckets.iter().enumerate().any(|(at, count)| *count < old(at)) {
            return self.clone();
        }
        let buckets = self.buckets.iter().enumerate().map(|(at, count)| count - old(at));
        Self {
            time: self.time.saturating_sub(before.time),
            failed: self.failed.saturating_sub(before.failed),
            rejected: self.rejected.saturating_sub(before.rejected),
            buckets: buckets.collect(),
        }
    }

    /// The time within which a part of the calls ended, rounded up by at most an eighth; none
    /// without calls.
    pub fn quantile(&self, part: f64) -> Option<Duration> {
        let wanted = ((self.calls() as f64 * part).ceil() as u64).max(1);
        let sums = self.buckets.iter().scan(0, |sum, count| {
            *sum += count;
            Some(*sum)
        });
        let found = sums.enumerate().find(|(_, sum)| *sum >= wanted);
        found.map(|(at, _)| bound(at))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::table::named;

    #[test]
    fn a_time_lies_in_its_bucket_and_less_than_an_eighth_below_its_bound() {
        let times = (0..36).flat_map(|bit| [1 << bit, (1 << bit) + 1, (3 << bit) - 1]);
        for nanos in times.filter(|nanos| *nanos < 60_000_000_000) {
            let (time, at) = (Duration::from_nanos(nanos), bucket(Duration::from_nanos(nanos)));
            let above = bound(at).as_nanos() as u64 - nanos;
            assert!(time < bound(at) && above <= (nanos / 8).max(UNIT_NANOS), "{nanos}");
            assert!(at == 0 || bound(at - 1) <= time, "{nanos}");
        }
        assert_eq!(bucket(Duration::MAX), BUCKETS - 1);
    }

    #[test]
    fn quantiles_are_those_of_the_calls_between_two_looks() {
        let (times, get) = (WorkerTimes::default(), named(b"get").unwrap());
        let sums = || {
            let mut sums = vec![CallSums::default(); COMMANDS.len()];
            times.add_to(&mut sums);
            sums.swap_remove(COMMANDS.element_offset(get).unwrap())
        };
        assert_eq!((sums().calls(), sums().quantile(0.5)), (0, None));
        let add = |calls, micros| {
            let time = Duration::from_micros(micros);
            times.add(get, calls, time, time * calls as u32);
        };
        add(10, 1_000_000);
        times.add_error(get, CallError::Failed);
        let before = sums();
        add(98, 10);
        add(2, 5_000);
        let sums = sums().since(&before);
        assert_eq!((sums.calls(), sums.failed), (100, 0));
        assert_eq!(sums.time, Duration::from_micros(98 * 10 + 2 * 5_000));
        let within = |part, micros: u64| {
            let nanos = sums.quantile(part).unwrap().as_nanos() as u64;
            (micros * 1000..=micros * 1125).contains(&nanos)
        };
        assert!(within(0.5, 10) && within(0.98, 10) && within(0.99, 5_000) && within(1.0, 5_000));
        times.reset();
        let after = || {
            let mut sums = vec![CallSums::default(); COMMANDS.len()];
            times.add_to(&mut sums);
            sums.swap_remove(COMMANDS.element_offset(get).unwrap())
        };
        assert_eq!(after().since(&before).calls(), 0);
    }
}
