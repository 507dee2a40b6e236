//! `WriteBatch`: writes that take effect as one. `Operand`: what a merge does.

use std::sync::Arc;

use cleavedb::{Durability, Keyspace as Within};
use parking_lot::Mutex;
use pyo3::prelude::*;

use crate::buffer::Buffer;
use crate::errors::{detached, raise};
use crate::options::{Ttl, some_durability};
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
    within: Within,
    durability: Option<Durability>,
    batch: Mutex<cleavedb::WriteBatch>,
}

impl PyWriteBatch {
    pub(crate) fn new(
        session: Arc<OpenDatabase>,
        within: Within,
        durability: Option<Durability>,
    ) -> Self {
        let batch = Mutex::new(session.db.batch());
        Self { session, within, durability, batch }
    }

    /// The keyspace that a call names, or that of the batch.
    fn target<'a>(&'a self, named: Option<&'a Bound<'_, PyReader>>) -> PyResult<&'a Within> {
        named.map_or(Ok(&self.within), |named| named.get().keyspace())
    }
}

#[pymethods]
impl PyWriteBatch {
    /// Adds a put; the value lives for `ttl` seconds, if that is given.
    #[pyo3(signature = (key, value, *, ttl=None, keyspace=None))]
    fn put(
        &self,
        key: Buffer<'_>,
        value: Buffer<'_>,
        ttl: Option<Ttl>,
        keyspace: Option<&Bound<'_, PyReader>>,
    ) -> PyResult<()> {
        let target = self.target(keyspace)?;
        let mut batch = self.batch.lock();
        let mut within = batch.keyspace(target);
        let put = match ttl {
            None => within.put(key.bytes(), value.bytes()),
            Some(Ttl(ttl)) => within.put_with_ttl(key.bytes(), value.bytes(), ttl),
        };
        put.map(|_| ()).map_err(raise)
    }

    /// Adds a delete.
    #[pyo3(signature = (key, *, keyspace=None))]
    fn delete(&self, key: Buffer<'_>, keyspace: Option<&Bound<'_, PyReader>>) -> PyResult<()> {
        let target = self.target(keyspace)?;
        let mut batch = self.batch.lock();
        batch.keyspace(target).delete(key.bytes()).map(|_| ()).map_err(raise)
    }

    /// Adds the deletion of a range of keys.
    #[pyo3(signature = (start=None, stop=None, *, prefix=None, keyspace=None))]
    fn delete_range(
        &self,
        start: Option<Buffer<'_>>,
        stop: Option<Buffer<'_>>,
        prefix: Option<Buffer<'_>>,
        keyspace: Option<&Bound<'_, PyReader>>,
    ) -> PyResult<()> {
        let span = Span::new(start, stop, prefix, true, false)?;
        let target = self.target(keyspace)?;
        let mut batch = self.batch.lock();
        batch.keyspace(target).delete_range(span.ends()).map(|_| ()).map_err(raise)
    }

    /// Adds a merge.
    #[pyo3(signature = (key, operand, *, keyspace=None))]
    fn merge(
        &self,
        key: Buffer<'_>,
        operand: &PyOperand,
        keyspace: Option<&Bound<'_, PyReader>>,
    ) -> PyResult<()> {
        let target = self.target(keyspace)?;
        let mut batch = self.batch.lock();
        batch.keyspace(target).merge(key.bytes(), &operand.0).map(|_| ()).map_err(raise)
    }

    /// Adds all writes of another batch of the same database.
    fn append(&self, other: &Self) -> PyResult<()> {
        // A copy, so that a batch can be appended to itself and two to each other.
        let other = other.batch.lock().clone();
        self.batch.lock().append(&other).map_err(raise)
    }

    /// Bytes that the batch takes.
    #[getter]
    fn size_bytes(&self) -> u64 {
        self.batch.lock().size_bytes()
    }

    /// Drops its writes.
    fn clear(&self) {
        self.batch.lock().clear();
    }

    /// Writes it, and leaves it empty.
    #[pyo3(signature = (*, durability=None))]
    fn write(&self, py: Python<'_>, durability: Option<&str>) -> PyResult<()> {
        let durability = some_durability(durability)?.or(self.durability);
        detached(py, || {
            let mut batch = self.batch.lock();
            let db = &self.session.db;
            match durability {
                None => db.write(&batch)?,
                Some(durability) => db.write_with(&batch, durability)?,
            }
            batch.clear();
            Ok(())
        })
    }

    fn __len__(&self) -> usize {
        self.batch.lock().len()
    }

    fn __enter__(this: Py<Self>) -> Py<Self> {
        this
    }

    fn __exit__(
        &self,
        py: Python<'_>,
        kind: &Bound<'_, PyAny>,
        _error: &Bound<'_, PyAny>,
        _traceback: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        if kind.is_none() { self.write(py, None) } else { Ok(()) }
    }
}
