//! Kinds of jobs, and their failures: a failed job is dropped and retried, after a pause that grows
//! with each failure.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use cleavedb_base::{Error, ErrorKind};

use crate::control::metrics::StallCause;

/// Pause after the first failure, and the longest one.
const PAUSE_MIN: Duration = Duration::from_millis(50);
const PAUSE_MAX: Duration = Duration::from_secs(10);

/// Longest pause after a failure for want of space, since freed space is not announced.
const FULL_PAUSE_MAX: Duration = Duration::from_secs(1);

/// Failures in a row after which a waiting writer gets the error, and an unreadable file counts as
/// damaged.
pub(crate) const TRIES: u64 = 3;

/// Whether a checker draws the schedule: time does not pass then, so a pause ends when work is
/// requested, and waiting writers get an error at once.
const TIMELESS: bool = cfg!(feature = "test-checked");

/// Kinds of background jobs, in the order in which they are picked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum JobKind {
    /// Write the oldest full MemTable to level 0.
    Flush,
    /// Create the next log file ahead.
    PreallocateLog,
    /// Merge or move tables.
    Compact,
    /// Collect value files.
    Collect,
    /// Remove dead files.
    Remove,
    /// Punch dead ranges of files.
    Punch,
}

impl JobKind {
    pub(crate) const ALL: [Self; 6] = [
        Self::Flush,
        Self::PreallocateLog,
        Self::Compact,
        Self::Collect,
        Self::Punch,
        Self::Remove,
    ];

    /// Jobs that writers wait for.
    pub(crate) const AWAITED: [Self; 3] = [Self::Flush, Self::Compact, Self::Collect];

    /// The job that a writer stopped for `cause` waits for.
    pub(crate) fn awaited(cause: StallCause) -> Self {
        match cause {
            StallCause::Flush => Self::Flush,
            StallCause::Compaction => Self::Compact,
            StallCause::Space => Self::Collect,
        }
    }

    /// Whether such a job skips files that it found to be damaged.
    pub(crate) fn leaves_damage_alone(self) -> bool {
        matches!(self, Self::Compact | Self::Collect)
    }

    /// Name in metrics and events.
    pub fn name(self) -> &'static str {
        match self {
            Self::Flush => "flush",
            Self::PreallocateLog => "log file ahead",
            Self::Compact => "compaction",
            Self::Collect => "collection",
            Self::Remove => "removal",
            Self::Punch => "punch",
        }
    }
}

/// The last failure of a kind of job that has not succeeded since.
#[derive(Clone)]
pub(crate) struct LastFailure {
    pub(crate) error: Error,
    /// Number of failures in a row.
    pub(crate) tries: u64,
    /// Times of the first and of the last failure of these.
    pub(crate) since: Instant,
    pub(crate) last: Instant,
    /// When the job is retried.
    again: Instant,
    /// Number of requests for work at the last failure.
    wakeups: u64,
}

impl LastFailure {
    /// Whether writers that wait for the job should get the error: waiting will not help.
    pub(crate) fn is_lasting(&self) -> bool {
        let at_once = matches!(self.error.kind(), ErrorKind::NoSpace | ErrorKind::Corruption);
        at_once || self.tries >= TRIES || TIMELESS
    }
}

/// Failures by kind of job.
#[derive(Default)]
pub(crate) struct Failures(BTreeMap<JobKind, LastFailure>);

impl Failures {
    /// Records that a job of `kind` has failed, after `wakeups` requests for work.
    pub(crate) fn failed(&mut self, kind: JobKind, error: &Error, wakeups: u64) {
        let now = Instant::now();
        let (tries, since) = match self.0.get(&kind) {
            Some(before) => (before.tries + 1, before.since),
            None => (1, now),
        };
        let longest = if error.kind() == ErrorKind::NoSpace { FULL_PAUSE_MAX } else { PAUSE_MAX };
        let pause = PAUSE_MIN.saturating_mul(1 << (tries - 1).min(16)).min(longest);
        let (error, again) = (error.clone(), now + pause);
        self.0.insert(kind, LastFailure { error, tries, since, last: now, again, wakeups });
    }

    /// Records that a job of `kind` has succeeded.
    pub(crate) fn succeeded(&mut self, kind: JobKind) {
        self.0.remove(&kind);
    }

    /// Ends all pauses: called when a user's call requests work.
    pub(crate) fn forgive(&mut self) {
        self.0.clear();
    }

    /// The last failure of jobs of `kind`.
    pub(crate) fn of(&self, kind: JobKind) -> Option<&LastFailure> {
        self.0.get(&kind)
    }

    /// The failures of jobs that must not be retried yet, after `wakeups` requests for work.
    pub(crate) fn pausing(&self, wakeups: u64) -> Vec<(JobKind, Error)> {
        let now = Instant::now();
        let waits = |failure: &LastFailure| match TIMELESS {
            true => failure.wakeups == wakeups,
            false => now < failure.again,
        };
        let pausing = self.0.iter().filter(|(_, failure)| waits(failure));
        pausing.map(|(kind, failure)| (*kind, failure.error.clone())).collect()
    }

    /// The last failures of all kinds that have failed.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (JobKind, &LastFailure)> {
        self.0.iter().map(|(kind, failure)| (*kind, failure))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_and_end_with_a_success() {
        let mut failures = Failures::default();
        let error = Error::new(ErrorKind::Io, "failed to read");
        let mut last = Duration::ZERO;
        for tries in 1..=20 {
            failures.failed(JobKind::Compact, &error, tries);
            let failure = failures.of(JobKind::Compact).unwrap();
            let pause = failure.again.saturating_duration_since(failure.since);
            assert!(pause >= last.min(PAUSE_MAX) && failure.tries == tries);
            assert_eq!(failure.is_lasting(), tries >= TRIES);
            last = pause;
        }
        assert!(last >= PAUSE_MAX && failures.pausing(20).len() == 1);
        failures.succeeded(JobKind::Flush);
        assert!(failures.of(JobKind::Compact).is_some(), "of another kind");
        failures.succeeded(JobKind::Compact);
        assert!(failures.of(JobKind::Compact).is_none() && failures.pausing(20).is_empty());
        failures.failed(JobKind::Flush, &Error::new(ErrorKind::NoSpace, "full"), 21);
        assert!(failures.of(JobKind::Flush).unwrap().is_lasting());
    }
}
