//! The reads of a keyspace: keys, ranges, cursors and snapshots, as of now.

use std::sync::Arc;
use std::time::SystemTime;

use bytes::Bytes;
use cleavedb_base::Result;
use cleavedb_storage::process::Own;

use super::Keyspace;
use crate::engine::Engine;
use crate::operations::bounds::{Bounds, KeyRange, Prefix};
use crate::reads::cursor::Cursor;
use crate::reads::item::Item;
use crate::reads::range::Range;
use crate::reads::read::{self, Resident};
use crate::reads::search::{ReadFor, UserKey};
use crate::reads::view::Snapshot;

impl Keyspace {
    /// The value of `key`, or `None`. The bytes are not copied again after they were read.
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Bytes>> {
        self.read(|engine| read::get(engine, UserKey::new(self.entry().id, &key), None))
    }

    /// As [`Keyspace::get`], for a thread that must not wait for the device, as one of an event
    /// loop must not: answers from memory, the kernel's page cache included, or says that it
    /// cannot. Then another thread calls [`Keyspace::get`]. The answer of a `Found` is that of
    /// [`Keyspace::get`].
    ///
    /// `Elsewhere` is also the answer for a key that merges have changed, for a value that
    /// [`Keyspace::put_reader`] has put, once it is flushed, and where the file system cannot
    /// tell what is in memory. A secondary waits where it has to catch up.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = cleavedb::Db::open(dir.path().join("db"), Default::default())?;
    /// use cleavedb::Resident;
    ///
    /// db.put("key", "value")?;
    /// let value = match db.get_resident("key")? {
    ///     Resident::Found(value) => value,
    ///     Resident::Elsewhere => db.get("key")?, // in a thread that may wait
    /// };
    /// assert_eq!(value.unwrap(), "value");
    /// # Ok::<(), cleavedb::Error>(())
    /// ```
    pub fn get_resident(&self, key: impl AsRef<[u8]>) -> Result<Resident> {
        self.read(|engine| read::get_resident(engine, UserKey::new(self.entry().id, &key), None))
    }

    /// The value of `key`, and when it expires, if it does.
    pub fn get_with_expiry(
        &self,
        key: impl AsRef<[u8]>,
    ) -> Result<Option<(Bytes, Option<SystemTime>)>> {
        let key = UserKey::new(self.entry().id, &key);
        let found = self.read(|engine| read::get_lasting(engine, key, None))?;
        Ok(found.map(|found| (found.value, found.until.time())))
    }

    /// Whether `key` is there; its value is not read.
    pub fn contains_key(&self, key: impl AsRef<[u8]>) -> Result<bool> {
        let key = UserKey::new(self.entry().id, &key);
        self.read(|engine| read::contains(engine, key, None, ReadFor::Caller))
    }

    /// As [`Keyspace::contains_key`], for a thread that must not wait for the device; `None` where
    /// the answer would need it: see [`Keyspace::get_resident`].
    pub fn contains_resident(&self, key: impl AsRef<[u8]>) -> Result<Option<bool>> {
        let key = UserKey::new(self.entry().id, &key);
        self.read(|engine| read::contains_resident(engine, key, None))
    }

    /// The values of `keys`, in their order, as of one moment. Reads from storage run in parallel:
    /// many keys at once take little more time than one.
    pub fn multi_get<K: AsRef<[u8]>>(&self, keys: &[K]) -> Vec<Result<Option<Bytes>>> {
        let read = || self.snapshot().multi_get(keys);
        let Some(follower) = &self.inner.follower else { return read() };
        follower
            .again(read, |found: &Vec<Result<_>>| found.iter().find_map(|one| one.as_ref().err()))
    }

    /// Says that `keys` will be read soon, one by one: reads from storage of all of them run in
    /// parallel. Waits for blocks of the index, and for no value; a read of a key meets its error.
    /// WiscKey's parallel reads (section 3.2).
    pub fn prefetch<K: AsRef<[u8]>>(&self, keys: &[K]) {
        self.snapshot().prefetch(keys);
    }

    /// The first key and its value.
    pub fn first_key_value(&self) -> Result<Option<Item>> {
        self.one(|| self.range(..).next())
    }

    /// The last key and its value.
    pub fn last_key_value(&self) -> Result<Option<Item>> {
        self.one(|| self.range(..).next_back())
    }

    /// The engine with the data, for a reader of many keys.
    fn engine_to_read(&self) -> Own<Arc<Engine>> {
        match &self.inner.follower {
            None => self.inner.engine.clone(),
            Some(follower) => Own::new(follower.fresh_view()),
        }
    }

    /// What a step of a range finds.
    fn one(&self, step: impl Fn() -> Option<Result<Item>>) -> Result<Option<Item>> {
        let found = match &self.inner.follower {
            None => step(),
            Some(follower) => follower.again(step, |found| found.as_ref()?.as_ref().err()),
        };
        found.transpose()
    }

    /// Keys of a range and their values, in key order, from both ends, as of now; see [`KeyRange`].
    /// [`Range::keys_only`] reads no values.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = cleavedb::Db::open(dir.path().join("db"), Default::default())?;
    /// for key in ["a", "b", "c"] {
    ///     db.put(key, "value")?;
    /// }
    /// let mut range = db.range("a".."c");
    /// assert_eq!(range.next().unwrap()?.key, "a");
    /// assert_eq!(range.next_back().unwrap()?.key, "b");
    /// assert!(range.next().is_none());
    /// assert_eq!(db.range(..).keys_only().count(), 3);
    /// # Ok::<(), cleavedb::Error>(())
    /// ```
    pub fn range(&self, range: impl KeyRange) -> Range {
        Range::of(self.cursor(range))
    }

    /// All keys that begin with `prefix`, and their values.
    pub fn prefix(&self, prefix: impl AsRef<[u8]>) -> Range {
        self.range(Prefix(prefix))
    }

    /// A cursor over a range, as of now: it can be moved to any key of it, and both ways.
    pub fn cursor(&self, range: impl KeyRange) -> Cursor {
        let bounds = Bounds::of(self.entry().id, &range);
        let engine = self.engine_to_read();
        let refused = engine.gate.check_open().err();
        let cursor = Cursor::new(engine, bounds, None, refused);
        // Behind the start of the cursor: it sees a keyspace whole that is dropped later.
        cursor.checked(|seq| self.entry().check_at(seq))
    }

    /// The keyspace as it is now, for later reads; [`Snapshot::keyspace`] reads others as of the
    /// same moment. While it is held, the versions that it sees take space.
    pub fn snapshot(&self) -> Snapshot {
        Snapshot::new(self.engine_to_read(), self.entry().clone(), self.inner.clone())
    }
}
