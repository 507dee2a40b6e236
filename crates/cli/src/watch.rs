//! Long calls of the engine: each runs in a thread, so that the caller can show progress and stop
//! it.
//!
//! Some calls can be stopped. The others fail when the database closes: Ctrl-C closes it.

use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use cleavedb::{Db, ErrorKind};

use crate::failure::{Failure, Result};
use crate::interrupt;
use crate::progress::Progress;

const LOOK_EVERY: Duration = Duration::from_millis(100);

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

/// Runs `call`, showing the bytes that it counts meanwhile. Ctrl-C stops it; what it then removes
/// is waited for.
pub fn count<T: Send + 'static>(
    progress: &Progress,
    call: impl FnOnce(&cleavedb::Progress) -> cleavedb::Result<T> + Send + 'static,
) -> Result<T> {
    let counted = Arc::<cleavedb::Progress>::default();
    let theirs = Arc::clone(&counted);
    let running = thread::spawn(move || call(&theirs));
    while !running.is_finished() {
        thread::park_timeout(LOOK_EVERY);
        let (done, total) = counted.bytes();
        progress.at_of(done, total);
        if interrupt::interrupted() {
            counted.stop();
        }
    }
    let result = running.join().unwrap_or_else(|_| panic!("the engine panicked, see above"));
    result.map_err(|error| match error.kind() {
        ErrorKind::Stopped => Failure::Interrupted,
        _ => error.into(),
    })
}
