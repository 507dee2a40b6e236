//! `Changes`: what was committed, batch by batch.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use cleavedb::{Change, ChangeKind};
use parking_lot::Mutex;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

use crate::buffer::value;
use crate::errors::raise;
use crate::source::OpenDatabase;

/// How often a wait asks for signals.
const ASKED_EACH: Duration = Duration::from_millis(50);

/// An iterator over committed batches, each a list of changes. A change is a dict with `seq`,
/// `keyspace`, `kind`, and what its kind has: `key`, `value`, `expires` and the like.
#[pyclass(module = "cleavedb", frozen, name = "Changes")]
pub struct PyChanges {
    session: Arc<OpenDatabase>,
    changes: Mutex<cleavedb::Changes>,
    wait: Option<Duration>,
}

impl PyChanges {
    pub(crate) fn new(
        session: Arc<OpenDatabase>,
        changes: cleavedb::Changes,
        wait: Option<Duration>,
    ) -> Self {
        Self { session, changes: Mutex::new(changes), wait }
    }
}

fn seconds(time: Option<SystemTime>) -> Option<f64> {
    time.and_then(|time| time.duration_since(UNIX_EPOCH).ok()).map(|since| since.as_secs_f64())
}

/// A change as a dict.
fn told<'py>(py: Python<'py>, change: &Change) -> PyResult<Bound<'py, PyDict>> {
    let told = PyDict::new(py);
    told.set_item("seq", change.seq)?;
    told.set_item("keyspace", &*change.keyspace)?;
    let kind = match &change.kind {
        ChangeKind::Put { key, value: put, expires } => {
            told.set_item("key", value(py, key))?;
            told.set_item("value", value(py, put))?;
            told.set_item("expires", seconds(*expires))?;
            "put"
        }
        ChangeKind::PutBlob { key, len, expires } => {
            told.set_item("key", value(py, key))?;
            told.set_item("len", len)?;
            told.set_item("expires", seconds(*expires))?;
            "put_file"
        }
        ChangeKind::Delete { key } => {
            told.set_item("key", value(py, key))?;
            "delete"
        }
        ChangeKind::DeleteRange { from, upto } => {
            told.set_item("start", value(py, from))?;
            told.set_item("stop", upto.as_ref().map(|upto| value(py, upto)))?;
            "delete_range"
        }
        ChangeKind::Merge { key, operand } => {
            told.set_item("key", value(py, key))?;
            told.set_item("operator", operand.operator())?;
            told.set_item("operand", value(py, operand.bytes()))?;
            "merge"
        }
        ChangeKind::KeyspaceCreated => "keyspace_created",
        ChangeKind::KeyspaceDropped => "keyspace_dropped",
        ChangeKind::Loaded { first, last } => {
            told.set_item("first", value(py, first))?;
            told.set_item("last", value(py, last))?;
            "ingest"
        }
        _ => "unknown",
    };
    told.set_item("kind", kind)?;
    Ok(told)
}

#[pymethods]
impl PyChanges {
    /// The sequence number from which on `Database.changes` goes on behind what was returned.
    #[getter]
    fn next_seq(&self, py: Python<'_>) -> u64 {
        py.detach(|| self.changes.lock().next_seq())
    }

    fn __iter__(this: Py<Self>) -> Py<Self> {
        this
    }

    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyList>>> {
        let until = self.wait.map(|wait| Instant::now() + wait);
        loop {
            self.session.check_open()?;
            let next = py.detach(|| self.changes.lock().next());
            if let Some(batch) = next.transpose().map_err(raise)? {
                let changes = batch.changes.iter().map(|change| told(py, change));
                return PyList::new(py, changes.collect::<PyResult<Vec<_>>>()?).map(Some);
            }
            let now = Instant::now();
            let Some(left) = until.and_then(|until| until.checked_duration_since(now)) else {
                return Ok(None);
            };
            py.detach(|| self.changes.lock().wait(left.min(ASKED_EACH)));
            py.check_signals()?;
        }
    }
}
