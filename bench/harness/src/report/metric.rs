//! What a report shows of a result: one entry for each quantity, with its unit and its direction.

use crate::result::PhaseResult;
use crate::units::{bytes, short, thousands};

/// A quantity.
#[derive(Clone, Copy, Debug)]
pub struct Metric {
    /// Short name, in machine-readable summaries.
    pub name: &'static str,
    /// What it is, with its unit.
    pub about: &'static str,
    /// Whether more of it is better.
    pub more_is_better: bool,
    /// The value of the metric, if it was measured.
    pub of: fn(&PhaseResult) -> Option<f64>,
    /// The value as text.
    pub show: fn(f64) -> String,
    /// What follows the value in a sentence.
    pub unit: &'static str,
}

fn ratio(value: f64) -> String {
    format!("{value:.2}")
}

fn size(value: f64) -> String {
    bytes(value as u64)
}

fn percent(value: f64) -> String {
    format!("{:.1}%", value * 100.0)
}

/// Operations a second.
pub const RUNNING: Metric = Metric {
    name: "running",
    about: "operations a second while clients run",
    more_is_better: true,
    of: |result| Some(result.per_second()),
    show: thousands,
    unit: " op/s",
};

/// Operations a second, background work counted.
pub const SETTLED: Metric = Metric {
    name: "settled",
    about: "operations a second, the time until no background work is left counted",
    more_is_better: true,
    of: |result| Some(result.settled_per_second()),
    show: thousands,
    unit: " op/s",
};

/// Write amplification at the device.
pub const WRITE_DEVICE: Metric = Metric {
    name: "write-amplification",
    about: "bytes written at the device for a byte written by the client, the log included",
    more_is_better: false,
    of: PhaseResult::device_write_amplification,
    show: ratio,
    unit: " written a byte",
};

/// Write amplification of the process.
pub const WRITE_PROCESS: Metric = Metric {
    name: "write-amplification-process",
    about: "bytes sent to storage by the process for a byte written by the client",
    more_is_better: false,
    of: PhaseResult::process_write_amplification,
    show: ratio,
    unit: " written a byte",
};

/// Read amplification at the device.
pub const READ_DEVICE: Metric = Metric {
    name: "read-amplification",
    about: "bytes read at the device for a byte read by the client",
    more_is_better: false,
    of: |result| {
        let (device, user) = (result.cost.device?, result.user.read);
        (user > 0).then(|| device.read as f64 / user as f64)
    },
    show: ratio,
    unit: " read a byte",
};

/// The most space for a live byte.
pub const SPACE_PEAK: Metric = Metric {
    name: "space",
    about: "the most bytes on disk for a byte of live data",
    more_is_better: false,
    of: PhaseResult::peak_space_amplification,
    show: ratio,
    unit: " on disk a live byte",
};

/// The most space, as a share of what the engine meant to stay within at that moment.
pub const SPACE_OF_BUDGET: Metric = Metric {
    name: "space-of-budget",
    about: "the most bytes on disk as a share of the engine's own budget at that moment",
    more_is_better: false,
    of: PhaseResult::space_of_budget,
    show: ratio,
    unit: " of the budget",
};

/// Space at the end for a live byte.
pub const SPACE_END: Metric = Metric {
    name: "space-end",
    about: "bytes on disk, settled, for a byte of live data",
    more_is_better: false,
    of: PhaseResult::space_amplification,
    show: ratio,
    unit: " on disk a live byte",
};

/// Median latency.
pub const P50: Metric = Metric {
    name: "p50",
    about: "microseconds that half of the operations took at most",
    more_is_better: false,
    of: |result| Some(result.latency.p50_us),
    show: short,
    unit: " us",
};

/// Latency of the slowest hundredth.
pub const P99: Metric = Metric {
    name: "p99",
    about: "microseconds that 99% of the operations took at most",
    more_is_better: false,
    of: |result| Some(result.latency.p99_us),
    show: short,
    unit: " us",
};

/// Latency of the slowest thousandth.
pub const P999: Metric = Metric {
    name: "p999",
    about: "microseconds that 99.9% of the operations took at most",
    more_is_better: false,
    of: |result| Some(result.latency.p999_us),
    show: short,
    unit: " us",
};

/// Processor time.
pub const CPU: Metric = Metric {
    name: "cpu",
    about: "processor microseconds of an operation, user and system, background work included",
    more_is_better: false,
    of: |result| Some(result.cpu_us_per_operation()),
    show: short,
    unit: " us an operation",
};

/// Memory of the process.
pub const RESIDENT: Metric = Metric {
    name: "memory",
    about: "the most resident memory of the process, harness included",
    more_is_better: false,
    of: |result| result.cost.peak_resident.map(|bytes| bytes as f64),
    show: size,
    unit: "",
};

/// Memory with the page cache.
pub const LIMITED: Metric = Metric {
    name: "memory-cache",
    about: "the most memory with the page cache, under the limit",
    more_is_better: false,
    of: |result| result.cost.peak_limited.map(|bytes| bytes as f64),
    show: size,
    unit: "",
};

/// Cost of the harness.
pub const HARNESS: Metric = Metric {
    name: "harness",
    about: "the harness' share of the clients' time",
    more_is_better: false,
    of: |result| Some(result.harness_share()),
    show: percent,
    unit: "",
};

/// Noise.
pub const OTHERS: Metric = Metric {
    name: "others",
    about: "the share of the processors that other programs used meanwhile",
    more_is_better: false,
    of: PhaseResult::others_share,
    show: percent,
    unit: "",
};

/// Every quantity.
pub const METRICS: &[Metric] = &[
    RUNNING,
    SETTLED,
    WRITE_DEVICE,
    WRITE_PROCESS,
    READ_DEVICE,
    SPACE_PEAK,
    SPACE_OF_BUDGET,
    SPACE_END,
    P50,
    P99,
    P999,
    CPU,
    RESIDENT,
    LIMITED,
    HARNESS,
    OTHERS,
];
