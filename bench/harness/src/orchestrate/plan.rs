//! The order of a suite: lists one after another, and within a list the engines in turn, A B C and
//! again A B C, so that whatever drifts hits all of them alike. A suite may draw the order of each
//! round instead.

use std::collections::HashMap;
use std::time::Duration;

use crate::estimate::expected;
use crate::hash::mix;
use crate::record::Task;
use crate::suite::Suite;

/// The tasks of `suite` on `engines`, in their order.
pub fn plan(suite: &Suite, engines: &[String]) -> Vec<Task> {
    let rounds = suite.lists.iter().flat_map(|list| {
        (1..=suite.repetitions).map(move |repetition| (list.name.clone(), repetition))
    });
    let runs = |task: &Task| {
        let without = suite.list(&task.list).map_or(&[][..], |list| list.without);
        !without.contains(&task.engine.as_str())
    };
    let tasks = rounds.flat_map(|(list, repetition)| {
        let mut round: Vec<_> = engines.iter().enumerate().collect();
        if suite.drawn {
            let seed =
                list.bytes().fold(repetition.into(), |seed, byte| mix(seed ^ u64::from(byte)));
            round.sort_by_key(|(at, _)| mix(seed ^ *at as u64));
        }
        let task = move |(_, engine): (usize, &String)| Task {
            list: list.clone(),
            engine: engine.clone(),
            repetition,
        };
        round.into_iter().map(task).filter(runs)
    });
    tasks.collect()
}

/// What tasks are expected to take, and what they took so far, to tell how long the others will.
#[derive(Debug)]
pub struct Pace<'a> {
    suite: &'a Suite,
    duration: Option<Duration>,
    /// By list and engine: the sum of the times, and their number.
    took: HashMap<(String, String), (Duration, u32)>,
    /// What all tasks took, and were expected to take.
    sums: (Duration, Duration),
}

impl<'a> Pace<'a> {
    /// The pace of the tasks of `suite`, with `engines` as the number of engines.
    pub fn new(suite: &'a Suite, engines: usize) -> Self {
        let (took, sums) = (HashMap::new(), (Duration::ZERO, Duration::ZERO));
        Self { suite, duration: suite.duration(engines), took, sums }
    }

    /// `task` took so long.
    pub fn learn(&mut self, task: &Task, took: Duration) {
        let own = self.took.entry((task.list.clone(), task.engine.clone())).or_default();
        own.0 += took;
        own.1 += 1;
        let expected = self.expected(task);
        self.sums.0 += took;
        self.sums.1 += expected;
    }

    /// The time that `tasks` will take: each as its engine took before, or as much longer or
    /// shorter than expected as the others.
    pub fn estimate(&self, tasks: &[Task]) -> Duration {
        let (took, expected) = self.sums;
        let factor = if expected.is_zero() { 1.0 } else { took.div_duration_f64(expected) };
        let one = |task: &Task| {
            let own = self.took.get(&(task.list.clone(), task.engine.clone()));
            own.map_or_else(|| self.expected(task).mul_f64(factor), |(sum, count)| *sum / *count)
        };
        tasks.iter().map(one).sum()
    }

    fn expected(&self, task: &Task) -> Duration {
        let list = self.suite.list(&task.list);
        list.map_or(Duration::ZERO, |list| expected(list, self.duration, &task.engine))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{Pace, plan};
    use crate::suite::Suite;

    #[test]
    fn engines_take_turns() {
        let engines = ["a", "b"].map(str::to_owned);
        let tasks = plan(&Suite { repetitions: 2, ..Suite::quick(1) }, &engines);
        let order: Vec<_> =
            tasks.iter().map(|task| (task.repetition, task.engine.as_str())).collect();
        assert_eq!(order, [(1, "a"), (1, "b"), (2, "a"), (2, "b")]);
        let full = plan(&Suite::named("full").unwrap(), &engines);
        let lists = Suite::named("full").unwrap().lists.len();
        assert_eq!(full.len(), lists * 3 * 2);
        assert!(full[..6].iter().all(|task| task.list == full[0].list));
        let with_slow = plan(&Suite::named("full").unwrap(), &["a", "redb"].map(str::to_owned));
        let slow = with_slow.iter().filter(|task| task.engine == "redb").count();
        assert_eq!(slow, 2 * 3, "it runs two of the lists");
    }

    #[test]
    fn the_rest_takes_as_long_as_it_took_before() {
        let engines = ["a", "b"].map(str::to_owned);
        let suite = Suite { repetitions: 2, ..Suite::quick(1) };
        let tasks = plan(&suite, &engines);
        let mut pace = Pace::new(&suite, 2);
        let whole = pace.estimate(&tasks);
        assert!(whole > Duration::from_secs(40), "{whole:?}");
        pace.learn(&tasks[0], Duration::from_secs(10));
        let left = pace.estimate(&tasks[1..]).as_secs_f64();
        assert!((left - 30.0).abs() < 0.1, "{left}");
        pace.learn(&tasks[1], Duration::from_secs(20));
        assert_eq!(pace.estimate(&tasks[2..]), Duration::from_secs(30));
        assert_eq!(pace.estimate(&[]), Duration::ZERO);
    }
}
