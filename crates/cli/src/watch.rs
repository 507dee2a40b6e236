//! Long calls of the engine: run in a thread, so that this one can show progress and hear Ctrl-C.
//!
//! The engine has no way to cancel a call, but it gives up when the database closes; so that is how
//! Ctrl-C stops it.

use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use cleavedb::Db;

use crate::failure::{Failure, Result};
use crate::interrupt;
use crate::progress::Progress;

const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Runs `call`, showing what `describe` makes of the database meanwhile.
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
