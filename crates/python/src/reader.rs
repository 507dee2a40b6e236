//! `Reader`: the reads that databases, keyspaces, snapshots and transactions have in common.

use std::sync::Arc;

use cleavedb::{Bytes, Keyspace, Resident};
use pyo3::exceptions::{PyKeyError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList};

use crate::buffer::{Buffer, value};
use crate::cursor::PyCursor;
use crate::errors::{detached, raise};
use crate::files::PyValueReader;
use crate::iterator::{Part, PyItems};
use crate::source::{OpenDatabase, ReadSource, Span};

/// What can be read: a database, a keyspace, a snapshot or a transaction.
#[pyclass(module = "cleavedb", frozen, subclass, name = "Reader")]
pub struct PyReader {
    pub(crate) session: Arc<OpenDatabase>,
    pub(crate) source: ReadSource,
}

impl PyReader {
    pub(crate) fn new(session: Arc<OpenDatabase>, source: ReadSource) -> Self {
        Self { session, source }
    }

    /// The keyspace, if it is one as it is now.
    pub(crate) fn keyspace(&self) -> PyResult<&Keyspace> {
        match &self.source {
            ReadSource::Keyspace(keyspace) => Ok(keyspace),
            _ => Err(PyTypeError::new_err("a Keyspace or a Database is needed here")),
        }
    }

    /// The value of a key. The interpreter lock is released only if the read may wait for the
    /// device: to release it costs more than a read from memory.
    fn find(&self, py: Python<'_>, key: &[u8]) -> PyResult<Option<Bytes>> {
        match self.source.get_resident(key).map_err(raise)? {
            Resident::Found(value) => Ok(value),
            Resident::Elsewhere => detached(py, || self.source.get(key)),
        }
    }

    fn walk(&self, py: Python<'_>, part: Part, span: Span, reverse: bool) -> PyResult<PyItems> {
        let range = detached(py, || self.source.range(&span))?;
        Ok(PyItems::new(self.session.clone(), range, part, reverse))
    }
}

#[pymethods]
impl PyReader {
    /// The value of `key`, or `default` if it is not there.
    #[pyo3(signature = (key, default=None))]
    fn get<'py>(
        &self,
        py: Python<'py>,
        key: Buffer<'py>,
        default: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let found = self.find(py, key.bytes())?;
        Ok(found.map(|found| value(py, &found).into_any()).or(default))
    }

    /// The values of `keys` as a list in their order, `None` for each that is not there: faster
    /// than one `get` after the other.
    fn get_many<'py>(
        &self,
        py: Python<'py>,
        keys: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyList>> {
        let keys = keys.try_iter()?.map(|key| key?.extract()).collect::<PyResult<Vec<_>>>()?;
        let borrowed = keys.iter().map(Buffer::bytes).collect::<Vec<_>>();
        let found = detached(py, || self.source.get_many(&borrowed))?;
        PyList::new(py, found.iter().map(|found| found.as_ref().map(|found| value(py, found))))
    }

    /// Pairs of key and value in the order of keys, from `start` up to and without `stop`, or all
    /// whose key begins with `prefix`; backwards if `reverse`.
    #[pyo3(signature = (
        start=None, stop=None, *, prefix=None, include_start=true, include_stop=false, reverse=false
    ))]
    #[expect(clippy::too_many_arguments, reason = "they are Python's keywords")]
    fn items(
        &self,
        py: Python<'_>,
        start: Option<Buffer<'_>>,
        stop: Option<Buffer<'_>>,
        prefix: Option<Buffer<'_>>,
        include_start: bool,
        include_stop: bool,
        reverse: bool,
    ) -> PyResult<PyItems> {
        let span = Span::new(start, stop, prefix, include_start, include_stop)?;
        self.walk(py, Part::Item, span, reverse)
    }

    /// Keys, as `items` goes through them; no value is read.
    #[pyo3(signature = (
        start=None, stop=None, *, prefix=None, include_start=true, include_stop=false, reverse=false
    ))]
    #[expect(clippy::too_many_arguments, reason = "they are Python's keywords")]
    fn keys(
        &self,
        py: Python<'_>,
        start: Option<Buffer<'_>>,
        stop: Option<Buffer<'_>>,
        prefix: Option<Buffer<'_>>,
        include_start: bool,
        include_stop: bool,
        reverse: bool,
    ) -> PyResult<PyItems> {
        let span = Span::new(start, stop, prefix, include_start, include_stop)?;
        self.walk(py, Part::Key, span, reverse)
    }

    /// Values, as `items` goes through them.
    #[pyo3(signature = (
        start=None, stop=None, *, prefix=None, include_start=true, include_stop=false, reverse=false
    ))]
    #[expect(clippy::too_many_arguments, reason = "they are Python's keywords")]
    fn values(
        &self,
        py: Python<'_>,
        start: Option<Buffer<'_>>,
        stop: Option<Buffer<'_>>,
        prefix: Option<Buffer<'_>>,
        include_start: bool,
        include_stop: bool,
        reverse: bool,
    ) -> PyResult<PyItems> {
        let span = Span::new(start, stop, prefix, include_start, include_stop)?;
        self.walk(py, Part::Value, span, reverse)
    }

    /// Pairs of key and value from `start` up to and without `stop`.
    fn range(&self, py: Python<'_>, start: Buffer<'_>, stop: Buffer<'_>) -> PyResult<PyItems> {
        let span = Span::new(Some(start), Some(stop), None, true, false)?;
        self.walk(py, Part::Item, span, false)
    }

    /// A cursor, which moves to any key and to its neighbours, over a range as that of `items`.
    #[pyo3(signature = (
        start=None, stop=None, *, prefix=None, include_start=true, include_stop=false
    ))]
    fn cursor(
        &self,
        py: Python<'_>,
        start: Option<Buffer<'_>>,
        stop: Option<Buffer<'_>>,
        prefix: Option<Buffer<'_>>,
        include_start: bool,
        include_stop: bool,
    ) -> PyResult<PyCursor> {
        let span = Span::new(start, stop, prefix, include_start, include_stop)?;
        detached(py, || self.source.cursor(&span)).map(PyCursor::new)
    }

    /// The value of `key` as a file that is open for reading: for one that memory cannot hold.
    /// `KeyError` if it is not there.
    fn get_file<'py>(&self, py: Python<'py>, key: Buffer<'py>) -> PyResult<Bound<'py, PyAny>> {
        let bytes = key.bytes();
        match detached(py, || self.source.reader(bytes))? {
            None => Err(PyKeyError::new_err(value(py, bytes).unbind())),
            Some(reader) => {
                let file = py.import("cleavedb")?.getattr("ValueFile")?;
                file.call1((PyValueReader::new(reader),))
            }
        }
    }

    fn __getitem__<'py>(&self, py: Python<'py>, key: Buffer<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let found = self.find(py, key.bytes())?;
        let missing = || PyKeyError::new_err(value(py, key.bytes()).unbind());
        found.map(|found| value(py, &found)).ok_or_else(missing)
    }

    fn __contains__(&self, py: Python<'_>, key: Buffer<'_>) -> PyResult<bool> {
        let key = key.bytes();
        detached(py, || self.source.contains(key))
    }

    fn __iter__(&self, py: Python<'_>) -> PyResult<PyItems> {
        self.walk(py, Part::Key, Span::new(None, None, None, true, false)?, false)
    }
}
