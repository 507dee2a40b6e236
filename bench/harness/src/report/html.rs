//! The report as one page that needs nothing else: no network, no script.

use std::collections::BTreeSet;
use std::fmt::Write;

use maud::{DOCTYPE, Markup, PreEscaped, html};

use crate::counters::CLASSES;
use crate::report::chart::{Paint, sign};
use crate::report::collect::{Group, Results, Row, label};
use crate::report::figures::{Figure, KINDS, Kind, Style};
use crate::report::overview::{self, overview};
use crate::report::papers::of_experiment;
use crate::report::sweeps::{Sweep, sweeps};
use crate::report::tables::{self, LEGEND, Table};

const STYLE: &str = include_str!("style.css");
/// Colours that the style sheet has.
const COLOURS: usize = 7;
/// Dashes of lines, so that colours need not be told apart.
const DASHES: [&str; 4] = ["none", "8 4", "2 4", "12 4 2 4"];
/// Dashes of what an engine means to stay within.
const BUDGET_DASHES: &str = "1 5";

/// The page.
pub fn page(results: &Results) -> String {
    let engines = results.engines();
    let budgeted = budgeted(results, &engines);
    let style = Style { engines: &engines, budgeted: &budgeted, baseline: &results.baseline };
    let title = title(results);
    let (overview, sweeps) = (overview(results), sweeps(results, &style));
    let markup = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { (title) }
                style { (PreEscaped(STYLE)) (PreEscaped(colours(engines.len()))) }
            }
            body {
                h1 { (title) }
                (opening(results))
                (warnings(results))
                (conditions(results))
                (contents(!overview.rows.is_empty(), !sweeps.is_empty()))
                (first(&overview))
                (papers(results, &sweeps, &style))
                (main(results))
                @for kind in KINDS { (section(results, kind, &style)) }
                (closing(results))
            }
        }
    };
    markup.into_string()
}

fn title(results: &Results) -> String {
    let names: Vec<_> = results.headers.iter().map(|header| header.name.as_str()).collect();
    match names.last() {
        Some(name) => format!("CleaveDB benchmark: {name}"),
        None => "CleaveDB benchmark".to_owned(),
    }
}

/// Which of `engines` told a budget of space.
fn budgeted(results: &Results, engines: &[String]) -> Vec<bool> {
    let rows = || results.groups.iter().flat_map(|group| &group.rows);
    let told = |row: &Row| row.typical().samples.iter().any(|sample| sample.budget.is_some());
    let of = |engine: &String| rows().any(|row| row.engine == *engine && told(row));
    engines.iter().map(of).collect()
}

fn colour(number: usize) -> String {
    format!("var(--c{})", number % COLOURS)
}

/// Classes begin elsewhere than engines, so that the two are not taken for one another.
fn class_colour(number: usize) -> String {
    colour(number + 2)
}

/// The style sheet's part that depends on the number of engines.
fn colours(engines: usize) -> String {
    let mut css = String::new();
    let mut add = |of: &str, number: usize| {
        let colour = if of == "02" { class_colour(number) } else { colour(number) };

        let drawn = format!("#{of}00{number:02X}");
        writeln!(
            css,
            "svg [fill=\"{drawn}\"]{{fill:{colour}}}svg [stroke=\"{drawn}\"]{{stroke:{colour}}}"
        )
        .expect("writing to a string does not fail");
        let dashes = match of {
            "01" => Some(DASHES[number % DASHES.len()]),
            "05" => Some(BUDGET_DASHES),
            _ => None,
        };
        if let Some(dashes) = dashes {
            writeln!(css, "svg polyline[stroke=\"{drawn}\"]{{stroke-dasharray:{dashes}}}")
                .expect("writing to a string does not fail");
        }
    };
    (0..engines).for_each(|number| add("01", number));
    (0..engines).for_each(|number| add("05", number));
    (0..CLASSES.len()).for_each(|number| add("02", number));
    css
}

fn opening(results: &Results) -> Markup {
    html! {
        @for header in &results.headers {
            p { (header.about) ". " (header.engines.len()) " engines, " (header.repetitions)
                " repetition(s) of each, in turn; medians. Compared with " b { (results.baseline) }
                "." }
            (command(&header.command))
        }
        @for typed in &results.commands { (command(typed)) }
    }
}

