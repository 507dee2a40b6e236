//! `Snapshot`: a keyspace as of one moment.

use std::sync::Arc;

use parking_lot::RwLock;
use pyo3::prelude::*;

use crate::reader::PyReader;
use crate::source::{OpenDatabase, ReadSource};

/// A keyspace as of one moment. It holds the space of what it sees until it is closed, by a `with`
/// block or `close`, or is collected.
#[pyclass(module = "cleavedb", frozen, extends = PyReader, name = "Snapshot")]
pub struct PySnapshot;

impl PySnapshot {
    pub(crate) fn of(
        py: Python<'_>,
        session: Arc<OpenDatabase>,
        snapshot: cleavedb::Snapshot,
    ) -> PyResult<Py<Self>> {
        let source = ReadSource::Snapshot(RwLock::new(Some(snapshot)));
        Py::new(py, PyClassInitializer::from(PyReader::new(session, source)).add_subclass(Self))
    }

    fn held(this: &Bound<'_, Self>) -> Option<cleavedb::Snapshot> {
        match &this.as_super().get().source {
            ReadSource::Snapshot(held) => held.read().clone(),
            _ => None,
        }
    }
}

#[pymethods]
impl PySnapshot {
    /// Another keyspace as of the same moment.
    fn keyspace(this: &Bound<'_, Self>, keyspace: &Bound<'_, PyReader>) -> PyResult<Py<Self>> {
        let session = this.as_super().get().session.clone();
        let held = Self::held(this).ok_or_else(|| crate::errors::invalid("it was closed"))?;
        Self::of(this.py(), session, held.keyspace(keyspace.get().keyspace()?))
    }

    /// The number of the last commit that it sees: `Database.changes` goes on behind it.
    #[getter]
    fn seq(this: &Bound<'_, Self>) -> u64 {
        Self::held(this).map_or(0, |snapshot| snapshot.seq())
    }

    /// Frees what it holds. Its other calls raise `Closed` then.
    fn close(this: &Bound<'_, Self>) {
        if let ReadSource::Snapshot(held) = &this.as_super().get().source {
            // What it holds is freed without the lock, for which threads wait that hold the
            // interpreter.
            this.py().detach(|| {
                let snapshot = held.write().take();
                drop(snapshot);
            });
        }
    }

    fn __enter__(this: Py<Self>) -> Py<Self> {
        this
    }

    #[pyo3(signature = (*_error))]
    fn __exit__(this: &Bound<'_, Self>, _error: &Bound<'_, PyAny>) {
        Self::close(this);
    }
}
