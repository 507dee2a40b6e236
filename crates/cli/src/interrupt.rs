//! Signals during long work (Ctrl-C, and SIGTERM and SIGHUP, which mean the same): the first stops
//! it between two operations, the second at once.

use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::json;

use crate::console::Console;
use crate::failure::{Exit, Failure, Result};

static INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// From now on signals are for us to act on. Short commands do without: the store is safe whenever
/// its process dies.
pub fn watch(console: &Console) -> Result<()> {
    let (json, quiet) = (console.json(), console.quiet());
    ctrlc::set_handler(move || {
        if INTERRUPTED.swap(true, Ordering::Relaxed) {
            std::process::exit(i32::from(Exit::Interrupted.code()));
        }
        let what = "stopping; once more to stop at once";
        let _ = match (quiet, json) {
            (true, _) => Ok(()),
            (false, true) => writeln!(io::stderr(), "{}", json!({ "note": what })),
            (false, false) => writeln!(io::stderr(), "\n{what}"),
        };
    })
    .map_err(|error| Failure::Usage(format!("Ctrl-C cannot be watched: {error}")))
}

/// Whether a signal came.
pub fn interrupted() -> bool {
    INTERRUPTED.load(Ordering::Relaxed)
}

/// Fails if a signal came: to be called between operations.
pub fn check() -> Result<()> {
    if interrupted() { Err(Failure::Interrupted) } else { Ok(()) }
}

/// A failure as the user is to hear of it: what a signal broke off is interrupted, not broken.
pub fn explain(failure: Failure) -> Failure {
    if interrupted() { Failure::Interrupted } else { failure }
}
