//! Options of a database by their names.

use std::time::Duration;

use cleavedb::{
    Background, Compression, Durability, KeyspaceOptions, Options, Preset, PutOptions,
    ValueCompression,
};
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

/// The durability of that name.
pub fn durability(name: &str) -> PyResult<Durability> {
    let known =
        [("buffered", Durability::Buffered), ("os", Durability::Os), ("sync", Durability::Sync)];
    one_of(name, &known)
}

/// A durability, if one is named.
pub fn some_durability(name: Option<&str>) -> PyResult<Option<Durability>> {
    name.map(durability).transpose()
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
pub fn put_options(ttl: Option<Ttl>, durability: Option<&str>) -> PyResult<PutOptions> {
    let mut options = PutOptions::new();
    if let Some(Ttl(ttl)) = ttl {
        options = options.ttl(ttl);
    }
    if let Some(durability) = some_durability(durability)? {
        options = options.durability(durability);
    }
    Ok(options)
}

/// A size: a number of bytes, or a text as `64MiB`.
struct ByteCount(u64);

impl<'py> FromPyObject<'_, 'py> for ByteCount {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        let Ok(text) = object.extract::<String>() else { return object.extract().map(Self) };
        cleavedb_units::parse(&text).map(Self).map_err(PyValueError::new_err)
    }
}

fn bytes(value: &Bound<'_, PyAny>) -> PyResult<u64> {
    Ok(value.extract::<ByteCount>()?.0)
}

fn size(value: &Bound<'_, PyAny>) -> PyResult<usize> {
    usize::try_from(bytes(value)?).map_err(|e| PyValueError::new_err(e.to_string()))
}

fn value_compression(value: &Bound<'_, PyAny>) -> PyResult<ValueCompression> {
    one_of(&value.extract::<String>()?, &ValueCompression::ALL)
}

fn preset(value: &Bound<'_, PyAny>) -> PyResult<Preset> {
    one_of(&value.extract::<String>()?, &Preset::ALL.map(|preset| (preset.name(), preset)))
}

/// Sets the option `name`; `None` leaves the default.
fn set(o: &mut Options, name: &str, value: &Bound<'_, PyAny>) -> PyResult<()> {
    let blocks =
        [("none", Compression::None), ("lz4", Compression::Lz4), ("zstd", Compression::Zstd)];
    match name {
        "preset" => o.preset = Some(preset(value)?),
        "durability" => o.durability = durability(&value.extract::<String>()?)?,
        "create_if_missing" => o.create_if_missing = value.extract()?,
        "error_if_exists" => o.error_if_exists = value.extract()?,
        "accept_lost_window" => o.accept_lost_window = value.extract()?,
        "min_separated" => o.min_separated = Some(size(value)?),
        "memory_bytes" => o.memory_bytes = size(value)?,
        "record_cache_bytes" => o.record_cache_bytes = size(value)?,
        "hot_bytes" => o.hot_bytes = bytes(value)?,
        "compression" => o.compression = one_of(&value.extract::<String>()?, &blocks)?,
        "value_compression" => o.value_compression = value_compression(value)?,
        "space_amplification" => o.space_amplification = value.extract()?,
        "space_limit" => o.space_limit = Some(bytes(value)?),
        "change_retention_bytes" => o.change_retention_bytes = Some(bytes(value)?),
        "expired_within" => o.expired_within = value.extract::<Ttl>()?.0,
        "background_bytes_per_second" => o.background_bytes_per_second = Some(bytes(value)?),
        "background_threads" => o.background = Background::Threads(value.extract()?),
        "latency_sampling" => o.latency_sampling = value.extract()?,
        _ => return set_tuning(o, name, value),
    }
    Ok(())
}

fn set_tuning(o: &mut Options, name: &str, value: &Bound<'_, PyAny>) -> PyResult<()> {
    let tuning = &mut o.tuning;
    match name {
        "long_value_bytes" => tuning.long_value_bytes = Some(size(value)?),
        "blob_bytes" => tuning.blob_bytes = bytes(value)?,
        "memtable_bytes" => tuning.memtable_bytes = Some(size(value)?),
        "memtables_max" => tuning.memtables_max = Some(value.extract()?),
        "memtable_log_bytes" => tuning.memtable_log_bytes = bytes(value)?,
        "log_file_bytes" => tuning.log_file_bytes = bytes(value)?,
        "segment_bytes" => tuning.segment_bytes = bytes(value)?,
        "window_bytes" => tuning.window_bytes = Some(size(value)?),
        "cache_bytes" => tuning.cache_bytes = Some(size(value)?),
        "read_ahead_bytes" => tuning.read_ahead_bytes = size(value)?,
        "block_bytes" => tuning.block_bytes = size(value)?,
        "filter_bits" => tuning.filter_bits = value.extract()?,
        "table_bytes" => tuning.table_bytes = bytes(value)?,
        "level0_bytes" => tuning.level0_bytes = Some(bytes(value)?),
        "level1_bytes" => tuning.level1_bytes = Some(bytes(value)?),
        "space_floor" => tuning.space_floor = bytes(value)?,
        _ => {
            let why = format!("there is no option {name}; docs/python.md lists all");
            return Err(PyTypeError::new_err(why));
        }
    }
    Ok(())
}

/// The options that Python has named.
pub fn options(named: Option<&Bound<'_, PyDict>>) -> PyResult<Options> {
    let mut options = Options::default();
    for (name, value) in named.into_iter().flatten() {
        if !value.is_none() {
            set(&mut options, &name.extract::<String>()?, &value)?;
        }
    }
    Ok(options)
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