fn command(typed: &str) -> Markup {
    html! { @if !typed.is_empty() { code { (typed) } } }
}

fn warnings(results: &Results) -> Markup {
    html! {
        @if !results.warnings.is_empty() {
            div.warn role="note" {
                strong { "Before believing the numbers" }
                ul { @for warning in &results.warnings { li { (warning) } } }
            }
        }
        @if !results.failures.is_empty() {
            div.warn role="note" {
                strong { (results.failures.len()) " task(s) did not end well: " }
                a href="#failed" { "what happened" }
            }
        }
    }
}

fn conditions(results: &Results) -> Markup {
    html! {
        h2 #conditions { "Conditions and machine" }
        @for machine in &results.machines { (table(&tables::machine(machine))) }
        (listed(results, false))
        @if results.groups.iter().any(|group| group.is_of_experiment) {
            details { summary { "Runs of the papers' experiments" } (listed(results, true)) }
        }
    }
}

/// The lists that are runs of experiments, or those that are not, with their conditions.
fn listed(results: &Results, of_experiments: bool) -> Markup {
    let wanted = |group: &&Group| group.is_of_experiment == of_experiments;
    html! {
        ul {
            @for group in results.groups.iter().filter(wanted) {
                li { b { (group.name) } ": " (group.about) @if !group.about.is_empty() { "; " }
                    (label(&group.conditions)) ", keys of " (group.conditions.key_bytes)
                    " bytes, seed " (group.conditions.seed) }
            }
        }
    }
}

fn contents(overview: bool, papers: bool) -> Markup {
    html! {
        nav aria-label="sections" {
            @if overview { a href="#overview" { "Overview" } }
            @if papers { a href="#papers" { "The papers' experiments" } }
            a href="#main" { "Main table" }
            @for kind in KINDS { a href={ "#" (kind.id) } { (kind.title) } }
            a href="#stalls" { "Stalls" }
            a href="#disk" { "Limits of the disk" }
            a href="#failed" { "Failed tasks" }
            a href="#settings" { "Settings" }
        }
    }
}

fn first(overview: &Table) -> Markup {
    html! {
        @if !overview.rows.is_empty() {
            h2 #overview { "Overview" }
            p.soft { (overview::LEGEND) }
            (table(overview))
        }
    }
}

fn main(results: &Results) -> Markup {
    html! {
        h2 #main { "Main table" }
        p.soft { (LEGEND) }
        @for group in &results.groups {
            @if group.is_of_experiment {
                details { summary { (group.name) } (one(results, group)) }
            } @else {
                h3 { (group.name) }
                (one(results, group))
            }
        }
    }
}

/// The tables of a list.
fn one(results: &Results, group: &Group) -> Markup {
    let actions = tables::actions(group);
    html! {
        (table(&tables::main(results, group)))
        p.soft { (tables::checked(group)) }
        details { summary { "Every quantity" } (table(&tables::detail(group))) }
        @if !actions.rows.is_empty() {
            details { summary { "Latency by action" } (table(&actions)) }
        }
    }
}

/// The papers' experiments, each with its figures and the paper's own.
fn papers(results: &Results, sweeps: &[Sweep], style: &Style<'_>) -> Markup {
    html! {
        @if !sweeps.is_empty() {
            h2 #papers { "The papers' experiments" }
            (engines_key(style))
        }
        @for Sweep { experiment, figures } in sweeps {
            h3 { (experiment.name) ": " (experiment.about) }
            p.soft { (experiment.rows.join("; ")) ". The paper, on its machine: "
                (experiment.paper_says) }
            div.grid { @for figure in figures { (drawn(figure)) } }
            details { summary { "The numbers" } (table(&of_experiment(results, experiment))) }
        }
    }
}

fn section(results: &Results, kind: &Kind, style: &Style<'_>) -> Markup {
    let figures = |group: &Group| -> Vec<Figure> {
        let workloads = group.workloads();
        workloads.into_iter().filter_map(|workload| (kind.draw)(group, workload, style)).collect()
    };
    html! {
        h2 id=(kind.id) { (kind.title) }
        p.soft { (kind.about) }
        (key(kind, style))
        @for group in results.groups.iter().filter(|group| !group.is_of_experiment) {
            @let figures = figures(group);
            @if !figures.is_empty() {
                @if results.groups.len() > 1 { h3 { (group.name) } }
                div.grid { @for figure in &figures { (drawn(figure)) } }
            }
            @if kind.id == "classes" {
                @let numbers = tables::classes(group);
                @if !numbers.rows.is_empty() {
                    details { summary { (group.name) ": the numbers" } (table(&numbers)) }
                }
            }
        }
    }
}

