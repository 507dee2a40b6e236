//! Writes of batches, and merges that have to read.

use cleavedb_base::{Error, ErrorKind, Result};

use super::Db;
use crate::api::transaction::Transaction;
use crate::control::events;
use crate::engine::Engine;
use crate::operations::batch::WriteBatch;
use crate::operations::expiry::may_expire;
use crate::settings::options::Durability;
use crate::writes::dictionaries;
use crate::writes::write::{self, Terms};

/// Attempts of a merge that reads, before it is made without others beside it.
const ATTEMPTS_TOGETHER: usize = 8;

impl Db {
    /// An empty batch that knows the memory of this database: it refuses the operation that would
    /// have [`Db::write`] refuse all of it, and stays as it was, to be written without that one.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = cleavedb::Db::builder(dir.path().join("db")).memory_bytes(48 << 20).open()?;
    /// let mut batch = db.batch();
    /// for i in 0..100_000 {
    ///     if batch.put(format!("key {i}"), "value").is_err() {
    ///         db.write(&batch)?;
    ///         batch.clear();
    ///         batch.put(format!("key {i}"), "value")?;
    ///     }
    /// }
    /// db.write(&batch)?;
    /// assert!(db.contains_key("key 0")? && db.contains_key("key 99999")?);
    /// # Ok::<(), cleavedb::Error>(())
    /// ```
    pub fn batch(&self) -> WriteBatch {
        WriteBatch::within(&self.engine().catalog.default, self.options().batch_max())
    }

    /// Applies a batch with the database's default durability: all of it or nothing, also after a
    /// crash. Fails with [`ErrorKind::InvalidArgument`] if it takes more memory than an eighth of
    /// [`crate::Options::memory_bytes`]; nothing is written then. It takes keys, values that do not
    /// leave the index, and about 50 bytes for each operation; 300, and its value once more, for
    /// one that expires or is compressed. Of 768 MiB 1.1 million puts of 35 bytes fit. A batch that
    /// [`Db::batch`] has begun refuses what would be too much.
    pub fn write(&self, batch: &WriteBatch) -> Result<()> {
        self.write_with(batch, self.options().durability)
    }

    /// As [`Db::write`]. With [`Durability::Sync`] the batch, and everything committed before it,
    /// survives a loss of power once this returns.
    pub fn write_with(&self, batch: &WriteBatch, durability: Durability) -> Result<()> {
        self.write_numbered(batch, durability).map(drop)
    }

    /// As [`Db::write_with`]; returns the sequence number of the last operation, for
    /// [`Db::sync_to`]. For an empty batch, and for one whose merges had to read, it may be that of
    /// a later operation.
    ///
    /// A program with many clients writes with [`Durability::Os`], syncs once for all of them, and
    /// answers those up to [`Db::durable_seq`]; no thread waits for each client.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = cleavedb::Db::open(dir.path().join("db"), Default::default())?;
    /// use cleavedb::{Durability, WriteBatch};
    ///
    /// let mut batch = WriteBatch::new();
    /// batch.put("left", "1")?.put("right", "2")?;
    /// let first = db.write_numbered(&batch, Durability::Os)?;
    /// let second = db.write_numbered(&batch, Durability::Os)?;
    /// assert_eq!(second, first + 2);
    /// db.sync_to(second)?;
    /// assert!(db.durable_seq() >= second);
    /// # Ok::<(), cleavedb::Error>(())
    /// ```
    pub fn write_numbered(&self, batch: &WriteBatch, durability: Durability) -> Result<u64> {
        let engine = self.default.open_engine()?;
        if batch.is_empty() {
            return Ok(engine.commit.visible());
        }
        let engine = self.default.inner.writable()?;
        let last = match self.write_batch(engine, batch, durability, false) {
            Err(e) if e.kind() == ErrorKind::Conflict => {
                self.write_reading(engine, batch, durability)?;
                return Ok(engine.commit.visible());
            }
            written => written?,
        };
        dictionaries::make_due(engine);
        self.shorten_chains(engine, batch.len())?;
        Ok(last)
    }

