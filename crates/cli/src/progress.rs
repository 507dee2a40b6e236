//! Progress of long work, on standard error if that is a terminal.

use std::cell::Cell;
use std::time::{Duration, Instant};

use cleavedb_units as units;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

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
        let target = match console.quiet() {
            true => ProgressDrawTarget::hidden(),
            false => ProgressDrawTarget::stderr(),
        };
        Self::on(target, what, total)
    }

    fn on(target: ProgressDrawTarget, what: &str, total: Option<u64>) -> Self {
        let bar = ProgressBar::with_draw_target(None, target);
        // A message takes what is left of the line: one that is wrapped is printed again and again.
        let template = match total {
            Some(_) => {
                "{prefix} {bar:10} {binary_bytes}/{binary_total_bytes}, {eta} left  {wide_msg}"
            }
            None => "{prefix} {spinner} {elapsed}  {wide_msg}",
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
        let (items, rate) = (units::counted(items, "item"), units::bytes(rate as u64));
        // A bar shows the bytes itself.
        let done = match self.bar.length() {
            Some(_) => String::new(),
            None => format!(", {}", units::bytes(bytes)),
        };
        self.bar.set_message(format!("{rate}/s, {items}{done}"));
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
        "{}, {}, in {seconds:.2} s ({}/s)",
        units::counted(items, "item"),
        units::bytes(bytes),
        units::bytes(rate),
    )
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::{Arc, Mutex};
    use std::time::Duration;

    use indicatif::{ProgressDrawTarget, TermLike};

    use super::{Progress, TICK};

    /// A terminal of 80 columns that remembers what was printed.
    #[derive(Clone, Debug, Default)]
    struct Narrow(Arc<Mutex<Vec<String>>>);

    impl TermLike for Narrow {
        fn width(&self) -> u16 {
            80
        }
        fn move_cursor_up(&self, _: usize) -> io::Result<()> {
            Ok(())
        }
        fn move_cursor_down(&self, _: usize) -> io::Result<()> {
            Ok(())
        }
        fn move_cursor_right(&self, _: usize) -> io::Result<()> {
            Ok(())
        }
        fn move_cursor_left(&self, _: usize) -> io::Result<()> {
            Ok(())
        }
        fn write_line(&self, line: &str) -> io::Result<()> {
            self.write_str(line)
        }
        fn write_str(&self, text: &str) -> io::Result<()> {
            self.0.lock().unwrap().push(text.to_owned());
            Ok(())
        }
        fn clear_line(&self) -> io::Result<()> {
            Ok(())
        }
        fn flush(&self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_line_of_progress_fits_in_80_columns() {
        for total in [None, Some(1023 << 30)] {
            let terminal = Narrow::default();
            let target = ProgressDrawTarget::term_like(Box::new(terminal.clone()));
            let progress = Progress::on(target, "checkpoint", total);
            progress.said.set(progress.begin - 2 * TICK);
            progress.at(1022 << 30);
            progress.moved(123_456_789_012, 1022 << 30);
            std::thread::sleep(Duration::from_millis(1));
            progress.bar.tick();
            drop(progress);
            let printed = terminal.0.lock().unwrap();
            // Blanks that fill the line are printed apart.
            let line = printed.iter().rfind(|text| text.contains("checkpoint")).unwrap();
            assert!(line.contains("TiB/s, ") && line.chars().count() <= 80, "{printed:?}");
        }
    }
}
