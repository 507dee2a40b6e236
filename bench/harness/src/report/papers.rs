//! The papers' figures beside ours.

use crate::experiments::{Experiment, Metric, Run, all};
use crate::record::{Outcome, Task};
use crate::report::collect::{Group, Results, Row};
use crate::report::stats::{Spread, ratio};
use crate::report::tables::Table;
use crate::result::PhaseResult;
use crate::suite::list_name;
use crate::units::short;
use crate::workload::{Begin, WORKLOADS};

const NONE: &str = "-";

/// A row for each experiment, run, workload, figure and engine.
pub fn papers(results: &Results) -> Table {
    let tables = all().map(|experiment| of_experiment(results, experiment));
    let join = |mut table: Table, next: Table| {
        table.rows.extend(next.rows);
        table
    };
    tables.reduce(join).unwrap_or_default()
}

/// The rows of `experiment`.
pub fn of_experiment(results: &Results, experiment: &Experiment) -> Table {
    let header = [
        "experiment",
        "where",
        "setting",
        "workload",
        "figure",
        "engine",
        "ours",
        &format!("x {}", results.baseline),
        "warm",
        "the paper",
    ];
    let mut table = Table::new(header, 6..8);
    for run in experiment.runs() {
        let list = list_name(experiment, &run.label);
        let absent = results.absent.iter().filter(|(task, _)| task.list == list);
        table.rows.extend(absent.map(|(task, outcome)| missing(experiment, &run, task, outcome)));
        let Some(group) = results.groups.iter().find(|group| group.name == list) else {
            continue;
        };
        let shown = group.rows.iter().filter(|row| experiment.does_show(&row.workload));
        for row in shown {
            let figures = experiment.metrics.iter();
            table.rows.extend(figures.filter_map(|metric| {
                cells(experiment, &run.label, *metric, group, row, &results.baseline)
            }));
        }
    }
    table
}

/// The row of an engine that has no such option: which one, and that it is not there yet.
fn missing(experiment: &Experiment, run: &Run, task: &Task, outcome: &Outcome) -> Vec<String> {
    let none = || NONE.to_owned();
    vec![
        experiment.name.to_owned(),
        experiment.rows.join("; "),
        run.label.clone(),
        none(),
        none(),
        task.engine.clone(),
        outcome.words.clone().unwrap_or_else(|| outcome.ended.words().to_owned()),
        none(),
        none(),
        experiment.paper_says.to_owned(),
    ]
}

/// The cells of a row; `None` if the workload has no such figure.
fn cells(
    experiment: &Experiment,
    setting: &str,
    metric: Metric,
    group: &Group,
    row: &Row,
    baseline: &str,
) -> Option<Vec<String>> {
    let of = |run: &PhaseResult| metric.of(run);
    let ours = Spread::of(row.of_rounds(of).into_iter().map(|(_, value)| value))?;
    let base = group.of(&row.workload).find(|base| base.engine == baseline && !base.wrong);
    let base = base.filter(|base| base.engine != row.engine && !row.wrong);
    let ratio = base.and_then(|base| ratio(&row.of_rounds(of), &base.of_rounds(of)));
    let value = if row.wrong { "WRONG VALUES".to_owned() } else { short(ours.median) };
    Some(vec![
        experiment.name.to_owned(),
        experiment.rows.join("; "),
        setting.to_owned(),
        row.workload.clone(),
        metric.name().to_owned(),
        row.engine.clone(),
        value,
        ratio.map_or(NONE.to_owned(), |ratio| format!("{}x", short(ratio))),
        warm(row),
        experiment.paper_says.to_owned(),
    ])
}

/// How warm the store was that the workload of `row` found; a load finds none.
fn warm(row: &Row) -> String {
    let run = row.typical();
    let begins_empty =
        WORKLOADS.iter().any(|it| it.name == run.workload && it.begin == Begin::Empty);
    match &run.warm {
        Some(warm) => warm.words(),
        None if begins_empty => NONE.to_owned(),
        None => "cold".to_owned(),
    }
}
