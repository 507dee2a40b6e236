//! The order of a suite: lists one after another, and within a list the engines in turn, A B C and
//! again A B C, so that whatever drifts hits all of them alike.

use std::collections::HashMap;
use std::time::Duration;

use crate::record::Task;
use crate::suite::Suite;

/// The tasks of `suite` on `engines`, in their order.
pub fn plan(suite: &Suite, engines: &[String]) -> Vec<Task> {
    let rounds = suite.lists.iter().flat_map(|list| {
        (1..=suite.repetitions).map(move |repetition| (list.name.clone(), repetition))
    });
    let tasks = rounds.flat_map(|(list, repetition)| {
        let task =
            move |engine: &String| Task { list: list.clone(), engine: engine.clone(), repetition };
        engines.iter().map(task)
    });
    tasks.collect()
}

/// What tasks took so far, to tell how long the others will.
#[derive(Debug, Default)]
pub struct Pace {
    /// By list and engine: the sum of the times, and their number.
    took: HashMap<(String, String), (Duration, u32)>,
    all: (Duration, u32),
}

impl Pace {
    /// `task` took so long.
    pub fn learn(&mut self, task: &Task, took: Duration) {
        let own = self.took.entry((task.list.clone(), task.engine.clone())).or_default();
        for sum in [own, &mut self.all] {
            sum.0 += took;
            sum.1 += 1;
        }
    }

    /// The time that `tasks` will take: each as its engine took before, or as tasks took on
    /// average. `None` as long as nothing is known.
    pub fn estimate(&self, tasks: &[Task]) -> Option<Duration> {
        let mean = |(sum, count): (Duration, u32)| (count > 0).then(|| sum / count);
        let average = mean(self.all)?;
        let one = |task: &Task| {
            let own = self.took.get(&(task.list.clone(), task.engine.clone())).copied();
            own.and_then(mean).unwrap_or(average)
        };
        Some(tasks.iter().map(one).sum())
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
        let tasks = plan(&Suite::quick(), &engines);
        let order: Vec<_> =
            tasks.iter().map(|task| (task.repetition, task.engine.as_str())).collect();
        assert_eq!(order, [(1, "a"), (1, "b"), (2, "a"), (2, "b")]);
        let full = plan(&Suite::named("full").unwrap(), &engines);
        assert_eq!(full.len(), 6 * 3 * 2);
        assert!(full[..6].iter().all(|task| task.list == full[0].list));
    }

    #[test]
    fn the_rest_takes_as_long_as_it_took_before() {
        let engines = ["a", "b"].map(str::to_owned);
        let tasks = plan(&Suite::quick(), &engines);
        let mut pace = Pace::default();
        assert_eq!(pace.estimate(&tasks), None);
        pace.learn(&tasks[0], Duration::from_secs(10));
        assert_eq!(pace.estimate(&tasks[1..]), Some(Duration::from_secs(30)));
        pace.learn(&tasks[1], Duration::from_secs(20));
        assert_eq!(pace.estimate(&tasks[2..]), Some(Duration::from_secs(30)));
        assert_eq!(pace.estimate(&[]), Some(Duration::ZERO));
    }
}
