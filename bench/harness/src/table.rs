//! The summary of a run on a terminal: one row a workload, every column with its unit.

use std::ops::Range;

use comfy_table::presets::ASCII_MARKDOWN;
use comfy_table::{CellAlignment, ContentArrangement, Table};

use crate::counters::{MEMORY_BOUND, OPEN_FILES, WINDOW_BYTES, WINDOW_MAPPED};
use crate::result::{FeatureResult, HARNESS_MAX, PhaseResult, Verification};
use crate::units::{bytes, short, thousands};

const NONE: &str = "-";
const ALL_BUT_NAMES: Range<usize> = 1..usize::MAX;

const LEGEND: &str = "\
settled: background work until idle counted. CPU: all threads, background work counted. harness: its
share of the clients' time. others: share of the machine's processors that others used (noise).
put: keys and values written by the client. W: bytes written for each of these, at the device (all
its users) and by this process. fetched: bytes this process read from storage; R: for each byte that
the client read. S: blocks on disk for each live byte. RSS, with cache: the most memory, without and
with the page cache. wrong: values that were not right, records that were lost, and moments at
which a store took more of the disk than its own limit.";

/// Speed of every phase.
pub fn speed(results: &[PhaseResult]) -> String {
    let mut table = table(&[
        "workload",
        "operations",
        "op/s",
        "op/s settled",
        "p50 us",
        "p99 us",
        "p99.9 us",
        "max ms",
        "CPU us/op",
        "harness",
        "others",
    ]);
    let percent = |share: f64| format!("{:.1}%", share * 100.0);
    for result in results {
        table.add_row([
            result.workload.clone(),
            thousands(result.speed.operations as f64),
            thousands(result.per_second()),
            thousands(result.settled_per_second()),
            short(result.latency.p50_us),
            short(result.latency.p99_us),
            short(result.latency.p999_us),
            short(result.latency.max_us / 1000.0),
            short(result.cpu_us_per_operation()),
            percent(result.harness_share()),
            result.others_share().map_or(NONE.to_owned(), percent),
        ]);
    }
    let slow = results.iter().filter(|result| result.harness_share() > HARNESS_MAX);
    let warnings: String = slow
        .map(|result| {
            let share = percent(result.harness_share());
            format!("\nWARNING: {}: {share} of the time is the harness' own", result.workload)
        })
        .collect();
    align(table, ALL_BUT_NAMES) + &warnings
}

/// Cost of every phase: bytes, space, memory.
pub fn cost(results: &[PhaseResult]) -> String {
    let mut table = table(&[
        "workload",
        "put",
        "W device",
        "W process",
        "fetched",
        "R process",
        "on disk",
        "S end",
        "S peak",
        "RSS",
        "with cache",
        "open ms",
        "wrong",
    ]);
    let ratio = |ratio: Option<f64>| ratio.map_or(NONE.to_owned(), |ratio| format!("{ratio:.2}"));
    let size = |size: Option<u64>| size.map_or(NONE.to_owned(), bytes);
    for result in results {
        let written = (result.user.written > 0).then_some(result.user.written);
        table.add_row([
            result.workload.clone(),
            size(written),
            ratio(result.device_write_amplification()),
            ratio(result.process_write_amplification()),
            size(result.cost.process.map(|process| process.fetched)),
            ratio(result.process_read_amplification()),
            bytes(result.space.end.allocated),
            ratio(result.space_amplification()),
            ratio(result.peak_space_amplification()),
            size(result.cost.peak_resident),
            size(result.cost.peak_limited),
            result.conditions.open_seconds.map_or(NONE.to_owned(), |open| short(open * 1e3)),
            thousands(result.problems() as f64),
        ]);
    }
    format!("{}\n{LEGEND}", align(table, ALL_BUT_NAMES))
}

/// What was wrong, one line each; empty if nothing was.
pub fn problems(results: &[PhaseResult]) -> Vec<String> {
    results
        .iter()
        .filter(|result| result.problems() > 0)
        .map(|result| {
            let first = result.checks.first_problem.as_deref().unwrap_or("unknown");
            format!("WRONG: {}: {} problems, first: {first}", result.workload, result.problems())
        })
        .collect()
}

/// What the engine has of the machine at the end, in a line, if it says so.
pub fn state(results: &[PhaseResult]) -> Option<String> {
    let counters = &results.last()?.counters;
    let of = |name: &str| counters.get(name).copied();
    let size = |name: &str| of(name).map(|size| bytes(size as u64));
    let mapped = if of(WINDOW_MAPPED)? > 0.0 { "mapped" } else { "in memory" };
    Some(format!(
        "at the end: log window {}, {mapped}, not locked; {} files open for reading; at most {} of \
         memory",
        size(WINDOW_BYTES)?,
        thousands(of(OPEN_FILES)?),
        size(MEMORY_BOUND)?,
    ))
}

/// The figures of a feature that was measured once.
pub fn feature(results: &[FeatureResult]) -> String {
    let mut table = table(&["case", "figure", "value"]);
    for FeatureResult { case, figures, .. } in results {
        for (name, value) in figures {
            table.add_row([case.clone(), name.clone(), short(*value)]);
        }
    }
    align(table, 2..usize::MAX)
}

/// The check of the whole store, in a line.
pub fn verification(found: &Verification) -> String {
    let records = thousands(found.records as f64);
    let checked = format!("{records} records read, {}, {:.1} s", found.extent(), found.seconds);
    match &found.first_problem {
        None => format!("verified: {checked}"),
        Some(first) => format!(
            "WRONG: {} wrong, {} missing, {} unexpected; first: {first} ({checked})",
            found.wrong, found.missing, found.unexpected
        ),
    }
}

/// A table as text, which is Markdown too; the columns of `numbers` are aligned to the right.
pub fn text<S: AsRef<str>>(header: &[S], rows: &[Vec<String>], numbers: Range<usize>) -> String {
    let header: Vec<_> = header.iter().map(AsRef::as_ref).collect();
    let mut table = table(&header);
    for row in rows {
        table.add_row(row.iter().map(|cell| cell.replace('|', r"\|")));
    }
    align(table, numbers)
}

fn table(header: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_style(ASCII_MARKDOWN).set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(header);
    table
}

fn align(mut table: Table, numbers: Range<usize>) -> String {
    for column in table.column_iter_mut().take(numbers.end).skip(numbers.start) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table.trim_fmt()
}
