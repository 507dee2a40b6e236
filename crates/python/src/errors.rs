//! Exceptions: `cleavedb.Error` and its subclasses, made from the errors of the engine.

use cleavedb::ErrorKind;
use pyo3::create_exception;
use pyo3::exceptions::PyException;
use pyo3::prelude::*;

create_exception!(
    cleavedb,
    Error,
    PyException,
    "An error of the database.\n\n`kind` is its kind in words, as 'no space'; `path` and `key` are \
     what it is about, if that is known."
);
create_exception!(cleavedb, Locked, Error, "Another process, or another handle, has it open.");
create_exception!(cleavedb, Corruption, Error, "Bytes on disk are not what was written.");
create_exception!(cleavedb, NoSpace, Error, "The disk, or the configured space, is full.");
create_exception!(cleavedb, Conflict, Error, "Another commit wrote what a transaction has read.");
create_exception!(cleavedb, Closed, Error, "The database was closed.");
create_exception!(cleavedb, NotADatabase, Error, "The directory holds something else.");
create_exception!(cleavedb, InvalidArgument, Error, "An argument can never be accepted.");
create_exception!(cleavedb, Forked, Error, "The handle is of the process that forked this one.");

/// The exception of an error.
pub fn raise(error: cleavedb::Error) -> PyErr {
    let text = error.to_string();
    let raised = match error.kind() {
        ErrorKind::Locked => Locked::new_err(text),
        ErrorKind::Corruption => Corruption::new_err(text),
        ErrorKind::NoSpace => NoSpace::new_err(text),
        ErrorKind::Conflict => Conflict::new_err(text),
        ErrorKind::Closed => Closed::new_err(text),
        ErrorKind::NotADatabase => NotADatabase::new_err(text),
        ErrorKind::InvalidArgument | ErrorKind::InvalidOptions => InvalidArgument::new_err(text),
        ErrorKind::Forked => Forked::new_err(text),
        _ => Error::new_err(text),
    };
    let facts = [
        ("kind", Some(error.kind().name())),
        ("path", error.fact("path").or(error.fact("file"))),
        ("key", error.fact("key")),
    ];
    Python::attach(|py| {
        for (name, value) in facts {
            if let Err(failed) = raised.value(py).setattr(name, value) {
                return failed;
            }
        }
        raised
    })
}

/// An argument that can never be accepted.
pub fn invalid(why: impl Into<String>) -> PyErr {
    raise(cleavedb::Error::new(ErrorKind::InvalidArgument, why))
}

/// Runs a call of the engine without the interpreter lock.
pub fn detached<T: Send>(
    py: Python<'_>,
    call: impl FnOnce() -> cleavedb::Result<T> + Send,
) -> PyResult<T> {
    py.detach(call).map_err(raise)
}

/// Adds the exceptions to the module.
pub fn add(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let py = module.py();
    let base = py.get_type::<Error>();
    for name in ["kind", "path", "key"] {
        base.setattr(name, py.None())?;
    }
    module.add("Error", base)?;
    module.add("Locked", py.get_type::<Locked>())?;
    module.add("Corruption", py.get_type::<Corruption>())?;
    module.add("NoSpace", py.get_type::<NoSpace>())?;
    module.add("Conflict", py.get_type::<Conflict>())?;
    module.add("Closed", py.get_type::<Closed>())?;
    module.add("NotADatabase", py.get_type::<NotADatabase>())?;
    module.add("InvalidArgument", py.get_type::<InvalidArgument>())?;
    module.add("Forked", py.get_type::<Forked>())
}
