//! `Database`, which is its default keyspace too, and the functions that open and remove one.

use std::path::PathBuf;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use cleavedb::reports::{CheckReport, CheckpointReport};
use cleavedb::{BackupMode, Backups, Db, RestoreMode};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

use crate::changes::PyChanges;
use crate::errors::{Conflict, detached};
use crate::keyspace::PyKeyspace;
use crate::options::{self, NamedDurability, Ttl};
use crate::progress::{AtInterrupt, long};
use crate::source::OpenDatabase;
use crate::transaction::PyTransaction;

/// Attempts of `transact`, and the longest pause between two of them.
const ATTEMPTS_MAX: u32 = 1000;
const PAUSE_MAX: Duration = Duration::from_millis(10);

/// An open database. It is a mapping of bytes to bytes in the order of keys, and closes at the end
/// of a `with` block.
#[pyclass(module = "cleavedb", frozen, extends = PyKeyspace, name = "Database")]
pub struct PyDatabase {
    path: PathBuf,
    session: Arc<OpenDatabase>,
}

/// Opens the database in the directory `path`, which is created if it is missing.
///
/// `preset` is how a new one keeps values: `cleave` (the default), or a paper's design, `ktstore`,
/// `hoakv`, `hashkv`, `wisckey`, `ohdb` or `lsm`. `durability` is what a write survives: `sync` a
/// loss of power (the default), `os` the death of the process, `buffered` nothing. Other options
/// have their names in the tutorial; sizes are numbers of bytes, or texts as "64MiB". With
/// `read_only` nothing is changed.
#[pyfunction]
#[pyo3(signature = (path, *, read_only=false, **options))]
pub fn open(
    py: Python<'_>,
    path: PathBuf,
    read_only: bool,
    options: Option<&Bound<'_, PyDict>>,
) -> PyResult<Py<PyDatabase>> {
    let options = options::options(options)?;
    let db = detached(py, || match read_only {
        true => Db::open_read_only_with(&path, options),
        false => Db::open(&path, options),
    })?;
    let session = OpenDatabase::new(db);
    let keyspace = PyKeyspace::of(&session, session.db.default_keyspace().clone());
    Py::new(py, keyspace.add_subclass(PyDatabase { path, session }))
}

/// Removes the database in the directory `path`, which must not be open.
#[pyfunction]
pub fn destroy(py: Python<'_>, path: PathBuf) -> PyResult<()> {
    detached(py, || Db::destroy(path)).map(|_| ())
}

/// Restores backup `number` of the directory `backups`, or the newest one, in the directory `path`,
/// which must be missing or empty.
#[pyfunction]
#[pyo3(signature = (backups, path, *, number=None))]
pub fn restore(
    py: Python<'_>,
    backups: PathBuf,
    path: PathBuf,
    number: Option<u64>,
) -> PyResult<Bound<'_, PyDict>> {
    let report = long(py, AtInterrupt::Stopped, move |progress| {
        Backups::open(backups)?.restore_with(number, path, RestoreMode::Checked, progress)
    })?;
    copied(py, &report)
}

fn copied<'py>(py: Python<'py>, report: &CheckpointReport) -> PyResult<Bound<'py, PyDict>> {
    let answer = PyDict::new(py);
    answer.set_item("linked", report.linked)?;
    answer.set_item("copied", report.copied)?;
    answer.set_item("copied_bytes", report.copied_bytes)?;
    answer.set_item("bytes", report.bytes)?;
    Ok(answer)
}

fn checked<'py>(py: Python<'py>, report: &CheckReport) -> PyResult<Bound<'py, PyDict>> {
    let answer = PyDict::new(py);
    answer.set_item("tables", report.tables)?;
    answer.set_item("value_files", report.value_files)?;
    answer.set_item("records", report.records)?;
    answer.set_item("keys", report.keys)?;
    answer.set_item("value_bytes", report.value_bytes)?;
    let problems = report.problems.iter().map(ToString::to_string);
    answer.set_item("problems", PyList::new(py, problems)?)?;
    Ok(answer)
}

impl PyDatabase {
    fn keyspace_object(&self, py: Python<'_>, of: cleavedb::Keyspace) -> PyResult<Py<PyKeyspace>> {
        Py::new(py, PyKeyspace::of(&self.session, of))
    }

    /// A long call that cannot be stopped: after Ctrl-C it goes on in the background.
    fn unstoppable(
        &self,
        py: Python<'_>,
        call: impl FnOnce(&Db) -> cleavedb::Result<()> + Send + 'static,
    ) -> PyResult<()> {
        let db = self.session.db.clone();
        long(py, AtInterrupt::LeftAlone, move |_| call(&db))
    }
}

#[pymethods]
impl PyDatabase {
    /// The directory, as it was opened.
    #[getter]
    fn path(&self) -> PathBuf {
        self.path.clone()
    }

    /// Whether `close` was called.
    #[getter]
    fn closed(&self) -> bool {
        self.session.is_closed()
    }

