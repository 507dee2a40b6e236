//! A brief report, of which documents quote: the presets beside other engines, and the experiments
//! of a paper with its own engine first.

use std::collections::BTreeSet;

use crate::experiments::all;
use crate::report::chart::{Bars, Paint, Strip, alone, bars};
use crate::report::collect::{Group, Results, Row, label};
use crate::report::metric::SETTLED;
use crate::report::overview::{Figure, LEGEND, cell};
use crate::report::papers::beside;
use crate::report::tables::{Table, failures};
use crate::units::short;

/// What the name of the default preset is, and names of others begin with.
const OWN: &str = "cleave";

/// The report as Markdown. Of the presets `shown` have columns of their own, the default first; the
/// best one of a row has another, empty where that is the default.
pub fn brief(results: &Results, shown: &[&str]) -> String {
    let mut text = String::from("# Figures\n\n");
    for header in &results.headers {
        let (name, about, times) = (&header.name, &header.about, header.repetitions);
        let command = &header.command;
        text += &format!("{name}: {about}. Medians of {times}.\n\n```sh\n{command}\n```\n\n");
    }
    for warning in &results.warnings {
        text += &format!("**{warning}**\n\n");
    }
    let lists = lists(results, shown);
    if !lists.rows.is_empty() {
        text += &format!("{LEGEND}\n\n{}\n\n", lists.text());
        for group in of_lists(results) {
            text += &format!("- {}: {}\n", group.name, label(&group.conditions));
        }
        text += "\n";
    }
    let papers: BTreeSet<_> = all().map(|experiment| experiment.paper).collect();
    for paper in papers {
        let table = beside(results, paper);
        if !table.rows.is_empty() {
            text += &format!(
                "## Experiments of {paper}\n\nBehind the figure of another engine stands how many \
                 times as much `{}` has.\n\n{}\n\n",
                table.header[4],
                table.text()
            );
        }
    }
    let failures = failures(results);
    if !failures.rows.is_empty() {
        text += &format!("## Tasks that did not end well\n\n{}\n\n", failures.text());
    }
    format!("{}\n", text.trim_end())
}

/// The lists that belong to no experiment.
fn of_lists(results: &Results) -> impl Iterator<Item = &Group> {
    results.groups.iter().filter(|group| !group.is_of_experiment)
}

/// A row for each workload of each list.
fn lists(results: &Results, shown: &[&str]) -> Table {
    let engines = results.engines();
    let others = || engines.iter().filter(|engine| !engine.starts_with(OWN));
    let named = |engine: &str| engine.trim_start_matches("cleave-").to_owned();
    let header = ["list", "workload"].map(str::to_owned).into_iter();
    let header = header.chain(shown.iter().map(|engine| format!("`{}`", named(engine))));
    let header = header.chain(["best preset".to_owned()]).chain(others().cloned());
    let mut table = Table::new(header, 2..usize::MAX);
    for group in of_lists(results) {
        for workload in group.workloads() {
            let figure = Figure::of(group, workload);
            let of = |engine: &str| cell(results, group, workload, engine, figure);
            let best = best(group, workload, figure);
            let best = best.filter(|(row, _)| shown.first() != Some(&&*row.engine));
            let best = best.map_or(String::new(), |(row, value)| {
                format!("{} `{}`", short(value), named(&row.engine))
            });
            let mut cells = vec![group.name.clone(), figure.name(workload)];
            cells.extend(shown.iter().map(|engine| of(engine)));
            cells.push(best);
            cells.extend(others().map(|engine| of(engine)));
            table.rows.push(cells);
        }
    }
    table
}

/// The preset with the best figure of `workload`.
fn best<'a>(group: &'a Group, workload: &'a str, figure: Figure) -> Option<(&'a Row, f64)> {
    let presets = group.of(workload).filter(|row| row.engine.starts_with(OWN) && !row.wrong);
    let valued = presets.filter_map(|row| Some((row, figure.value(row)?)));
    match figure {
        Figure::Latency => valued.min_by(|one, other| one.1.total_cmp(&other.1)),
        _ => valued.max_by(|one, other| one.1.total_cmp(&other.1)),
    }
}

