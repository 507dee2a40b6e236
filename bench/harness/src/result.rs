//! What a phase yields, as one line of JSON.
//!
//! Absolute numbers only, in the units of their names; ratios are methods, so that no number is
//! stored twice and the copies cannot differ.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::counters::{self, ClassBytes, StallTime};
use crate::latency::{Bucket, LatencySummary};
use crate::system::machine::Machine;
use crate::system::{DeviceBytes, DiskLimits, ProcessBytes, Usage};
use crate::units::short;
use crate::warm::Warm;

/// If the harness takes more than this share of the clients' time, it hides a part of what lies
/// between two engines.
pub const HARNESS_MAX: f64 = 0.1;

/// One line of a result file.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum Line {
    /// Where and how a run was made; its first line.
    Run {
        /// The machine.
        machine: Machine,
        /// The command that was typed.
        command: String,
        /// What a reader has to know before believing the numbers.
        warnings: Vec<String>,
    },
    /// What the disk below the data can do, measured before the workloads.
    Disk(DiskLimits),
    /// One workload.
    Phase(Box<PhaseResult>),
    /// The check of the whole store at the end, and of those that the run emptied before.
    Verification {
        /// Engine.
        engine: String,
        /// What was found.
        #[serde(flatten)]
        found: Verification,
    },
    /// One case of one feature.
    Feature(FeatureResult),
}

/// One case of one feature on one engine, measured once.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FeatureResult {
    /// Name of the engine.
    pub engine: String,
    /// Name of the feature.
    pub feature: String,
    /// Name of the case; empty if the feature has one.
    pub case: String,
    /// What the records and times of the workload were divided by.
    pub part: u64,
    /// The figures; their names say their units.
    pub figures: BTreeMap<String, f64>,
}

/// One workload on one engine.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct PhaseResult {
    /// Name of the engine.
    pub engine: String,
    /// The engine's settings.
    pub settings: Vec<(String, String)>,
    /// Name of the workload.
    pub workload: String,
    /// Number of the phase in its run, from 0.
    pub phase: u32,
    /// How it was run.
    pub conditions: Conditions,
    /// How the store was warmed before, if the run asked for a warm one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warm: Option<Warm>,
    /// How fast it was.
    pub speed: Speed,
    /// How long its operations took, all together.
    pub latency: LatencySummary,
    /// How long they took, by action.
    pub latency_by_action: BTreeMap<String, LatencySummary>,
    /// How many of them took how long, by action: fit to be drawn, and to be added up over runs.
    #[serde(default)]
    pub latency_buckets: BTreeMap<String, Vec<Bucket>>,
    /// Whether the engine was right.
    pub checks: Checks,
    /// What the client asked to be moved.
    pub user: UserBytes,
    /// What it cost, background work until settled included.
    pub cost: Cost,
    /// Space taken.
    pub space: Space,
    /// Throughput and space while it ran.
    pub samples: Vec<Sample>,
    /// The pieces that it ran in, with those of other engines between them; one if it ran alone.
    #[serde(default)]
    pub pieces: Vec<PieceTime>,
    /// The engine's counters at the end.
    pub counters: BTreeMap<String, f64>,
    /// By how much they grew during the phase.
    pub counters_growth: BTreeMap<String, f64>,
}

/// How a phase was run.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Conditions {
    /// Records of a load.
    pub records: u64,
    /// Bytes of a key.
    pub key_bytes: u64,
    /// Bytes of a value, on average.
    pub value_bytes: u64,
    /// How large values are.
    #[serde(default)]
    pub value_sizes: String,
    /// Which key a record has, and in which order a load inserts.
    #[serde(default)]
    pub key_order: String,
    /// Operations a second that clients were to begin, all together, whatever the engine did;
    /// `None` if each began when the one before it had ended, or when a trace says.
    #[serde(default)]
    pub target_rate: Option<f64>,
    /// Whether a latency counts from the moment at which the operation was to begin, so that it
    /// includes the time that it waited behind others.
    #[serde(default)]
    pub latency_from_intended_start: bool,
    /// Constant of the Zipfian distributions; zero in files that do not say.
    #[serde(default)]
    pub zipfian: f64,
    /// Ranks that they draw; zero in files that do not say, which are YCSB's.
    #[serde(default)]
    pub zipfian_ranks: u64,
    /// Operations until popular records are replaced, in moving workloads, if the run says so.
    #[serde(default)]
    pub moves_every: Option<u64>,
    /// Records of every scan, if the run says so in place of its workloads.
    #[serde(default)]
    pub scan_length: Option<usize>,
    /// Client threads.
    pub threads: u32,
    /// Processors that the process may use.
    pub processors: usize,
    /// Seed.
    pub seed: u64,
    /// Memory limit in force, page cache included, in bytes.
    pub memory_limit: Option<u64>,
    /// Whether caches were dropped before; `None` if the workload does not ask for it.
    pub caches_dropped: Option<bool>,
    /// Time to open the store, if it was opened for this phase.
    pub open_seconds: Option<f64>,
}

