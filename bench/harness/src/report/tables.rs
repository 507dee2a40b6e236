//! The tables of a report, made once: as text for a terminal, as Markdown, and for the page.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use serde::Deserialize;
use serde_json::Value;

use crate::counters::{CLASSES, ClassBytes};
use crate::latency::LatencySummary;
use crate::report::collect::{Group, Results, Row};
use crate::report::metric::{
    CPU, HARNESS, LIMITED, Metric, OTHERS, P50, P99, P999, READ_DEVICE, RESIDENT, RUNNING, SETTLED,
    SPACE_END, SPACE_OF_BUDGET, SPACE_PEAK, WRITE_DEVICE, WRITE_PROCESS,
};
use crate::report::stats::Spread;
use crate::result::PhaseResult;
use crate::system::DiskLimits;
use crate::system::machine::Machine;
use crate::table::text;
use crate::units::{bytes, short, thousands};

/// In place of a figure that there is none of.
pub(super) const NONE: &str = "-";
/// Of a table that begins with workload and engine, and has numbers only behind them.
const NUMBERS: Range<usize> = 2..usize::MAX;

/// Cells under a header.
#[derive(Clone, Debug, Default)]
pub struct Table {
    /// Names of the columns.
    pub header: Vec<String>,
    /// The cells.
    pub rows: Vec<Vec<String>>,
    /// The columns of numbers; names stand before them, and words behind.
    pub numbers: Range<usize>,
}

impl Table {
    /// Without rows yet.
    pub fn new<S: Into<String>>(
        header: impl IntoIterator<Item = S>,
        numbers: Range<usize>,
    ) -> Self {
        let header = header.into_iter().map(Into::into).collect();
        Self { header, rows: Vec::new(), numbers }
    }

    /// As text; Markdown too.
    pub fn text(&self) -> String {
        text(&self.header, &self.rows, self.numbers.clone())
    }
}

fn shown(row: &Row, metric: &Metric) -> String {
    row.spread(metric).map_or(NONE.to_owned(), |spread| (metric.show)(spread.median))
}

fn times(group: &Group, row: &Row, baseline: &str, metric: &Metric) -> String {
    group.ratio(row, baseline, metric).map_or(NONE.to_owned(), |ratio| format!("{}x", short(ratio)))
}

/// The distance of the extremes from the median: `-3/+5%`.
pub(super) fn apart(spread: Option<Spread>) -> String {
    let Some(spread) = spread.filter(|spread| spread.count > 1 && spread.median > 0.0) else {
        return NONE.to_owned();
    };
    let percent = |value: f64| (value / spread.median - 1.0) * 100.0;
    format!("{:+.0}/{:+.0}%", percent(spread.least), percent(spread.most))
}

/// The main table: medians, how far repetitions lie apart, and multiples of the baseline. An engine
/// that never came to a result has a row that says why.
pub fn main(results: &Results, group: &Group) -> Table {
    let baseline = &results.baseline;
    let compared = format!("x {baseline}");
    let header = [
        "workload",
        "engine",
        "op/s",
        "spread",
        &compared,
        "op/s settled",
        &compared,
        "p99 us",
        "W device",
        "S peak",
        "note",
    ];
    let mut table = Table::new(header, 2..10);
    for row in &group.rows {
        let versus = |metric| times(group, row, baseline, metric);
        table.rows.push(vec![
            row.workload.clone(),
            row.engine.clone(),
            shown(row, &RUNNING),
            apart(row.spread(row.judged_by())),
            if row.writes_in_parts() { NONE.to_owned() } else { versus(&RUNNING) },
            shown(row, &SETTLED),
            versus(&SETTLED),
            shown(row, &P99),
            shown(row, &WRITE_DEVICE),
            shown(row, &SPACE_PEAK),
            note(row),
        ]);
    }
    let mut lost: Vec<&str> = Vec::new();
    for (task, outcome) in results.failures.iter().filter(|(task, _)| task.list == group.name) {
        if !group.engines.contains(&task.engine) && !lost.contains(&task.engine.as_str()) {
            lost.push(&task.engine);
            let mut cells = vec![NONE.to_owned(); table.header.len() - 1];
            cells[1].clone_from(&task.engine);
            cells.push(outcome.ended.words().to_owned());
            table.rows.push(cells);
        }
    }
    table
}

fn note(row: &Row) -> String {
    if row.wrong { "WRONG VALUES".to_owned() } else { row.trouble.clone().unwrap_or_default() }
}

/// What was checked in the stores of the group's tasks, in a line.
pub fn checked(group: &Group) -> String {
    let mut kinds: BTreeMap<&str, (BTreeSet<&str>, usize, u64)> = BTreeMap::new();
    for check in &group.checks {
        let (engines, tasks, records) = kinds.entry(&check.words).or_default();
        engines.insert(&check.engine);
        (*tasks, *records) = (*tasks + 1, *records + check.records);
    }
    let words = kinds.into_iter().map(|(words, (engines, tasks, records))| {
        let engines = engines.into_iter().collect::<Vec<_>>().join(", ");
        let records = thousands(records as f64);
        format!("{words}: {engines} ({tasks} task(s), {records} records)")
    });
    format!("Verification: {}.", words.collect::<Vec<_>>().join("; "))
}

