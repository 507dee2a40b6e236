//! The report as Markdown, for a terminal and for a file that is committed.

use crate::report::collect::{Results, label};
use crate::report::features::{self, features};
use crate::report::overview::{self, overview};
use crate::report::papers::papers;
use crate::report::tables::{self, LEGEND, Table};

/// The end of a run on a terminal: what went wrong, and the main tables.
pub fn summary(results: &Results) -> String {
    let mut text = String::new();
    for group in &results.groups {
        text += &format!("{}: {}\n", group.name, label(&group.conditions));
        text += &tables::main(results, group).text();
        text += &format!("\n\n{}\n\n", tables::checked(group));
    }
    for (about, table) in features(results) {
        text += &format!("{about}\n{}\n\n", table.text());
    }
    let papers = papers(results);
    if !papers.rows.is_empty() {
        text += &format!("The papers' figures beside ours:\n{}\n\n", papers.text());
    }
    let failures = tables::failures(results);
    if !failures.rows.is_empty() {
        text += &format!("Tasks that did not end well:\n{}\n\n", failures.text());
    }
    for warning in &results.warnings {
        text += &format!("WARNING: {warning}\n");
    }
    text
}

/// Everything that has a table.
pub fn markdown(results: &Results) -> String {
    let mut text = String::from("# Benchmark results\n\n");
    for header in &results.headers {
        text += &format!(
            "{}: {}. {} repetition(s) of each engine, in turn; medians, compared with {}.\n\n\
             ```text\n{}\n```\n\n",
            header.name, header.about, header.repetitions, results.baseline, header.command
        );
    }
    if !results.warnings.is_empty() {
        text += "**Before believing the numbers:**\n\n";
        results.warnings.iter().for_each(|warning| text += &format!("- {warning}\n"));
        text += "\n";
    }
    for machine in &results.machines {
        section(&mut text, "Machine", &tables::machine(machine));
    }
    let overview = overview(results);
    if !overview.rows.is_empty() {
        text += &format!("## Overview\n\n{}\n\n{}\n\n", overview::LEGEND, overview.text());
    }
    text += &format!("## Main tables\n\n{LEGEND}\n\n");
    for group in &results.groups {
        text += &format!("### {}\n\n", group.name);
        if !group.about.is_empty() {
            text += &format!("{}; ", group.about);
        }
        text += &format!("{}.\n\n```text\n{}\n```\n\n", label(&group.conditions), group.command);
        text += &tables::main(results, group).text();
        text += &format!("\n\n{}\n\n", tables::checked(group));
    }
    if !results.features.is_empty() {
        text += &format!("## Features\n\n{}\n\n", features::LEGEND);
    }
    for (about, table) in features(results) {
        text += &format!("{about}.\n\n{}\n\n", table.text());
    }
    section(&mut text, "The papers' figures beside ours", &papers(results));
    for group in &results.groups {
        section(&mut text, &format!("Every quantity: {}", group.name), &tables::detail(group));
        section(&mut text, &format!("Latency by action: {}", group.name), &tables::actions(group));
        section(&mut text, &format!("Bytes by class: {}", group.name), &tables::classes(group));
        section(&mut text, &format!("Stalls: {}", group.name), &tables::stalls(group));
    }
    section(&mut text, "Limits of the disk", &tables::others(results));
    section(&mut text, "Failed tasks", &tables::failures(results));
    for (engine, settings) in tables::settings(results) {
        section(&mut text, &format!("Settings of {engine}"), &settings);
    }
    format!("{}\n", text.trim_end())
}

/// A table under a heading, if it has rows.
fn section(text: &mut String, title: &str, table: &Table) {
    if !table.rows.is_empty() {
        *text += &format!("## {title}\n\n{}\n\n", table.text());
    }
}