/// How fast a phase was.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct Speed {
    /// Measured operations.
    pub operations: u64,
    /// From the first operation to the end of the last.
    pub running_seconds: f64,
    /// Time of the operations and the background work that was left.
    pub settled_seconds: f64,
    /// After that, the time until all was written back to the device.
    pub sync_seconds: f64,
    /// The harness' own time for one operation, measured with an engine that does nothing.
    pub harness_ns: f64,
}

/// How fast a piece of a phase was.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct PieceTime {
    /// Measured operations.
    pub operations: u64,
    /// From the first operation to the end of the last.
    pub running_seconds: f64,
    /// Time of the operations and the background work that was left.
    pub settled_seconds: f64,
}

/// Whether an engine was right.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Checks {
    /// Values read whose bytes are not those of their key, or that were never written.
    pub wrong_values: u64,
    /// Reads that found nothing.
    pub not_found: u64,
    /// Whether such reads are lost records: no delete or partial fill explains them.
    pub not_found_is_loss: bool,
    /// Moments at which more of the disk was in use than the engine's own limit allows.
    #[serde(default)]
    pub over_limit: u64,
    /// The first problem, in words.
    pub first_problem: Option<String>,
}

/// What the client asked to be moved, keys and values.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct UserBytes {
    /// Written: inserts, updates, read-modify-writes.
    pub written: u64,
    /// Read: values found and records scanned.
    pub read: u64,
    /// Stored at the end; unknown once records were deleted or filled at random.
    pub live: Option<u64>,
}

/// What a phase cost, until settled.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct Cost {
    /// Processor seconds in user mode, harness included; of all processes of the store, as are
    /// those in the kernel, memory and bytes.
    pub cpu_user_seconds: f64,
    /// Processor seconds in the kernel.
    pub cpu_system_seconds: f64,
    /// Processor seconds of all other processes of the machine; they include the kernel's own
    /// threads, which write back what the store left dirty.
    pub cpu_others_seconds: Option<f64>,
    /// Largest resident size of the process, harness included, in bytes.
    pub peak_resident: Option<u64>,
    /// Largest use of the memory limit's group, page cache included, in bytes.
    pub peak_limited: Option<u64>,
    /// Bytes through the process's system calls.
    pub process: Option<ProcessBytes>,
    /// Bytes at the block device, all users of it included.
    pub device: Option<DeviceBytes>,
}

impl Cost {
    /// What this and then `next` cost; unknown where one of them is.
    pub fn then(self, next: Self) -> Self {
        let sum = |one: Option<f64>, other: Option<f64>| Some(one? + other?);
        Self {
            cpu_user_seconds: self.cpu_user_seconds + next.cpu_user_seconds,
            cpu_system_seconds: self.cpu_system_seconds + next.cpu_system_seconds,
            cpu_others_seconds: sum(self.cpu_others_seconds, next.cpu_others_seconds),
            peak_resident: self.peak_resident.max(next.peak_resident),
            peak_limited: self.peak_limited.max(next.peak_limited),
            process: self.process.zip(next.process).map(|(one, other)| one.plus(other)),
            device: self.device.zip(next.device).map(|(one, other)| one.plus(other)),
        }
    }

    /// The cost without processor time that the clients `waited`: nearly all of it is the kernel's.
    #[must_use]
    pub fn without(self, waited: Duration) -> Self {
        let left = self.cpu_system_seconds - waited.as_secs_f64();
        Self {
            cpu_user_seconds: (self.cpu_user_seconds + left.min(0.0)).max(0.0),
            cpu_system_seconds: left.max(0.0),
            ..self
        }
    }
}

/// Space taken by the store.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct Space {
    /// At the end, settled.
    pub end: Usage,
    /// The most blocks seen in a sample, in bytes.
    pub peak_allocated: u64,
}

/// A moment of a phase.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct Sample {
    /// Since the first operation.
    pub seconds: f64,
    /// Operations done.
    pub operations: u64,
    /// Bytes of blocks taken by the store.
    pub allocated: u64,
    /// Bytes of keys and values that live then; unknown once records were deleted or filled at
    /// random, and an expectation where values differ in size.
    #[serde(default)]
    pub live: Option<u64>,
    /// Bytes that the engine means to stay within then, if it has such a bound.
    #[serde(default)]
    pub budget: Option<u64>,
    /// Accesses that the engine's hot store has counted, if it has one.
    #[serde(default)]
    pub hot: Option<HotSample>,
}

/// Accesses since a store was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct HotSample {
    /// Reads and writes.
    pub accesses: u64,
    /// Accesses of keys that were hot.
    pub hits: u64,
}

