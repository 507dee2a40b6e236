//! `Keyspace`: the writes of a keyspace, the default one among them.

use std::sync::Arc;

use cleavedb::Bytes;
use pyo3::exceptions::PyKeyError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};

use crate::batch::{PyOperand, PyWriteBatch};
use crate::buffer::{Buffer, value};
use crate::errors::{detached, invalid, raise};
use crate::files;
use crate::options::{NamedDurability, Ttl, put_options};
use crate::progress::{AtInterrupt, long};
use crate::reader::PyReader;
use crate::snapshot::PySnapshot;
use crate::source::{OpenDatabase, ReadSource, Span};

/// Pairs of a bulk load that are written each time that the interpreter is released.
const PAIRS_AT_ONCE: usize = 64;

/// A named set of keys of a database; a mapping of bytes to bytes in the order of keys.
#[pyclass(module = "cleavedb", frozen, subclass, extends = PyReader, name = "Keyspace")]
pub struct PyKeyspace {
    session: Arc<OpenDatabase>,
    pub(crate) keyspace: cleavedb::Keyspace,
}

impl PyKeyspace {
    pub(crate) fn of(
        session: &Arc<OpenDatabase>,
        keyspace: cleavedb::Keyspace,
    ) -> PyClassInitializer<Self> {
        let reader = PyReader::new(session.clone(), ReadSource::Keyspace(keyspace.clone()));
        let this = Self { session: session.clone(), keyspace };
        PyClassInitializer::from(reader).add_subclass(this)
    }

    fn load(&self, py: Python<'_>, pairs: &Bound<'_, PyAny>) -> PyResult<cleavedb::BulkLoad> {
        let mut load = detached(py, || self.keyspace.bulk_load())?;
        let mut pairs = pairs.try_iter()?;
        loop {
            let some = pairs.by_ref().take(PAIRS_AT_ONCE).map(|pair| pair?.extract());
            let some = some.collect::<PyResult<Vec<(Buffer<'_>, Buffer<'_>)>>>()?;
            if some.is_empty() {
                break;
            }
            let some = some.iter().map(|(key, value)| (key.bytes(), value.bytes()));
            let some = some.collect::<Vec<_>>();
            detached(py, || some.iter().try_for_each(|(key, value)| load.put(key, value)))?;
            py.check_signals()?;
        }
        Ok(load)
    }
}

#[pymethods]
impl PyKeyspace {
    /// The name; that of the default keyspace is `default`.
    #[getter]
    fn name(&self) -> &str {
        self.keyspace.name()
    }

    /// Stores `value` under `key`, for `ttl` seconds if that is given; `durability` is `buffered`,
    /// `os` or `sync`, by default that of the database.
    #[pyo3(signature = (key, value, *, ttl=None, durability=None))]
    fn put(
        &self,
        py: Python<'_>,
        key: Buffer<'_>,
        value: Buffer<'_>,
        ttl: Option<Ttl>,
        durability: Option<NamedDurability>,
    ) -> PyResult<()> {
        let options = put_options(ttl, durability);
        let (key, value) = (key.bytes(), value.bytes());
        detached(py, || self.keyspace.put_with(key, value, options))
    }

    /// Removes `key`, if it is there.
    #[pyo3(signature = (key, *, durability=None))]
    fn delete(
        &self,
        py: Python<'_>,
        key: Buffer<'_>,
        durability: Option<NamedDurability>,
    ) -> PyResult<()> {
        let durability = self.session.durability(durability);
        let key = key.bytes();
        detached(py, || self.keyspace.delete_with(key, durability))
    }

    /// Removes all keys from `start` up to and without `stop`, or all with `prefix`: one small
    /// write, however many there are. All keys go only by `delete_range(prefix=b"")`.
    #[pyo3(signature = (start=None, stop=None, *, prefix=None, durability=None))]
    fn delete_range(
        &self,
        py: Python<'_>,
        start: Option<Buffer<'_>>,
        stop: Option<Buffer<'_>>,
        prefix: Option<Buffer<'_>>,
        durability: Option<NamedDurability>,
    ) -> PyResult<()> {
        if start.is_none() && stop.is_none() && prefix.is_none() {
            return Err(invalid("no range; delete_range(prefix=b\"\") removes all keys"));
        }
        let span = Span::new(start, stop, prefix, true, false)?;
        let durability = self.session.durability(durability);
        detached(py, || self.keyspace.delete_range_with(span.ends(), durability))
    }

    /// Changes the value of `key` by `operand` (`add`, `append` or `max`) without a read.
    #[pyo3(signature = (key, operand, *, durability=None))]
    fn merge(
        &self,
        py: Python<'_>,
        key: Buffer<'_>,
        operand: &PyOperand,
        durability: Option<NamedDurability>,
    ) -> PyResult<()> {
        let durability = self.session.durability(durability);
        let key = key.bytes();
        detached(py, || self.keyspace.merge_with(key, &operand.0, durability))
    }

    /// Stores `value` unless `key` is there. Returns whether it did.
    #[pyo3(signature = (key, value, *, ttl=None, durability=None))]
    fn put_if_absent(
        &self,
        py: Python<'_>,
        key: Buffer<'_>,
        value: Buffer<'_>,
        ttl: Option<Ttl>,
        durability: Option<NamedDurability>,
    ) -> PyResult<bool> {
        let options = put_options(ttl, durability);
        let (key, value) = (key.bytes(), value.bytes());
        detached(py, || self.keyspace.put_if_absent_with(key, value, options))
    }

