//! Reading changes, as callers ask for it.

use cleavedb_base::{Error, ErrorKind, Result};

use super::Db;
use crate::background::log_retention;
use crate::copies::changes::{ChangeBatch, ChangeKind, ChangeSource, Changes};
use crate::operations::batch::WriteBatch;
use crate::writes::dictionaries;

impl Db {
    /// What was committed from sequence number `from` on, in all keyspaces, in commit order, each
    /// batch once, with whole values: for replicas and caches. A batch is returned once readers of
    /// this handle see it. Needs [`crate::Options::change_retention_bytes`].
    ///
    /// Sequence numbers are never used again. A batch says from which number on to go on
    /// ([`crate::ChangeBatch::next_seq`]), also after a close or a crash; from within a batch on,
    /// all of it is returned. What a reader must have before is what a snapshot sees:
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let path = dir.path().join("db");
    /// use cleavedb::{ChangeKind, Db, Options};
    ///
    /// let options = Options { change_retention_bytes: Some(64 << 20), ..Options::default() };
    /// let db = Db::open(&path, options)?;
    /// db.put("apple", "red")?;
    ///
    /// let snapshot = db.snapshot();
    /// assert_eq!(snapshot.range(..).count(), 1);
    /// db.put("banana", "yellow")?;
    /// let mut changes = db.changes(snapshot.seq() + 1)?;
    /// let batch = changes.next().unwrap()?;
    /// assert!(matches!(&batch.changes[0].kind, ChangeKind::Put { key, .. } if key == "banana"));
    /// assert!(changes.next().is_none());
    ///
    /// db.delete("apple")?;
    /// assert_eq!(changes.next().unwrap()?.first, batch.next_seq());
    /// # Ok::<(), cleavedb::Error>(())
    /// ```
    ///
    /// Batches whose commits asked for less than [`crate::Durability::Sync`] may be lost with the
    /// power after they were returned, unless [`Changes::durable_only`] is asked for. What a
    /// [`crate::Options::filter`] drops, and what expires, is no change.
    ///
    /// On a secondary ([`Db::open_secondary`]) these are the changes of the primary, up to where it
    /// has caught up; [`Changes::wait`] has it catch up. The primary neither knows of it nor waits,
    /// and may be closed, killed and opened again: the reader goes on, unless what it has returned
    /// is lost or what it needs is not kept any more, which is [`crate::ErrorKind::NotRetained`].
    ///
    /// Fails with [`crate::ErrorKind::NotRetained`] if no changes are kept, if those from `from` on
    /// are not all there any more ([`Db::oldest_change`]), and if the reader has seen changes that
    /// were lost since. A batch is in memory as a whole, with its values.
    pub fn changes(&self, from: u64) -> Result<Changes> {
        let source = match &self.default.inner.follower {
            Some(follower) => ChangeSource::Followed(follower.clone()),
            None => ChangeSource::Own(self.own_engine()?),
        };
        source.check_open()?;
        Changes::new(source, from)
    }

    /// The sequence number from which on [`Db::changes`] has everything that is committed; `None`
    /// if no changes are kept. It grows as the log does.
    pub fn oldest_change(&self) -> Option<u64> {
        self.engine_now().retained_log.first_seq()
    }

    /// Gives up the changes up to sequence number `upto`, all so far with `u64::MAX`: their log
    /// files are removed once the database does not need them for itself. What was deleted before
    /// can then leave the disk ([`crate::Keyspace::collect_range`]). Does nothing if no changes are
    /// kept.
    pub fn drop_changes(&self, upto: u64) -> Result<()> {
        self.default.open_engine()?;
        let engine = self.default.inner.writable()?;
        log_retention::give_up(engine, upto)?;
        if dictionaries::forget(engine)? {
            // What it has written is a change, too.
            log_retention::give_up(engine, upto)?;
        }
        Ok(())
    }

    /// Makes the changes that another database has told, by one write with the default durability;
    /// drops of keyspaces, which are batches of their own, by [`Db::drop_keyspace`]. What was
    /// applied before must not be applied again if it has merges: [`Db::add_changes`] has a program
    /// store in the same write how far it is. Fails as that does.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// use cleavedb::Db;
    ///
    /// let source = Db::builder(dir.path().join("a")).change_retention_bytes(64 << 20).open()?;
    /// let replica = Db::builder(dir.path().join("b")).open()?;
    /// source.keyspace("fruit")?.put("apple", "red")?;
    /// for batch in source.changes(1)? {
    ///     replica.apply_changes(&batch?)?;
    /// }
    /// assert_eq!(replica.keyspace("fruit")?.get("apple")?.unwrap(), "red");
    /// # Ok::<(), cleavedb::Error>(())
    /// ```
    pub fn apply_changes(&self, batch: &ChangeBatch) -> Result<()> {
        let mut writes = WriteBatch::new();
        self.add_changes(batch, &mut writes)?;
        self.write(&writes)
    }

    /// Adds the changes that another database has told to `writes`, for a write to this one, where
    /// keyspaces are created, with default options, and dropped at once. Fails with
    /// [`ErrorKind::InvalidArgument`], and adds nothing, if a change does not tell what it puts
    /// ([`ChangeKind::PutBlob`], [`ChangeKind::Loaded`]): a program copies that from where the
    /// changes are from.
    pub fn add_changes(&self, batch: &ChangeBatch, writes: &mut WriteBatch) -> Result<()> {
        let is_told = |kind: &ChangeKind| {
            !matches!(kind, ChangeKind::PutBlob { .. } | ChangeKind::Loaded { .. })
        };
        if let Some(change) = batch.changes.iter().find(|change| !is_told(&change.kind)) {
            let what = "a blob or a bulk load is not told with its values; copy them from the \
                        database that the changes are from";
            return Err(Error::new(ErrorKind::InvalidArgument, what).with("seq", change.seq));
        }
        for change in &batch.changes {
            if change.kind == ChangeKind::KeyspaceDropped {
                // A program that has stopped before it stored how far it was may come again.
                if self.find_keyspace(&change.keyspace)?.is_some() {
                    self.drop_keyspace(&change.keyspace)?;
                }
                continue;
            }
            let keyspace = self.keyspace(&change.keyspace)?;
            let mut writes = writes.keyspace(&keyspace);
            match &change.kind {
                ChangeKind::Put { key, value, expires } => {
                    writes.put_until(key, value, *expires)?;
                }
                ChangeKind::Delete { key } => _ = writes.delete(key)?,
                ChangeKind::DeleteRange { from, upto } => {
                    writes.delete_range((Some(from), upto.as_ref()))?;
                }
                ChangeKind::Merge { key, operand } => _ = writes.merge(key, operand)?,
                _ => {}
            }
        }
        Ok(())
    }
}
