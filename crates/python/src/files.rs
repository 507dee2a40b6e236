//! Values as files: what `put_file` reads from, and what `get_file` returns is over.

use std::io::{self, Read, Seek, SeekFrom};

use parking_lot::Mutex;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::buffer::Buffer;

/// A file object of Python, read in pieces by a thread that does not hold the interpreter.
pub struct FileObject {
    file: Py<PyAny>,
    /// What the file raised: it goes on to the caller.
    pub raised: Option<PyErr>,
}

impl FileObject {
    /// Reads by the method `read` of `file`.
    pub fn new(file: Py<PyAny>) -> Self {
        Self { file, raised: None }
    }
}

impl Read for FileObject {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = Python::attach(|py| {
            // A file that is not written in Python leaves Ctrl-C to the end of the call.
            py.check_signals()?;
            let piece = self.file.bind(py).call_method1("read", (buffer.len(),))?;
            let piece = piece.extract::<Buffer<'_>>()?;
            let bytes = piece.bytes();
            let into = buffer.get_mut(..bytes.len()).ok_or_else(|| {
                PyValueError::new_err("read(n) of the file has returned more than n bytes")
            })?;
            into.copy_from_slice(bytes);
            Ok(bytes.len())
        });
        read.map_err(|error: PyErr| {
            self.raised = Some(error);
            io::Error::other("the file object raised an exception")
        })
    }
}

/// The value under `ValueFile`, which is what a program sees.
#[pyclass(module = "cleavedb._cleavedb", frozen, name = "ValueReader")]
pub struct PyValueReader(Mutex<cleavedb::ValueReader>);

impl PyValueReader {
    pub(crate) fn new(reader: cleavedb::ValueReader) -> Self {
        Self(Mutex::new(reader))
    }
}

/// An error of a reader: that of the engine, if it has one as its source.
fn raise(error: io::Error) -> PyErr {
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<cleavedb::Error>());
    match inner {
        Some(inner) => crate::errors::raise(inner.clone()),
        None => error.into(),
    }
}

#[pymethods]
impl PyValueReader {
    /// At most `len` bytes from the position on; none at the end.
    fn read<'py>(&self, py: Python<'py>, len: usize) -> PyResult<Bound<'py, PyBytes>> {
        let read = py.detach(|| {
            let mut reader = self.0.lock();
            let at = reader.stream_position()?;
            let left = usize::try_from(reader.len().saturating_sub(at)).unwrap_or(usize::MAX);
            let mut bytes = vec![0; len.min(left)];
            let read = reader.read(&mut bytes)?;
            bytes.truncate(read);
            Ok(bytes)
        });
        Ok(PyBytes::new(py, &read.map_err(raise)?))
    }

    /// Moves to `offset` from the start (`whence` 0), from here (1) or from the end (2).
    fn seek(&self, py: Python<'_>, offset: i64, whence: u8) -> PyResult<u64> {
        let negative = |_| PyValueError::new_err(format!("negative seek position {offset}"));
        let to = match whence {
            0 => SeekFrom::Start(u64::try_from(offset).map_err(negative)?),
            1 => SeekFrom::Current(offset),
            2 => SeekFrom::End(offset),
            _ => return Err(PyValueError::new_err("whence is 0, 1 or 2")),
        };
        py.detach(|| self.0.lock().seek(to)).map_err(raise)
    }
}
