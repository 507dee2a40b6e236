//! Writes of batches, and merges that have to read.

use cleavedb_base::{ErrorKind, Result};

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
        self.default.open_engine()?;
        if batch.is_empty() {
            return Ok(());
        }
        let engine = self.default.inner.writable()?;
        let default = &engine.catalog.default;
        let reads = || batch.merges(default).any(|(at, key)| may_expire(&engine.state, at, key));
        let has_merges = batch.merges(default).next().is_some();
        if has_merges && reads() {
            return self.write_reading(engine, batch, durability);
        }
        let must_read = has_merges.then_some(&reads as &dyn Fn() -> bool);
        let terms = Terms { keyspaces: batch.keyspaces(), must_read, ..Terms::default() };
        let changes = batch.changes(default);
        match write::write_changes(engine, changes, durability, terms) {
            Err(e) if e.kind() == ErrorKind::Conflict => {
                return self.write_reading(engine, batch, durability);
            }
            written => written?,
        }
        dictionaries::make_due(engine);
        self.shorten_chains(engine, batch.len())
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
