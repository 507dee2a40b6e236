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

/// The experiments of `paper`: the figures of its own engine, and those of each other engine with
/// its own as a multiple of them.
pub(super) fn beside(results: &Results, paper: &str) -> Table {
    let experiments = || all().filter(|experiment| experiment.paper == paper);
    let runs = experiments().flat_map(|own| own.runs().into_iter().map(move |run| (own, run)));
    let groups: Vec<_> = runs
        .filter_map(|(own, run)| {
            let name = list_name(own, &run.label);
            let group = results.groups.iter().find(|group| group.name == name)?;
            Some((own, run, group))
        })
        .collect();
    let own = format!("cleave-{}", paper.replace('-', ""));
    let ran = |engine: &String| groups.iter().any(|(.., group)| group.engines.contains(engine));
    let mut engines: Vec<_> = results.engines().into_iter().filter(ran).collect();
    engines.sort_by_key(|engine| *engine != own);
    let header = ["experiment", "setting", "workload", "figure"].map(str::to_owned).into_iter();
    let header = header.chain(engines.iter().cloned()).chain(["warm".to_owned()]);
    let mut table = Table::new(header, 4..4 + engines.len());
    for (experiment, run, group) in &groups {
        let shown = group.workloads().into_iter().filter(|it| experiment.does_show(it));
        for (workload, metric) in
            shown.flat_map(|it| experiment.metrics.iter().map(move |metric| (it, *metric)))
        {
            let row = |engine: &String| group.of(workload).find(|row| row.engine == *engine);
            let first = engines.first().and_then(row);
            let cells: Vec<_> =
                engines.iter().map(|engine| multiple(row(engine), first, metric)).collect();
            if cells.iter().any(|cell| cell != NONE) {
                let names = [experiment.name, &run.label, workload, metric.name()];
                let names = names.map(str::to_owned).into_iter().chain(cells);
                table.rows.push(names.chain([warm_of(group, workload)]).collect());
            }
        }
    }
    table
}

/// The figure of `row`, and that of `first` as a multiple of it if that is another one.
fn multiple(row: Option<&Row>, first: Option<&Row>, metric: Metric) -> String {
    let values = |row: &Row| row.of_rounds(|run| metric.of(run));
    let median = |row: &Row| Spread::of(values(row).into_iter().map(|(_, value)| value));
    let Some((row, spread)) = row.and_then(|row| Some((row, median(row)?))) else {
        return NONE.to_owned();
    };
    if row.wrong {
        return "WRONG VALUES".to_owned();
    }
    let first = first.filter(|first| first.engine != row.engine && !first.wrong);
    let times = first.and_then(|first| ratio(&values(first), &values(row)));
    let times = times.map_or(String::new(), |times| format!(" ({}x)", short(times)));
    format!("{}{times}", short(spread.median))
}

/// How warm the stores of `workload` were: that of each engine whose words are others than those of
/// the engine before.
fn warm_of(group: &Group, workload: &str) -> String {
    let mut words: Vec<(String, &str)> = Vec::new();
    for row in group.of(workload) {
        if words.last().is_none_or(|(said, _)| *said != warm(row)) {
            words.push((warm(row), &row.engine));
        }
    }
    let several = words.len() > 1;
    let told = words.into_iter().map(|(said, engine)| match several {
        true => format!("{engine}: {said}"),
        false => said,
    });
    told.collect::<Vec<_>>().join("; ")
}