    /// Closes the database, and ends its cursors, iterators and snapshots: their next step raises
    /// `Closed`, and the directory can be opened again. Later calls do nothing.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        detached(py, || self.session.close())
    }

    /// The keyspace `name`, which is created with the given options if it is missing; `compression`
    /// is that of values of `min_separated` bytes and more.
    #[pyo3(signature = (name, *, min_separated=None, ttl=None, compression=None))]
    fn keyspace(
        &self,
        py: Python<'_>,
        name: &str,
        min_separated: Option<usize>,
        ttl: Option<Ttl>,
        compression: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Py<PyKeyspace>> {
        let options = options::keyspace_options(min_separated, ttl, compression)?;
        let found = detached(py, || self.session.db.keyspace_with(name, options))?;
        self.keyspace_object(py, found)
    }

    /// All keyspaces but the default one.
    fn keyspaces(&self, py: Python<'_>) -> PyResult<Vec<Py<PyKeyspace>>> {
        let all = detached(py, || self.session.db.keyspaces())?;
        all.into_iter().map(|one| self.keyspace_object(py, one)).collect()
    }

    /// Drops the keyspace `name` with all its keys.
    fn drop_keyspace(&self, py: Python<'_>, name: &str) -> PyResult<()> {
        detached(py, || self.session.db.drop_keyspace(name))
    }

    /// Begins a transaction; `with db.transaction() as t:` commits at the end of the block.
    #[pyo3(signature = (*, durability=None))]
    fn transaction(
        &self,
        py: Python<'_>,
        durability: Option<NamedDurability>,
    ) -> PyResult<Py<PyTransaction>> {
        let durability = self.session.durability(durability);
        PyTransaction::begin(py, &self.session, self.session.db.default_keyspace(), durability)
    }

    /// Calls `body` with a transaction and commits it, again and again while others have written
    /// what it has read. Returns what `body` returned.
    #[pyo3(signature = (body, *, durability=None))]
    fn transact<'py>(
        &self,
        py: Python<'py>,
        body: &Bound<'py, PyAny>,
        durability: Option<NamedDurability>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let durability = self.session.durability(durability);
        let default = self.session.db.default_keyspace();
        let mut attempt = 0;
        loop {
            let transaction = PyTransaction::begin(py, &self.session, default, durability)?;
            let answer = body.call1((&transaction,))?;
            match transaction.get().end(py, durability) {
                Err(e) if attempt < ATTEMPTS_MAX && e.is_instance_of::<Conflict>(py) => {
                    attempt += 1;
                    let pause = Duration::from_micros(20 << attempt.min(10)).min(PAUSE_MAX);
                    py.detach(|| thread::sleep(pause));
                    py.check_signals()?;
                }
                ended => return ended.map(|()| answer),
            }
        }
    }

    /// Batches of changes from the sequence number `start` on: `open` with
    /// `change_retention_bytes=` keeps them. The iterator ends at the last one; it can be asked
    /// again later. With `wait` it waits that many seconds for the next one.
    #[pyo3(signature = (start=0, *, wait=None))]
    fn changes(&self, py: Python<'_>, start: u64, wait: Option<Ttl>) -> PyResult<PyChanges> {
        let changes = detached(py, || self.session.db.changes(start))?;
        Ok(PyChanges::new(self.session.clone(), changes, wait.map(|wait| wait.0)))
    }

    /// Makes a copy that can be opened in the directory `path`, with links to files where that
    /// works. Returns what it made.
    fn checkpoint<'py>(&self, py: Python<'py>, path: PathBuf) -> PyResult<Bound<'py, PyDict>> {
        let db = self.session.db.clone();
        let make = move |progress: &_| db.checkpoint_with(path, progress);
        copied(py, &long(py, AtInterrupt::Stopped, make)?)
    }

    /// Adds a backup to those in the directory `path`; what did not change since the last one is
    /// linked to it, unless `full`. Returns what it made; `restore` takes it back.
    #[pyo3(signature = (path, *, full=false))]
    fn backup<'py>(
        &self,
        py: Python<'py>,
        path: PathBuf,
        full: bool,
    ) -> PyResult<Bound<'py, PyDict>> {
        let db = self.session.db.clone();
        let mode = if full { BackupMode::Full } else { BackupMode::Incremental };
        let make = move |progress: &_| db.backup_with(path, mode, progress);
        let report = long(py, AtInterrupt::Stopped, make)?;
        let answer = PyDict::new(py);
        answer.set_item("number", report.number)?;
        answer.set_item("linked", report.linked)?;
        answer.set_item("copied", report.copied)?;
        answer.set_item("copied_bytes", report.copied_bytes)?;
        answer.set_item("bytes", report.bytes)?;
        Ok(answer)
    }

    /// Reads and checks everything. Returns counts, and `problems` as a list of texts.
    fn verify<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let db = self.session.db.clone();
        checked(py, &long(py, AtInterrupt::Stopped, move |progress| db.verify_with(progress))?)
    }

    /// Merges all tables into the deepest level. Takes long; after Ctrl-C it goes on behind.
    fn compact(&self, py: Python<'_>) -> PyResult<()> {
        self.unstoppable(py, Db::compact)
    }

    /// Frees the space of everything that is dead. Takes long; after Ctrl-C it goes on behind.
    fn collect(&self, py: Python<'_>) -> PyResult<()> {
        self.unstoppable(py, Db::collect)
    }

    /// Writes what is in memory to tables.
    fn flush(&self, py: Python<'_>) -> PyResult<()> {
        self.unstoppable(py, Db::flush)
    }

    /// Makes every earlier write survive a loss of power.
    fn sync(&self, py: Python<'_>) -> PyResult<()> {
        detached(py, || self.session.db.sync())
    }

    /// Counters and sizes as text that Prometheus reads.
    fn metrics(&self, py: Python<'_>) -> String {
        py.detach(|| self.session.db.metrics().to_prometheus(&[]))
    }

    fn __repr__(&self) -> String {
        let state = if self.session.is_closed() { "closed" } else { "open" };
        format!("<cleavedb.Database {} ({state})>", self.path.display())
    }

    fn __enter__(this: Py<Self>) -> Py<Self> {
        this
    }

    #[pyo3(signature = (*_error))]
    fn __exit__(&self, py: Python<'_>, _error: &Bound<'_, PyAny>) -> PyResult<()> {
        self.close(py)
    }
}
