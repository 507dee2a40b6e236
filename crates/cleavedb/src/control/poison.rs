//! Keeps the first failure of a write or a sync of the log, the manifest or a directory: after it
//! nothing may be written (invariant 9).
//!
//! After a failed sync the content of the disk is unknown, and a second sync may wrongly report
//! success. So reads continue, writes fail with the cause, nothing is retried and no file is
//! deleted until the next open. A new file that no edit names yet is the exception: however its
//! write failed, it is removed.

use std::sync::OnceLock;

use cleavedb_base::{Error, Result};

/// Keeps the first failure.
#[derive(Default)]
pub(crate) struct Poison {
    first: OnceLock<Error>,
}

impl Poison {
    /// Fails if something failed before.
    #[inline]
    pub(crate) fn check(&self) -> Result<()> {
        match self.first.get() {
            None => Ok(()),
            Some(error) => Err(error.poisoned()),
        }
    }

    /// Remembers `error` as the reason, unless there is one already, and returns it. A disk that
    /// has become read-only is named as what it is: to reopen alone would not help.
    pub(crate) fn set(&self, error: Error) -> Error {
        let error = error.with_remedy();
        let _ = self.first.set(error.clone());
        error
    }

    /// The first failure.
    pub(crate) fn cause(&self) -> Option<&Error> {
        self.first.get()
    }
}
