//! What most programs call: opening, and reads and writes of the default keyspace.

use std::path::Path;

use bytes::Bytes;
use cleavedb_base::Result;

use super::builder::Builder;
use super::{Db, Keyspace};
use crate::operations::bounds::KeyRange;
use crate::operations::catalog::KeyspaceRef;
use crate::reads::cursor::Cursor;
use crate::reads::item::Item;
use crate::reads::range::Range;
use crate::reads::read::Resident;
use crate::reads::view::Snapshot;
use crate::settings::merge::Operand;
use crate::settings::options::{Durability, Options};
use crate::settings::put_options::PutOptions;

/// The first calls of a program; those on keys are calls of the default keyspace.
impl Db {
    /// Opens the database in the directory `path`, creating it if the options allow. Fails with
    /// [`crate::ErrorKind::Locked`] if it is open elsewhere, with
    /// [`crate::ErrorKind::NotADatabase`] if the directory holds something else, with
    /// [`crate::ErrorKind::MissingVolume`] if a volume cannot be found, and as described at
    /// [`crate::ErrorKind::LayoutMismatch`], [`crate::ErrorKind::NewerFormat`] and
    /// [`crate::ErrorKind::Corruption`]; nothing is changed then.
    pub fn open(path: impl AsRef<Path>, options: Options) -> Result<Self> {
        Self::open_through(path, options, |_, disk| disk)
    }

    /// Opens the database in the directory `path` with options that are set one by one.
    pub fn builder(path: impl AsRef<Path>) -> Builder {
        Builder::new(path.as_ref())
    }

    /// See [`Keyspace::get`].
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Bytes>> {
        self.default.get(key)
    }

    /// See [`Keyspace::get_resident`].
    pub fn get_resident(&self, key: impl AsRef<[u8]>) -> Result<Resident> {
        self.default.get_resident(key)
    }

    /// See [`Keyspace::contains_resident`].
    pub fn contains_resident(&self, key: impl AsRef<[u8]>) -> Result<Option<bool>> {
        self.default.contains_resident(key)
    }

    /// See [`Keyspace::put`].
    pub fn put(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        self.default.put(key, value)
    }

    /// See [`Keyspace::put_with`].
    pub fn put_with(
        &self,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        options: impl Into<PutOptions>,
    ) -> Result<()> {
        self.default.put_with(key, value, options)
    }

    /// See [`Keyspace::delete`].
    pub fn delete(&self, key: impl AsRef<[u8]>) -> Result<()> {
        self.default.delete(key)
    }

    /// See [`Keyspace::delete_with`].
    pub fn delete_with(&self, key: impl AsRef<[u8]>, durability: Durability) -> Result<()> {
        self.default.delete_with(key, durability)
    }

    /// See [`Keyspace::delete_range`].
    pub fn delete_range(&self, range: impl KeyRange) -> Result<()> {
        self.default.delete_range(range)
    }

    /// See [`Keyspace::merge`].
    pub fn merge(&self, key: impl AsRef<[u8]>, operand: &Operand) -> Result<()> {
        self.default.merge(key, operand)
    }

    /// See [`Keyspace::range`].
    pub fn range(&self, range: impl KeyRange) -> Range {
        self.default.range(range)
    }

    /// See [`Keyspace::prefix`].
    pub fn prefix(&self, prefix: impl AsRef<[u8]>) -> Range {
        self.default.prefix(prefix)
    }

    /// See [`Keyspace::cursor`].
    pub fn cursor(&self, range: impl KeyRange) -> Cursor {
        self.default.cursor(range)
    }

    /// See [`Keyspace::contains_key`].
    pub fn contains_key(&self, key: impl AsRef<[u8]>) -> Result<bool> {
        self.default.contains_key(key)
    }

    /// See [`Keyspace::multi_get`].
    pub fn multi_get<K: AsRef<[u8]>>(&self, keys: &[K]) -> Vec<Result<Option<Bytes>>> {
        self.default.multi_get(keys)
    }

    /// See [`Keyspace::first_key_value`].
    pub fn first_key_value(&self) -> Result<Option<Item>> {
        self.default.first_key_value()
    }

    /// See [`Keyspace::last_key_value`].
    pub fn last_key_value(&self) -> Result<Option<Item>> {
        self.default.last_key_value()
    }

    /// A snapshot of all keyspaces; see [`Keyspace::snapshot`].
    pub fn snapshot(&self) -> Snapshot {
        self.default.snapshot()
    }

    /// The handle of the default keyspace, with all calls of one.
    pub fn default_keyspace(&self) -> &Keyspace {
        &self.default
    }
}

impl AsRef<KeyspaceRef> for Db {
    fn as_ref(&self) -> &KeyspaceRef {
        self.default.as_ref()
    }
}
