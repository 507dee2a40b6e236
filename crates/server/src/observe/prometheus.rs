//! Figures of the server and of its engine in the text format of Prometheus.

use std::fmt::{Display, Write as _};
use std::sync::atomic::Ordering;

use super::ServerFigures;
use super::advice::{TABLE, advice};
use super::history::{CommandGroup, grouped};

/// Parts of the calls whose times are told.
const QUANTILES: [f64; 3] = [0.5, 0.99, 0.999];

/// A text that grows by metrics of the server.
struct ServerText(String);

impl ServerText {
    /// Adds a metric, each of its figures with labels.
    fn add<V: Display>(
        &mut self,
        name: &str,
        kind: &str,
        help: &str,
        figures: impl IntoIterator<Item = (String, V)>,
    ) {
        let name = format!("cleavedb_server_{name}");
        // Writing to a string does not fail.
        let _ = write!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}\n");
        for (labels, value) in figures {
            let _ = writeln!(self.0, "{name}{labels} {value}");
        }
    }
}

/// The body of an answer to a scrape.
pub fn text(figures: &ServerFigures<'_>) -> String {
    let observer = figures.observer;
    let mut text = ServerText(figures.metrics.to_prometheus(&[]));
    let plain = |value: f64| [(String::new(), value)];
    let uptime = observer.uptime().as_secs_f64();
    text.add("uptime_seconds", "gauge", "Time since the start.", plain(uptime));
    let most = figures.config.max_clients as f64;
    text.add("clients_max", "gauge", "Most clients at once.", plain(most));
    for (name, kind, help, count) in [
        ("clients", "gauge", "Clients that are connected.", &observer.clients),
        ("connections_total", "counter", "Clients let in.", &observer.connections),
        ("refused_total", "counter", "Clients sent away for their number.", &observer.refused),
        ("commands_total", "counter", "Commands run.", &observer.commands),
        ("pool_commands_total", "counter", "Commands that had to wait.", &observer.in_pool),
        ("received_bytes_total", "counter", "Bytes that clients sent.", &observer.received),
        ("sent_bytes_total", "counter", "Bytes that clients were sent.", &observer.sent),
    ] {
        text.add(name, kind, help, plain(count.load(Ordering::Relaxed) as f64));
    }
    calls(&mut text, figures);
    let errors = observer.errors().into_iter();
    let errors = errors.map(|(word, count)| (label("word", &word), count));
    text.add("errors_total", "counter", "Errors that clients were told, by first word.", errors);
    if let Some(process) = figures.process {
        text.add("memory_bytes", "gauge", "Memory of the process.", plain(process.resident as f64));
        let cpu = (process.user + process.system).as_secs_f64();
        text.add("cpu_seconds_total", "counter", "Processor time of the process.", plain(cpu));
    }
    let free = figures.directories.iter();
    let free = free.map(|of| (label("path", &of.path.to_string()), of.free));
    text.add("disk_free_bytes", "gauge", "Free bytes of the disks of the store.", free);
    let seen = advice(figures);
    let advice = TABLE.iter().map(|row| {
        let is_seen = seen.iter().any(|seen| seen.name == row.name);
        (label("name", row.name), u8::from(is_seen))
    });
    text.add("advice", "gauge", "1 where the page tells what to do.", advice);
    text.0
}

/// Calls by group: number and time since the start, and what the last five minutes were like.
fn calls(text: &mut ServerText, figures: &ServerFigures<'_>) {
    let sums = grouped(&figures.observer.rows());
    let recent = figures.observer.history(|history| history.recent());
    let figures = CommandGroup::ALL.into_iter().zip(sums.iter().zip(&recent));
    let figures = figures.flat_map(|(group, (sums, recent))| {
        let quantile = |part| {
            let labels = format!("{{group=\"{}\",quantile=\"{part}\"}}", group.name());
            recent.quantile(part).map(|time| (labels, time.as_secs_f64()))
        };
        let group = label("group", group.name());
        let all = [
            (format!("_sum{group}"), sums.time.as_secs_f64()),
            (format!("_count{group}"), sums.calls() as f64),
        ];
        QUANTILES.into_iter().filter_map(quantile).chain(all).collect::<Vec<_>>()
    });
    let help = "Times of calls since the start, by group; quantiles of the last five minutes.";
    text.add("call_seconds", "summary", help, figures);
}

/// A label as it stands behind a name.
fn label(name: &str, value: &str) -> String {
    let value = value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
    format!("{{{name}=\"{value}\"}}")
}
