//! A suite on the terminal while it runs: a row for each workload that is done, and a line that
//! says what runs now, and how much longer.

use std::time::Duration;

use indicatif::{HumanDuration, ProgressBar, ProgressStyle};

use crate::progress::say;
use crate::record::{Ended, Outcome, Task};
use crate::result::PhaseResult;
use crate::system::DiskLimits;
use crate::units::{bytes, short, thousands};

/// Receives the progress of a suite.
pub trait Watcher {
    /// The disk was measured; tasks follow.
    fn disk(&self, limits: &DiskLimits);
    /// `tasks` tasks follow, which take about `expected`.
    fn plans(&self, tasks: usize, expected: Duration);
    /// `task` begins, the `number`th of `of`; all that is left takes about `remaining`.
    fn begins(&self, task: &Task, number: usize, of: usize, remaining: Duration);
    /// A workload of `task` is done.
    fn phase(&self, task: &Task, result: &PhaseResult);
    /// `task` has ended.
    fn ends(&self, task: &Task, outcome: &Outcome);
    /// `tasks` tasks are left out: the time of the suite is over.
    fn leaves_out(&self, tasks: usize);
}

/// Ignores all reports.
#[derive(Clone, Copy, Debug, Default)]
pub struct Unwatched;

impl Watcher for Unwatched {
    fn disk(&self, _: &DiskLimits) {}
    fn plans(&self, _: usize, _: Duration) {}
    fn begins(&self, _: &Task, _: usize, _: usize, _: Duration) {}
    fn phase(&self, _: &Task, _: &PhaseResult) {}
    fn ends(&self, _: &Task, _: &Outcome) {}
    fn leaves_out(&self, _: usize) {}
}

/// Rows on standard error, and a progress bar if that is a terminal.
pub struct Rows(ProgressBar);

impl Default for Rows {
    fn default() -> Self {
        Self::new()
    }
}

impl Rows {
    /// Prints the head of the table.
    pub fn new() -> Self {
        let rows = Self(ProgressBar::no_length());
        let template = "{bar:20} {pos}/{len} {elapsed} {wide_msg}";
        let style = ProgressStyle::with_template(template).expect("templates are constants");
        rows.0.set_style(style);
        rows.say(&format!(
            "{:20} {:>3} {:16} {:18} {:>11} {:>11} {:>9} {:>9} {:>8} {:>9}",
            "list",
            "#",
            "engine",
            "workload",
            "op/s",
            "settled",
            "p50 us",
            "p99 us",
            "W device",
            "on disk"
        ));
        rows
    }

    fn say(&self, line: &str) {
        self.0.suspend(|| say(line));
    }
}

impl Watcher for Rows {
    fn disk(&self, limits: &DiskLimits) {
        self.say(&limits.to_string());
    }

    fn plans(&self, tasks: usize, expected: Duration) {
        self.say(&format!("{tasks} task(s), expected to take about {}", HumanDuration(expected)));
    }

    fn begins(&self, task: &Task, number: usize, of: usize, remaining: Duration) {
        self.0.set_length(of as u64);
        self.0.set_position(number as u64 - 1);
        let Task { list, engine, repetition } = task;
        let left = HumanDuration(remaining);
        self.0.set_message(format!(
            "about {left} left; now {engine}, {list}, repetition {repetition}"
        ));
        self.0.enable_steady_tick(Duration::from_millis(500));
    }

    fn phase(&self, task: &Task, result: &PhaseResult) {
        let wrong = if result.problems() > 0 { "  WRONG VALUES" } else { "" };
        let device = result.device_write_amplification();
        self.say(&format!(
            "{:20} {:>3} {:16} {:18} {:>11} {:>11} {:>9} {:>9} {:>8} {:>9}{wrong}",
            task.list,
            task.repetition,
            task.engine,
            result.workload,
            thousands(result.per_second()),
            thousands(result.settled_per_second()),
            short(result.latency.p50_us),
            short(result.latency.p99_us),
            device.map_or("-".to_owned(), |ratio| format!("{ratio:.2}")),
            bytes(result.space.end.allocated),
        ));
    }

    fn ends(&self, task: &Task, outcome: &Outcome) {
        if outcome.ended != Ended::Done {
            let words =
                outcome.words.as_deref().map_or(String::new(), |words| format!(" ({words})"));
            self.say(&format!(
                "{:20} {:>3} {:16} {}{words}",
                task.list,
                task.repetition,
                task.engine,
                outcome.ended.words().to_uppercase(),
            ));
        }
    }

    fn leaves_out(&self, tasks: usize) {
        self.say(&format!("{tasks} task(s) left out: the time is over"));
    }
}

impl Drop for Rows {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
