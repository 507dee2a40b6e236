//! The rows of a report for programs.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::report::collect::Results;
use crate::report::metric::METRICS;
use crate::report::stats::Spread;

/// A workload on an engine.
#[derive(Debug, Serialize)]
pub struct Summary<'a> {
    /// List of workloads.
    pub list: &'a str,
    /// Workload.
    pub workload: &'a str,
    /// Engine.
    pub engine: &'a str,
    /// Whether values were wrong.
    pub wrong: bool,
    /// What else did not go well.
    pub trouble: Option<&'a str>,
    /// Quantities by name.
    pub metrics: BTreeMap<&'static str, Quantity>,
}

/// A quantity over the repetitions.
#[derive(Debug, Serialize)]
pub struct Quantity {
    /// Median, extremes, and number of runs.
    #[serde(flatten)]
    pub spread: Spread,
    /// As a multiple of the baseline's.
    pub ratio: Option<f64>,
}

/// All rows.
pub fn rows(results: &Results) -> Vec<Summary<'_>> {
    let rows =
        results.groups.iter().flat_map(|group| group.rows.iter().map(move |row| (group, row)));
    rows.map(|(group, row)| Summary {
        list: &group.name,
        workload: &row.workload,
        engine: &row.engine,
        wrong: row.wrong,
        trouble: row.trouble.as_deref(),
        metrics: METRICS
            .iter()
            .filter_map(|metric| {
                let ratio = group.ratio(row, &results.baseline, metric);
                Some((metric.name, Quantity { spread: row.spread(metric)?, ratio }))
            })
            .collect(),
    })
    .collect()
}
