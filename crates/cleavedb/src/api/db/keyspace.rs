//! The handle of a keyspace: a named space of keys of its own in a database.

mod reads;
mod writes;
mod conditional;
mod expiring;
mod merging;
mod compression;
mod ranges;
mod loads;
mod blobs;

use std::sync::Arc;
use std::time::Duration;

use cleavedb_base::{Error, ErrorKind, KeyspaceId, Result, SeqNo};

pub use self::loads::BulkLoad;
use super::{Db, Inner};
use crate::control::debug::debug;
use crate::engine::Engine;
use crate::operations::batch::Op;
use crate::operations::catalog::{self, CatalogEntry, KeyspaceRef};
use crate::operations::encoded_op::EncodedOp;
use crate::operations::ops::Ops;
use crate::reads::read;
use crate::reads::search::UserKey;
use crate::settings::keyspace_options::KeyspaceOptions;
use crate::store::manifest::Edit;
use crate::writes::write::{self, Terms};

/// A handle on a keyspace: a space of keys of its own in a database, with a name; cheap to clone,
/// usable from many threads at once.
///
/// Keyspaces share the log, the memory, the index and the files of their database, so that many
/// small ones cost little, and one batch, transaction or snapshot can go over several. Each key is
/// in exactly one keyspace, and a range never leaves its own. Every database has a *default
/// keyspace* ([`Db::default_keyspace`]), to which calls of a [`Db`] itself go.
///
/// A handle keeps its database open, as a [`Db`] does. After a drop of its keyspace its calls fail
/// with [`ErrorKind::NoKeyspace`].
///
/// ```
/// # let dir = tempfile::tempdir().unwrap();
/// # let db = cleavedb::Db::open(dir.path().join("db"), Default::default())?;
/// use cleavedb::WriteBatch;
///
/// let users = db.keyspace("users")?;
/// let emails = db.keyspace("emails")?;
///
/// // Both or none of them, also after a crash.
/// let mut batch = WriteBatch::new();
/// batch.keyspace(&users).put("7", "Ada")?;
/// batch.keyspace(&emails).put("ada@example.org", "7")?;
/// db.write(&batch)?;
///
/// assert_eq!(users.get("7")?.unwrap(), "Ada");
/// assert_eq!(db.get("7")?, None);
/// let snapshot = db.snapshot();
/// users.delete("7")?;
/// assert_eq!(snapshot.keyspace(&users).get("7")?.unwrap(), "Ada");
///
/// db.drop_keyspace("emails")?;
/// assert_eq!(db.keyspaces()?.len(), 1);
/// # Ok::<(), cleavedb::Error>(())
/// ```
#[derive(Clone)]
pub struct Keyspace {
    pub(super) inner: Arc<Inner>,
    pub(super) reference: KeyspaceRef,
}

debug!(Keyspace, |keyspace| { name: keyspace.name() });

impl AsRef<KeyspaceRef> for Keyspace {
    fn as_ref(&self) -> &KeyspaceRef {
        &self.reference
    }
}

impl Keyspace {
    /// The name of the keyspace; that of the default keyspace is `default`.
    pub fn name(&self) -> &str {
        self.reference.name()
    }

    fn entry(&self) -> &Arc<CatalogEntry> {
        &self.reference.0
    }

    /// The database that it belongs to.
    pub fn database(&self) -> Db {
        let reference = KeyspaceRef(self.inner.engine.catalog.default.clone());
        Db { default: Self { inner: self.inner.clone(), reference } }
    }

    /// The engine; fails if the database is closed, or if the keyspace was dropped.
    pub(crate) fn open_engine(&self) -> Result<&Engine> {
        self.inner.engine.gate.check_open()?;
        self.entry().check()?;
        Ok(&self.inner.engine)
    }

    /// Answers `read`, in the current view if the database follows a writer; fails as
    /// `open_engine` does.
    #[inline]
    pub(super) fn read<T>(&self, read: impl Fn(&Engine) -> Result<T>) -> Result<T> {
        if self.inner.engine.gate.is_open() {
            self.entry().check()?;
            return read(&self.inner.engine);
        }
        self.read_view(read)
    }

    #[cold]
    #[inline(never)]
    fn read_view<T>(&self, read: impl Fn(&Engine) -> Result<T>) -> Result<T> {
        self.inner.engine.gate.check_following()?;
        match &self.inner.follower {
            Some(follower) => follower.read(self.entry(), read),
            None => read(self.open_engine()?),
        }
    }

