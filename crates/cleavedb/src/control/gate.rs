//! Access check of calls: refuses closed handles, forked processes, and writes of readers.
//!
//! Every public call checks it first. Calls of the database end with [`crate::Db::close`]; those of
//! snapshots and ranges with [`crate::Db::close_now`].

use cleavedb_base::sync::atomic::{AtomicU8, Ordering, fence};
use cleavedb_base::{Error, ErrorKind, Result};
use cleavedb_storage::process;

const OPEN: u8 = 0;
const FOLLOWING: u8 = 1;
const CLOSED: u8 = 2;
const ENDED: u8 = 3;

/// The error of a call after a close.
#[cold]
pub(crate) fn closed() -> Error {
    Error::new(ErrorKind::Closed, "the database was closed; open it again")
}

/// The error of a call that a reader beside the writer has not.
#[cold]
fn refused() -> Error {
    let message = "the database was opened to follow the process that writes it, and can only be \
                   read; for this call, open it with `Db::open` or `Db::open_read_only` once that \
                   process has closed it";
    Error::new(ErrorKind::ReadOnly, message)
}

/// What a database was opened for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Intent {
    /// Reads only; nothing on the disk changes.
    Read,
    /// Reads beside a process that writes. What is read is in the engines of views; their base, to
    /// which this gate leads, has nothing, and turns every call away.
    Follow,
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
        let stage = if intent == Intent::Follow { FOLLOWING } else { OPEN };
        Self { process: process::id(), stage: AtomicU8::new(stage), intent }
    }

    /// Whether calls may be answered here; if not, [`Gate::check_open`] says why.
    #[inline]
    pub(crate) fn is_open(&self) -> bool {
        self.stage.load(Ordering::Acquire) == OPEN && self.is_own()
    }

    /// Fails unless this is the base of a reader beside the writer, and is not closed.
    pub(crate) fn check_following(&self) -> Result<()> {
        match self.intent {
            Intent::Follow => self.check_below(CLOSED),
            Intent::Read | Intent::Write => self.check_open(),
        }
    }

    /// Fails if the database was opened for reading only.
    pub(crate) fn check_writable(&self) -> Result<()> {
        match self.intent {
            Intent::Write => Ok(()),
            Intent::Follow => Err(refused()),
            Intent::Read => {
                let message = "the database was opened for reading only; to write, close it and \
                               open it for writing";
                Err(Error::new(ErrorKind::ReadOnly, message))
            }
        }
    }

    /// Fails unless the database is open, and this is the process that has opened it.
    #[inline]
    pub(crate) fn check_open(&self) -> Result<()> {
        self.check_below(FOLLOWING)
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
            let is_closed = self.stage.load(Ordering::Acquire) >= CLOSED;
            return if is_closed { closed() } else { refused() };
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
        self.stage.fetch_max(CLOSED, Ordering::AcqRel) < CLOSED
    }

    /// Ends the calls of snapshots and ranges as well.
    pub(crate) fn end(&self) {
        self.stage.fetch_max(ENDED, Ordering::AcqRel);
    }
}
