//! `WriteBatch`: writes that take effect as one. `Operand`: what a merge does.

use std::sync::Arc;

use cleavedb::{Durability, Keyspace, KeyspaceBatch, Result};
use parking_lot::Mutex;
use pyo3::prelude::*;

use crate::buffer::Buffer;
use crate::errors::{detached, raise};
use crate::options::{NamedDurability, Ttl};
use crate::reader::PyReader;
use crate::source::{OpenDatabase, Span};

/// What a merge does to the value of a key, at a later read: see `add`, `append` and `max`.
#[pyclass(module = "cleavedb", frozen, name = "Operand")]
pub struct PyOperand(pub(crate) cleavedb::Operand);

/// Adds `number` to a value that is a number in decimal text, as `b"7"`; no value counts as 0.
#[pyfunction]
pub fn add(number: i64) -> PyOperand {
    PyOperand(cleavedb::Operand::add(number))
}

/// Appends `bytes` to the value.
#[pyfunction]
pub fn append(bytes: Buffer<'_>) -> PyOperand {
    PyOperand(cleavedb::Operand::append(bytes.bytes()))
}

/// Puts `bytes` if they sort behind the value.
#[pyfunction]
pub fn max(bytes: Buffer<'_>) -> PyOperand {
    PyOperand(cleavedb::Operand::max(bytes.bytes()))
}

/// Writes that take effect together, or not at all. As a context manager it is written at the end
/// of the block, unless that raises.
#[pyclass(module = "cleavedb", frozen, name = "WriteBatch")]
pub struct PyWriteBatch {
    session: Arc<OpenDatabase>,
    within: Keyspace,
    durability: Durability,
    batch: Mutex<cleavedb::WriteBatch>,
}

impl PyWriteBatch {
    pub(crate) fn new(
        session: Arc<OpenDatabase>,
        within: Keyspace,
        durability: Durability,
    ) -> Self {
        let batch = Mutex::new(session.db.batch());
        Self { session, within, durability, batch }
    }

    /// Calls `body` with the writes. A thread that holds the interpreter must not wait for one that
    /// has them, which may be writing them to the disk.
    fn call<T: Send>(
        &self,
        py: Python<'_>,
        body: impl FnOnce(&mut cleavedb::WriteBatch) -> Result<T> + Send,
    ) -> PyResult<T> {
        match self.batch.try_lock() {
            Some(mut batch) => body(&mut batch).map_err(raise),
            None => detached(py, || body(&mut self.batch.lock())),
        }
    }

    /// Adds a write to the keyspace that a call names, or to that of the batch.
    fn add(
        &self,
        py: Python<'_>,
        named: Option<&Bound<'_, PyReader>>,
        write: impl FnOnce(KeyspaceBatch<'_>) -> Result<()> + Send,
    ) -> PyResult<()> {
        let within = named.map_or(Ok(&self.within), |named| named.get().keyspace())?;
        self.call(py, |batch| write(batch.keyspace(within)))
    }
}

#[pymethods]
impl PyWriteBatch {
    /// Adds a put; the value lives for `ttl` seconds, if that is given.
    #[pyo3(signature = (key, value, *, ttl=None, keyspace=None))]
    fn put(
        &self,
        py: Python<'_>,
        key: Buffer<'_>,
        value: Buffer<'_>,
        ttl: Option<Ttl>,
        keyspace: Option<&Bound<'_, PyReader>>,
    ) -> PyResult<()> {
        let (key, value) = (key.bytes(), value.bytes());
        self.add(py, keyspace, |mut within| match ttl {
            None => within.put(key, value).map(drop),
            Some(Ttl(ttl)) => within.put_with_ttl(key, value, ttl).map(drop),
        })
    }

    /// Adds a delete.
    #[pyo3(signature = (key, *, keyspace=None))]
    fn delete(
        &self,
        py: Python<'_>,
        key: Buffer<'_>,
        keyspace: Option<&Bound<'_, PyReader>>,
    ) -> PyResult<()> {
        let key = key.bytes();
        self.add(py, keyspace, |mut within| within.delete(key).map(drop))
    }

    /// Adds the deletion of a range of keys.
    #[pyo3(signature = (start=None, stop=None, *, prefix=None, keyspace=None))]
    fn delete_range(
        &self,
        py: Python<'_>,
        start: Option<Buffer<'_>>,
        stop: Option<Buffer<'_>>,
        prefix: Option<Buffer<'_>>,
        keyspace: Option<&Bound<'_, PyReader>>,
    ) -> PyResult<()> {
        let span = Span::new(start, stop, prefix, true, false)?;
        self.add(py, keyspace, |mut within| within.delete_range(span.ends()).map(drop))
    }

    /// Adds a merge.
    #[pyo3(signature = (key, operand, *, keyspace=None))]
    fn merge(
        &self,
        py: Python<'_>,
        key: Buffer<'_>,
        operand: &PyOperand,
        keyspace: Option<&Bound<'_, PyReader>>,
    ) -> PyResult<()> {
        let key = key.bytes();
        self.add(py, keyspace, |mut within| within.merge(key, &operand.0).map(drop))
    }

    /// Adds all writes of another batch of the same database.
    fn append(&self, py: Python<'_>, other: &Self) -> PyResult<()> {
        // A copy, so that a batch can be appended to itself and two to each other.
        let other = other.call(py, |other| Ok(other.clone()))?;
        self.call(py, |batch| batch.append(&other))
    }

    /// Bytes that the batch takes.
    #[getter]
    fn size_bytes(&self, py: Python<'_>) -> PyResult<u64> {
        self.call(py, |batch| Ok(batch.size_bytes()))
    }

    /// Drops its writes.
    fn clear(&self, py: Python<'_>) -> PyResult<()> {
        self.call(py, |batch| {
            batch.clear();
            Ok(())
        })
    }

    /// Writes it, and leaves it empty.
    #[pyo3(signature = (*, durability=None))]
    fn write(&self, py: Python<'_>, durability: Option<NamedDurability>) -> PyResult<()> {
        let durability = durability.map_or(self.durability, |named| named.0);
        detached(py, || {
            let mut batch = self.batch.lock();
            self.session.db.write_with(&batch, durability)?;
            batch.clear();
            Ok(())
        })
    }

    fn __len__(&self, py: Python<'_>) -> PyResult<usize> {
        self.call(py, |batch| Ok(batch.len()))
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
        if kind.is_none() { self.write(py, None) } else { Ok(()) }
    }
}
