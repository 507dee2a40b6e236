//! The table to begin with: workloads down, engines across, one figure in each cell.
//!
//! The figure is throughput with the background work counted. Where operations begin at a rate that
//! was asked for, all engines have that throughput, and the figure is a latency.

use crate::record::Ended;
use crate::report::collect::{Group, Results, Row};
use crate::report::metric::{Metric, P99, SETTLED};
use crate::report::tables::{NONE, Table};
use crate::units::short;

/// What the cells are.
pub const LEGEND: &str = "\
Thousands of operations a second, or operations a second where the row says so, the time until no \
background work is left counted, medians over the repetitions; where operations begin at a rate \
that was asked for, microseconds within which 99% of them were done. A word in place of a figure \
says how the task ended; an engine that did not take part in a list has no figure there.";

/// All lists of a report that has several; one list is told by its own table, and an experiment of
/// a paper by its figures.
pub fn overview(results: &Results) -> Table {
    let engines = results.engines();
    let header = ["list", "workload"].into_iter().chain(engines.iter().map(String::as_str));
    let mut table = Table::new(header, 2..usize::MAX);
    let groups = results.groups.iter().filter(|group| !group.is_of_experiment);
    let groups: Vec<_> = groups.collect();
    if groups.len() < 2 {
        return table;
    }
    for group in groups {
        for workload in group.workloads() {
            let figure = Figure::of(group, workload);
            let mut cells = vec![group.name.clone(), figure.name(workload)];
            let engines = engines.iter();
            cells.extend(engines.map(|engine| cell(results, group, workload, engine, figure)));
            table.rows.push(cells);
        }
    }
    table
}

/// What a row shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Figure {
    Thousands,
    Ones,
    Latency,
}

impl Figure {
    pub(super) fn of(group: &Group, workload: &str) -> Self {
        let rows = || group.of(workload);
        if rows().any(|row| row.typical().conditions.target_rate.is_some()) {
            return Self::Latency;
        }
        let speeds = rows().filter_map(|row| row.spread(&SETTLED)).map(|spread| spread.median);
        if speeds.fold(0.0, f64::max) < 1000.0 { Self::Ones } else { Self::Thousands }
    }

    pub(super) fn name(self, workload: &str) -> String {
        match self {
            Self::Thousands => workload.to_owned(),
            Self::Ones => format!("{workload}, op/s"),
            Self::Latency => format!("{workload}, p99 us"),
        }
    }

    pub(super) fn value(self, row: &Row) -> Option<f64> {
        let median = |metric: &Metric| row.spread(metric).map(|spread| spread.median);
        match self {
            Self::Thousands => median(&SETTLED).map(|per_second| per_second / 1000.0),
            Self::Ones => median(&SETTLED),
            Self::Latency => median(&P99),
        }
    }
}

/// The figure of `engine`, or why there is none.
pub(super) fn cell(
    results: &Results,
    group: &Group,
    workload: &str,
    engine: &str,
    figure: Figure,
) -> String {
    match group.of(workload).find(|row| row.engine == engine) {
        Some(row) if row.wrong => "WRONG".to_owned(),
        Some(row) => figure.value(row).map_or(NONE.to_owned(), short),
        None => {
            let mut failures = results.failures.iter();
            let of_task =
                failures.find(|(task, _)| task.list == group.name && task.engine == engine);
            of_task.map_or(String::new(), |(_, outcome)| word(outcome.ended).to_owned())
        }
    }
}

fn word(ended: Ended) -> &'static str {
    match ended {
        Ended::Killed | Ended::OutOfMemory | Ended::TimedOut => "killed",
        ended => ended.words(),
    }
}

#[cfg(test)]
mod tests {
    use super::overview;
    use crate::record::{Ended, Outcome, Task};
    use crate::report::collect::{Group, Results, Row};
    use crate::result::PhaseResult;

    fn row(engine: &str, seconds: f64, rate: Option<f64>) -> Row {
        let mut run = PhaseResult { engine: engine.into(), ..PhaseResult::default() };
        run.speed.operations = 50_000;
        run.speed.settled_seconds = seconds;
        run.latency.p99_us = 70.0;
        run.conditions.target_rate = rate;
        run.workload = "update".into();
        Row::of_run(run)
    }

    #[test]
    fn every_engine_has_a_figure_or_the_reason() {
        let wrong = Row { wrong: true, ..row("c", 1.0, None) };
        let free = Group::of_rows("free", vec![row("a", 2.0, None), wrong]);
        let paced = Group::of_rows("paced", vec![row("b", 2.0, Some(5e3))]);
        let task = Task { list: "free".into(), engine: "b".into(), repetition: 1 };
        let (words, command) = (None, String::new());
        let outcome = Outcome { ended: Ended::OutOfMemory, words, seconds: 1.0, command };
        let mut results = Results { groups: vec![free], ..Results::default() };
        results.failures.push((task, outcome));
        assert!(overview(&results).rows.is_empty(), "one list has its own table");
        results.groups.push(paced);
        results
            .groups
            .push(Group::of_rows("slow", vec![row("a", 100.0, None), row("b", 200.0, None)]));
        let table = overview(&results);
        assert_eq!(table.header, ["list", "workload", "a", "c", "b"]);
        assert_eq!(table.rows[0], ["free", "update", "25.0", "WRONG", "killed"]);
        assert_eq!(table.rows[1], ["paced", "update, p99 us", "", "", "70.0"]);
        assert_eq!(table.rows[2], ["slow", "update, op/s", "500", "", "250"]);
    }
}
