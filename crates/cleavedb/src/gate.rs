//! Access check of calls: refuses closed handles, forked processes, and writes of readers.
//!
//! Every public call checks it first. Calls of the database end with [`crate::Db::close`]; those of
//! snapshots and ranges with [`crate::Db::close_now`].

use cleavedb_base::sync::atomic::{AtomicU8, Ordering, fence};
use cleavedb_base::{Error, ErrorKind, Result};
use cleavedb_storage::process;

const OPEN: u8 = 0;
const CLOSED: u8 = 1;
const ENDED: u8 = 2;

/// The error of a call after a close.
#[cold]
pub(crate) fn closed() -> Error {
    Error::new(ErrorKind::Closed, "the database was closed; open it again")
}

/// What a database was opened for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Intent {
    /// Reads only; nothing on the disk changes.
    Read,
    /// Reads and writes.
    Write,
}

/// State of a database's life, the process that owns it, and what it was opened for.
pub(crate) struct Gate {
    process: u32,
    stage: AtomicU8,
    intent: Intent,
}

impl Gate {
    /// The gate of a database that is being opened by this process.
    pub(crate) fn new(intent: Intent) -> Self {
        Self { process: process::id(), stage: AtomicU8::new(OPEN), intent }
    }

    /// Fails if the database was opened for reading only.
    pub(crate) fn check_writable(&self) -> Result<()> {
        match self.intent {
            Intent::Write => Ok(()),
            Intent::Read => {
                let message = "the database was opened for reading only; to write, close it and \
                               open it with `Db::open`";
                Err(Error::new(ErrorKind::ReadOnly, message))
            }
        }
    }

    /// Fails unless the database is open, and this is the process that has opened it.
    #[inline]
    pub(crate) fn check_open(&self) -> Result<()> {
        self.check_below(CLOSED)
    }

    /// Fails if snapshots and ranges have been ended, or in another process. Checked again after a
    /// read: data that was read after the end must not be returned.
    #[inline]
    pub(crate) fn check_held(&self) -> Result<()> {
        fence(Ordering::Acquire);
        self.check_below(ENDED)
    }

    #[inline]
    fn check_below(&self, stage: u8) -> Result<()> {
        if self.stage.load(Ordering::Acquire) >= stage || !self.is_own() {
            return Err(self.refuse());
        }
        Ok(())
    }

    /// Whether this is the process that has opened the database.
    #[inline]
    pub(crate) fn is_own(&self) -> bool {
        process::id() == self.process
    }

    #[cold]
    fn refuse(&self) -> Error {
        if self.is_own() {
            return closed();
        }
        let message = format!(
            "this handle was opened by process {}, of which this one is a fork; open the database \
             again here, after that process has closed it",
            self.process
        );
        Error::new(ErrorKind::Forked, message)
    }

    /// Whether the calls of the database have ended.
    pub(crate) fn is_closed(&self) -> bool {
        self.stage.load(Ordering::Acquire) >= CLOSED
    }

    /// Fails in another process.
    pub(crate) fn check_own(&self) -> Result<()> {
        if self.is_own() { Ok(()) } else { Err(self.refuse()) }
    }

    /// Ends the calls of the database; false if they have ended before.
    pub(crate) fn close(&self) -> bool {
        self.stage.fetch_max(CLOSED, Ordering::AcqRel) == OPEN
    }

    /// Ends the calls of snapshots and ranges as well.
    pub(crate) fn end(&self) {
        self.stage.fetch_max(ENDED, Ordering::AcqRel);
    }
}
