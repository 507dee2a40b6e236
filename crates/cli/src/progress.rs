//! Progress of long work, on standard error if that is a terminal.

use std::cell::Cell;
use std::time::{Duration, Instant};

use cleavedb_units as units;
use indicatif::{ProgressBar, ProgressStyle};

use crate::console::Console;

const TICK: Duration = Duration::from_millis(120);

/// A bar, or a counter if the total is not known.
pub struct Progress {
    bar: ProgressBar,
    begin: Instant,
    /// When the message was last updated, which costs more than a small operation.
    said: Cell<Instant>,
}

impl Progress {
    /// Counts towards a number of bytes that is not known yet.
    pub fn towards(console: &Console, what: &str) -> Self {
        Self::new(console, what, Some(0))
    }

    /// Counts towards `total` bytes, if it is known.
    pub fn new(console: &Console, what: &str, total: Option<u64>) -> Self {
        let bar = if console.quiet() { ProgressBar::hidden() } else { ProgressBar::no_length() };
        let template = match total {
            Some(_) => "{prefix:12} {bar:30} {binary_bytes}/{binary_total_bytes} {msg} {eta} left",
            None => "{prefix:12} {spinner} {msg} {elapsed}",
        };
        // The style has to be set first: every change of a bar draws it.
        bar.set_style(ProgressStyle::with_template(template).expect("templates are constants"));
        if let Some(total) = total {
            bar.set_length(total);
        }
        bar.set_prefix(what.to_owned());
        bar.enable_steady_tick(TICK);
        let begin = Instant::now();
        Self { bar, begin, said: Cell::new(begin) }
    }

    /// Sets the number of finished bytes.
    pub fn at(&self, bytes: u64) {
        self.bar.set_position(bytes);
    }

    /// Sets the numbers of finished and of total bytes; both may be estimates.
    pub fn at_of(&self, bytes: u64, total: u64) {
        self.bar.set_length(total.max(bytes));
        self.bar.set_position(bytes);
    }

    /// Sets the numbers of processed items and bytes.
    pub fn moved(&self, items: u64, bytes: u64) {
        if self.said.get().elapsed() < TICK {
            return;
        }
        self.said.set(Instant::now());
        let rate = bytes as f64 / self.begin.elapsed().as_secs_f64().max(1e-3);
        self.bar.set_message(format!(
            "{} items, {}, {}/s",
            units::thousands(items as f64),
            units::bytes(bytes),
            units::bytes(rate as u64)
        ));
    }

    /// Shows how much of what was read and sorted has been loaded.
    pub fn loaded(&self, bytes: u64, total: u64) {
        if self.said.get().elapsed() >= TICK {
            self.said.set(Instant::now());
            self.say(format!("loading {} of {}", units::bytes(bytes), units::bytes(total)));
        }
    }

    /// Shows a message.
    pub fn say(&self, message: String) {
        self.bar.set_message(message);
    }

    /// Runs `work`, which prints, with the bar hidden.
    pub fn aside<T>(&self, work: impl FnOnce() -> T) -> T {
        self.bar.suspend(work)
    }

    /// Time since the beginning.
    pub fn elapsed(&self) -> Duration {
        self.begin.elapsed()
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

/// What was moved in `seconds`, in words.
pub fn moved(items: u64, bytes: u64, seconds: f64) -> String {
    let rate = (bytes as f64 / seconds.max(1e-3)) as u64;
    format!(
        "{} items, {}, in {seconds:.2} s ({}/s)",
        units::thousands(items as f64),
        units::bytes(bytes),
        units::bytes(rate),
    )
}
