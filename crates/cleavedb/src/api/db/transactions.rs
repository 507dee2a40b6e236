//! Transactions of a database, and how they are tried again.

use std::time::Duration;

use cleavedb_base::sync::thread;
use cleavedb_base::{ErrorKind, Result};

use super::Db;
use crate::api::transaction::Transaction;
use crate::operations::own_writes::Body;
use crate::settings::options::Durability;

/// Attempts of [`Db::transact`] before it begins to pause between two, all of them, and its longest
/// pause.
const ATTEMPTS_AT_ONCE: u32 = 4;
const ATTEMPTS_MAX: u32 = 1000;
const PAUSE_MAX: Duration = Duration::from_millis(2);

impl Db {
    /// Begins a transaction, which sees everything that was written before.
    pub fn transaction(&self) -> Result<Transaction> {
        Transaction::begin(self.own_engine()?, self.default.inner.clone(), || self.snapshot())
    }

    /// Runs `body` in a transaction and commits it, again and again until the commit meets no
    /// conflict: each that does was overtaken by a commit of another. Fails with
    /// [`ErrorKind::Conflict`] after 1,000 attempts, as a body does that takes longer than others
    /// leave alone what it reads: read less, or write it in pieces. Returns what `body` returned at
    /// last; if that is an error, nothing was written. [`crate::Error::other`] carries an error of
    /// the program itself.
    ///
    /// A body that writes what its transaction has read through the database, or a handle of it,
    /// instead of the transaction would conflict with itself at each attempt: fails with
    /// [`ErrorKind::InvalidArgument`] then. Other writes through the database are made at once, at
    /// each attempt, whatever becomes of the transaction.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = cleavedb::Db::open(dir.path().join("db"), Default::default())?;
    /// db.put("visits", 41u64.to_be_bytes())?;
    /// let visits = db.transact(|transaction| {
    ///     let old = transaction.get("visits")?.unwrap_or_default();
    ///     let visits = old[..].try_into().map_or(0, u64::from_be_bytes) + 1;
    ///     transaction.put("visits", visits.to_be_bytes())?;
    ///     Ok(visits)
    /// })?;
    /// assert_eq!(visits, 42);
    /// # Ok::<(), cleavedb::Error>(())
    /// ```
    pub fn transact<T>(&self, body: impl FnMut(&mut Transaction) -> Result<T>) -> Result<T> {
        self.transact_with(self.engine().options.durability, body)
    }

    /// As [`Db::transact`], with another durability of the commit.
    pub fn transact_with<T>(
        &self,
        durability: Durability,
        mut body: impl FnMut(&mut Transaction) -> Result<T>,
    ) -> Result<T> {
        let mut attempts = 0;
        loop {
            match self.attempt(durability, &mut body) {
                Err(e) if e.kind() == ErrorKind::Conflict && attempts < ATTEMPTS_MAX - 1 => {}
                Err(e) if e.kind() == ErrorKind::Conflict => {
                    return Err(e.with("attempts", ATTEMPTS_MAX));
                }
                done => return done,
            }
            attempts += 1;
            pause(attempts);
        }
    }

    /// Runs `body` in a transaction and commits it, once.
    pub(crate) fn attempt<T>(
        &self,
        durability: Durability,
        body: &mut impl FnMut(&mut Transaction) -> Result<T>,
    ) -> Result<T> {
        let _body = Body::begin();
        let mut transaction = self.transaction()?;
        let answer = body(&mut transaction)?;
        transaction.commit_with(durability)?;
        Ok(answer)
    }
}

/// Lets others go ahead after some attempts, so that a long transaction meets a quiet moment.
fn pause(attempts: u32) {
    match attempts.checked_sub(ATTEMPTS_AT_ONCE) {
        None => thread::yield_now(),
        Some(more) => thread::sleep(PAUSE_MAX.min(Duration::from_micros(20 << more.min(10)))),
    }
}
