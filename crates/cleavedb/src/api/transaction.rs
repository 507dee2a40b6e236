//! Transactions: reads and writes that take effect as one, or not at all.
//!
//! A transaction reads a snapshot, keeps its writes in memory, and notes what it reads. Its commit
//! checks, under the append lock, that no other commit has written any of that meanwhile
//! ([`ReadSet`]), and is then one batch. So committed transactions are serializable, in the order
//! of their commits, and no other write waits for one that is open.

mod writes;
mod keyspace;
mod renewal;
mod of_batch;

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use cleavedb_base::key::KeptKey;
use cleavedb_base::sync::Mutex;
use cleavedb_base::{EncodedKey, Error, ErrorKind, Result, SeqNo};
use cleavedb_storage::process::Own;

use crate::control::debug::debug;
use crate::engine::Engine;
use crate::operations::batch::{Change, Op, range_memory};
use crate::operations::bounds::{Bounds, KeyRange, Prefix};
use crate::operations::catalog::{CatalogEntry, KeyspaceRef};
use crate::operations::recent_writes::ReadSet;
use crate::reads::cursor::Cursor;
use crate::reads::item::Item;
use crate::reads::pending_writes::{PendingPut, PendingWrites, Writes};
use crate::reads::range::Range;
use crate::reads::view::Snapshot;
use crate::settings::merge::Operand;
use crate::settings::options::Durability;
use crate::settings::time::Lifetime;
use crate::writes::dictionaries;
use crate::writes::write::{self, Terms};

use renewal::Renewed;

/// Reads and writes that take effect as one, or not at all.
///
/// It sees the database as it was when it began, and its own writes. Its commit fails with
/// [`ErrorKind::Conflict`] if another commit has written since what it has read: a key, whether it
/// was there or not, or any key of a range that it has gone through. So transactions that commit
/// have the same effect as if they had run one after the other (they are *serializable*). Nothing
/// is locked while it is open, and other writes never wait for it. Without a commit it has no
/// effect.
///
/// While it is open it holds a snapshot, and every commit notes its keys in memory, up to a 48th of
/// [`crate::Options::memory_bytes`]; after more than that it may conflict with neighbours of old
/// ones, too. Its own writes are kept in memory, as a batch.
///
/// ```
/// # let dir = tempfile::tempdir().unwrap();
/// # let db = cleavedb::Db::open(dir.path().join("db"), Default::default())?;
/// use cleavedb::ErrorKind;
///
/// db.put("stock", "3")?;
/// let mut one = db.transaction()?;
/// let mut other = db.transaction()?;
/// for transaction in [&mut one, &mut other] {
///     assert_eq!(transaction.get("stock")?.unwrap(), "3");
///     transaction.put("stock", "2")?;
/// }
/// one.commit()?;
/// // Otherwise one of two sold pieces would still be in stock.
/// assert_eq!(other.commit().unwrap_err().kind(), ErrorKind::Conflict);
/// # Ok::<(), cleavedb::Error>(())
/// ```
pub struct Transaction {
    database: Arc<dyn Commits>,
    snapshot: Snapshot,
    reads: Arc<Mutex<ReadSet>>,
    writes: Writes,
    /// Memory that its commit takes, in bytes.
    takes: usize,
    /// Keyspaces that it has read or written besides the default one, each once.
    keyspaces: Vec<Arc<CatalogEntry>>,
    /// Ranges that it has deleted before these writes, by their tree keys.
    ranges: Vec<(Vec<u8>, Vec<u8>)>,
    /// What takes back each change since the first savepoint.
    undo: Vec<Undo>,
    has_savepoint: bool,
    /// The one blob that gets another lifetime, if it does nothing else.
    renewed: Option<Renewed>,
    watch: Watch,
}

debug!(Transaction, |_| {});

/// The open database, to which a transaction is committed.
pub(crate) trait Commits: Send + Sync {
    /// The engine; fails if the database is closed.
    fn open_engine(&self) -> Result<&Engine>;
    /// The engine, ready for writes.
    fn writable(&self) -> Result<&Engine>;
}

/// The commits of others are noted as long as it is held.
struct Watch {
    engine: Own<Arc<Engine>>,
    seq: SeqNo,
}

