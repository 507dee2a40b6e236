//! Keyspaces: named spaces of keys of their own in one database, and their handles.

mod reads;
mod writes;
mod conditional;
mod expiring;
mod merging;
mod compression;
mod ranges;
mod loads;
mod blobs;

use std::cell::Cell;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use cleavedb_base::limits::SEQ_MAX;
use cleavedb_base::planted::{Bug, planted};
use cleavedb_base::{EncodedKey, Error, ErrorKind, KeyspaceId, Result, SeqNo};

pub use self::loads::BulkLoad;
use super::{Db, Inner};
use crate::background::range_collection;
use crate::control::debug::debug;
use crate::engine::Engine;
use crate::engine::range_deletes::RangeDeletes;
use crate::operations::batch::Op;
use crate::operations::bounds::Bounds;
use crate::operations::catalog::{self, CatalogEntry, DEFAULT_NAME, KeyspaceOptions, KeyspaceRef};
use crate::operations::encoded_op::EncodedOp;
use crate::operations::ops::Ops;
use crate::reads::read;
use crate::settings::options::Durability;
use crate::store::manifest::Edit;
use crate::writes::dictionaries;
use crate::writes::write::{self, Terms};

/// A handle on a keyspace: a space of keys of its own in a database, with a name; cheap to clone,
/// usable from many threads at once.
///
/// Keyspaces share the log, the memory, the index and the files of their database, so that many
/// small ones cost little, and one batch, transaction or snapshot can go over several. Each key is
/// in exactly one keyspace, and a range never leaves its own. A [`Db`] is also the handle of the
/// *default keyspace*, which every database has.
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

impl Deref for Keyspace {
    type Target = KeyspaceRef;

    fn deref(&self) -> &KeyspaceRef {
        &self.reference
    }
}

impl Keyspace {
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
            return self.database().store_for_all(least);
        }
        self.store_options(engine, |options| options.min_separated = least)
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
        let stored = self.read(|engine| read::get(engine, (KeyspaceId::SYSTEM, &key), None))?;
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
        let stored = read::get(engine, (KeyspaceId::SYSTEM, &key), None)?.unwrap_or_default();
        let (_, id, mut options) = catalog::decode(&key, &stored)?;
        change(&mut options);
        self.inner.write_system(&key, &catalog::encode(id, options)).map(drop)
    }
}

/// Fails if the layout separates no values: then there is no length to choose.
fn check_separates(engine: &Engine) -> Result<()> {
    if engine.options.layout().separates() {
        return Ok(());
    }
    let message = "this layout keeps values in the index; there is no length to save";
    Err(Error::new(ErrorKind::InvalidOptions, message))
}

impl Inner {
    /// Commits a record of the system keyspace, with the database's default durability: what is
    /// written to a keyspace later is never safer than the keyspace. Returns its sequence number.
    fn write_system(&self, key: &[u8], value: &[u8]) -> Result<SeqNo> {
        let engine = self.writable()?;
        let op = Op::put(key, value);
        let (ops, seq) = ([EncodedOp::of_system(op, false)], Cell::new(0));
        let numbered = |first| seq.set(first);
        let terms = Terms { numbered: Some(&numbered), ..Terms::default() };
        write::write(engine, Ops::Few(&ops), op.len(), engine.options.durability, terms)?;
        Ok(seq.get())
    }
}

impl Db {
    /// Stores with the data the length from which on values leave the index.
    fn store_for_all(&self, least: Option<usize>) -> Result<()> {
        let engine = self.engine();
        let min_separated = Some(least.map_or(0, |least| least.saturating_add(1) as u64));
        engine.commit_edit(&mut engine.manifest.lock(), &Edit { min_separated, ..Edit::default() })
    }

    fn handle(&self, entry: &Arc<CatalogEntry>) -> Keyspace {
        Keyspace { inner: self.inner.clone(), reference: KeyspaceRef(entry.clone()) }
    }

    /// The keyspace `name`, which is created if there is none; `default` is the one that every
    /// database has. A database that was opened for reading only has no new ones: fails with
    /// [`ErrorKind::NoKeyspace`] then. [`Db::find_keyspace`] creates nothing.
    pub fn keyspace(&self, name: &str) -> Result<Keyspace> {
        self.keyspace_with(name, KeyspaceOptions::default())
    }

    /// As [`Db::keyspace`]; a keyspace that is created gets these options, as by
    /// [`Db::create_keyspace`]. One that is there keeps its own.
    pub fn keyspace_with(&self, name: &str, options: KeyspaceOptions) -> Result<Keyspace> {
        if let Some(found) = self.find_keyspace(name)? {
            return Ok(found);
        }
        if self.engine().gate.check_writable().is_err() {
            let what = "there is no keyspace of that name, and the database was opened for reading \
                        only";
            return Err(Error::new(ErrorKind::NoKeyspace, what).with("keyspace", name));
        }
        match self.create_keyspace(name, options) {
            // Another thread was faster.
            Err(e) if e.kind() == ErrorKind::AlreadyExists => self.keyspace_with(name, options),
            created => created,
        }
    }

    /// The keyspace `name`; `None` if there is none.
    pub fn find_keyspace(&self, name: &str) -> Result<Option<Keyspace>> {
        self.read(|engine| {
            if name == DEFAULT_NAME {
                return Ok(Some(self.database().default));
            }
            Ok(engine.catalog.named().get(name).map(|entry| self.handle(entry)))
        })
    }