    /// What a write to it depends on: the commit asks whether the keyspace was dropped.
    fn terms(&self) -> Terms<'_> {
        let is_default = self.entry().id == KeyspaceId::DEFAULT;
        let keyspaces = if is_default { &[] } else { std::slice::from_ref(self.entry()) };
        Terms { keyspaces, ..Terms::default() }
    }

    /// Stores with the data the length from which on values of this keyspace leave the index;
    /// `None` leaves it to the database again. For the default keyspace that is the length of the
    /// database, for opens that do not set [`crate::Options::min_separated`]. Handles of this open
    /// are not affected, and existing values stay where they are until they are rewritten. Fails
    /// with [`ErrorKind::InvalidOptions`] if the layout separates no values.
    pub fn store_min_separated(&self, least: Option<usize>) -> Result<()> {
        let engine = self.open_engine()?;
        engine.check_open()?;
        check_separates(engine)?;
        if self.entry().id == KeyspaceId::DEFAULT {
            return self.store_for_all(least);
        }
        self.store_options(engine, |options| options.min_separated = least)
    }

    /// Stores with the data the length from which on values leave the index.
    fn store_for_all(&self, least: Option<usize>) -> Result<()> {
        let engine = &self.inner.engine;
        let min_separated = Some(least.map_or(0, |least| least.saturating_add(1) as u64));
        engine.commit_edit(&mut engine.manifest.lock(), &Edit { min_separated, ..Edit::default() })
    }

    /// Stores with the data how long values of this keyspace live that are put without a time to
    /// live of their own; `None` for good. Handles of this open are not affected, nor are values
    /// that are there. Fails with [`ErrorKind::InvalidArgument`] for the default keyspace.
    pub fn store_ttl(&self, ttl: Option<Duration>) -> Result<()> {
        let engine = self.open_engine()?;
        engine.check_open()?;
        if self.entry().id == KeyspaceId::DEFAULT {
            let what = "the default keyspace has no time to live; use one with a name, or \
                        give each put its own";
            return Err(Error::new(ErrorKind::InvalidArgument, what));
        }
        self.store_options(engine, |options| options.ttl = ttl)
    }

    /// The options that are stored with it now, which a later open finds. The default keyspace has
    /// those of the database, and none of its own.
    pub fn stored_options(&self) -> Result<KeyspaceOptions> {
        if self.entry().id == KeyspaceId::DEFAULT {
            return Ok(KeyspaceOptions::default());
        }
        let key = catalog::name_key(self.name());
        let stored =
            self.read(|engine| read::get(engine, UserKey::new(KeyspaceId::SYSTEM, &key), None))?;
        catalog::decode(&key, &stored.unwrap_or_default()).map(|(_, _, options)| options)
    }

    /// Changes the options that are stored with the keyspace.
    fn store_options(
        &self,
        engine: &Engine,
        change: impl FnOnce(&mut KeyspaceOptions),
    ) -> Result<()> {
        // Held until the record is written, so that a drop comes before or after it.
        let _held = engine.events.hold();
        let _changing = engine.catalog.change()?;
        self.entry().check()?;
        let key = catalog::name_key(self.name());
        let stored =
            read::get(engine, UserKey::new(KeyspaceId::SYSTEM, &key), None)?.unwrap_or_default();
        let (_, id, mut options) = catalog::decode(&key, &stored)?;
        change(&mut options);
        self.inner.write_system(&key, &catalog::encode(id, options)).map(drop)
    }
}

/// Fails if the layout separates no values: then there is no length to choose.
pub(super) fn check_separates(engine: &Engine) -> Result<()> {
    if engine.options.layout().separates() {
        return Ok(());
    }
    let message = "this layout keeps values in the index; there is no length to save";
    Err(Error::new(ErrorKind::InvalidOptions, message))
}

impl Inner {
    /// Commits a record of the system keyspace, with the database's default durability: what is
    /// written to a keyspace later is never safer than the keyspace. Returns its sequence number.
    pub(super) fn write_system(&self, key: &[u8], value: &[u8]) -> Result<SeqNo> {
        let engine = self.writable()?;
        let op = Op::put(key, value);
        let ops = Ops::Few(&[EncodedOp::of_system(op, false)]);
        write::write(engine, ops, op.len(), engine.options.durability, Terms::default())
    }
}
