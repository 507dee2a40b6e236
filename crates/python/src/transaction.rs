//! `Transaction`: reads and writes that take effect as one, or not at all.

use std::sync::Arc;

use cleavedb::{Durability, Error, ErrorKind, KeyspaceTransaction, Result};
use parking_lot::Mutex;
use pyo3::prelude::*;

use crate::batch::PyOperand;
use crate::buffer::Buffer;
use crate::errors::detached;
use crate::options::{NamedDurability, Ttl};
use crate::reader::PyReader;
use crate::source::{OpenDatabase, OpenTransaction, ReadSource, Span, with};

/// Reads and writes that take effect as one, or not at all. Its commit raises `Conflict` if another
/// one has written what it has read. As a context manager it commits at the end of the block,
/// unless that raises.
#[pyclass(module = "cleavedb", frozen, extends = PyReader, name = "Transaction")]
pub struct PyTransaction {
    open: OpenTransaction,
    within: cleavedb::Keyspace,
    durability: Durability,
}

impl PyTransaction {
    pub(crate) fn begin(
        py: Python<'_>,
        session: &Arc<OpenDatabase>,
        within: &cleavedb::Keyspace,
        durability: Durability,
    ) -> PyResult<Py<Self>> {
        let transaction = detached(py, || session.db.transaction())?;
        let open = Arc::new(Mutex::new(Some(transaction)));
        Self::of(py, session, open, within, durability)
    }

    fn of(
        py: Python<'_>,
        session: &Arc<OpenDatabase>,
        open: OpenTransaction,
        within: &cleavedb::Keyspace,
        durability: Durability,
    ) -> PyResult<Py<Self>> {
        let source = ReadSource::Transaction(open.clone(), within.clone());
        let this = Self { open, within: within.clone(), durability };
        let reader = PyReader::new(session.clone(), source);
        Py::new(py, PyClassInitializer::from(reader).add_subclass(this))
    }

    fn change(
        &self,
        py: Python<'_>,
        change: impl FnOnce(&mut KeyspaceTransaction<'_>) -> Result<()> + Send,
    ) -> PyResult<()> {
        detached(py, || with(&self.open, |t| change(&mut t.keyspace(&self.within))))
    }

    /// Commits, if it has not ended; what it returns is without a place for a retry.
    pub(crate) fn end(&self, py: Python<'_>, durability: Durability) -> PyResult<()> {
        detached(py, || {
            let ended = || Error::new(ErrorKind::Closed, "the transaction has ended");
            let transaction = self.open.lock().take().ok_or_else(ended)?;
            transaction.commit_with(durability)
        })
    }
}

#[pymethods]
impl PyTransaction {
    /// Stores `value` under `key` at the commit, for `ttl` seconds, if that is given.
    #[pyo3(signature = (key, value, *, ttl=None))]
    fn put(
        &self,
        py: Python<'_>,
        key: Buffer<'_>,
        value: Buffer<'_>,
        ttl: Option<Ttl>,
    ) -> PyResult<()> {
        let (key, value) = (key.bytes(), value.bytes());
        self.change(py, |within| match ttl {
            None => within.put(key, value),
            Some(Ttl(ttl)) => within.put_with_ttl(key, value, ttl),
        })
    }

    /// Removes `key` at the commit, if it is there.
    fn delete(&self, py: Python<'_>, key: Buffer<'_>) -> PyResult<()> {
        let key = key.bytes();
        self.change(py, |within| within.delete(key))
    }

    /// Removes all keys of a range at the commit.
    #[pyo3(signature = (start=None, stop=None, *, prefix=None))]
    fn delete_range(
        &self,
        py: Python<'_>,
        start: Option<Buffer<'_>>,
        stop: Option<Buffer<'_>>,
        prefix: Option<Buffer<'_>>,
    ) -> PyResult<()> {
        let span = Span::new(start, stop, prefix, true, false)?;
        self.change(py, |within| within.delete_range(span.ends()))
    }

    /// Changes the value of `key` by `operand` at the commit.
    fn merge(&self, py: Python<'_>, key: Buffer<'_>, operand: &PyOperand) -> PyResult<()> {
        let key = key.bytes();
        self.change(py, |within| within.merge(key, &operand.0))
    }

    /// The reads and writes of the same transaction in another keyspace.
    fn keyspace(this: &Bound<'_, Self>, keyspace: &Bound<'_, PyReader>) -> PyResult<Py<Self>> {
        let session = &this.as_super().get().session;
        let own = this.get();
        let within = keyspace.get().keyspace()?;
        Self::of(this.py(), session, own.open.clone(), within, own.durability)
    }

    /// Writes everything; raises `Conflict` if another commit has written what was read.
    #[pyo3(signature = (*, durability=None))]
    fn commit(&self, py: Python<'_>, durability: Option<NamedDurability>) -> PyResult<()> {
        self.end(py, durability.map_or(self.durability, |named| named.0))
    }

    /// Drops it without effect.
    fn rollback(&self, py: Python<'_>) {
        py.detach(|| drop(self.open.lock().take()));
    }

    fn __setitem__(&self, py: Python<'_>, key: Buffer<'_>, value: Buffer<'_>) -> PyResult<()> {
        self.put(py, key, value, None)
    }

    fn __delitem__(&self, py: Python<'_>, key: Buffer<'_>) -> PyResult<()> {
        self.delete(py, key)
    }

    fn __enter__(this: Py<Self>) -> Py<Self> {
        this
    }

    #[pyo3(signature = (kind, *_error))]
    fn __exit__(
        &self,
        py: Python<'_>,
        kind: &Bound<'_, PyAny>,
        _error: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        if kind.is_none() && py.detach(|| self.open.lock().is_some()) {
            return self.end(py, self.durability);
        }
        self.rollback(py);
        Ok(())
    }
}