    /// As [`Db::write_numbered`], for a thread that must not wait, as one of an event loop must
    /// not: fails with [`ErrorKind::WouldWait`], and writes nothing, where [`Db::write`] would
    /// pause, wait for background work, for a bulk load or for another writer, make room in the
    /// log, or read for a merge. Then another thread calls [`Db::write_numbered`]. A batch longer
    /// than a quarter of the log's window always fails so, and so does [`Durability::Os`] where the
    /// window does not outlive the process.
    ///
    /// Fails with [`ErrorKind::InvalidArgument`] for [`Durability::Sync`], which always waits: see
    /// [`Db::sync_to`]. The first write of an open database waits, since it begins the log.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = cleavedb::Db::open(dir.path().join("db"), Default::default())?;
    /// use cleavedb::{Durability, ErrorKind, WriteBatch};
    ///
    /// let mut batch = WriteBatch::new();
    /// batch.put("key", "value")?;
    /// let seq = match db.try_write(&batch, Durability::Os) {
    ///     Err(e) if e.kind() == ErrorKind::WouldWait => {
    ///         db.write_numbered(&batch, Durability::Os)? // in a thread that may wait
    ///     }
    ///     written => written?,
    /// };
    /// db.sync_to(seq)?; // in a thread that may wait, for all clients at once
    /// # Ok::<(), cleavedb::Error>(())
    /// ```
    pub fn try_write(&self, batch: &WriteBatch, durability: Durability) -> Result<u64> {
        let engine = self.default.open_engine()?;
        if durability == Durability::Sync {
            let what = "a write that does not wait cannot be synced; write it with \
                        Durability::Os, and call sync_to";
            return Err(Error::new(ErrorKind::InvalidArgument, what));
        }
        if batch.is_empty() {
            return Ok(engine.commit.visible());
        }
        let engine = self.default.inner.writable()?;
        if durability == Durability::Os && !engine.commit.log.buffer().survives() {
            return Err(write::would_wait("the window does not outlive the process"));
        }
        // Dictionaries and long chains of operands are left to a write that may wait.
        match self.write_batch(engine, batch, durability, true) {
            Err(e) if e.kind() == ErrorKind::Conflict => {
                Err(write::would_wait("a merge reads what is there"))
            }
            written => written,
        }
    }

    /// Writes a batch; fails with [`ErrorKind::Conflict`] if merges have to read.
    fn write_batch(
        &self,
        engine: &Engine,
        batch: &WriteBatch,
        durability: Durability,
        at_once: bool,
    ) -> Result<u64> {
        let default = &engine.catalog.default;
        let reads = || batch.merges(default).any(|(at, key)| may_expire(&engine.state, at, key));
        let has_merges = batch.merges(default).next().is_some();
        if has_merges && reads() {
            return Err(write::must_read());
        }
        let must_read = has_merges.then_some(&reads as &dyn Fn() -> bool);
        let keyspaces = batch.keyspaces();
        let terms = Terms { keyspaces, must_read, at_once, ..Terms::default() };
        write::write_changes(engine, batch.changes(default), durability, terms)
    }

    /// The sequence number up to which every operation survives a loss of power, by a sync or by a
    /// flush. Takes no lock.
    pub fn durable_seq(&self) -> u64 {
        self.default.inner.engine_now().commit.durable()
    }

    /// Makes every operation up to the sequence number `seq`, as [`Db::write_numbered`] and
    /// [`Db::try_write`] return it, survive a loss of power; one sync does for all callers that
    /// wait. Returns at once if they do already. A number beyond the last operation stands for
    /// that.
    pub fn sync_to(&self, seq: u64) -> Result<()> {
        let engine = self.default.open_engine()?;
        if engine.commit.durable() >= seq {
            return Ok(());
        }
        self.sync_by(|commit| commit.sync_upto(seq))
    }

    /// Writes a batch as a transaction.
    #[cold]
    pub(crate) fn write_reading(
        &self,
        engine: &Engine,
        batch: &WriteBatch,
        durability: Durability,
    ) -> Result<()> {
        self.merge_reading(engine, durability, |transaction| {
            let mut changes = batch.changes(&engine.catalog.default);
            changes.try_for_each(|(change, keyspace)| transaction.apply(change, keyspace))
        })
    }

    /// Makes merges that read. One that others overtake again and again gets its turn alone: a
    /// thread that has to pause between two attempts would lose to one that does not.
    #[cold]
    pub(crate) fn merge_reading(
        &self,
        engine: &Engine,
        durability: Durability,
        mut merge: impl FnMut(&mut Transaction) -> Result<()>,
    ) -> Result<()> {
        // A listener may be called by a merge that has the turn.
        let may_wait = events::check_may_wait().is_ok();
        for _ in 0..ATTEMPTS_TOGETHER {
            let _together = may_wait.then(|| engine.merges.turn.read());
            match self.attempt(durability, &mut merge) {
                Err(e) if e.kind() == ErrorKind::Conflict => {}
                done => return done,
            }
        }
        let _alone = may_wait.then(|| engine.merges.turn.write());
        self.transact_with(durability, merge)
    }
}
