//! Kinds of jobs, and what failed of each: a job that fails is dropped and tried again, after a
//! pause that grows with each failure.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use cleavedb_base::{Error, ErrorKind};

use crate::metrics::StallCause;

/// Pause after the first failure, and the longest one.
const PAUSE_MIN: Duration = Duration::from_millis(50);
const PAUSE_MAX: Duration = Duration::from_secs(10);

/// Longest pause after a failure for want of space: whoever makes room tells nobody.
const FULL_PAUSE_MAX: Duration = Duration::from_secs(1);

/// Failures in a row after which a writer that waits for the job is told, and a file that cannot be
/// read counts as damaged.
pub(crate) const TRIES: u64 = 3;

/// Whether a checker draws the schedule: time does not pass then, so a pause ends when somebody
/// asks for work, and who waits is told at once.
const TIMELESS: bool = cfg!(feature = "checked");

/// Kinds of jobs, in the order in which they are picked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum JobKind {
    /// Write the oldest full MemTable to level 0.
    Flush,
    /// Create the next log file ahead.
    PreallocateLog,
    /// Merge or move tables.
    Compact,
    /// Collect value files.
    Collect,
    /// Remove files that nobody can reach.
    Remove,
    /// Give back parts of files that nobody can reach.
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

    /// What writers wait for.
    pub(crate) const AWAITED: [Self; 3] = [Self::Flush, Self::Compact, Self::Collect];

    /// What a writer waits for that is stopped for `cause`.
    pub(crate) fn awaited(cause: StallCause) -> Self {
        match cause {
            StallCause::Flush => Self::Flush,
            StallCause::Compaction => Self::Compact,
            StallCause::Space => Self::Collect,
        }
    }

    /// Whether such a job leaves alone what it found to be damaged.
    pub(crate) fn leaves_damage_alone(self) -> bool {
        matches!(self, Self::Compact | Self::Collect)
    }

    /// Name in metrics.
    pub(crate) fn name(self) -> &'static str {
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

/// What failed last of one kind of job, which has not succeeded since.
#[derive(Clone)]
pub(crate) struct Failure {
    pub(crate) error: Error,
    /// Failures in a row.
    pub(crate) tries: u64,
    /// When the first of them was, and the last.
    pub(crate) since: Instant,
    pub(crate) last: Instant,
    /// When the job is tried again.
    again: Instant,
    /// How often somebody had asked to look for work.
    wakeups: u64,
}

impl Failure {
    /// Whether who waits for the job should be told: it will not get better by waiting.
    pub(crate) fn is_lasting(&self) -> bool {
        let at_once = matches!(self.error.kind(), ErrorKind::NoSpace | ErrorKind::Corruption);
        at_once || self.tries >= TRIES || TIMELESS
    }
}

/// What failed of each kind of job.
#[derive(Default)]
pub(crate) struct Failures(BTreeMap<JobKind, Failure>);

impl Failures {
    /// A job of `kind` has failed, when somebody had asked for work `calls` times.
    pub(crate) fn failed(&mut self, kind: JobKind, error: &Error, wakeups: u64) {
        let now = Instant::now();
        let (tries, since) = match self.0.get(&kind) {
            Some(before) => (before.tries + 1, before.since),
            None => (1, now),
        };
        let longest = if error.kind() == ErrorKind::NoSpace { FULL_PAUSE_MAX } else { PAUSE_MAX };
        let pause = PAUSE_MIN.saturating_mul(1 << (tries - 1).min(16)).min(longest);
        let (error, again) = (error.clone(), now + pause);
        self.0.insert(kind, Failure { error, tries, since, last: now, again, wakeups });
    }

    /// A job of `kind` has succeeded.
    pub(crate) fn succeeded(&mut self, kind: JobKind) {
        self.0.remove(&kind);
    }

    /// Somebody asks for work by a call of its own: nothing pauses any more.
    pub(crate) fn forgive(&mut self) {
        self.0.clear();
    }

    /// What failed last of jobs of `kind`.
    pub(crate) fn of(&self, kind: JobKind) -> Option<&Failure> {
        self.0.get(&kind)
    }

    /// The failures of jobs that are not to be tried yet, since somebody has asked for work `calls`
    /// times.
    pub(crate) fn pausing(&self, wakeups: u64) -> Vec<(JobKind, Error)> {
        let now = Instant::now();
        let waits = |failure: &Failure| match TIMELESS {
            true => failure.wakeups == wakeups,
            false => now < failure.again,
        };
        let pausing = self.0.iter().filter(|(_, failure)| waits(failure));
        pausing.map(|(kind, failure)| (*kind, failure.error.clone())).collect()
    }

    /// All of them.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (JobKind, &Failure)> {
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
