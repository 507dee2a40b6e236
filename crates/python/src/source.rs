//! What reads are answered from: a keyspace, a snapshot, or an open transaction.

use std::ops::Bound as End;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use cleavedb::{
    Bytes, Cursor, Db, Durability, Error, ErrorKind, KeyRange, Keyspace, Prefix, Range, Resident,
    Result, Snapshot, Transaction, ValueReader,
};
use parking_lot::{Mutex, RwLock};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;

use crate::buffer::Buffer;
use crate::errors::raise;
use crate::options::NamedDurability;

/// An open database, shared by all objects that came from it.
pub struct OpenDatabase {
    /// The engine's handle.
    pub db: Db,
    closed: AtomicBool,
}

impl OpenDatabase {
    /// The session of an open database.
    pub fn new(db: Db) -> Arc<Self> {
        Arc::new(Self { db, closed: AtomicBool::new(false) })
    }

    /// Closes the database, and ends its cursors and snapshots. Later calls do nothing.
    pub fn close(&self) -> Result<()> {
        if self.closed.swap(true, Ordering::AcqRel) {
            return Ok(());
        }
        self.db.clone().close_now()
    }

    /// The durability that a call names, or that of the database.
    pub fn durability(&self, named: Option<NamedDurability>) -> Durability {
        named.map_or(self.db.options().durability, |named| named.0)
    }

    /// Whether it was closed.
    pub fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    /// Fails if it was closed: for items that were fetched before.
    pub fn check_open(&self) -> PyResult<()> {
        if self.is_closed() {
            return Err(raise(Error::new(ErrorKind::Closed, "the database was closed")));
        }
        Ok(())
    }
}

/// The ends of a range of keys.
pub struct Span(pub End<Vec<u8>>, pub End<Vec<u8>>);

impl Span {
    /// From `start` to `stop`, or all keys with `prefix`.
    pub fn new(
        start: Option<Buffer<'_>>,
        stop: Option<Buffer<'_>>,
        prefix: Option<Buffer<'_>>,
        include_start: bool,
        include_stop: bool,
    ) -> PyResult<Self> {
        if let Some(prefix) = prefix {
            if start.is_some() || stop.is_some() {
                return Err(PyTypeError::new_err("a prefix excludes start and stop"));
            }
            let prefix = Prefix(prefix.bytes());
            let (from, upto) = prefix.ends();
            return Ok(Self(from.map(|key| key.into_owned()), upto.map(|key| key.into_owned())));
        }
        let end = |key: Option<Buffer<'_>>, included| match key {
            None => End::Unbounded,
            Some(key) if included => End::Included(key.bytes().to_vec()),
            Some(key) => End::Excluded(key.bytes().to_vec()),
        };
        Ok(Self(end(start, include_start), end(stop, include_stop)))
    }

    /// The ends, as the engine takes them.
    pub fn ends(&self) -> (End<&[u8]>, End<&[u8]>) {
        (self.0.as_ref().map(Vec::as_slice), self.1.as_ref().map(Vec::as_slice))
    }
}

/// A transaction until it ends.
pub type OpenTransaction = Arc<Mutex<Option<Transaction>>>;

/// Calls `body` with the transaction; fails if it has ended.
pub fn with<T>(
    transaction: &OpenTransaction,
    body: impl FnOnce(&mut Transaction) -> Result<T>,
) -> Result<T> {
    match &mut *transaction.lock() {
        Some(transaction) => body(transaction),
        None => Err(Error::new(ErrorKind::Closed, "the transaction has ended; begin another one")),
    }
}

/// Where reads go.
pub enum ReadSource {
    /// To a keyspace as it is now.
    Keyspace(Keyspace),
    /// To a snapshot, until it is closed.
    Snapshot(RwLock<Option<Snapshot>>),
    /// To a keyspace as a transaction sees it.
    Transaction(OpenTransaction, Keyspace),
}

impl ReadSource {
    fn snapshot(held: &RwLock<Option<Snapshot>>) -> Result<Snapshot> {
        let closed = || Error::new(ErrorKind::Closed, "the snapshot was closed; take another one");
        held.read().clone().ok_or_else(closed)
    }

    /// The value of a key.
    pub fn get(&self, key: &[u8]) -> Result<Option<Bytes>> {
        match self {
            Self::Keyspace(keyspace) => keyspace.get(key),
            Self::Snapshot(held) => Self::snapshot(held)?.get(key),
            Self::Transaction(open, within) => with(open, |t| t.keyspace(within).get(key)),
        }
    }

    /// As [`Self::get`], without a wait: for a caller that holds the interpreter lock.
    pub fn get_resident(&self, key: &[u8]) -> Result<Resident> {
        match self {
            Self::Keyspace(keyspace) => keyspace.get_resident(key),
            Self::Snapshot(held) => Self::snapshot(held)?.get_resident(key),
            Self::Transaction(..) => Ok(Resident::Elsewhere),
        }
    }

    /// The values of keys, in their order.
    pub fn get_many(&self, keys: &[&[u8]]) -> Result<Vec<Option<Bytes>>> {
        let values = match self {
            Self::Keyspace(keyspace) => keyspace.multi_get(keys),
            Self::Snapshot(held) => Self::snapshot(held)?.multi_get(keys),
            Self::Transaction(open, within) => {
                with(open, |t| Ok(t.keyspace(within).multi_get(keys)))?
            }
        };
        values.into_iter().collect()
    }

    /// Whether a key is there.
    pub fn contains(&self, key: &[u8]) -> Result<bool> {
        match self {
            Self::Keyspace(keyspace) => keyspace.contains_key(key),
            Self::Snapshot(held) => Self::snapshot(held)?.contains_key(key),
            Self::Transaction(open, within) => with(open, |t| t.keyspace(within).contains_key(key)),
        }
    }

    /// The items of a range.
    pub fn range(&self, span: &Span) -> Result<Range> {
        let ends = span.ends();
        Ok(match self {
            Self::Keyspace(keyspace) => keyspace.range(ends),
            Self::Snapshot(held) => Self::snapshot(held)?.range(ends),
            Self::Transaction(open, within) => with(open, |t| Ok(t.keyspace(within).range(ends)))?,
        })
    }

    /// A cursor over a range.
    pub fn cursor(&self, span: &Span) -> Result<Cursor> {
        let ends = span.ends();
        Ok(match self {
            Self::Keyspace(keyspace) => keyspace.cursor(ends),
            Self::Snapshot(held) => Self::snapshot(held)?.cursor(ends),
            Self::Transaction(open, within) => with(open, |t| Ok(t.keyspace(within).cursor(ends)))?,
        })
    }

    /// A reader of the value of a key.
    pub fn reader(&self, key: &[u8]) -> Result<Option<ValueReader>> {
        match self {
            Self::Keyspace(keyspace) => keyspace.get_reader(key),
            Self::Snapshot(held) => Self::snapshot(held)?.get_reader(key),
            Self::Transaction(..) => {
                let why = "a transaction has no get_file; use get, or a snapshot";
                Err(Error::new(ErrorKind::InvalidArgument, why))
            }
        }
    }
}
