//! Which runs are repetitions of each other, and what is said of their check.

use std::fs;

use serde_json::json;

use super::{Group, Results, Row, collect};
use crate::latency::LatencySummary;
use crate::report::{tables, text};
use crate::result::{Line, PhaseResult, Verification};
use crate::system::DiskLimits;

impl Group {
    /// A list of made-up rows, without a run.
    pub(crate) fn of_rows(name: &str, rows: Vec<Row>) -> Self {
        Self {
            name: name.to_owned(),
            about: String::new(),
            command: String::new(),
            conditions: rows[0].runs[0].conditions.clone(),
            is_of_experiment: false,
            engines: rows.iter().map(|row| row.engine.clone()).collect(),
            rows,
            checks: Vec::new(),
        }
    }
}

impl Row {
    /// `run`, alone.
    pub(crate) fn of_run(run: PhaseResult) -> Self {
        Self {
            workload: run.workload.clone(),
            engine: run.engine.clone(),
            runs: vec![run],
            rounds: vec![1],
            trouble: None,
            wrong: false,
        }
    }
}

fn run(change: impl Fn(&mut PhaseResult)) -> PhaseResult {
    let mut run = PhaseResult { engine: "e".into(), ..PhaseResult::default() };
    run.workload = "update".into();
    run.settings = vec![("cache".into(), "32MiB".into())];
    change(&mut run);
    run
}

/// The report of `runs`, each of its own.
fn report(runs: &[PhaseResult], found: Option<&Verification>) -> Results {
    let home = tempfile::tempdir().unwrap();
    let paths = runs.iter().enumerate().map(|(at, run)| {
        let path = home.path().join(at.to_string());
        let found = found.cloned().map(|found| Line::Verification { engine: "e".into(), found });
        let lines = [Line::Phase(Box::new(run.clone()))].into_iter().chain(found);
        let lines = lines.map(|line| serde_json::to_string(&line).unwrap() + "\n");
        fs::write(&path, lines.collect::<String>()).unwrap();
        path
    });
    collect(&paths.collect::<Vec<_>>(), None).unwrap()
}

#[test]
fn runs_of_other_conditions_are_no_repetitions() {
    let same = report(&[run(|_| ()), run(|_| ())], None);
    assert_eq!((same.groups.len(), same.groups[0].rows[0].runs.len()), (1, 2));
    let changes: [fn(&mut PhaseResult); 4] = [
        |run| run.conditions.target_rate = Some(1000.0),
        |run| run.conditions.zipfian = 0.5,
        |run| run.conditions.scan_length = Some(7),
        |run| run.conditions.key_order = "ordered".into(),
    ];
    for change in changes {
        let other = report(&[run(|_| ()), run(change)], None);
        let names: Vec<_> = other.groups.iter().map(|group| &group.name).collect();
        assert_eq!(names.len(), 2, "{names:?}");
    }
}

#[test]
fn runs_with_other_options_are_no_repetitions() {
    let small = run(|run| run.settings[0].1 = "1MiB".into());
    let results = report(&[run(|_| ()), small.clone(), small], None);
    let rows = &results.groups[0].rows;
    let rows: Vec<_> = rows.iter().map(|row| (row.engine.as_str(), row.runs.len())).collect();
    assert_eq!(rows, [("e", 1), ("e (cache=1MiB)", 2)]);
}

#[test]
fn a_report_says_what_was_verified() {
    let said = |found: Option<&Verification>| {
        let results = report(&[run(|_| ())], found);
        assert!(text::summary(&results).contains(&tables::checked(&results.groups[0])));
        tables::checked(&results.groups[0])
    };
    assert_eq!(said(None), "Verification: not verified: e (1 task(s), 0 records).");
    let part = Verification { records: 8000, compared: 2000, ..Verification::default() };
    assert!(said(Some(&part)).contains("25.0% of the records"), "{}", said(Some(&part)));
    let wrong = Verification { missing: 1, ..part };
    assert!(said(Some(&wrong)).contains("found to be wrong"), "{}", said(Some(&wrong)));
}

#[test]
fn latencies_are_told_by_action_where_there_are_several() {
    let with = |actions: &[(&str, f64)]| {
        run(|run| {
            let summary = |us| LatencySummary { p99_us: us, ..LatencySummary::default() };
            let named = actions.iter().map(|(action, us)| ((*action).to_owned(), summary(*us)));
            run.latency_by_action = named.collect();
        })
    };
    let one = report(&[with(&[("read", 3.0)])], None);
    assert!(tables::actions(&one.groups[0]).rows.is_empty());
    let both = [("read", 3.0), ("update", 70.0)];
    let runs = [with(&both), with(&[("read", 5.0), ("update", 90.0)]), with(&both)];
    let results = report(&runs, None);
    let rows = tables::actions(&results.groups[0]).rows;
    let cells: Vec<_> = rows.iter().map(|row| [&row[1][..], &row[2], &row[5]]).collect();
    assert_eq!(cells, [["read", "e", "3.00"], ["update", "e", "70.0"]], "medians");
    assert!(text::markdown(&results).contains("Latency by action"));
}

#[test]
fn every_measurement_of_the_disk_is_told_with_units() {
    let limits = |read| {
        let limits = DiskLimits { read_per_second: read, direct: true, ..DiskLimits::default() };
        ("disk".to_owned(), serde_json::to_value(limits).unwrap())
    };
    let others = vec![limits(439e6), limits(900e6), ("moon".to_owned(), json!({"phase": 0.5}))];
    let rows = tables::others(&Results { others, ..Results::default() }).rows;
    let reads = rows.iter().filter(|row| row[1] == "pieces of 1 MiB read");
    let reads: Vec<_> = reads.map(|row| (&*row[0], &*row[2])).collect();
    assert_eq!(reads, [("disk", "419 MiB/s"), ("disk (2)", "858 MiB/s")]);
    assert_eq!(rows.last().unwrap()[..], ["moon", "phase", "0.50"]);
}

#[test]
fn settings_that_a_list_changes_are_told_with_it() {
    let mut other = run(|run| run.settings[0].1 = "1MiB".into());
    other.conditions.threads = 4;
    let results = report(&[run(|_| ()), other], None);
    let (engine, table) = &tables::settings(&results)[0];
    assert_eq!((engine.as_str(), table.rows.len()), ("e", 2));
    assert_eq!(table.rows[0], ["cache", "32MiB"]);
    assert!(table.rows[1][0].starts_with("cache, in ") && table.rows[1][1] == "1MiB");
}
