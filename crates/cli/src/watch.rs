//! Long calls of the engine: each runs in a thread, so that the caller can show progress and stop
//! it.
//!
//! The engine cannot cancel a call, but a call fails when the database closes: Ctrl-C closes it.

use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use cleavedb::Db;
use cleavedb_units as units;

use crate::failure::{Failure, Result};
use crate::interrupt;
use crate::progress::Progress;

const LOOK_EVERY: Duration = Duration::from_millis(100);

/// What compactions and collections have done, in words.
pub fn rewritten(db: &Db) -> String {
    let metrics = db.metrics();
    let read = metrics.compaction_read + metrics.collection_read;
    let written = metrics.compaction_written + metrics.collection_written;
    format!("{} read, {} written", units::bytes(read), units::bytes(written))
}

/// Runs `call`, showing `describe` of the database meanwhile.
pub fn run<T: Send + 'static>(
    db: &Db,
    progress: &Progress,
    describe: impl Fn(&Db) -> String,
    call: impl FnOnce(&Db) -> cleavedb::Result<T> + Send + 'static,
) -> Result<T> {
    let (sender, receiver) = mpsc::channel();
    let theirs = db.clone();
    // Not joined: a call that does not end when the database closes ends with the process.
    thread::spawn(move || {
        let _ = sender.send(call(&theirs));
    });
    loop {
        match receiver.recv_timeout(LOOK_EVERY) {
            Ok(result) => return Ok(result?),
            Err(RecvTimeoutError::Timeout) if interrupt::interrupted() => {
                db.clone().close()?;
                return Err(Failure::Interrupted);
            }
            Err(RecvTimeoutError::Timeout) => progress.say(describe(db)),
            Err(RecvTimeoutError::Disconnected) => panic!("the engine panicked, see above"),
        }
    }
}