/// What stands for what; bars have their names beside them.
fn key(kind: &Kind, style: &Style<'_>) -> Markup {
    html! {
        @match kind.id {
            "latency" | "over-time" => (engines_key(style)),
            "space" => {
                (engines_key(style))
                ul.key {
                    li { (PreEscaped(sign(Paint::Reference))) "live data" }
                    @for (number, engine) in style.budgeted.iter().enumerate() {
                        @if *engine {
                            li { (PreEscaped(sign(Paint::Budget(number))))
                                (style.engines[number]) ": budget" }
                        }
                    }
                }
            },
            "classes" => ul.key {
                @for (number, name) in CLASSES.iter().enumerate() {
                    li { span.chip style={ "background:" (class_colour(number)) } {} (name) }
                }
            },
            _ => {}
        }
    }
}

fn engines_key(style: &Style<'_>) -> Markup {
    html! {
        ul.key {
            @for (number, engine) in style.engines.iter().enumerate() {
                li { (PreEscaped(sign(Paint::Engine(number)))) (engine) }
            }
        }
    }
}

fn drawn(figure: &Figure) -> Markup {
    html! {
        figure {
            figcaption { strong { (figure.title) } p { (figure.about) } }
            (PreEscaped(&figure.svg))
            @if !figure.command.is_empty() {
                details { summary { "Command" } code { (figure.command) } }
            }
        }
    }
}

fn closing(results: &Results) -> Markup {
    let disk = tables::others(results);
    html! {
        h2 #stalls { "Stalls" }
        p.soft { "Moments in which a writer waited, as each engine counts them, in the run of "
            "median throughput." }
        @for group in &results.groups {
            @let stalls = tables::stalls(group);
            @if !stalls.rows.is_empty() { h3 { (group.name) } (table(&stalls)) }
            @else if !group.is_of_experiment {
                p { (group.name) ": " (none_stalled(group)) }
            }
        }
        h2 #disk { "Limits of the disk" }
        @if disk.rows.is_empty() { p { "Not measured in this run." } } @else { (table(&disk)) }
        h2 #failed { "Failed tasks" }
        @let failed = tables::failures(results);
        @if failed.rows.is_empty() { p { "None." } } @else { (table(&failed)) }
        h2 #settings { "Settings of each engine" }
        @for (engine, settings) in tables::settings(results) {
            details { summary { (engine) } (table(&settings)) }
        }
    }
}

/// Says that no writer waited, if any engine would know.
fn none_stalled(group: &Group) -> String {
    let counts = |row: &&Row| !row.typical().stalls().is_empty();
    let rows = group.rows.iter().filter(counts);
    let engines: BTreeSet<&str> = rows.map(|row| row.engine.as_str()).collect();
    if engines.is_empty() {
        return "no engine counts them.".to_owned();
    }
    format!("none, as {} count them.", engines.into_iter().collect::<Vec<_>>().join(", "))
}

fn table(table: &Table) -> Markup {
    let class = |at: usize| if table.numbers.contains(&at) { "n" } else { "" };
    let row = |at: usize| {
        let first = at > 0
            && table.numbers.start > 1
            && !table.numbers.is_empty()
            && table.rows[at][0] != table.rows[at - 1][0];
        let wrong = table.rows[at].iter().any(|cell| cell == "WRONG VALUES");
        format!("{}{}", if first { "first " } else { "" }, if wrong { "wrong" } else { "" })
    };
    let long = |cell: &str, at: usize| if cell.len() > 60 { "long" } else { class(at) };
    html! {
        div.scroll tabindex="0" role="region" aria-label="table" {
            table {
                thead { tr {
                    @for (at, name) in table.header.iter().enumerate() {
                        th scope="col" class=(class(at)) { (name) }
                    }
                } }
                tbody {
                    @for (at, cells) in table.rows.iter().enumerate() {
                        tr class=(row(at)) {
                            @for (column, cell) in cells.iter().enumerate() {
                                td class=(long(cell, column)) { (cell) }
                            }
                        }
                    }
                }
            }
        }
    }
}
