//! Words on standard error: lines, and a progress bar for a run on a terminal.

use std::fmt::Display;
use std::io::{self, Write};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

use crate::observer::Observer;
use crate::result::PhaseResult;
use crate::workload::Workload;

/// Prints `line` to standard error. A reader that has closed it has seen enough: that is no error.
pub fn say(line: impl Display) {
    let _ = writeln!(io::stderr(), "{line}");
}

/// A progress bar on the terminal; hides itself when standard error is none.
pub struct Bar(ProgressBar);

impl Default for Bar {
    fn default() -> Self {
        Self::new()
    }
}

impl Bar {
    /// A bar without length yet.
    pub fn new() -> Self {
        Self(ProgressBar::no_length())
    }

    /// Prints `line` above the bar.
    pub fn say(&self, line: &str) {
        self.0.suspend(|| say(line));
    }

    fn style(&self, template: &str) {
        self.0.set_style(ProgressStyle::with_template(template).expect("templates are constants"));
    }
}

impl Observer for Bar {
    fn begins(&self, workload: &Workload, operations: Option<u64>) {
        self.0.reset();
        match operations {
            Some(operations) => {
                self.0.set_length(operations);
                self.style("{msg:28} {bar:30} {human_pos}/{human_len} {per_sec} ETA {eta}");
            }
            None => {
                self.0.unset_length();
                self.style("{msg:28} {human_pos} operations {per_sec} for {elapsed}");
            }
        }
        self.0.set_message(workload.name);
    }

    fn runs(&self, done: u64, _elapsed: Duration) {
        self.0.set_position(done);
    }

    fn settles(&self) {
        let workload = self.0.message();
        self.0.set_message(format!("{workload}, settling"));
    }

    fn ends(&self, _result: &PhaseResult) {
        self.0.set_message("");
    }

    fn verifies(&self, checked: u64) {
        self.0.unset_length();
        self.style("checking every record: {human_pos}");
        self.0.set_position(checked);
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
