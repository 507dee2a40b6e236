//! What a store's processes used: processor time, memory, bytes through system calls; and the
//! processor time of everybody, to tell a quiet machine from a busy one.
//!
//! Most engines run in this process alone. One that has another beside it names it
//! ([`crate::Engine::other_process`]), and every figure is of both.

use std::fmt::Display;
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

    /// Used so far by the process `id`, in hundredths of a second.
    fn of(id: u32) -> Option<Self> {
        parse_process_stat(&fs::read_to_string(format!("/proc/{id}/stat")).ok()?)
    }

    /// Used since `earlier`.
    pub fn since(self, earlier: Self) -> Self {
        Self { user: self.user - earlier.user, system: self.system - earlier.system }
    }

    /// Both together.
    pub fn plus(self, other: Self) -> Self {
        Self { user: self.user + other.user, system: self.system + other.system }
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

/// Bytes of a process, from its `/proc/PID/io`.
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
        Self::of(&"self")
    }

    fn of(process: &dyn Display) -> Option<Self> {
        parse_io(&fs::read_to_string(format!("/proc/{process}/io")).ok()?)
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

/// The processes that a store lives in: this one, and the engine's own if it has one. A figure of
/// both is unknown if that of one of them is.
#[derive(Clone, Copy, Debug, Default)]
pub struct Processes {
    other: Option<u32>,
}

impl Processes {
    /// This process, and the one whose id is `other`.
    pub fn with(other: Option<u32>) -> Self {
        Self { other }
    }

    /// Processor time used so far.
    pub fn cpu(self) -> Option<Cpu> {
        self.other.map_or_else(Cpu::now, |id| Some(Cpu::now()?.plus(Cpu::of(id)?)))
    }

    /// Bytes moved so far.
    pub fn bytes(self) -> Option<ProcessBytes> {
        let own = ProcessBytes::now();
        self.other.map_or(own, |id| Some(own?.plus(ProcessBytes::of(&id)?)))
    }

    /// Forgets the largest resident size so far, so that the next phase has one of its own.
    pub fn reset_peak_memory(self) -> bool {
        let reset =
            |process: &dyn Display| fs::write(format!("/proc/{process}/clear_refs"), "5").is_ok();
        reset(&"self") & self.other.is_none_or(|id| reset(&id))
    }

    /// Largest resident size since the last reset, in bytes. Of two processes it is the sum of what
    /// each had at most, and these need not have been at the same time.
    pub fn peak_memory(self) -> Option<u64> {
        let own = peak_memory(&"self");
        self.other.map_or(own, |id| Some(own? + peak_memory(&id)?))
    }
}

fn peak_memory(process: &dyn Display) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
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

/// User and system time are the 14th and the 15th field, in hundredths of a second. The second is
/// the name of the program in parentheses, and may hold blanks and parentheses itself.
fn parse_process_stat(text: &str) -> Option<Cpu> {
    const USER: usize = 11;
    let (_, fields) = text.rsplit_once(") ")?;
    let mut times = fields.split_ascii_whitespace().skip(USER).map(|ticks| {
        ticks.parse::<u64>().ok().map(|hundredths| Duration::from_millis(hundredths * 10))
    });
    Some(Cpu { user: times.next()??, system: times.next()?? })
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
    use std::io::{BufRead, BufReader};
    use std::process::{Command, Stdio};
    use std::time::Duration;

    use super::{Cpu, ProcessBytes, Processes, parse_io, parse_process_stat, parse_stat};

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
        assert!(Processes::default().peak_memory().is_some_and(|bytes| bytes > 1 << 20));
        let before = Cpu::now().unwrap();
        let mut sum = 0u64;
        while Cpu::now().unwrap().since(before).total().is_zero() {
            sum = std::hint::black_box(sum + 1);
        }
    }

    #[test]
    fn the_name_of_a_program_may_hold_anything() {
        let text = "7 (a) b (c)) S 1 7 7 0 -1 4194560 10 20 30 40 150 25 3 4 20 0 1 0 9 8 7";
        let (user, system) = (Duration::from_millis(1500), Duration::from_millis(250));
        assert_eq!(parse_process_stat(text), Some(Cpu { user, system }));
        assert_eq!(parse_process_stat("7 (a) S 1 7"), None);
    }

    #[test]
    fn what_another_process_uses_is_added() {
        // It works on its own for more than a hundredth of a second, then waits to be counted.
        const WORK: &str = "\
            i=0
            while [ $i -lt 200000 ]; do i=$((i + 1)); done
            echo worked
            read end";
        let mut child = Command::new("sh")
            .args(["-c", WORK])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        assert_eq!(output.lines().next().unwrap().unwrap(), "worked");
        let (alone, both) = (Processes::default(), Processes::with(Some(child.id())));
        let (cpu, bytes) = (alone.cpu().unwrap(), alone.bytes().unwrap());
        assert!(both.cpu().unwrap().since(cpu).total() >= Duration::from_millis(10));
        let written = both.bytes().unwrap().since(bytes).write_calls;
        assert!(written >= "worked\n".len() as u64, "{written}");
        assert!(both.peak_memory() > alone.peak_memory());
        assert!(both.reset_peak_memory());
        drop(child.stdin.take());
        child.wait().unwrap();
        assert_eq!(both.cpu(), None, "the other one has ended");
    }
}
