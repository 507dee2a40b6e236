//! What this process used: processor time, memory, bytes through system calls; and the processor
//! time of everybody, to tell a quiet machine from a busy one.

use std::fs;
use std::time::Duration;

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeVal;
use serde::{Deserialize, Serialize};

/// Processor time of all threads.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Cpu {
    /// In user mode.
    pub user: Duration,
    /// In the kernel on behalf of this process.
    pub system: Duration,
}

impl Cpu {
    /// Used so far.
    pub fn now() -> Option<Self> {
        let usage = getrusage(UsageWho::RUSAGE_SELF).ok()?;
        let duration = |time: TimeVal| {
            Duration::from_micros((time.tv_sec() * 1_000_000 + time.tv_usec()).unsigned_abs())
        };
        Some(Self { user: duration(usage.user_time()), system: duration(usage.system_time()) })
    }

    /// Used since `earlier`.
    pub fn since(self, earlier: Self) -> Self {
        Self { user: self.user - earlier.user, system: self.system - earlier.system }
    }

    /// User and system time together.
    pub fn total(self) -> Duration {
        self.user + self.system
    }
}

/// Processor time that the whole machine has used, from `/proc/stat`: all that is not idle.
pub fn machine_cpu() -> Option<Duration> {
    parse_stat(&fs::read_to_string("/proc/stat").ok()?)
}

/// Bytes of this process, from `/proc/self/io`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessBytes {
    /// Passed to read calls (`rchar`).
    pub read_calls: u64,
    /// Passed to write calls (`wchar`); stores into mapped memory are not seen.
    pub write_calls: u64,
    /// Fetched from the storage layer (`read_bytes`), mapped pages and read-ahead included.
    pub fetched: u64,
    /// Sent towards the storage layer (`write_bytes`): pages made dirty and direct writes.
    pub sent: u64,
}

impl ProcessBytes {
    /// Moved so far.
    pub fn now() -> Option<Self> {
        parse_io(&fs::read_to_string("/proc/self/io").ok()?)
    }

    /// Moved since `earlier`.
    pub fn since(self, earlier: Self) -> Self {
        Self {
            read_calls: self.read_calls - earlier.read_calls,
            write_calls: self.write_calls - earlier.write_calls,
            fetched: self.fetched - earlier.fetched,
            sent: self.sent - earlier.sent,
        }
    }

    /// Both together.
    pub fn plus(self, other: Self) -> Self {
        Self {
            read_calls: self.read_calls + other.read_calls,
            write_calls: self.write_calls + other.write_calls,
            fetched: self.fetched + other.fetched,
            sent: self.sent + other.sent,
        }
    }
}

/// Forgets the largest resident size so far, so that the next phase has one of its own.
pub fn reset_peak_memory() -> bool {
    fs::write("/proc/self/clear_refs", "5").is_ok()
}

/// Largest resident size since the last reset, in bytes.
pub fn peak_memory() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let kibibytes = field(&status, "VmHWM:")?.split_ascii_whitespace().next()?;
    Some(kibibytes.parse::<u64>().ok()? * 1024)
}

fn parse_io(text: &str) -> Option<ProcessBytes> {
    let number = |name| field(text, name)?.trim().parse().ok();
    Some(ProcessBytes {
        read_calls: number("rchar:")?,
        write_calls: number("wchar:")?,
        fetched: number("read_bytes:")?,
        sent: number("write_bytes:")?,
    })
}

/// The line `cpu` counts hundredths of a second: user, nice, system, idle, waiting for I/O,
/// interrupts, soft interrupts, stolen by other virtual machines.
fn parse_stat(text: &str) -> Option<Duration> {
    const IDLE: [usize; 2] = [3, 4];
    const COUNTED: usize = 8;
    let fields = field(text, "cpu ")?.split_ascii_whitespace().take(COUNTED).enumerate();
    let busy = fields.filter(|(at, _)| !IDLE.contains(at));
    let hundredths = busy.map(|(_, ticks)| ticks.parse::<u64>().ok()).sum::<Option<u64>>()?;
    Some(Duration::from_millis(hundredths * 10))
}

fn field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    text.lines().find_map(|line| line.strip_prefix(name))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{Cpu, ProcessBytes, parse_io, parse_stat, peak_memory};

    #[test]
    fn io_is_read_by_name() {
        let text = "rchar: 1\nwchar: 2\nsyscr: 3\nsyscw: 4\nread_bytes: 5\nwrite_bytes: 6\n\
                    cancelled_write_bytes: 7\n";
        let bytes = ProcessBytes { read_calls: 1, write_calls: 2, fetched: 5, sent: 6 };
        assert_eq!(parse_io(text), Some(bytes));
        assert_eq!(parse_io("rchar: 1\n"), None);
    }

    #[test]
    fn idle_time_is_not_counted() {
        let text = "cpu  1 2 4 1000 2000 8 16 32 64 128\ncpu0 9 9 9 9 9 9 9 9 9 9\n";
        assert_eq!(parse_stat(text), Some(Duration::from_millis(630)));
        assert_eq!(parse_stat("intr 5\n"), None);
    }

    #[test]
    fn this_process_uses_something() {
        assert!(peak_memory().is_some_and(|bytes| bytes > 1 << 20));
        let before = Cpu::now().unwrap();
        let mut sum = 0u64;
        while Cpu::now().unwrap().since(before).total().is_zero() {
            sum = std::hint::black_box(sum + 1);
        }
    }
}
