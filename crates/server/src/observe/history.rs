//! The last five minutes: how many commands ran in each second, and how long they took.

use std::collections::VecDeque;
use std::time::Duration;

use super::times::CallSums;
use crate::command::table::{COMMANDS, CommandRow, flag};

/// Seconds that are remembered one by one.
pub const SECONDS: usize = 300;

/// Seconds between sums that are kept, which bound the time of quantiles.
const STEP: usize = 10;

/// Commands that are counted together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommandGroup {
    /// Reads of named keys.
    Reads,
    /// Whatever changes keys.
    Writes,
    /// Reads of keys that are not named, as `SCAN` and `KEYS`.
    Walks,
    /// The others: about connections, transactions and the server.
    Others,
}

impl CommandGroup {
    /// All groups.
    pub const ALL: [Self; 4] = [Self::Reads, Self::Writes, Self::Walks, Self::Others];

    /// The name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Reads => "reads",
            Self::Writes => "writes",
            Self::Walks => "walks",
            Self::Others => "others",
        }
    }

    fn of(command: &CommandRow) -> Self {
        let names_keys = !command.keys.is_empty();
        match command {
            _ if command.is(flag::WRITE) => Self::Writes,
            _ if command.is(flag::READONLY) && names_keys => Self::Reads,
            _ if command.is(flag::READONLY) => Self::Walks,
            _ => Self::Others,
        }
    }
}

/// Sums of each group.
pub type GroupSums = [CallSums; CommandGroup::ALL.len()];

/// The sums of each group, out of those of each row.
pub fn grouped(rows: &[CallSums]) -> GroupSums {
    let mut groups = GroupSums::default();
    for (command, sums) in COMMANDS.iter().zip(rows) {
        groups[CommandGroup::of(command) as usize].add(sums);
    }
    groups
}

/// The last five minutes.
#[derive(Debug, Default)]
pub struct CallHistory {
    /// Calls a second of each group, the oldest first.
    seconds: VecDeque<[u64; CommandGroup::ALL.len()]>,
    /// Sums each ten seconds, the oldest first.
    sums: VecDeque<GroupSums>,
    before: GroupSums,
    ticks: usize,
}

impl CallHistory {
    /// Notes the sums since the start, about a second after the last ones.
    pub fn tick(&mut self, now: GroupSums, elapsed: Duration) {
        let seconds = elapsed.as_secs_f64().max(f64::EPSILON);
        let calls = |at: usize| {
            let calls = now[at].since(&self.before[at]).calls();
            (calls as f64 / seconds).round() as u64
        };
        self.seconds.push_back(std::array::from_fn(calls));
        if self.seconds.len() > SECONDS {
            self.seconds.pop_front();
        }
        if self.ticks.is_multiple_of(STEP) {
            self.sums.push_back(self.before.clone());
            if self.sums.len() > SECONDS / STEP {
                self.sums.pop_front();
            }
        }
        self.ticks += 1;
        self.before = now;
    }

    /// Calls a second of each group, for each second, the oldest first.
    pub fn seconds(&self) -> impl DoubleEndedIterator<Item = &[u64; CommandGroup::ALL.len()]> {
        self.seconds.iter()
    }

    /// The calls of each group in the last five minutes.
    pub fn recent(&self) -> GroupSums {
        let oldest = self.sums.front().cloned().unwrap_or_default();
        std::array::from_fn(|at| self.before[at].since(&oldest[at]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::table::named;
    use crate::observe::times::WorkerTimes;

    #[test]
    fn what_is_older_than_five_minutes_does_not_count() {
        let (times, mut history) = (WorkerTimes::default(), CallHistory::default());
        let mut second = |calls: u64, millis: u64| {
            let time = Duration::from_millis(millis);
            times.add(named(b"get").unwrap(), calls, time, time);
            let mut rows = vec![CallSums::default(); COMMANDS.len()];
            times.add_to(&mut rows);
            history.tick(grouped(&rows), Duration::from_secs(1));
            let reads = &history.recent()[CommandGroup::Reads as usize];
            (reads.calls(), reads.quantile(1.0).unwrap(), history.seconds().count())
        };
        let (calls, slowest, _) = second(5, 700);
        assert!(calls == 5 && slowest >= Duration::from_millis(700));
        for _ in 0..SECONDS + STEP {
            second(1, 1);
        }
        let (calls, slowest, seconds) = second(1, 1);
        assert!((SECONDS - STEP..=SECONDS).contains(&(calls as usize)), "{calls}");
        assert!(slowest < Duration::from_millis(2));
        assert_eq!(seconds, SECONDS);
    }

    #[test]
    fn commands_are_grouped_by_what_they_do() {
        for (name, group) in [
            ("get", CommandGroup::Reads),
            ("set", CommandGroup::Writes),
            ("flushall", CommandGroup::Writes),
            ("scan", CommandGroup::Walks),
            ("ping", CommandGroup::Others),
            ("watch", CommandGroup::Others),
        ] {
            assert_eq!(CommandGroup::of(named(name.as_bytes()).unwrap()), group, "{name}");
        }
    }
}