/// The throughput of the engine `shown` as a multiple of the baseline's, a bar for each workload of
/// each list.
pub fn chart(results: &Results, shown: &str) -> String {
    let bar = |group: &Group, workload: &str| {
        let row = group.of(workload).find(|row| row.engine == shown)?;
        let ratio = group.ratio(row, &results.baseline, &SETTLED)?;
        let paced = row.typical().conditions.target_rate.is_some();
        let strip = Strip {
            parts: vec![(Paint::Engine(0), ratio)],
            pale: false,
            extremes: None,
            text: format!("{ratio:.1}x"),
        };
        let label = format!("{} {workload}", group.name);
        (!paced).then(|| Bars { label, strips: vec![strip] })
    };
    let of_group = |group| Group::workloads(group).into_iter().filter_map(move |it| bar(group, it));
    alone(&bars(&of_lists(results).flat_map(of_group).collect::<Vec<_>>()))
}

#[cfg(test)]
mod tests {
    use super::{brief, chart};
    use crate::report::collect::{Group, Results, Row};
    use crate::result::PhaseResult;
    use crate::warm::Warm;

    fn row(engine: &str, seconds: f64, hot_keys: Option<u64>) -> Row {
        let mut run = PhaseResult { engine: engine.into(), ..PhaseResult::default() };
        run.workload = "ycsb-c".into();
        run.speed.operations = 60_000;
        (run.speed.running_seconds, run.speed.settled_seconds) = (seconds, seconds);
        run.warm = Some(Warm { operations: 9, hot_keys, still: true });
        Row::of_run(run)
    }

    fn results(name: &str) -> Results {
        let rows = vec![
            row("cleave", 2.0, None),
            row("cleave-wisckey", 1.0, None),
            row("cleave-hoakv", 1.5, Some(1234)),
            Row { wrong: true, ..row("cleave-lsm", 0.5, None) },
            row("rocksdb", 6.0, None),
        ];
        let engines = rows.iter().map(|row| row.engine.clone()).collect();
        let group = Group { engines, ..Group::of_rows(name, rows) };
        Results { groups: vec![group], baseline: "rocksdb".into(), ..Results::default() }
    }

    /// The cells of each row of the table in `text`.
    fn rows(text: &str) -> Vec<Vec<&str>> {
        let lines = text.lines().filter(|line| line.starts_with("| "));
        lines.map(|line| line.trim_matches('|').split('|').map(str::trim).collect()).collect()
    }

    #[test]
    fn a_document_has_few_columns_and_the_best_preset_of_each_row() {
        let results = results("free");
        let text = brief(&results, &["cleave", "cleave-hoakv"]);
        let [header, cells] = &rows(&text)[..] else { panic!("{text}") };
        let few = ["list", "workload", "`cleave`", "`hoakv`", "best preset", "rocksdb"];
        assert_eq!(header[..], few);
        assert_eq!(cells[..], ["free", "ycsb-c", "30.0", "40.0", "60.0 `wisckey`", "10.0"]);
        let text = brief(&results, &["cleave-wisckey"]);
        assert_eq!(rows(&text)[1][2..], ["60.0", "", "10.0"], "the default is the best one");
        let svg = chart(&results, "cleave");
        assert!(svg.contains("free ycsb-c") && svg.contains("3.0x"), "{svg}");
        assert!(!svg.contains("#010000"), "no style sheet colours it");
    }

    #[test]
    fn a_page_of_a_paper_has_its_own_engine_first_and_says_how_warm_it_was() {
        let mut results = results("hoakv-7 zipfian-ranks=records, hot-store=20MiB");
        results.groups[0].is_of_experiment = true;
        let text = brief(&results, &["cleave"]);
        let rows = rows(&text);
        assert_eq!(rows[0][3..6], ["figure", "cleave-hoakv", "cleave"], "{text}");
        let cells = &rows[1];
        assert_eq!(cells[..3], ["hoakv-7", "zipfian-ranks=records, hot-store=20MiB", "ycsb-c"]);
        let figures = ["40,000", "30,000 (1.33x)", "60,000 (0.67x)", "WRONG VALUES"];
        assert_eq!(cells[4..8], figures, "{text}");
        assert_eq!(cells[8], "10,000 (4.00x)");
        assert!(cells[9].contains("cleave-hoakv: 1,234 hot keys; cleave-lsm: a pass"), "{text}");
    }
}
