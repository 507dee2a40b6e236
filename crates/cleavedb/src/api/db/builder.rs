//! Builder: opens a database with options that are set one by one.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use cleavedb_base::Result;

use super::Db;
use crate::control::debug::debug;
use crate::control::events::EventListener;
use crate::settings::options::{Durability, Options, Preset};
use crate::settings::resources::Resources;
use crate::settings::time::TimeSource;
use crate::settings::volume::Volume;

/// A change of the options of a preset.
type Change = Box<dyn FnOnce(&mut Options)>;

/// Opens a database: made by [`Db::builder`].
///
/// An existing database is opened with its own preset, unless [`Builder::preset`] names another of
/// the same layout; a new one gets the default preset, and [`Db::migrate`] changes it. The
/// order of the calls does not matter, but the last of two that set the same option counts.
///
/// ```
/// # let dir = tempfile::tempdir().unwrap();
/// use cleavedb::{Db, Durability, Preset};
///
/// let db = Db::builder(dir.path().join("db"))
///     .preset(Preset::WiscKey)
///     .memory_bytes(256 << 20)
///     .durability(Durability::Os)
///     .open()?;
/// db.put("key", "value")?;
/// db.close()?;
/// // The database knows its preset.
/// let db = Db::builder(dir.path().join("db")).create_if_missing(false).open()?;
/// assert_eq!(db.options().preset, Some(Preset::WiscKey));
/// # Ok::<(), cleavedb::Error>(())
/// ```
#[must_use = "a builder does nothing until `open` is called"]
pub struct Builder {
    path: PathBuf,
    preset: Option<Preset>,
    changes: Vec<Change>,
}

debug!(Builder, |_| {});

impl Builder {
    pub(crate) fn new(path: &Path) -> Self {
        Self { path: path.to_owned(), preset: None, changes: Vec::new() }
    }

    /// How values are kept in a new database, and the tuning that goes with it.
    pub fn preset(self, preset: Preset) -> Self {
        Self { preset: Some(preset), ..self }
    }

    /// Changes any options: those that have no method here.
    pub fn with(mut self, change: impl FnOnce(&mut Options) + 'static) -> Self {
        self.changes.push(Box::new(change));
        self
    }

    /// See [`Options::create_if_missing`].
    pub fn create_if_missing(self, create: bool) -> Self {
        self.with(move |options| options.create_if_missing = create)
    }

    /// See [`Options::error_if_exists`].
    pub fn error_if_exists(self, fail: bool) -> Self {
        self.with(move |options| options.error_if_exists = fail)
    }

    /// See [`Options::durability`].
    pub fn durability(self, durability: Durability) -> Self {
        self.with(move |options| options.durability = durability)
    }

    /// See [`Options::memory_bytes`].
    pub fn memory_bytes(self, bytes: usize) -> Self {
        self.with(move |options| options.memory_bytes = bytes)
    }

    /// See [`Options::record_cache_bytes`].
    pub fn record_cache_bytes(self, bytes: usize) -> Self {
        self.with(move |options| options.record_cache_bytes = bytes)
    }

    /// Length from which on values leave the index, in bytes: see [`Options::min_separated`].
    pub fn min_separated(self, least: usize) -> Self {
        self.with(move |options| options.min_separated = Some(least))
    }

    /// See [`Options::resources`].
    pub fn resources(self, resources: &Resources) -> Self {
        let resources = resources.clone();
        self.with(move |options| options.resources = Some(resources))
    }

    /// See [`Options::space_limit`].
    pub fn space_limit(self, bytes: u64) -> Self {
        self.with(move |options| options.space_limit = Some(bytes))
    }

    /// See [`Options::change_retention_bytes`].
    pub fn change_retention_bytes(self, bytes: u64) -> Self {
        self.with(move |options| options.change_retention_bytes = Some(bytes))
    }

    /// See [`Options::time`].
    pub fn time(self, time: Arc<dyn TimeSource>) -> Self {
        self.with(move |options| options.time = time)
    }

    /// Adds a listener: see [`Options::listeners`].
    pub fn listener(self, listener: Arc<dyn EventListener>) -> Self {
        self.with(move |options| options.listeners.push(listener))
    }

    /// See [`Options::latency_sampling`].
    pub fn latency_sampling(self, one_of: u32) -> Self {
        self.with(move |options| options.latency_sampling = one_of)
    }

    /// Adds a directory for some classes of files: see [`Options::volumes`].
    pub fn volume(self, volume: Volume) -> Self {
        self.with(move |options| options.volumes.push(volume))
    }

    /// Opens the database, as [`Db::open`] does.
    pub fn open(self) -> Result<Db> {
        let (path, options) = self.options()?;
        Db::open(path, options)
    }

    /// Opens the database for reading only, as [`Db::open_read_only`] does.
    pub fn open_read_only(self) -> Result<Db> {
        let (path, options) = self.options()?;
        Db::open_read_only_with(path, options)
    }

    /// Opens the database beside the process that writes it, as [`Db::open_secondary`] does.
    pub fn open_secondary(self) -> Result<Db> {
        let (path, options) = self.options()?;
        Db::open_secondary_with(path, options)
    }

    fn options(self) -> Result<(PathBuf, Options)> {
        let mut options = match self.preset {
            Some(preset) => Options::preset(preset),
            None => {
                let stored = Db::stored_options(&self.path);
                stored.map_err(|e| e.with("path", self.path.display()))?.unwrap_or_default()
            }
        };
        self.changes.into_iter().for_each(|change| change(&mut options));
        Ok((self.path, options))
    }
}