/// What the check of a whole store found.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Verification {
    /// Records in the store.
    pub records: u64,
    /// Records whose version was compared with the writes of the run; the others were only checked
    /// to hold some value of their key.
    pub compared: u64,
    /// Records that hold the wrong bytes, or a value that was overwritten or deleted.
    pub wrong: u64,
    /// Records that must be there and are not.
    pub missing: u64,
    /// Records that must not be there.
    pub unexpected: u64,
    /// The first problem, in words.
    pub first_problem: Option<String>,
    /// How long the check took.
    pub seconds: f64,
}

impl Verification {
    /// Whether the store holds exactly what was written.
    pub fn passed(&self) -> bool {
        self.wrong + self.missing + self.unexpected == 0
    }

    /// The sum of `self` and `next`: what was found in two stores of a run.
    #[must_use]
    pub fn then(self, next: Self) -> Self {
        Self {
            records: self.records + next.records,
            compared: self.compared + next.compared,
            wrong: self.wrong + next.wrong,
            missing: self.missing + next.missing,
            unexpected: self.unexpected + next.unexpected,
            first_problem: self.first_problem.or(next.first_problem),
            seconds: self.seconds + next.seconds,
        }
    }

    /// How much of the store was compared with the writes of the run.
    pub fn extent(&self) -> String {
        if self.compared >= self.records {
            return "every record compared with its last write".to_owned();
        }
        let share = short(100.0 * self.compared as f64 / self.records as f64);
        format!("{share}% of the records compared with their last write")
    }
}

impl PhaseResult {
    /// Operations a second while clients ran.
    pub fn per_second(&self) -> f64 {
        self.speed.operations as f64 / self.speed.running_seconds
    }

    /// Operations a second, the time of left-over background work counted.
    pub fn settled_per_second(&self) -> f64 {
        self.speed.operations as f64 / self.speed.settled_seconds
    }

    /// Processor time of an operation, in microseconds, background work included.
    pub fn cpu_us_per_operation(&self) -> f64 {
        let seconds = self.cost.cpu_user_seconds + self.cost.cpu_system_seconds;
        seconds * 1e6 / self.speed.operations as f64
    }

    /// The share of the machine's processors that others used meanwhile: noise, if it is large.
    pub fn others_share(&self) -> Option<f64> {
        let capacity = self.speed.settled_seconds * self.conditions.processors as f64;
        Some(self.cost.cpu_others_seconds? / capacity)
    }

    /// Bytes written to the device for a byte that the user wrote.
    pub fn device_write_amplification(&self) -> Option<f64> {
        ratio(self.cost.device?.written, self.user.written)
    }

    /// Bytes that this process sent to the storage layer for a byte that the user wrote: what other
    /// users of the device and the file system add is not in it.
    pub fn process_write_amplification(&self) -> Option<f64> {
        ratio(self.cost.process?.sent, self.user.written)
    }

    /// Bytes that this process fetched from the storage layer for a byte that the user read.
    pub fn process_read_amplification(&self) -> Option<f64> {
        ratio(self.cost.process?.fetched, self.user.read)
    }

    /// Blocks taken at the end for a byte of live data.
    pub fn space_amplification(&self) -> Option<f64> {
        ratio(self.space.end.allocated, self.user.live?)
    }

    /// The most blocks taken for a byte of live data.
    pub fn peak_space_amplification(&self) -> Option<f64> {
        ratio(self.space.peak_allocated, self.user.live?)
    }

    /// The harness' share of the clients' time.
    pub fn harness_share(&self) -> f64 {
        let client_seconds = self.speed.running_seconds * f64::from(self.conditions.threads);
        self.speed.harness_ns * 1e-9 * self.speed.operations as f64 / client_seconds
    }

    /// The most of all samples that space was as a share of the budget at that moment, where the
    /// engine tells one.
    pub fn space_of_budget(&self) -> Option<f64> {
        let share = |sample: &Sample| ratio(sample.allocated, sample.budget?);
        self.samples.iter().filter_map(share).max_by(f64::total_cmp)
    }

    /// Bytes written and read for each reason, where the engine tells.
    pub fn bytes_by_class(&self) -> Vec<ClassBytes> {
        counters::bytes_by_class(&self.counters_growth)
    }

    /// How often and how long writers waited, by cause, where the engine tells.
    pub fn stalls(&self) -> Vec<StallTime> {
        counters::stalls(&self.counters_growth)
    }

    /// Wrong values, records that are lost, and moments at which the disk held too much.
    pub fn problems(&self) -> u64 {
        let lost = if self.checks.not_found_is_loss { self.checks.not_found } else { 0 };
        self.checks.wrong_values + lost + self.checks.over_limit
    }
}

fn ratio(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}

#[cfg(test)]
mod tests {
    use super::Verification;

    #[test]
    fn a_check_of_a_part_does_not_claim_the_whole() {
        let whole = Verification { records: 300, compared: 300, ..Verification::default() };
        assert!(whole.extent().starts_with("every record"));
        let part = Verification { records: 100, compared: 20, ..Verification::default() };
        assert!(part.extent().starts_with("20.0% of the records"), "{}", part.extent());
        assert!(whole.then(part).extent().starts_with("80.0% of the records"));
    }
}