    /// Stores `new` if the value is `expected`; `None` stands for no value on either side. Returns
    /// whether it did.
    #[pyo3(signature = (key, expected, new, *, ttl=None, durability=None))]
    fn compare_and_swap(
        &self,
        py: Python<'_>,
        key: Buffer<'_>,
        expected: Option<Buffer<'_>>,
        new: Option<Buffer<'_>>,
        ttl: Option<Ttl>,
        durability: Option<NamedDurability>,
    ) -> PyResult<bool> {
        let options = put_options(ttl, durability);
        let key = key.bytes();
        let expected = expected.as_ref().map(Buffer::bytes);
        let new = new.as_ref().map(Buffer::bytes);
        detached(py, || self.keyspace.compare_and_swap_with(key, expected, new, options))
    }

    /// Replaces the value of `key` by `change(old)`, where `None` is no value on either side, and
    /// returns the new one. If another write comes between, `change` is called again.
    #[pyo3(signature = (key, change, *, ttl=None, durability=None))]
    fn update<'py>(
        &self,
        py: Python<'py>,
        key: Buffer<'_>,
        change: &Bound<'py, PyAny>,
        ttl: Option<Ttl>,
        durability: Option<NamedDurability>,
    ) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let options = put_options(ttl, durability);
        let key = key.bytes();
        loop {
            let old: Option<Bytes> = detached(py, || self.keyspace.get(key))?;
            let changed = change.call1((old.as_ref().map(|old| value(py, old)),))?;
            let new = changed.extract::<Option<Buffer<'_>>>()?;
            let new = new.as_ref().map(Buffer::bytes);
            let swap = || self.keyspace.compare_and_swap_with(key, old.as_ref(), new, options);
            if detached(py, swap)? {
                return Ok(new.map(|new| value(py, new)));
            }
            py.check_signals()?;
        }
    }

    /// Loads sorted pairs of key and value, which go straight to tables, and are visible together
    /// at the end. Returns what it wrote.
    fn ingest<'py>(
        &self,
        py: Python<'py>,
        pairs: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyDict>> {
        let load = self.load(py, pairs)?;
        let report = long(py, AtInterrupt::LeftAlone, move |_| load.finish())?;
        let answer = PyDict::new(py);
        answer.set_item("entries", report.entries)?;
        answer.set_item("bytes", report.bytes)?;
        answer.set_item("tables", report.tables)?;
        answer.set_item("written", report.written)?;
        Ok(answer)
    }

    /// Stores what `file.read` returns under `key`, piece by piece: for a value that memory cannot
    /// hold. Returns its length.
    #[pyo3(signature = (key, file, *, ttl=None, durability=None))]
    fn put_file(
        &self,
        py: Python<'_>,
        key: Buffer<'_>,
        file: Py<PyAny>,
        ttl: Option<Ttl>,
        durability: Option<NamedDurability>,
    ) -> PyResult<u64> {
        let options = put_options(ttl, durability);
        let key = key.bytes();
        let mut file = files::FileObject::new(file);
        let put = py.detach(|| self.keyspace.put_reader_with(key, &mut file, options));
        match file.raised {
            Some(raised) => Err(raised),
            None => put.map_err(raise),
        }
    }

    /// A batch of writes to this keyspace, and others that its calls name.
    #[pyo3(signature = (*, durability=None))]
    fn write_batch(&self, durability: Option<NamedDurability>) -> PyWriteBatch {
        let durability = self.session.durability(durability);
        PyWriteBatch::new(self.session.clone(), self.keyspace.clone(), durability)
    }

    /// The keyspace as it is now, whatever is written later.
    fn snapshot(&self, py: Python<'_>) -> PyResult<Py<PySnapshot>> {
        let snapshot = py.detach(|| self.keyspace.snapshot());
        PySnapshot::of(py, self.session.clone(), snapshot)
    }

    /// Approximate bytes on disk of a range of keys, with their values.
    #[pyo3(signature = (start=None, stop=None, *, prefix=None))]
    fn approximate_size(
        &self,
        py: Python<'_>,
        start: Option<Buffer<'_>>,
        stop: Option<Buffer<'_>>,
        prefix: Option<Buffer<'_>>,
    ) -> PyResult<u64> {
        let span = Span::new(start, stop, prefix, true, false)?;
        detached(py, || self.keyspace.approximate_size(span.ends()))
            .map(|size| size.index_bytes + size.value_bytes)
    }

    /// Merges the tables of a range of keys. Takes long; after Ctrl-C it goes on behind.
    #[pyo3(signature = (start=None, stop=None))]
    fn compact_range(
        &self,
        py: Python<'_>,
        start: Option<Buffer<'_>>,
        stop: Option<Buffer<'_>>,
    ) -> PyResult<()> {
        let span = Span::new(start, stop, None, true, false)?;
        let keyspace = self.keyspace.clone();
        long(py, AtInterrupt::LeftAlone, move |_| keyspace.compact_range(span.ends()))
    }

    fn __setitem__(&self, py: Python<'_>, key: Buffer<'_>, value: Buffer<'_>) -> PyResult<()> {
        self.put(py, key, value, None, None)
    }

    fn __delitem__(&self, py: Python<'_>, key: Buffer<'_>) -> PyResult<()> {
        let bytes = key.bytes();
        if !detached(py, || self.keyspace.contains_key(bytes))? {
            return Err(PyKeyError::new_err(value(py, bytes).unbind()));
        }
        self.delete(py, key, None)
    }
}
