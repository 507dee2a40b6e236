//! The progress of a long call, which other threads can read, and stop.

use cleavedb_base::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use cleavedb_base::{Error, ErrorKind, Result};

/// Progress of a long call. Other threads can read it, and stop the call.
#[derive(Debug, Default)]
pub struct Progress {
    done: AtomicU64,
    total: AtomicU64,
    stopped: AtomicBool,
}

impl Progress {
    /// Bytes that were read or copied, and bytes in all, which is an estimate; 0 and 0 before the
    /// call begins. A call of several parts counts each from 0.
    pub fn bytes(&self) -> (u64, u64) {
        (self.done.load(Ordering::Relaxed), self.total.load(Ordering::Relaxed))
    }

    /// Lets the call fail with [`ErrorKind::Stopped`] as soon as it has ended a file, after it has
    /// removed what it made; [`crate::Db::migrate_with`] keeps it. A call that is almost done may
    /// succeed.
    pub fn stop(&self) {
        self.stopped.store(true, Ordering::Relaxed);
    }

    /// A part of `total` bytes begins.
    pub(crate) fn begin(&self, total: u64) {
        self.done.store(0, Ordering::Relaxed);
        self.total.store(total, Ordering::Relaxed);
    }

    /// Counts bytes that are done; fails if the call is to stop.
    pub(crate) fn add(&self, bytes: u64) -> Result<()> {
        self.done.fetch_add(bytes, Ordering::Relaxed);
        match self.stopped.load(Ordering::Relaxed) {
            true => Err(Error::new(ErrorKind::Stopped, "the call was stopped before its end")),
            false => Ok(()),
        }
    }
}
