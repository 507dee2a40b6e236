//! What a store's processes used: processor time, memory, bytes through system calls; and the
//! processor time of all processes, to tell a quiet machine from a busy one.
//!
//! Most engines run in this process alone. One that has another beside it names it
//! ([`crate::Engine::other_process`]), and every figure is of both.

use std::time::Duration;

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeVal;
use procfs::process::{ClearRefs, Process};
use procfs::{CurrentSI, KernelStats, ticks_per_second};
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

    /// Used so far by `process`, in whole ticks of the kernel.
    fn of(process: &Process) -> Option<Self> {
        let stat = process.stat().ok()?;
        Some(Self { user: ticks(stat.utime), system: ticks(stat.stime) })
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

/// Processor time that the whole machine has used: all that is not idle, nor waiting for I/O.
pub fn machine_cpu() -> Option<Duration> {
    let total = KernelStats::current().ok()?.total;
    let interrupts = total.irq.unwrap_or(0) + total.softirq.unwrap_or(0);
    let busy = total.user + total.nice + total.system + interrupts + total.steal.unwrap_or(0);
    Some(ticks(busy))
}

fn ticks(ticks: u64) -> Duration {
    Duration::from_millis(ticks * 1000 / ticks_per_second())
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
    /// Moved so far by `process`.
    fn of(process: &Process) -> Option<Self> {
        let io = process.io().ok()?;
        Some(Self {
            read_calls: io.rchar,
            write_calls: io.wchar,
            fetched: io.read_bytes,
            sent: io.write_bytes,
        })
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
    /// The calling process, and the one whose id is `other`.
    pub fn with(other: Option<u32>) -> Self {
        Self { other }
    }

    /// Processor time used so far.
    pub fn cpu(self) -> Option<Cpu> {
        self.plus(Cpu::now(), Cpu::of, Cpu::plus)
    }

    /// Bytes moved so far.
    pub fn bytes(self) -> Option<ProcessBytes> {
        self.plus(ProcessBytes::of(&this()?), ProcessBytes::of, ProcessBytes::plus)
    }

    /// Forgets the largest resident size so far, so that the next phase has one of its own.
    pub fn reset_peak_memory(self) -> bool {
        let reset = |process: &Process| process.clear_refs(ClearRefs::PeakRSS).ok();
        self.plus(this().as_ref().and_then(reset), reset, |(), ()| ()).is_some()
    }

    /// Largest resident size since the last reset, in bytes. Of two processes it is the sum of what
    /// each had at most, and these need not have been at the same time.
    pub fn peak_memory(self) -> Option<u64> {
        let peak = |process: &Process| Some(process.status().ok()?.vmhwm? * 1024);
        self.plus(peak(&this()?), peak, |own, others| own + others)
    }

    /// Resident size now, in bytes.
    pub fn memory(self) -> Option<u64> {
        let resident = |process: &Process| Some(process.status().ok()?.vmrss? * 1024);
        self.plus(resident(&this()?), resident, |own, others| own + others)
    }

    /// A figure of this process, and that `of` the other one if there is one.
    fn plus<T>(
        self,
        own: Option<T>,
        of: impl Fn(&Process) -> Option<T>,
        plus: impl Fn(T, T) -> T,
    ) -> Option<T> {
        let Some(id) = self.other else { return own };
        let other = of(&Process::new(id.try_into().ok()?).ok()?)?;
        Some(plus(own?, other))
    }
}

fn this() -> Option<Process> {
    Process::myself().ok()
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader};
    use std::process::{Command, Stdio};
    use std::time::Duration;

    use super::{Cpu, Processes, machine_cpu};

    #[test]
    fn this_process_uses_something() {
        assert!(Processes::default().peak_memory().is_some_and(|bytes| bytes > 1 << 20));
        let before = Cpu::now().unwrap();
        let mut sum = 0u64;
        while Cpu::now().unwrap().since(before).total().is_zero() {
            sum = std::hint::black_box(sum + 1);
        }
        assert!(machine_cpu().unwrap() >= Cpu::now().unwrap().total());
    }

    #[test]
    fn what_another_process_uses_is_added() {
        // The process works for more than a hundredth of a second, then waits to be counted.
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
