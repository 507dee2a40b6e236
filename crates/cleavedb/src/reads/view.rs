//! A snapshot as users hold it: reads as of one moment, also after a close.

use std::any::Any;
use std::sync::Arc;
use std::time::SystemTime;

use bytes::Bytes;
use cleavedb_base::{KeyspaceId, Result};
use cleavedb_storage::process::Own;

use crate::control::debug::debug;
use crate::engine::Engine;
use crate::operations::bounds::{Bounds, KeyRange, Prefix};
use crate::operations::catalog::{CatalogEntry, KeyspaceRef};
use crate::reads::cursor::Cursor;
use crate::reads::item::Item;
use crate::reads::range::Range;
use crate::reads::read::{self, Resident};
use crate::reads::search::{ReadFor, UserKey};
use crate::reads::value_reader::{FoundValue, ValueReader};
use crate::store::snapshot::{HeldBy, HeldSnapshot, ReadPoint};

/// A keyspace as of one moment; [`Snapshot::keyspace`] is another one as of the same moment. Holds
/// what it sees until the last clone is dropped, or until [`crate::Db::close_now`].
/// [`crate::Db::close`] leaves it as it is.
#[derive(Clone)]
pub struct Snapshot {
    /// `None` if the database was closed when it was taken.
    held: Option<Arc<HeldSnapshot>>,
    keyspace: Arc<CatalogEntry>,
    engine: Own<Arc<Engine>>,
    /// Keeps the database open until the snapshot is dropped, unless a caller closes it before.
    #[expect(dead_code, reason = "held for what its drop does")]
    handle: Arc<dyn Any + Send + Sync>,
}

debug!(Snapshot, |snapshot| { seq: snapshot.seq() });

impl Snapshot {
    /// A snapshot of what is visible of `keyspace`, which keeps `handle`.
    pub(crate) fn new(
        engine: Own<Arc<Engine>>,
        keyspace: Arc<CatalogEntry>,
        handle: Arc<dyn Any + Send + Sync>,
    ) -> Self {
        let visible = || engine.commit.visible();
        let take = |()| Arc::new(engine.snapshots.take(HeldBy::Snapshot, visible, &engine.time));
        let held = engine.gate.check_open().ok().map(take);
        Self { held, keyspace, engine, handle }
    }

    /// Another keyspace of the same database as of the same moment.
    #[must_use]
    pub fn keyspace(&self, within: impl AsRef<KeyspaceRef>) -> Self {
        let keyspace = within.as_ref();
        Self { keyspace: keyspace.0.clone(), ..self.clone() }
    }

    /// The sequence number of the last commit that it sees: [`crate::Db::changes`] goes on behind
    /// it. 0 if the database was closed when it was taken.
    pub fn seq(&self) -> u64 {
        self.held.as_ref().map_or(0, |held| held.at.seq)
    }

    /// The keyspace that it is of.
    pub(crate) fn target(&self) -> Arc<CatalogEntry> {
        self.keyspace.clone()
    }

    /// The keyspace that it is of.
    pub(crate) fn entry(&self) -> &Arc<CatalogEntry> {
        &self.keyspace
    }

    /// Id of the keyspace that it is of.
    pub(crate) fn keyspace_id(&self) -> KeyspaceId {
        self.keyspace.id
    }

    /// What it sees, if it may still be read.
    pub(crate) fn at(&self) -> Result<ReadPoint> {
        let gate = &self.engine.gate;
        let at = match &self.held {
            Some(held) => gate.check_held().map(|()| held.at),
            None => gate.check_open().map(|()| ReadPoint { seq: 0, time: 0 }),
        }?;
        self.engine.catalog.check_own(&self.keyspace)?;
        self.keyspace.check_at(at.seq).map(|()| at)
    }

