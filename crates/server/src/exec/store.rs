//! The store of a server: its databases on the engine.

use std::ops::Bound;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, UNIX_EPOCH};

use bytes::Bytes;
use cleavedb::{Db, Durability, Error, ErrorKind, Keyspace, PutLifetime, Resident, WriteBatch};

use super::view::{Change, Effects, Reads, Visit, head};
use super::{Answer, Halt, Locks, Watches};
use crate::resp::reply::Reply;

/// An open store, with what its commands share.
pub struct Store {
    db: Db,
    /// The keyspace of each database's keys.
    databases: Vec<Keyspace>,
    /// Locks of keys.
    pub locks: Locks,
    /// Keys that clients watch.
    pub watches: Watches,
    /// The number of the last write.
    written: AtomicU64,
}

impl Store {
    /// The databases of `db`, which are made if they are not there.
    pub fn open(db: Db, databases: usize) -> cleavedb::Result<Self> {
        let name = |number: usize| format!("{number}:k");
        let databases = (0..databases).map(|number| db.keyspace(&name(number)));
        let databases = databases.collect::<cleavedb::Result<_>>()?;
        Ok(Self {
            db,
            databases,
            locks: Locks::default(),
            watches: Watches::default(),
            written: AtomicU64::new(0),
        })
    }

    /// The engine.
    pub fn db(&self) -> &Db {
        &self.db
    }

    /// Number of databases.
    pub fn databases(&self) -> usize {
        self.databases.len()
    }

    /// The records, read without a wait, or with one if it `may_wait`.
    pub fn reads(&self, may_wait: bool) -> StoredRecords<'_> {
        StoredRecords { store: self, may_wait }
    }

    /// Writes what commands have changed, as one; it survives the death of the process. Without
    /// `may_wait` it stops where it would have to, and nothing is written.
    pub fn commit(&self, effects: &Effects<'_>, may_wait: bool) -> Answer<()> {
        let batch = self.batch(effects).map_err(failed)?;
        let written = match may_wait {
            true => self.db.write_numbered(&batch, Durability::Os),
            false => self.db.try_write(&batch, Durability::Os),
        };
        let seq = written.map_err(failed)?;
        self.written.fetch_max(seq, Ordering::AcqRel);
        Ok(())
    }

    /// The number of the last write.
    pub fn written(&self) -> u64 {
        self.written.load(Ordering::Acquire)
    }

    fn batch(&self, effects: &Effects<'_>) -> cleavedb::Result<WriteBatch> {
        let mut batch = self.db.batch();
        for database in &effects.cleared {
            batch.keyspace(&self.databases[*database]).delete_range(..)?;
        }
        for ((database, key), change) in &effects.keys {
            let mut within = batch.keyspace(&self.databases[*database]);
            match change {
                Change::Delete => within.delete(key)?,
                Change::Put(value, until) => {
                    let lifetime = until.map_or(PutLifetime::Forever, |until| {
                        PutLifetime::Until(UNIX_EPOCH + Duration::from_millis(until))
                    });
                    within.put_parts_with(key, &[head(*until).as_bytes(), value], lifetime)?
                }
            };
        }
        Ok(batch)
    }
}

/// The records of a store.
#[derive(Clone, Copy)]
pub struct StoredRecords<'a> {
    store: &'a Store,
    may_wait: bool,
}

impl Reads for StoredRecords<'_> {
    fn databases(&self) -> usize {
        self.store.databases()
    }

    fn get(&self, database: usize, key: &[u8]) -> Answer<Option<Bytes>> {
        let keyspace = &self.store.databases[database];
        if self.may_wait {
            return keyspace.get(key).map_err(failed);
        }
        match keyspace.get_resident(key).map_err(failed)? {
            Resident::Found(value) => Ok(value),
            Resident::Elsewhere => Err(Halt::Wait),
        }
    }

    fn walk(
        &self,
        database: usize,
        from: &[u8],
        with_records: bool,
        visit: &mut Visit<'_>,
    ) -> Answer<()> {
        if !self.may_wait {
            return Err(Halt::Wait);
        }
        let range = (Bound::Included(from), Bound::Unbounded);
        let range = self.store.databases[database].range(range);
        let range = if with_records { range } else { range.keys_only() };
        for item in range {
            let item = item.map_err(failed)?;
            if visit(&item.key, &item.value).is_break() {
                break;
            }
        }
        Ok(())
    }
}

/// What a client is told of an error of the engine: first the word that clients know.
pub fn failed(error: Error) -> Halt {
    let word = match error.kind() {
        ErrorKind::WouldWait => return Halt::Wait,
        ErrorKind::NoSpace => "OOM command not allowed when the disk is full:",
        ErrorKind::Poisoned => "MISCONF writes have failed:",
        ErrorKind::Corruption => "ERR damaged:",
        _ => "ERR",
    };
    Halt::Error(Reply::error(format!("{word} {error}")))
}
