//! How long writers waited for background work in the last five minutes.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use cleavedb::metrics::{Stall, StallCause};
use parking_lot::Mutex;

/// How often what was counted is noted, and how many notes are kept: five minutes.
pub const STEP: Duration = Duration::from_secs(10);
const STEPS: usize = 30;

/// Waits of writers for one cause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StallSum {
    /// Number of waits.
    pub count: u64,
    /// The time of all of them.
    pub time: Duration,
}

impl StallSum {
    /// The waits for a cause among those of all causes.
    pub fn of(stalls: &[Stall], cause: StallCause) -> Self {
        let found = stalls.iter().find(|stall| stall.cause == cause);
        found.map_or_else(Self::default, |it| Self { count: it.count, time: it.time })
    }
}

/// The waits that have ended, as they were counted every ten seconds, and those that last.
#[derive(Debug, Default)]
pub struct StallHistory {
    /// The oldest first.
    notes: Mutex<VecDeque<Vec<Stall>>>,
    lasting: Mutex<Vec<(StallCause, Instant)>>,
}

impl StallHistory {
    /// Notes the waits since the open, [`STEP`] after they were noted before.
    pub fn note(&self, stalls: Vec<Stall>) {
        let mut notes = self.notes.lock();
        notes.push_back(stalls);
        if notes.len() > STEPS {
            notes.pop_front();
        }
    }

    /// A writer begins to wait.
    pub fn began(&self, cause: StallCause) {
        self.lasting.lock().push((cause, Instant::now()));
    }

    /// A writer that has waited so long goes on.
    pub fn ended(&self, cause: StallCause, took: Duration) {
        let mut lasting = self.lasting.lock();
        let is_it = |(of, begun): &(StallCause, Instant)| *of == cause && begun.elapsed() >= took;
        if let Some(at) = lasting.iter().rposition(is_it) {
            lasting.remove(at);
        }
    }

    /// The waits for a cause in the last five minutes, of which `stalls` are all since the open.
    /// One that lasts counts from its begin.
    pub fn recent(&self, stalls: &[Stall], cause: StallCause) -> StallSum {
        let notes = self.notes.lock();
        let oldest = notes.front().filter(|_| notes.len() == STEPS);
        let before = oldest.map_or_else(StallSum::default, |all| StallSum::of(all, cause));
        let StallSum { count, time } = StallSum::of(stalls, cause);
        let lasting = self.lasting.lock();
        let lasting = lasting.iter().filter(|(of, _)| *of == cause).map(|(_, begun)| begun);
        let ended = StallSum {
            count: count.saturating_sub(before.count),
            time: time.saturating_sub(before.time),
        };
        lasting.fold(ended, |sum, begun| StallSum {
            count: sum.count + 1,
            time: sum.time + begun.elapsed(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_of_five_minutes_count_and_those_that_last() {
        let history = StallHistory::default();
        let all = |count, seconds| {
            vec![Stall { cause: StallCause::Space, count, time: Duration::from_secs(seconds) }]
        };
        let recent = |count, seconds| {
            let StallSum { count, time } = history.recent(&all(count, seconds), StallCause::Space);
            (count, time.as_secs())
        };
        assert_eq!(recent(3, 7), (3, 7));
        (1..30).for_each(|count| history.note(all(count, 2 * count)));
        assert_eq!(recent(29, 58), (29, 58));
        history.note(all(30, 60));
        assert_eq!(recent(31, 63), (30, 61));
        history.note(all(31, 63));
        assert_eq!(recent(31, 63), (29, 59));
        history.began(StallCause::Flush);
        history.began(StallCause::Space);
        assert_eq!(recent(31, 63), (30, 59));
        history.ended(StallCause::Space, Duration::ZERO);
        assert_eq!(recent(31, 63), (29, 59));
        let flush = history.recent(&[], StallCause::Flush);
        assert!(flush.count == 1 && flush.time < Duration::from_secs(9));
    }
}
