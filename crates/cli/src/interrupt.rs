//! Signals during long work (Ctrl-C, SIGTERM and SIGHUP, which are treated alike): the first stops
//! it between two operations, the second at once.

use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::json;

use crate::console::Console;
use crate::failure::{Exit, Failure, Result};

static INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// Handles signals from now on. Short commands need not: the store is safe whenever its process
/// dies.
pub fn watch(console: &Console) -> Result<()> {
    let (json, quiet) = (console.json(), console.quiet());
    ctrlc::set_handler(move || {
        if INTERRUPTED.swap(true, Ordering::Relaxed) {
            std::process::exit(i32::from(Exit::Interrupted.code()));
        }
        let what = "stopping; repeat to stop at once";
        let _ = match (quiet, json) {
            (true, _) => Ok(()),
            (false, true) => writeln!(io::stderr(), "{}", json!({ "note": what })),
            (false, false) => writeln!(io::stderr(), "\n{what}"),
        };
    })
    .map_err(|error| Failure::Usage(format!("signals cannot be handled: {error}")))
}

/// Whether a signal has arrived.
pub fn interrupted() -> bool {
    INTERRUPTED.load(Ordering::Relaxed)
}

/// Fails if a signal has arrived: to be called between operations.
pub fn check() -> Result<()> {
    if interrupted() { Err(Failure::Interrupted) } else { Ok(()) }
}

/// The failure to report: work stopped by a signal was interrupted, not broken.
pub fn explain(failure: Failure) -> Failure {
    if interrupted() { Failure::Interrupted } else { failure }
}
