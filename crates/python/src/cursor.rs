//! `Cursor`: a position among the keys of a range.

use cleavedb::{Error, ErrorKind, Result};
use parking_lot::Mutex;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::buffer::{Buffer, value};
use crate::errors::detached;

/// A position among the keys of a range, as of one moment. Each move returns whether it came to a
/// key; a new cursor is on none, `next` moves it to the first one and `prev` to the last.
#[pyclass(module = "cleavedb", frozen, name = "Cursor")]
pub struct PyCursor(Mutex<Option<cleavedb::Cursor>>);

impl PyCursor {
    pub(crate) fn new(cursor: cleavedb::Cursor) -> Self {
        Self(Mutex::new(Some(cursor)))
    }

    fn call<T: Send>(
        &self,
        py: Python<'_>,
        call: impl FnOnce(&mut cleavedb::Cursor) -> Result<T> + Send,
    ) -> PyResult<T> {
        detached(py, || match &mut *self.0.lock() {
            Some(cursor) => call(cursor),
            None => Err(Error::new(ErrorKind::Closed, "the cursor was closed")),
        })
    }
}

#[pymethods]
impl PyCursor {
    /// Moves to the first key.
    fn first(&self, py: Python<'_>) -> PyResult<bool> {
        self.call(py, |cursor| cursor.seek_to_first())
    }

    /// Moves to the last key.
    fn last(&self, py: Python<'_>) -> PyResult<bool> {
        self.call(py, |cursor| cursor.seek_to_last())
    }

    /// Moves to the first key at or after `key`.
    fn seek(&self, py: Python<'_>, key: Buffer<'_>) -> PyResult<bool> {
        let key = key.bytes();
        self.call(py, |cursor| cursor.seek(key))
    }

    /// Moves to the last key at or before `key`.
    fn seek_for_prev(&self, py: Python<'_>, key: Buffer<'_>) -> PyResult<bool> {
        let key = key.bytes();
        self.call(py, |cursor| cursor.seek_for_prev(key))
    }

    /// Moves to the next key.
    fn next(&self, py: Python<'_>) -> PyResult<bool> {
        self.call(py, |cursor| cursor.next())
    }

    /// Moves to the previous key.
    fn prev(&self, py: Python<'_>) -> PyResult<bool> {
        self.call(py, |cursor| cursor.prev())
    }

    /// The key that it is on; `None` if it is on none.
    #[getter]
    fn key<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let key = self.call(py, |cursor| Ok(cursor.key().map(<[u8]>::to_vec)))?;
        Ok(key.map(|key| value(py, &key)))
    }

    /// The value of the key that it is on, read when it is asked for; `None` if it is on none.
    #[getter]
    fn value<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyBytes>>> {
        Ok(self.call(py, |cursor| cursor.value())?.map(|found| value(py, &found)))
    }

    /// Frees what it holds. Its other calls raise `Closed` then.
    fn close(&self, py: Python<'_>) {
        py.detach(|| drop(self.0.lock().take()));
    }

    fn __enter__(this: Py<Self>) -> Py<Self> {
        this
    }

    #[pyo3(signature = (*_error))]
    fn __exit__(&self, py: Python<'_>, _error: &Bound<'_, PyAny>) {
        self.close(py);
    }
}
