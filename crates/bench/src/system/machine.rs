//! The machine that a result was made on.

use std::fs;
use std::thread;

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
    /// This machine, now.
    pub fn here() -> Self {
        let text = |path| fs::read_to_string(path).unwrap_or_default();
        let load = text("/proc/loadavg");
        Self {
            processor: value(&text("/proc/cpuinfo"), "model name"),
            processors: thread::available_parallelism().map_or(1, usize::from),
            memory: value(&text("/proc/meminfo"), "MemTotal")
                .trim_end_matches(" kB")
                .parse::<u64>()
                .map_or(0, |kibibytes| kibibytes * 1024),
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

/// The rest of the first line `name ... : value`.
fn value(text: &str, name: &str) -> String {
    text.lines()
        .filter(|line| line.starts_with(name))
        .find_map(|line| line.split_once(':'))
        .map(|(_, value)| value.trim().to_owned())
        .unwrap_or_default()
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
