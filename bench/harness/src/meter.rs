//! All counters of a phase, read at its start and at its end.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::counters::{HOT_ACCESSES, HOT_HITS, SPACE_BUDGET};
use crate::engine::Engine;
use crate::error::Result;
use crate::result::{Cost, HotSample, Sample, Space};
use crate::system::process::{Processes, machine_cpu};
use crate::system::{Cpu, Device, DeviceBytes, MemoryLimit, ProcessBytes, Usage, sync_file_system};

/// Counters as they stood when the phase began.
pub struct Meter<'a> {
    engine: &'a dyn Engine,
    /// The store's own, and those outside of it.
    directories: Vec<PathBuf>,
    limit: Option<&'a MemoryLimit>,
    /// The devices under the directories, each once; empty if one of them cannot be counted.
    devices: Vec<Device>,
    processes: Processes,
    cpu: Option<Cpu>,
    machine: Option<Duration>,
    process: Option<ProcessBytes>,
    device_bytes: Option<DeviceBytes>,
    counters: BTreeMap<String, f64>,
}

/// What the counters say at the end.
pub struct Reading {
    /// Processor, memory, bytes.
    pub cost: Cost,
    /// Space taken.
    pub space: Space,
    /// The engine's counters.
    pub counters: BTreeMap<String, f64>,
    /// By how much they grew.
    pub counters_growth: BTreeMap<String, f64>,
    /// The time that writing everything back took.
    pub sync: Duration,
}

impl Reading {
    /// What this and then `next` say of both together.
    pub fn then(self, next: Self) -> Self {
        let mut growth = self.counters_growth;
        for (name, grown) in &next.counters_growth {
            *growth.entry(name.clone()).or_default() += grown;
        }
        let peak_allocated = self.space.peak_allocated.max(next.space.peak_allocated);
        Self {
            cost: self.cost.then(next.cost),
            space: Space { peak_allocated, ..next.space },
            counters: next.counters,
            counters_growth: growth,
            sync: self.sync + next.sync,
        }
    }
}

impl<'a> Meter<'a> {
    /// Reads all counters, and starts peaks afresh.
    pub fn start(
        engine: &'a dyn Engine,
        directory: &Path,
        limit: Option<&'a MemoryLimit>,
    ) -> Result<Self> {
        let processes = Processes::with(engine.other_process());
        processes.reset_peak_memory();
        if let Some(limit) = limit {
            limit.reset_peak();
        }
        let own = directory.to_owned();
        let directories: Vec<_> =
            std::iter::once(own).chain(engine.outside().iter().cloned()).collect();
        let devices = devices(&directories)?;
        Ok(Self {
            engine,
            directories,
            limit,
            processes,
            cpu: processes.cpu(),
            machine: machine_cpu(),
            process: processes.bytes(),
            device_bytes: bytes(&devices),
            counters: engine.counters().into_iter().collect(),
            devices,
        })
    }

    fn usage(&self) -> Usage {
        self.directories.iter().map(|path| Usage::of(path)).fold(Usage::default(), Usage::plus)
    }

    /// A moment of the phase: space is measured now, and the engine asked for its budget.
    pub fn sample(&self, elapsed: Duration, operations: u64, live: Option<u64>) -> Sample {
        let allocated = self.usage().allocated;
        let counters = self.engine.counters();
        let counter = |name: &str| {
            let found = counters.iter().find(|(counter, _)| counter == name);
            found.map(|(_, number)| *number as u64)
        };
        let budget = counter(SPACE_BUDGET);
        let hot = counter(HOT_ACCESSES).zip(counter(HOT_HITS));
        let hot = hot.map(|(accesses, hits)| HotSample { accesses, hits });
        Sample { seconds: elapsed.as_secs_f64(), operations, allocated, live, budget, hot }
    }

    /// Reads all counters again; what is dirty is written back first, so that the device's bytes
    /// are those of this phase.
    pub fn finish(self, samples: &[Sample]) -> Result<Reading> {
        let processes = self.processes;
        let cpu = self.cpu.and_then(|before| Some(processes.cpu()?.since(before)));
        let cpu = cpu.unwrap_or_default();
        let machine = self.machine.and_then(|before| machine_cpu()?.checked_sub(before));
        let process = self.process.and_then(|before| Some(processes.bytes()?.since(before)));
        let peak_resident = processes.peak_memory();
        let peak_limited = self.limit.and_then(MemoryLimit::peak);
        let begin = Instant::now();
        self.directories.iter().try_for_each(|path| sync_file_system(path))?;
        let sync = begin.elapsed();
        let device = self.device_bytes.and_then(|before| Some(bytes(&self.devices)?.since(before)));
        let counters: BTreeMap<_, _> = self.engine.counters().into_iter().collect();
        let growth = |(name, end): (&String, &f64)| {
            (name.clone(), end - self.counters.get(name).copied().unwrap_or(0.0))
        };
        let end = self.usage();
        let sampled = samples.iter().map(|sample| sample.allocated).max().unwrap_or(0);
        Ok(Reading {
            cost: Cost {
                cpu_user_seconds: cpu.user.as_secs_f64(),
                cpu_system_seconds: cpu.system.as_secs_f64(),
                cpu_others_seconds: machine
                    .map(|machine| machine.saturating_sub(cpu.total()).as_secs_f64()),
                peak_resident,
                peak_limited,
                process,
                device,
            },
            space: Space { end, peak_allocated: sampled.max(end.allocated) },
            counters_growth: counters.iter().map(growth).collect(),
            counters,
            sync,
        })
    }
}

/// The devices under `directories`, each once; none if one of them cannot be counted.
fn devices(directories: &[PathBuf]) -> Result<Vec<Device>> {
    let mut devices = Vec::new();
    for directory in directories {
        match Device::of(directory)? {
            Some(device) if devices.contains(&device) => {}
            Some(device) => devices.push(device),
            None => return Ok(Vec::new()),
        }
    }
    Ok(devices)
}

/// What all of `devices` moved; `None` if one of them does not say, or there is none.
fn bytes(devices: &[Device]) -> Option<DeviceBytes> {
    let each = devices.iter().map(Device::bytes).collect::<Option<Vec<_>>>()?;
    each.into_iter().reduce(DeviceBytes::plus)
}
