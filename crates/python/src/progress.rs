//! Long calls, which Ctrl-C ends.

use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use cleavedb::{ErrorKind, Progress, Result};
use pyo3::prelude::*;

use crate::errors::raise;

/// How often a long call asks for signals.
const ASKED_EACH: Duration = Duration::from_millis(50);

/// Runs `job` in a thread, while this one asks for signals. After Ctrl-C a job that looks at its
/// progress is waited for; `LeftAlone` ones end in the background.
pub fn long<T: Send + 'static>(
    py: Python<'_>,
    ends: AtInterrupt,
    job: impl FnOnce(&Progress) -> Result<T> + Send + 'static,
) -> PyResult<T> {
    let progress = Arc::new(Progress::default());
    let (done, waits) = channel();
    let seen = progress.clone();
    thread::Builder::new().name("cleavedb-call".to_owned()).spawn(move || {
        // The caller does not wait for the answer after Ctrl-C.
        let _ = done.send(job(&seen));
    })?;
    let mut waits = waits;
    loop {
        let (back, answer) = py.detach(move || {
            let answer = waits.recv_timeout(ASKED_EACH);
            (waits, answer)
        });
        waits = back;
        match answer {
            Ok(answer) => return answer.map_err(raise),
            Err(RecvTimeoutError::Timeout) => {
                if let Err(signal) = py.check_signals() {
                    progress.stop();
                    if ends == AtInterrupt::Stopped {
                        // The answer is that the job was stopped.
                        let _ = py.detach(move || waits.recv());
                    }
                    return Err(signal);
                }
            }
            Err(RecvTimeoutError::Disconnected) => {
                let why = "the call has panicked: this is a bug of the engine";
                return Err(raise(cleavedb::Error::new(ErrorKind::Other, why)));
            }
        }
    }
}

/// What becomes of a long call after Ctrl-C.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum AtInterrupt {
    /// The job looks at its progress, and ends.
    Stopped,
    /// The job cannot be stopped, and goes on in the background.
    LeftAlone,
}