    fn key<'k>(&self, key: &'k impl AsRef<[u8]>) -> UserKey<'k> {
        UserKey::new(self.keyspace.id, key)
    }

    /// The value that `key` had.
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Bytes>> {
        let found = read::get(&self.engine, self.key(&key), Some(self.at()?));
        // Behind the read: see `Gate::check_held`.
        self.answer(found)
    }

    /// As [`crate::Keyspace::get_resident`], at the snapshot.
    pub fn get_resident(&self, key: impl AsRef<[u8]>) -> Result<Resident> {
        let found = read::get_resident(&self.engine, self.key(&key), Some(self.at()?));
        self.answer(found)
    }

    /// The answer of a read, unless the snapshot has ended meanwhile.
    #[inline]
    fn answer<T>(&self, found: Result<T>) -> Result<T> {
        self.at().and(found).map_err(|e| self.engine.explained(e))
    }

    /// The value that `key` had, and when it expires, if it does.
    pub fn get_with_expiry(
        &self,
        key: impl AsRef<[u8]>,
    ) -> Result<Option<(Bytes, Option<SystemTime>)>> {
        let found = read::get_lasting(&self.engine, self.key(&key), Some(self.at()?));
        Ok(self.answer(found)?.map(|found| (found.value, found.until.time())))
    }

    /// Whether `key` was there; its value is not read.
    pub fn contains_key(&self, key: impl AsRef<[u8]>) -> Result<bool> {
        let at = Some(self.at()?);
        let found = read::contains(&self.engine, self.key(&key), at, ReadFor::Caller);
        self.answer(found)
    }

    /// As [`crate::Keyspace::contains_resident`], at the snapshot.
    pub fn contains_resident(&self, key: impl AsRef<[u8]>) -> Result<Option<bool>> {
        let found = read::contains_resident(&self.engine, self.key(&key), Some(self.at()?));
        self.answer(found)
    }

    /// The value that `key` had, of which a blob is not read.
    pub(crate) fn find(&self, key: &[u8]) -> Result<Option<FoundValue>> {
        let found = read::find_value(&self.engine, self.key(&key), Some(self.at()?));
        Ok(self.answer(found)?.map(|found| found.value))
    }

    /// A reader of the value that `key` had: see [`crate::Keyspace::get_reader`].
    pub fn get_reader(&self, key: impl AsRef<[u8]>) -> Result<Option<ValueReader>> {
        let found = read::find_value(&self.engine, self.key(&key), Some(self.at()?));
        Ok(self.answer(found)?.map(ValueReader::new))
    }

    /// A part of the value that `key` had: see [`crate::Keyspace::get_range`].
    pub fn get_range(
        &self,
        key: impl AsRef<[u8]>,
        offset: u64,
        len: usize,
    ) -> Result<Option<Bytes>> {
        let range = offset..offset.saturating_add(len as u64);
        let found = read::find_value(&self.engine, self.key(&key), Some(self.at()?));
        self.answer(found.and_then(|it| it.map(|found| found.value.range(range)).transpose()))
    }

    /// The values that `keys` had, in their order.
    pub fn multi_get<K: AsRef<[u8]>>(&self, keys: &[K]) -> Vec<Result<Option<Bytes>>> {
        let found = self.at().map(|at| read::multi_get(&self.engine, self.keyspace.id, keys, at));
        match self.at().and(found) {
            Ok(found) => {
                found.into_iter().map(|found| found.map_err(|e| self.engine.explained(e))).collect()
            }
            Err(e) => keys.iter().map(|_| Err(e.clone())).collect(),
        }
    }

    /// See [`crate::Keyspace::prefetch`].
    pub(crate) fn prefetch<K: AsRef<[u8]>>(&self, keys: &[K]) {
        if let Ok(at) = self.at() {
            read::prefetch(&self.engine, self.keyspace.id, keys, at);
        }
    }

    /// The first key and its value.
    pub fn first_key_value(&self) -> Result<Option<Item>> {
        self.range(..).next().transpose()
    }

    /// The last key and its value.
    pub fn last_key_value(&self) -> Result<Option<Item>> {
        self.range(..).next_back().transpose()
    }

    /// As [`crate::Keyspace::range`], at the snapshot, which the range holds a clone of.
    pub fn range(&self, range: impl KeyRange) -> Range {
        Range::of(self.cursor(range))
    }

    /// As [`crate::Keyspace::prefix`], at the snapshot.
    pub fn prefix(&self, prefix: impl AsRef<[u8]>) -> Range {
        self.range(Prefix(prefix))
    }

    /// As [`crate::Keyspace::cursor`], at the snapshot, which the cursor holds a clone of.
    pub fn cursor(&self, range: impl KeyRange) -> Cursor {
        let (engine, refused) = (self.engine.clone(), self.at().err());
        Cursor::new(engine, Bounds::of(self.keyspace.id, &range), self.held.clone(), refused)
    }
}
