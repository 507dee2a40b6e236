//! The papers' figures beside ours.

use crate::experiments::{EXPERIMENTS, Experiment};
use crate::report::collect::{Group, Results, Row};
use crate::report::metric::{Metric, named};
use crate::report::tables::Table;
use crate::units::short;

/// A row for each experiment, value that it varies, and engine.
pub fn papers(results: &Results) -> Table {
    let header = [
        "experiment",
        "paper",
        "where",
        "setting",
        "engine",
        "measured",
        "ours",
        &format!("x {}", results.baseline),
        "the paper",
    ];
    let mut table = Table::new(header, 6..8);
    for experiment in EXPERIMENTS {
        for (group, setting) in results.groups.iter().filter_map(|g| of(experiment, g)) {
            let metric = named(experiment.metric);
            let Some(last) = group.workloads().pop().map(str::to_owned) else { continue };
            for row in group.of(&last) {
                let cells = cells(experiment, group, setting, row, &metric, &results.baseline);
                table.rows.push(cells);
            }
        }
    }
    table
}

/// The group, with its setting, if it is one of the experiment's.
fn of<'a>(experiment: &Experiment, group: &'a Group) -> Option<(&'a Group, &'a str)> {
    let rest = group.name.strip_prefix(experiment.name)?;
    (rest.is_empty() || rest.starts_with(' ')).then(|| (group, rest.trim_start()))
}

fn cells(
    experiment: &Experiment,
    group: &Group,
    setting: &str,
    row: &Row,
    metric: &Metric,
    baseline: &str,
) -> Vec<String> {
    let none = || "-".to_owned();
    let ours = row.spread(metric).map_or_else(none, |spread| (metric.show)(spread.median));
    let ratio = group.ratio(row, baseline, metric);
    vec![
        experiment.name.to_owned(),
        experiment.paper.to_owned(),
        experiment.section.to_owned(),
        setting.to_owned(),
        row.engine.clone(),
        format!("{}, {}", row.workload, metric.name),
        if row.wrong { "WRONG VALUES".to_owned() } else { ours },
        ratio.map_or_else(none, |ratio| format!("{}x", short(ratio))),
        experiment.paper_says.to_owned(),
    ]
}
