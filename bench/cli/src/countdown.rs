//! How much time a search has left, on standard error if that is a terminal.

use std::time::{Duration, Instant};

use cleavedb_bench::observer::Observer;
use cleavedb_bench::result::PhaseResult;
use cleavedb_bench::workload::Workload;
use cleavedb_cli::console::Console;
use indicatif::{ProgressBar, ProgressStyle};

/// Progress of benchmarks with a time limit.
pub struct Countdown {
    bar: ProgressBar,
    begin: Instant,
}

impl Countdown {
    /// Counts towards `time`, from now on.
    pub fn new(console: &Console, what: &str, time: Duration) -> Self {
        let bar = if console.quiet() { ProgressBar::hidden() } else { ProgressBar::no_length() };
        let template = "{prefix:6} {bar:24} {msg}  {elapsed}, at most {eta} more";
        bar.set_style(ProgressStyle::with_template(template).expect("templates are constants"));
        bar.set_length(time.as_millis() as u64);
        bar.set_prefix(what.to_owned());
        Self { bar, begin: Instant::now() }
    }

    /// Shows a message.
    pub fn say(&self, message: String) {
        self.bar.set_message(message);
    }

    /// Time since the beginning.
    pub fn elapsed(&self) -> Duration {
        self.begin.elapsed()
    }

    fn show(&self) {
        self.bar.set_position(self.elapsed().as_millis() as u64);
    }
}

impl Observer for Countdown {
    fn begins(&self, _workload: &Workload, _operations: Option<u64>) {
        self.show();
    }

    fn runs(&self, _done: u64, _elapsed: Duration) {
        self.show();
    }

    fn ends(&self, _result: &PhaseResult) {
        self.show();
    }
}

impl Drop for Countdown {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
