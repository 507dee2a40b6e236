//! Conditional writes: single calls that read and write a key as one step, made of transactions.

use bytes::Bytes;
use cleavedb_base::Result;

use super::Keyspace;
use crate::api::transaction::{KeyspaceTransaction, Transaction};
use crate::reads::item::Item;
use crate::settings::options::Durability;
use crate::settings::put_options::PutOptions;

/// Writes that depend on what is there. Each is atomic: of several threads that call it at once,
/// each sees what those before it have left.
impl Keyspace {
    /// Stores `value` under `key` if the key is not there. Returns whether it did.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = cleavedb::Db::open(dir.path().join("db"), Default::default())?;
    /// # let keyspace = db.keyspace("examples")?;
    /// assert!(keyspace.put_if_absent("leader", "node 1")?);
    /// assert!(!keyspace.put_if_absent("leader", "node 2")?);
    /// # Ok::<(), cleavedb::Error>(())
    /// ```
    pub fn put_if_absent(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<bool> {
        self.put_if_absent_with(key, value, PutOptions::new())
    }

    /// As [`Keyspace::put_if_absent`], with a durability or other [`PutOptions`].
    pub fn put_if_absent_with(
        &self,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        options: impl Into<PutOptions>,
    ) -> Result<bool> {
        self.compare_and_swap_with(key, None::<&[u8]>, Some(value), options)
    }

    /// Gives `key` the value `new`, or removes it if that is `None`, if its value is `expected`:
    /// `None` stands for a key that is not there. Returns whether it did.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = cleavedb::Db::open(dir.path().join("db"), Default::default())?;
    /// # let keyspace = db.keyspace("examples")?;
    /// keyspace.put("state", "idle")?;
    /// assert!(keyspace.compare_and_swap("state", Some("idle"), Some("busy"))?);
    /// assert!(!keyspace.compare_and_swap("state", Some("idle"), Some("busy"))?);
    /// # Ok::<(), cleavedb::Error>(())
    /// ```
    pub fn compare_and_swap(
        &self,
        key: impl AsRef<[u8]>,
        expected: Option<impl AsRef<[u8]>>,
        new: Option<impl AsRef<[u8]>>,
    ) -> Result<bool> {
        self.compare_and_swap_with(key, expected, new, PutOptions::new())
    }

    /// As [`Keyspace::compare_and_swap`], with a durability or other [`PutOptions`].
    pub fn compare_and_swap_with(
        &self,
        key: impl AsRef<[u8]>,
        expected: Option<impl AsRef<[u8]>>,
        new: Option<impl AsRef<[u8]>>,
        options: impl Into<PutOptions>,
    ) -> Result<bool> {
        let (key, PutOptions { durability, lifetime }) = (key.as_ref(), options.into());
        let expected = expected.as_ref().map(AsRef::as_ref);
        self.transact_here_with(durability, |transaction| {
            if transaction.get(key)?.as_deref() != expected {
                return Ok(false);
            }
            match &new {
                Some(value) => transaction.put_living(key, value.as_ref(), lifetime)?,
                None => transaction.delete(key)?,
            }
            Ok(true)
        })
    }

    /// Removes `key` if it is there and `condition` is true for its value. Returns whether it did.
    /// The condition is asked again if another thread changes the value meanwhile.
    pub fn delete_if(
        &self,
        key: impl AsRef<[u8]>,
        mut condition: impl FnMut(&[u8]) -> bool,
    ) -> Result<bool> {
        let key = key.as_ref();
        self.transact_here(|transaction| {
            let deletes = transaction.get(key)?.is_some_and(|value| condition(&value));
            if deletes {
                transaction.delete(key)?;
            }
            Ok(deletes)
        })
    }

    /// Gives `key` the value that `change` makes of the one that is there (`None` if there is
    /// none), or removes it if that is `None`. Returns the new value. The change is made again if
    /// another thread changes the value meanwhile.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = cleavedb::Db::open(dir.path().join("db"), Default::default())?;
    /// # let keyspace = db.keyspace("examples")?;
    /// let longer = |old: Option<&[u8]>| Some([old.unwrap_or_default(), b"x"].concat());
    /// keyspace.update("key", longer)?;
    /// assert_eq!(keyspace.update("key", longer)?.unwrap(), "xx");
    /// # Ok::<(), cleavedb::Error>(())
    /// ```
    pub fn update<V: Into<Bytes>>(
        &self,
        key: impl AsRef<[u8]>,
        change: impl FnMut(Option<&[u8]>) -> Option<V>,
    ) -> Result<Option<Bytes>> {
        self.update_with(key, change, PutOptions::new())
    }

    /// As [`Keyspace::update`], with a durability or other [`PutOptions`].
    pub fn update_with<V: Into<Bytes>>(
        &self,
        key: impl AsRef<[u8]>,
        mut change: impl FnMut(Option<&[u8]>) -> Option<V>,
        options: impl Into<PutOptions>,
    ) -> Result<Option<Bytes>> {
        let (key, PutOptions { durability, lifetime }) = (key.as_ref(), options.into());
        self.transact_here_with(durability, |transaction| {
            let old = transaction.get(key)?;
            let new = change(old.as_deref()).map(Into::into);
            match &new {
                Some(value) => transaction.put_living(key, value, lifetime)?,
                None if old.is_some() => transaction.delete(key)?,
                None => {}
            }
            Ok(new)
        })
    }

    /// Removes the first key and returns it with its value; `None` if there is no key.
    pub fn pop_first(&self) -> Result<Option<Item>> {
        self.transact_here(|transaction| transaction.pop_first())
    }

    /// Removes the last key and returns it with its value; `None` if there is no key.
    pub fn pop_last(&self) -> Result<Option<Item>> {
        self.transact_here(|transaction| transaction.pop_last())
    }

    /// As [`crate::Db::transact`], on this keyspace alone.
    pub(super) fn transact_here<T>(
        &self,
        body: impl FnMut(&mut KeyspaceTransaction<'_>) -> Result<T>,
    ) -> Result<T> {
        self.transact_here_with(None, body)
    }

    fn transact_here_with<T>(
        &self,
        durability: Option<Durability>,
        mut body: impl FnMut(&mut KeyspaceTransaction<'_>) -> Result<T>,
    ) -> Result<T> {
        let durability = durability.unwrap_or(self.inner.engine.options.durability);
        let body = |transaction: &mut Transaction| body(&mut transaction.keyspace(self));
        self.database().transact_with(durability, body)
    }
}
