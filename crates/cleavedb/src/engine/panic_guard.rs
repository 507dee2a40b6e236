//! Handles a panic in a job: the database refuses writes from then on, and no caller waits for the
//! job.

use cleavedb_base::Error;

use crate::engine::Engine;

/// Poisons the database if the thread that holds it panics, a background thread or a caller's: a
/// write must not be acknowledged by half an engine, and a close must not wait for the job.
pub(crate) struct PanicGuard<'a>(pub(crate) &'a Engine);

impl Drop for PanicGuard<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let message = "a background job panicked; this is a bug, please report it";
            self.0.poison.set(Error::corruption(message));
            self.0.jobs.progress.notify_all();
        }
    }
}
