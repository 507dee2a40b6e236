//! What the process takes of the machine, where the system tells it under `/proc`.

use std::time::Duration;

use rustix::param::{clock_ticks_per_second, page_size};

/// What the process takes.
#[derive(Clone, Copy, Debug, Default)]
pub struct ProcessFigures {
    /// Bytes in memory now.
    pub resident: u64,
    /// Most bytes that were in memory at once.
    pub resident_peak: u64,
    /// Bytes of memory of the machine.
    pub machine_memory: u64,
    /// Processor time of its own.
    pub user: Duration,
    /// Processor time of the system for it.
    pub system: Duration,
}

impl ProcessFigures {
    /// What it takes now; none where the system does not tell.
    pub fn now() -> Option<Self> {
        let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
        // The name of the program, which stands in front, may have anything in it.
        let fields: Vec<u64> = (stat.rsplit_once(')')?.1.split_ascii_whitespace())
            .map(|field| field.parse().unwrap_or_default())
            .collect();
        let ticks = clock_ticks_per_second();
        let time = |at| Some(Duration::from_millis(fields.get(at)? * 1000 / ticks));
        Some(Self {
            resident: fields.get(21)? * page_size() as u64,
            resident_peak: kibibytes("/proc/self/status", "VmHWM:")?,
            machine_memory: kibibytes("/proc/meminfo", "MemTotal:")?,
            user: time(11)?,
            system: time(12)?,
        })
    }
}

/// The bytes that a line of a file tells.
fn kibibytes(path: &str, name: &str) -> Option<u64> {
    let text = std::fs::read_to_string(path).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.trim().strip_suffix(" kB")?.parse::<u64>().ok().map(|kibibytes| kibibytes << 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(target_os = "linux")]
    #[test]
    fn a_process_has_memory_within_that_of_the_machine() {
        let figures = ProcessFigures::now().unwrap();
        assert!(figures.resident > 1 << 20 && figures.resident <= figures.machine_memory);
        assert!(figures.resident_peak > 1 << 20);
        let begun = std::time::Instant::now();
        while begun.elapsed() < Duration::from_millis(100) {}
        let now = ProcessFigures::now().unwrap();
        assert!(now.user + now.system > figures.user + figures.system);
    }
}
