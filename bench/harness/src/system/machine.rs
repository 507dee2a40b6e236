//! The machine that a result was made on.

use std::fs;
use std::thread;

use procfs::{CpuInfo, Current, Meminfo};
use serde::{Deserialize, Serialize};

/// Enough to tell two machines, and a quiet one from a busy one, apart.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Machine {
    /// Model of the processor.
    pub processor: String,
    /// Processors that this process may use.
    pub processors: usize,
    /// Bytes of memory.
    pub memory: u64,
    /// Release of the kernel.
    pub kernel: String,
    /// Processes that wanted a processor during the last minute, on average.
    pub load: f64,
}

impl Machine {
    /// The machine that the process runs on, now.
    pub fn here() -> Self {
        let text = |path| fs::read_to_string(path).unwrap_or_default();
        let (load, processors) = (text("/proc/loadavg"), CpuInfo::current().ok());
        Self {
            processor: processors
                .as_ref()
                .and_then(|processors| processors.model_name(0))
                .map(str::to_owned)
                .unwrap_or_default(),
            processors: thread::available_parallelism().map_or(1, usize::from),
            memory: Meminfo::current().map_or(0, |memory| memory.mem_total),
            kernel: text("/proc/sys/kernel/osrelease").trim().to_owned(),
            load: load.split(' ').next().and_then(|load| load.parse().ok()).unwrap_or_default(),
        }
    }

    /// What a reader must know if other work ran here.
    pub fn noise(&self) -> Option<String> {
        (self.load > 0.3).then(|| {
            format!(
                "the machine was not idle: load {:.1} on {} processors before the run",
                self.load, self.processors
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::Machine;

    #[test]
    fn this_machine_has_processors_and_memory() {
        let machine = Machine::here();
        assert!(machine.processors > 0 && machine.memory > 1 << 24 && !machine.kernel.is_empty());
    }
}
