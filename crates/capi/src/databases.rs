//! Handles of databases, which say so after their close instead of being freed memory.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use arc_swap::ArcSwapOption;
use cleavedb::{Db, Error, ErrorKind, Result};

use crate::handles::Handle;

/// Closed handles that are not freed: a program that uses one of them, or closes it again, is told.
const CLOSED_MAX: usize = 1024;

/// A database that C holds, until it is closed.
pub(crate) struct HeldDb(ArcSwapOption<Db>);

/// Handles that were closed, the oldest first.
static CLOSED: Mutex<VecDeque<Handle<HeldDb>>> = Mutex::new(VecDeque::new());

impl HeldDb {
    /// A handle of a database.
    pub(crate) fn handle(db: Db) -> Handle<Self> {
        Handle::new(Self(ArcSwapOption::from_pointee(db)))
    }

    /// What `call` returns for the database; fails once it is closed.
    #[inline]
    pub(crate) fn with<T>(&self, call: impl FnOnce(&Db) -> Result<T>) -> Result<T> {
        match &*self.0.load() {
            Some(db) => call(db),
            None => Err(closed()),
        }
    }
}

/// Closes a database, and ends its iterators and snapshots. A second close fails.
pub(crate) fn close(handle: Handle<HeldDb>) -> Result<()> {
    let Some(held) = handle.get() else { return Ok(()) };
    let db = held.0.swap(None).ok_or_else(closed)?;
    let done = Db::clone(&db).close_now();
    drop(db);
    let mut all = CLOSED.lock().unwrap_or_else(PoisonError::into_inner);
    all.push_back(handle);
    if all.len() > CLOSED_MAX {
        drop(all.pop_front().and_then(Handle::take));
    }
    done
}

#[cold]
fn closed() -> Error {
    Error::new(ErrorKind::Closed, "the database was closed")
}
