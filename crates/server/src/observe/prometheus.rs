//! Figures of the server and of its engine in the text format of Prometheus.

use std::fmt::Write as _;
use std::sync::atomic::Ordering;
use std::time::Duration;

use cleavedb::Metrics;

use super::counts::Counts;

/// The body of an answer to a scrape.
pub fn text(metrics: &Metrics, counts: &Counts, uptime: Duration) -> String {
    let mut text = metrics.to_prometheus(&[]);
    let count = |count: &std::sync::atomic::AtomicU64| count.load(Ordering::Relaxed) as f64;
    for (name, kind, help, value) in [
        ("uptime_seconds", "gauge", "Time since the start.", uptime.as_secs_f64()),
        ("clients", "gauge", "Clients that are connected.", count(&counts.clients)),
        ("connections_total", "counter", "Clients let in.", count(&counts.connections)),
        ("commands_total", "counter", "Commands run.", count(&counts.commands)),
        ("pool_commands_total", "counter", "Commands that had to wait.", count(&counts.in_pool)),
    ] {
        let name = format!("cleavedb_server_{name}");
        // Writing to a string does not fail.
        let _ = write!(text, "# HELP {name} {help}\n# TYPE {name} {kind}\n{name} {value}\n");
    }
    text
}
