//! Keys and values as Python gives them.

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyMemoryView, PyString};

/// The bytes of any object with the buffer protocol. Those of `bytes` are borrowed; others are
/// copied, since the stable interface of Python 3.9 does not lend them.
pub struct Buffer<'py>(Bound<'py, PyBytes>);

impl Buffer<'_> {
    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        self.0.as_bytes()
    }
}

impl<'py> FromPyObject<'_, 'py> for Buffer<'py> {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        if let Ok(bytes) = object.cast::<PyBytes>() {
            return Ok(Self(bytes.to_owned()));
        }
        if object.is_instance_of::<PyString>() {
            let hint =
                "keys and values are bytes, not str; encode it: \"apple\".encode(), b\"apple\"";
            return Err(PyTypeError::new_err(hint));
        }
        let copied = PyMemoryView::from(&object)?.call_method0("tobytes")?;
        Ok(Self(copied.cast_into::<PyBytes>()?))
    }
}

/// The bytes of a value, for Python.
pub fn value<'py>(py: Python<'py>, value: &[u8]) -> Bound<'py, PyBytes> {
    PyBytes::new(py, value)
}
