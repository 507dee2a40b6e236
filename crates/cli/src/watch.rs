//! Long calls of the engine: each runs in a thread, so that the caller can show progress and stop
//! it.
//!
//! Some calls can be stopped. The others fail when the database closes: Ctrl-C closes it.

use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use cleavedb::{Db, ErrorKind};
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
    let theirs = db.clone();
    // Not waited for: a call that does not end when the database closes ends with the process.
    let ran = looked_at(
        move || call(&theirs),
        || {
            if interrupt::interrupted() {
                db.clone().close()?;
                return Err(Failure::Interrupted);
            }
            progress.say(describe(db));
            Ok(())
        },
    );
    Ok(ran??)
}

/// Runs `call`, showing the bytes that it counts meanwhile. Ctrl-C stops it; what it then removes
/// is waited for.
pub fn count<T: Send + 'static>(
    progress: &Progress,
    call: impl FnOnce(&cleavedb::Progress) -> cleavedb::Result<T> + Send + 'static,
) -> Result<T> {
    let counted = Arc::<cleavedb::Progress>::default();
    let theirs = Arc::clone(&counted);
    let ran = looked_at(
        move || call(&theirs),
        || {
            let (done, total) = counted.bytes();
            progress.at_of(done, total);
            if interrupt::interrupted() {
                counted.stop();
            }
            Ok(())
        },
    );
    ran?.map_err(|error| match error.kind() {
        ErrorKind::Stopped => Failure::Interrupted,
        _ => error.into(),
    })
}

/// Runs `call` in a thread, and `look` again and again until it has ended, or `look` fails.
fn looked_at<T: Send + 'static>(
    call: impl FnOnce() -> T + Send + 'static,
    mut look: impl FnMut() -> Result<()>,
) -> Result<T> {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        let _ = sender.send(call());
    });
    loop {
        match receiver.recv_timeout(LOOK_EVERY) {
            Ok(result) => return Ok(result),
            Err(RecvTimeoutError::Timeout) => look()?,
            Err(RecvTimeoutError::Disconnected) => panic!("the engine panicked, see above"),
        }
    }
}
