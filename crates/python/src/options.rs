//! Options of a database by their names.

use std::time::Duration;

use cleavedb::{Durability, KeyspaceOptions, Options, PutOptions, ValueCompression};
use cleavedb_named as named;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::errors::invalid;

/// A name among some, with what it stands for.
fn one_of<T: Copy>(value: &str, known: &[(&str, T)]) -> PyResult<T> {
    let found = known.iter().find(|(name, _)| *name == value);
    found.map(|(_, value)| *value).ok_or_else(|| {
        let names = known.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ");
        PyValueError::new_err(format!("there is no \"{value}\"; there are {names}"))
    })
}

/// A durability by its name.
#[derive(Clone, Copy)]
pub struct NamedDurability(pub Durability);

impl<'py> FromPyObject<'_, 'py> for NamedDurability {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        let known = [
            ("buffered", Durability::Buffered),
            ("os", Durability::Os),
            ("sync", Durability::Sync),
        ];
        one_of(&object.extract::<String>()?, &known).map(Self)
    }
}

/// A time to live: seconds, or a `timedelta`.
#[derive(Clone, Copy)]
pub struct Ttl(pub Duration);

impl<'py> FromPyObject<'_, 'py> for Ttl {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        let Ok(seconds) = object.extract::<f64>() else { return object.extract().map(Self) };
        let duration = Duration::try_from_secs_f64(seconds);
        duration.map(Self).map_err(|e| invalid(format!("ttl of {seconds} seconds: {e}")))
    }
}

/// The terms of a put.
pub fn put_options(ttl: Option<Ttl>, durability: Option<NamedDurability>) -> PutOptions {
    let mut options = PutOptions::new();
    if let Some(Ttl(ttl)) = ttl {
        options = options.ttl(ttl);
    }
    if let Some(NamedDurability(durability)) = durability {
        options = options.durability(durability);
    }
    options
}

fn value_compression(value: &Bound<'_, PyAny>) -> PyResult<ValueCompression> {
    one_of(&value.extract::<String>()?, &ValueCompression::ALL)
}

/// The text of an option's value: `True` is `true`, and a `timedelta` a number of milliseconds.
fn text(value: &Bound<'_, PyAny>) -> PyResult<String> {
    if let Ok(truth) = value.extract::<bool>() {
        return Ok(truth.to_string());
    }
    if let Ok(duration) = value.extract::<Duration>() {
        return Ok(format!("{}ms", duration.as_millis()));
    }
    Ok(value.str()?.to_string())
}

/// The options that Python has named; `None` leaves the default.
pub fn options(given: Option<&Bound<'_, PyDict>>) -> PyResult<Options> {
    let mut texts = Vec::new();
    for (name, value) in given.into_iter().flatten().filter(|(_, value)| !value.is_none()) {
        let name: String = name.extract()?;
        if !named::is_known(&name) {
            let why = format!("there is no option {name}; docs/python.md lists all");
            return Err(PyTypeError::new_err(why));
        }
        texts.push(format!("{name}={}", text(&value)?));
    }
    named::options(texts.iter().map(String::as_str)).map_err(PyValueError::new_err)
}

/// The options of a keyspace that Python has named.
pub fn keyspace_options(
    min_separated: Option<usize>,
    ttl: Option<Ttl>,
    compression: Option<&Bound<'_, PyAny>>,
) -> PyResult<KeyspaceOptions> {
    let compression = compression.map(value_compression).transpose()?;
    let ttl = ttl.map(|ttl| ttl.0);
    Ok(KeyspaceOptions { min_separated, ttl, compression })
}
