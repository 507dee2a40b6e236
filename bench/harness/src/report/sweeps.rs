//! The papers' experiments as pictures: one for each figure that an experiment compares, with what
//! is varied along it and all engines in it.
//!
//! Numbers that are varied make an axis, at like distances, and an engine a line over them; words
//! make bars, one for each word and engine.

use crate::experiments::{Experiment, Metric, Run, all};
use crate::report::chart::{Axes, Bars, Series, Strip, bars, lines, named};
use crate::report::collect::{Group, Results, Row};
use crate::report::figures::{Figure, Style};
use crate::report::stats::Spread;
use crate::suite::list_name;
use crate::units::short;

/// An experiment that has results, and its figures.
pub struct Sweep {
    /// What was run.
    pub experiment: &'static Experiment,
    /// One for each workload and metric.
    pub figures: Vec<Figure>,
}

/// All experiments that have results.
pub fn sweeps(results: &Results, style: &Style<'_>) -> Vec<Sweep> {
    let of = |experiment: &'static Experiment| {
        let runs = experiment.runs();
        let columns = runs.chunk_by(|one, next| one.column == next.column);
        let measured: Vec<_> = columns
            .map(|runs| Measured {
                experiment,
                column: runs[0].column.clone(),
                settings: runs.iter().map(|run| setting(experiment, run)).collect(),
                groups: runs.iter().map(|run| group_of(results, experiment, run)).collect(),
            })
            .filter(|measured| measured.groups.iter().any(Option::is_some))
            .collect();
        let figures = || measured.iter().flat_map(|measured| measured.figures(style)).collect();
        (!measured.is_empty()).then(|| Sweep { experiment, figures: figures() })
    };
    all().filter_map(of).collect()
}

fn group_of<'a>(results: &'a Results, experiment: &Experiment, run: &Run) -> Option<&'a Group> {
    let name = list_name(experiment, &run.label);
    results.groups.iter().find(|group| group.name == name)
}

/// What is special about a run, without the names of what is varied.
fn setting(experiment: &Experiment, run: &Run) -> String {
    let names = [experiment.vary, experiment.coupled].into_iter().flatten();
    let label = run.label.strip_prefix(&run.column).unwrap_or(&run.label);
    let mut label = label.trim_start_matches(", ").to_owned();
    for (name, _) in names {
        label = label.replace(&format!("{}=", name.trim_start_matches("--")), "");
    }
    label
}

/// The runs of a column of an experiment: the setting of each, and what it gave.
struct Measured<'a> {
    experiment: &'static Experiment,
    column: String,
    settings: Vec<String>,
    groups: Vec<Option<&'a Group>>,
}

/// A value of an engine: the place of its setting, the engine, the median.
type Point<'a> = (usize, &'a str, f64);

fn point(at: usize, row: &Row, metric: Metric) -> Option<Point<'_>> {
    let spread = Spread::of(row.runs.iter().filter_map(|run| metric.of(run)))?;
    Some((at, row.engine.as_str(), spread.median))
}

impl Measured<'_> {
    fn figures(&self, style: &Style<'_>) -> Vec<Figure> {
        let mut workloads: Vec<&str> = Vec::new();
        for workload in self.groups.iter().flatten().flat_map(|group| group.workloads()) {
            if self.experiment.does_show(workload) && !workloads.contains(&workload) {
                workloads.push(workload);
            }
        }
        let metrics = self.experiment.metrics;
        let pairs = workloads.iter().flat_map(|w| metrics.iter().map(move |m| (*w, *m)));
        pairs.filter_map(|(workload, metric)| self.figure(workload, metric, style)).collect()
    }

    fn points(&self, workload: &str, metric: Metric) -> Vec<Point<'_>> {
        let groups = self.groups.iter().enumerate();
        let rows = groups.filter_map(|(at, group)| Some((at, (*group)?)));
        let rows = rows.flat_map(|(at, group)| group.rows.iter().map(move |row| (at, row)));
        let rows = rows.filter(|(_, row)| row.workload == workload && !row.wrong);
        let point = |(at, row)| point(at, row, metric);
        rows.filter_map(point).collect()
    }

    fn figure(&self, workload: &str, metric: Metric, style: &Style<'_>) -> Option<Figure> {
        let points = self.points(workload, metric);
        let numbers = |setting: &String| {
            setting.starts_with(|c: char| c.is_ascii_digit()) && !setting.contains(", ")
        };
        let several = self.settings.len() > 1 && points.iter().any(|point| point.0 > 0);
        let along = several && self.settings.iter().all(numbers);
        let better = if metric.more_is_better() { "higher" } else { "lower" };
        let over = self.experiment.varied().map_or(String::new(), |name| format!(" by {name}"));
        let column = self.column.replace('=', " ");
        let with = if column.is_empty() { column } else { format!(", {column}") };
        Some(Figure {
            title: self.finding(workload, metric, &points)?,
            about: format!("{}{over}{with}; {better} is better", metric.name()),
            svg: if along { self.lines(&points, style) } else { self.bars(&points, style) },
            command: format!("cleave bench papers --experiment {}", self.experiment.name),
        })
    }

    /// Which engine reaches the best figure, and where.
    fn finding(&self, workload: &str, metric: Metric, points: &[Point<'_>]) -> Option<String> {
        let order = |a: &&Point<'_>, b: &&Point<'_>| a.2.total_cmp(&b.2);
        let (best, word) = match metric.more_is_better() {
            true => (points.iter().max_by(order)?, "most"),
            false => (points.iter().min_by(order)?, "least"),
        };
        let (at, engine, value) = *best;
        let setting = &self.settings[at];
        let place = if setting.is_empty() { String::new() } else { format!(" at {setting}") };
        Some(format!("{workload}: {engine} {word}, {} {}{place}", short(value), metric.name()))
    }

    fn lines(&self, points: &[Point<'_>], style: &Style<'_>) -> String {
        let of = |engine: &String| Series {
            paint: style.paint(engine),
            points: points
                .iter()
                .filter(|point| point.1 == engine)
                .map(|(at, _, value)| (*at as f64, *value))
                .collect(),
        };
        let series: Vec<_> = style.engines.iter().map(of).collect();
        let series: Vec<_> = series.into_iter().filter(|line| !line.points.is_empty()).collect();
        let place = |x: f64| named(&self.settings, x);
        let varied = self.experiment.varied().unwrap_or_default();
        let axes = Axes { x: &place, y: &short, x_title: varied, logarithmic: false };
        lines(&series, &axes)
    }

    /// A bar for each engine below the setting, with its name behind the figure.
    fn bars(&self, points: &[Point<'_>], style: &Style<'_>) -> String {
        let strip = |(_, engine, value): &Point<'_>| Strip {
            parts: vec![(style.paint(engine), *value)],
            pale: false,
            extremes: None,
            text: format!("{} {}", short(*value), engine.trim_start_matches("cleave-")),
        };
        let of_one = |points: &[Point<'_>]| Bars {
            label: self.settings[points[0].0].clone(),
            strips: points.iter().map(strip).collect(),
        };
        bars(&points.chunk_by(|one, next| one.0 == next.0).map(of_one).collect::<Vec<_>>())
    }
}