    /// Creates a keyspace. Its name has 1 to 255 bytes. A database has at most 65,534 keyspaces,
    /// and each is created as fast as the first.
    /// Fails with [`ErrorKind::AlreadyExists`] if there is one of that name, and with
    /// [`ErrorKind::InvalidOptions`] if its options do not fit the layout of the database.
    ///
    /// It is as durable as a write to it: one that survives a crash finds its keyspace.
    pub fn create_keyspace(&self, name: &str, options: KeyspaceOptions) -> Result<Keyspace> {
        let engine = self.open_engine()?;
        catalog::check_name(name)?;
        if options.min_separated.is_some() {
            check_separates(engine)?;
        }
        let _held = engine.events.hold();
        let _changing = engine.catalog.change()?;
        if engine.catalog.named().get(name).is_some() {
            let what = "there is a keyspace of that name; open it, or drop it first";
            return Err(Error::new(ErrorKind::AlreadyExists, what).with("keyspace", name));
        }
        // Of a keyspace that was dropped something may be left as long as its range tombstone is.
        let tombstones = engine.state.load().tombstones.clone();
        let is_left = |id: KeyspaceId| {
            let first = EncodedKey::new(id, b"");
            tombstones.covers(first.as_bytes(), 0, SEQ_MAX) && !planted(Bug::KeyspaceIdReused)
        };
        let id = engine.catalog.named().free_id(is_left)?;
        let (key, stored) = (catalog::name_key(name), catalog::encode(id, options));
        let seq = self.inner.write_system(&key, &stored)?;
        let entry = Arc::new(engine.catalog.entry(id, name, options).since(seq));
        engine.catalog.named().insert(entry.clone());
        Ok(self.handle(&entry))
    }

    /// All keyspaces but the default one, in the order of their names.
    pub fn keyspaces(&self) -> Result<Vec<Keyspace>> {
        self.read(|engine| {
            let named = engine.catalog.named();
            Ok(named.all().map(|entry| self.handle(entry)).collect())
        })
    }

    /// As [`Keyspace::collect_range`] on every keyspace that was dropped, by this open or before:
    /// nothing of them is left in any file once this returns.
    pub fn collect_dropped(&self) -> Result<()> {
        self.open_engine()?;
        let engine = self.inner.writable()?;
        dictionaries::forget_dropped(engine)?;
        let gaps = engine.catalog.named().gaps();
        let mut ranges: Vec<Bounds> =
            gaps.into_iter().map(|(first, last)| Bounds::of_all(first, last)).collect();
        ranges.push(dictionaries::all());
        range_collection::collect_ranges(engine, &ranges)
    }

    /// Drops the keyspace `name` and everything in it, in one step, however much that is, that
    /// survives power loss. Snapshots taken before still see it. Fails with
    /// [`ErrorKind::NoKeyspace`] if there is none.
    ///
    /// Background work then gives its space back, once no snapshot needs it. Tables that have
    /// nothing else leave, and those with other keys are rewritten. Values in the index go with
    /// them (`lsm`, `ohdb`). Of values outside it (`wisckey`, `hashkv`, `ktstore`, `hoakv`) files
    /// and extents without anything alive are dropped unread, and what lies among values of other
    /// keyspaces is collected when dead values exceed [`crate::Options::space_amplification`].
    /// Values in the hot store of `hoakv` leave it as any that are not used any more. So the
    /// space of a small keyspace may stay until more is dead: [`Db::collect`] gives back at once
    /// what lies outside the index, [`Db::compact`] what lies in it, and [`Db::collect_dropped`]
    /// leaves nothing in any file.
    pub fn drop_keyspace(&self, name: &str) -> Result<()> {
        let engine = self.open_engine()?;
        catalog::check_name(name)?;
        let _held = engine.events.hold();
        let _changing = engine.catalog.change()?;
        let found = engine.catalog.named().get(name).cloned();
        let Some(entry) = found else {
            let what = "there is no keyspace of that name";
            return Err(Error::new(ErrorKind::NoKeyspace, what).with("keyspace", name));
        };
        let _no_dictionaries = engine.catalog.no_dictionaries()?;
        let numbered = |first: SeqNo| entry.drop_at(first);
        let terms = Terms { numbered: Some(&numbered), ..Terms::default() };
        let engine = self.inner.writable()?;
        let (key, Bounds { lower, upper, .. }) =
            (catalog::name_key(name), Bounds::of(entry.id, &..));
        let mut ranges = RangeDeletes::new(engine);
        ranges.add(1, &lower, &upper, true);
        ranges.tidy();
        let name_op = Op::delete(&key);
        let dropped = dictionaries::dropped(engine, &entry);
        let mut ops = vec![EncodedOp::of_system(name_op, true)];
        ops.extend(ranges.ops());
        ops.extend(dropped.iter().map(|it| EncodedOp::of_system(it.op(), true)));
        let of_dictionaries: u64 = dropped.iter().map(|it| it.op().len()).sum();
        let bytes = name_op.len() + (lower.len() + upper.len()) as u64 + of_dictionaries;
        ops.extend(ranges.removals());
        // Durable, so that jobs may drop what it leaves, which they are woken for.
        write::write_ranges(engine, (Ops::Few(&ops), bytes), &ranges, Durability::Sync, terms)?;
        ranges.done();
        engine.catalog.named().remove(&entry);
        dictionaries::are_dropped(engine, &dropped);
        Ok(())
    }
}