impl Drop for Watch {
    fn drop(&mut self) {
        if self.engine.gate.is_own() {
            self.engine.commit.recent_writes.unwatch(self.seq);
        }
    }
}

/// What takes back a change of a transaction's writes.
enum Undo {
    /// The key had this write, or none.
    Write(KeptKey, Option<Option<PendingPut>>),
    /// A range was added.
    Range,
}

/// A state of a transaction's writes, to return to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Savepoint(usize);

impl Transaction {
    /// Begins a transaction that sees everything that was written before. `snapshot` takes a
    /// snapshot of that.
    pub(crate) fn begin(
        engine: Own<Arc<Engine>>,
        database: Arc<dyn Commits>,
        snapshot: impl FnOnce() -> Snapshot,
    ) -> Result<Self> {
        let seq = engine.commit.watch();
        let watch = Watch { engine, seq };
        let snapshot = snapshot();
        let reads = Arc::new(Mutex::new(ReadSet::new(snapshot.at()?.seq)));
        Ok(Self {
            database,
            snapshot,
            reads,
            writes: Writes::new(),
            takes: 0,
            ranges: Vec::new(),
            keyspaces: Vec::new(),
            undo: Vec::new(),
            has_savepoint: false,
            renewed: None,
            watch,
        })
    }

    /// The transaction's reads and writes of a keyspace:
    /// `transaction.keyspace(&users).get("key")?`.
    pub fn keyspace(&mut self, within: impl AsRef<KeyspaceRef>) -> KeyspaceTransaction<'_> {
        let KeyspaceRef(entry) = within.as_ref();
        let is_it = |known: &Arc<CatalogEntry>| Arc::ptr_eq(known, entry);
        if !is_it(&self.watch.engine.catalog.default) && !self.keyspaces.iter().any(is_it) {
            self.keyspaces.push(entry.clone());
        }
        let snapshot = self.snapshot.keyspace(&within);
        KeyspaceTransaction { transaction: self, snapshot }
    }

    /// The value of `key`, its own writes included.
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Bytes>> {
        self.get_from(&self.snapshot, key.as_ref())
    }

    fn get_from(&self, snapshot: &Snapshot, key: &[u8]) -> Result<Option<Bytes>> {
        match self.own(snapshot, key)? {
            Some(own) => Ok(own.map(|put| put.value())),
            None => snapshot.get(key),
        }
    }

    /// The values of `keys`, in their order, its own writes included.
    pub fn multi_get<K: AsRef<[u8]>>(&self, keys: &[K]) -> Vec<Result<Option<Bytes>>> {
        self.multi_get_from(&self.snapshot, keys)
    }

    fn multi_get_from<K: AsRef<[u8]>>(
        &self,
        snapshot: &Snapshot,
        keys: &[K],
    ) -> Vec<Result<Option<Bytes>>> {
        let own: Vec<_> = keys.iter().map(|key| self.own(snapshot, key.as_ref())).collect();
        let others = keys.iter().zip(&own).filter(|(_, own)| matches!(own, Ok(None)));
        let others: Vec<&[u8]> = others.map(|(key, _)| key.as_ref()).collect();
        let mut found = snapshot.multi_get(&others).into_iter();
        let value = |own: Result<Option<Option<PendingPut>>>| match own? {
            Some(own) => Ok(own.map(|put| put.value())),
            None => found.next().unwrap_or(Ok(None)),
        };
        own.into_iter().map(value).collect()
    }

    /// The first key and its value, with its own writes.
    pub fn first_key_value(&self) -> Result<Option<Item>> {
        self.range(..).next().transpose()
    }

    /// The last key and its value, with its own writes.
    pub fn last_key_value(&self) -> Result<Option<Item>> {
        self.range(..).next_back().transpose()
    }

    /// Removes the first key at the commit, and returns it with its value; `None` if there is no
    /// key.
    pub fn pop_first(&mut self) -> Result<Option<Item>> {
        self.take(self.snapshot.target(), self.first_key_value()?)
    }

    /// Removes the last key at the commit, and returns it with its value; `None` if there is no
    /// key.
    pub fn pop_last(&mut self) -> Result<Option<Item>> {
        self.take(self.snapshot.target(), self.last_key_value()?)
    }

    /// The value of `key`, its own writes included, and when it expires, if it does.
    pub fn get_with_expiry(
        &self,
        key: impl AsRef<[u8]>,
    ) -> Result<Option<(Bytes, Option<SystemTime>)>> {
        self.get_with_expiry_from(&self.snapshot, key.as_ref())
    }

    fn get_with_expiry_from(
        &self,
        snapshot: &Snapshot,
        key: &[u8],
    ) -> Result<Option<(Bytes, Option<SystemTime>)>> {
        match self.own(snapshot, key)? {
            Some(own) => Ok(own.map(|put| (put.value(), put.until.time()))),
            None => snapshot.get_with_expiry(key),
        }
    }

    /// Whether `key` is there, its own writes included.
    pub fn contains_key(&self, key: impl AsRef<[u8]>) -> Result<bool> {
        self.is_in(&self.snapshot, key.as_ref())
    }

    fn is_in(&self, snapshot: &Snapshot, key: &[u8]) -> Result<bool> {
        match self.own(snapshot, key)? {
            Some(own) => Ok(own.is_some()),
            None => snapshot.contains_key(key),
        }
    }

    /// What it has written under `key`; if it has not, the key is noted as read.
    fn own(&self, snapshot: &Snapshot, key: &[u8]) -> Result<Option<Option<PendingPut>>> {
        let encoded_key = EncodedKey::new(snapshot.keyspace_id(), key);
        let key = encoded_key.as_bytes();
        if let Some(own) = self.writes.get(key) {
            let now = snapshot.at()?.time;
            return Ok(Some(own.clone().filter(|put| !put.until.is_over(now))));
        }
        if self.ranges.iter().any(|(begin, end)| &begin[..] <= key && key < &end[..]) {
            return Ok(Some(None));
        }
        self.reads.lock().add(key);
        Ok(None)
    }

    /// Stores `value` under `key` at the commit. Fails as [`crate::Keyspace::put`] does on a key or
    /// value that is too long, and as [`crate::Db::write`] does if the writes of the transaction
    /// would take too much memory, as its other writes do, too: then this one is left out.
    pub fn put(&mut self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        self.change(self.snapshot.target(), Op::put(key.as_ref(), value.as_ref()))
    }

    /// Removes `key` at the commit, if it exists.
    pub fn delete(&mut self, key: impl AsRef<[u8]>) -> Result<()> {
        self.change(self.snapshot.target(), Op::delete(key.as_ref()))
    }

    /// Changes the value of `key` by `operand` at the commit. In a transaction that is a read and a
    /// put: the key counts as read. The value keeps its expiry; one that begins here lives as its
    /// keyspace says. Fails as [`crate::Keyspace::merge`] does.
    pub fn merge(&mut self, key: impl AsRef<[u8]>, operand: &Operand) -> Result<()> {
        let snapshot = self.snapshot.clone();
        self.merge_into(&snapshot, key.as_ref(), operand)
    }

    fn merge_into(&mut self, snapshot: &Snapshot, key: &[u8], operand: &Operand) -> Result<()> {
        self.merge_stored(snapshot, key, &operand.stored()?)
    }

    /// Stores `value` under `key` at the commit, until `ttl` has passed from now on. Fails as
    /// [`Transaction::put`] does.
    pub fn put_with_ttl(
        &mut self,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        ttl: Duration,
    ) -> Result<()> {
        let op = Op::put_living(key.as_ref(), value.as_ref(), Lifetime::For(ttl));
        self.change(self.snapshot.target(), op)
    }

    /// Stores `value` under `key` at the commit, until `time`, or for good. Fails as
    /// [`Transaction::put`] does.
    pub fn put_until(
        &mut self,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        time: Option<SystemTime>,
    ) -> Result<()> {
        let op = Op::put_living(key.as_ref(), value.as_ref(), Lifetime::until(time));
        self.change(self.snapshot.target(), op)
    }

    /// Removes all keys of a range at the commit: those that are there then, and those that it has
    /// put itself before. That is one small write, and none of the keys counts as read. Fails as
    /// [`crate::Keyspace::delete_range`] does.
    pub fn delete_range(&mut self, range: impl KeyRange) -> Result<()> {
        self.change_range(Bounds::to_change(self.snapshot.keyspace_id(), &range)?)
    }

    /// Keys of a range and their values, in key order, from both ends, with its own writes up to
    /// now.
    pub fn range(&self, range: impl KeyRange) -> Range {
        Range::of(self.cursor(range))
    }

    /// All keys that begin with `prefix`, and their values, with its own writes up to now.
    pub fn prefix(&self, prefix: impl AsRef<[u8]>) -> Range {
        self.range(Prefix(prefix))
    }

    /// A cursor over a range, with its own writes up to now. What it goes past counts as read.
    pub fn cursor(&self, range: impl KeyRange) -> Cursor {
        self.cursor_over(&self.snapshot, range)
    }

    fn cursor_over(&self, snapshot: &Snapshot, range: impl KeyRange) -> Cursor {
        let bounds = Bounds::of(snapshot.keyspace_id(), &range);
        let seq = self.reads.lock().seq;
        let Bounds { lower, upper, .. } = &bounds;
        let writes = PendingWrites::new(&self.writes, &self.ranges, lower, upper, seq);
        snapshot.cursor(range).within(writes, self.reads.clone())
    }

    /// A state of its writes to which [`Transaction::rollback_to`] returns.
    pub fn savepoint(&mut self) -> Savepoint {
        self.has_savepoint = true;
        Savepoint(self.undo.len())
    }

    /// Takes back all writes since `savepoint`; later savepoints lose their meaning. What was read
    /// since still counts as read. Fails with [`ErrorKind::InvalidArgument`] if `savepoint` was
    /// taken back itself.
    pub fn rollback_to(&mut self, savepoint: Savepoint) -> Result<()> {
        if savepoint.0 > self.undo.len() {
            let what = "the transaction was taken back to before this savepoint";
            return Err(Error::new(ErrorKind::InvalidArgument, what));
        }
        for undo in self.undo.split_off(savepoint.0).into_iter().rev() {
            match undo {
                Undo::Write(key, before) => _ = self.set(key, before),
                Undo::Range => {
                    let range = self.ranges.pop();
                    self.takes -= range.map_or(0, |(begin, end)| range_memory(&begin, &end));
                }
            }
        }
        Ok(())
    }

    /// Commits with the database's default durability: see [`Transaction::commit_with`].
    pub fn commit(self) -> Result<()> {
        let durability = self.database.open_engine()?.options.durability;
        self.commit_with(durability)
    }

    /// Writes everything as one batch, if no other commit has written what was read; fails with
    /// [`ErrorKind::Conflict`] otherwise, and as [`crate::Db::write`] does. After an error of these
    /// kinds nothing was written. Without writes it succeeds: all that was read is as of one
    /// moment.
    pub fn commit_with(self, durability: Durability) -> Result<()> {
        if self.writes.is_empty() && self.ranges.is_empty() && self.renewed.is_none() {
            return self.database.open_engine().map(drop);
        }
        let engine = self.database.writable()?;
        let keyspaces = &self.keyspaces;
        // A cursor that is still held has nothing to add to what is committed.
        let reads = std::mem::take(&mut *self.reads.lock());
        let terms = Terms { reads: Some(&reads), keyspaces, ..Terms::default() };
        if let Some(renewed) = &self.renewed {
            return renewed.commit(engine, durability, terms);
        }
        let default = &engine.catalog.default;
        let ranges = self.ranges.iter().map(|(begin, end)| (Change::Range(begin, end), default));
        let writes = self.writes.iter().filter_map(|(key, put)| self.write_of(key, put));
        write::write_changes(engine, ranges.chain(writes), durability, terms)?;
        dictionaries::make_due(engine);
        Ok(())
    }

    /// Drops it without effect, as a drop does.
    pub fn rollback(self) {}
}

/// The reads and writes of a transaction in one keyspace; see [`Transaction::keyspace`].
pub struct KeyspaceTransaction<'t> {
    transaction: &'t mut Transaction,
    snapshot: Snapshot,
}

debug!(KeyspaceTransaction<'_>, |_| {});