/// Every other quantity.
pub fn detail(group: &Group) -> Table {
    const SHOWN: &[(&str, Metric)] = &[
        ("p50 us", P50),
        ("p99 us", P99),
        ("p99.9 us", P999),
        ("CPU us/op", CPU),
        ("W device", WRITE_DEVICE),
        ("W process", WRITE_PROCESS),
        ("R device", READ_DEVICE),
        ("S end", SPACE_END),
        ("S peak", SPACE_PEAK),
        ("of budget", SPACE_OF_BUDGET),
        ("RSS", RESIDENT),
        ("with cache", LIMITED),
        ("harness", HARNESS),
        ("others", OTHERS),
    ];
    let names = SHOWN.iter().map(|(name, _)| *name);
    let mut table = Table::new(["workload", "engine", "runs"].into_iter().chain(names), NUMBERS);
    for row in &group.rows {
        let mut cells = vec![row.workload.clone(), row.engine.clone(), row.runs.len().to_string()];
        cells.extend(SHOWN.iter().map(|(_, metric)| shown(row, metric)));
        table.rows.push(cells);
    }
    table
}

/// Latencies of each action, where a workload has several: a read and an update in one figure say
/// little of either.
pub fn actions(group: &Group) -> Table {
    type Figure = (&'static str, fn(&LatencySummary) -> f64);
    const SHOWN: [Figure; 5] = [
        ("p50 us", |latency| latency.p50_us),
        ("p95 us", |latency| latency.p95_us),
        ("p99 us", |latency| latency.p99_us),
        ("p99.9 us", |latency| latency.p999_us),
        ("max us", |latency| latency.max_us),
    ];
    let names = SHOWN.iter().map(|(name, _)| *name);
    let header = ["workload", "action", "engine"].into_iter().chain(names);
    let mut table = Table::new(header, 3..usize::MAX);
    for workload in group.workloads() {
        let rows: Vec<_> = group.of(workload).collect();
        let runs = rows.iter().flat_map(|row| &row.runs);
        let actions: BTreeSet<_> = runs.flat_map(|run| run.latency_by_action.keys()).collect();
        if actions.len() < 2 {
            continue;
        }
        for (action, row) in
            actions.iter().flat_map(|action| rows.iter().map(move |row| (*action, row)))
        {
            let of = |(_, figure): &Figure| {
                let found = row.runs.iter().filter_map(|run| run.latency_by_action.get(action));
                Spread::of(found.map(figure)).map_or(NONE.to_owned(), |spread| short(spread.median))
            };
            let names = [&row.workload, action, &row.engine].map(Clone::clone);
            table.rows.push(names.into_iter().chain(SHOWN.iter().map(of)).collect());
        }
    }
    table
}

/// What the tables' columns mean.
pub const LEGEND: &str = "\
Medians over the repetitions; spread: how far the least and the most lie from the median. settled: \
the time until no background work is left is counted. What writes in parts, with other engines in \
turn, settles after each and is judged by that alone. W device: bytes written at the device (all \
its users, the log included) for a byte that the client wrote; W process: the same by the \
process's own counter. R device: bytes read at the device for a byte that the client read. S: \
blocks on disk for a byte of live data, the most of all samples and at the end; of budget: the \
most of all samples as a share of what the engine meant to stay within. CPU: user and \
system time of all threads. RSS, with cache: the most memory, without and with the page cache. \
harness: the harness' share of the clients' time. others: what other programs used of the \
processors.";

/// Tasks that did not end well.
pub fn failures(results: &Results) -> Table {
    let mut table = Table::new(["list", "engine", "repetition", "ended", "what it said"], 2..3);
    for (task, outcome) in &results.failures {
        table.rows.push(vec![
            task.list.clone(),
            task.engine.clone(),
            task.repetition.to_string(),
            outcome.ended.words().to_owned(),
            outcome.words.clone().unwrap_or_default(),
        ]);
    }
    table
}

/// Which of a class's bytes.
type Moved = fn(&ClassBytes) -> Option<u64>;

/// Bytes of `class` that a run moved for a byte that the client wrote.
pub fn class_amplification(run: &PhaseResult, class: &str, moved: Moved) -> Option<f64> {
    let classes = run.bytes_by_class();
    let bytes = moved(classes.iter().find(|bytes| bytes.class == class)?)?;
    (run.user.written > 0).then(|| bytes as f64 / run.user.written as f64)
}

/// Bytes written and read by class, as the engine counts them, for a byte that the client wrote. A
/// class that no engine counts has no column.
pub fn classes(group: &Group) -> Table {
    let kinds: [(&str, Moved); 2] =
        [("written", |bytes| bytes.written), ("read", |bytes| bytes.read)];
    let columns = kinds.iter().flat_map(|(kind, moved)| {
        CLASSES.map(|class| (format!("{class} {kind}"), class, *moved)).into_iter()
    });
    let of = |row: &Row, class: &str, moved: Moved| {
        Spread::of(row.runs.iter().filter_map(|run| class_amplification(run, class, moved)))
    };
    let known =
        |class: &str, moved: Moved| group.rows.iter().any(|row| of(row, class, moved).is_some());
    let columns: Vec<_> = columns.filter(|(_, class, moved)| known(class, *moved)).collect();
    let names = columns.iter().map(|(name, ..)| name.as_str());
    let mut table = Table::new(["workload", "engine"].into_iter().chain(names), NUMBERS);
    for row in &group.rows {
        let cells: Vec<_> =
            columns.iter().map(|(_, class, moved)| of(row, class, *moved)).collect();
        if cells.iter().any(Option::is_some) {
            let shown = |cell: Option<Spread>| {
                cell.map_or(NONE.to_owned(), |spread| format!("{:.2}", spread.median))
            };
            let names = [row.workload.clone(), row.engine.clone()];
            table.rows.push(names.into_iter().chain(cells.into_iter().map(shown)).collect());
        }
    }
    table
}

/// Moments in which writers waited, by cause, in the typical run of each row.
pub fn stalls(group: &Group) -> Table {
    let mut table = Table::new(["workload", "engine", "cause", "stalls", "seconds"], 3..5);
    for row in &group.rows {
        for stall in row.typical().stalls() {
            if stall.count.unwrap_or(0) > 0 || stall.seconds.unwrap_or(0.0) > 0.0 {
                table.rows.push(vec![
                    row.workload.clone(),
                    row.engine.clone(),
                    stall.cause.replace('_', " "),
                    stall.count.map_or(NONE.to_owned(), |count| thousands(count as f64)),
                    stall.seconds.map_or(NONE.to_owned(), short),
                ]);
            }
        }
    }
    table
}

/// Limits of the disk, and whatever else was measured beside the workloads. What was measured more
/// than once, as a suite that goes on does, is numbered.
pub fn others(results: &Results) -> Table {
    let mut table = Table::new(["measured", "quantity", "value"], 2..3);
    let mut seen: BTreeMap<&str, u32> = BTreeMap::new();
    for (kind, value) in &results.others {
        let number = seen.entry(kind).or_default();
        *number += 1;
        let name = if *number == 1 { kind.clone() } else { format!("{kind} ({number})") };
        match DiskLimits::deserialize(value) {
            Ok(limits) if kind == "disk" => {
                let rows = limits.quantities().into_iter();
                table.rows.extend(rows.map(|(what, shown)| vec![name.clone(), what, shown]));
            }
            _ => flatten(&name, "", value, &mut table.rows),
        }
    }
    table
}

/// A row for each number and text in `value`, named by the way to it.
fn flatten(kind: &str, name: &str, value: &Value, rows: &mut Vec<Vec<String>>) {
    let below = |part: &str| format!("{name} {}", part.replace('_', " ")).trim().to_owned();
    let shown = match value {
        Value::Object(fields) => {
            let wanted = fields.iter().filter(|(part, _)| *part != "kind" && *part != "task");
            return wanted.for_each(|(part, value)| flatten(kind, &below(part), value, rows));
        }
        Value::Array(items) => {
            let numbered = items.iter().zip(1u32..);
            return numbered
                .for_each(|(item, at)| flatten(kind, &below(&format!("{at}")), item, rows));
        }
        Value::Number(number) => number.as_f64().map(short).unwrap_or_default(),
        Value::String(text) => text.clone(),
        Value::Bool(whether) => whether.to_string(),
        Value::Null => return,
    };
    rows.push(vec![kind.to_owned(), name.to_owned(), shown]);
}

/// The settings of each engine: those of its first list, and what others changed.
pub fn settings(results: &Results) -> Vec<(String, Table)> {
    let mut found: Vec<(String, Table)> = Vec::new();
    let runs = results
        .groups
        .iter()
        .flat_map(|group| group.rows.iter().map(|row| (group.name.as_str(), row.typical())));
    for (list, run) in runs {
        let known = found.iter().position(|(engine, _)| *engine == run.engine);
        let at = known.unwrap_or_else(|| {
            found.push((run.engine.clone(), Table::new(["setting", "value"], 2..2)));
            found.len() - 1
        });
        let rows = &mut found[at].1.rows;
        for (name, value) in &run.settings {
            let usual = rows.iter().find(|row| row[0] == *name).map(|row| &row[1]);
            let name = match usual {
                None => name.clone(),
                Some(usual) if usual == value => continue,
                Some(_) => format!("{name}, in {list}"),
            };
            if !rows.iter().any(|row| row[0] == name) {
                rows.push(vec![name, value.clone()]);
            }
        }
    }
    found
}

/// A machine.
pub fn machine(machine: &Machine) -> Table {
    let mut table = Table::new(["machine", ""], 2..2);
    let rows = [
        ("processor", machine.processor.clone()),
        ("processors", machine.processors.to_string()),
        ("memory", bytes(machine.memory)),
        ("kernel", machine.kernel.clone()),
        ("load before the run", format!("{:.2}", machine.load)),
    ];
    table.rows.extend(rows.map(|(name, value)| vec![name.to_owned(), value]));
    table
}
