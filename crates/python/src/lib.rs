//! The Python module `cleavedb._cleavedb`: CleaveDB's public interface in Python's terms.
//!
//! `Reader` has the reads; `Keyspace`, `Snapshot` and `Transaction` extend it, and `Database`
//! extends `Keyspace`. Every object holds the session, so the order in which they are dropped does
//! not matter; `close` ends all.

mod buffer;
mod errors;
mod options;
mod progress;
mod source;
mod iterator;
mod cursor;
mod files;
mod reader;
mod batch;
mod snapshot;
mod keyspace;
mod transaction;
mod changes;
mod database;

use pyo3::prelude::*;

/// The engine's memory, not the interpreter's. That of glibc goes back to the system whenever a
/// scan frees what it has read ahead, and costs a page fault for every page of the next.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// CleaveDB: an embedded, ordered key-value store.
#[pymodule]
fn _cleavedb(module: &Bound<'_, PyModule>) -> PyResult<()> {
    errors::add(module)?;
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add_class::<reader::PyReader>()?;
    module.add_class::<keyspace::PyKeyspace>()?;
    module.add_class::<database::PyDatabase>()?;
    module.add_class::<snapshot::PySnapshot>()?;
    module.add_class::<transaction::PyTransaction>()?;
    module.add_class::<batch::PyWriteBatch>()?;
    module.add_class::<batch::PyOperand>()?;
    module.add_class::<cursor::PyCursor>()?;
    module.add_class::<iterator::PyItems>()?;
    module.add_class::<changes::PyChanges>()?;
    module.add_function(wrap_pyfunction!(database::open, module)?)?;
    module.add_function(wrap_pyfunction!(database::destroy, module)?)?;
    module.add_function(wrap_pyfunction!(database::restore, module)?)?;
    module.add_function(wrap_pyfunction!(batch::add, module)?)?;
    module.add_function(wrap_pyfunction!(batch::append, module)?)?;
    module.add_function(wrap_pyfunction!(batch::max, module)?)
}
