//! The reads and writes of a transaction in one keyspace.

use std::time::{Duration, SystemTime};

use bytes::Bytes;
use cleavedb_base::Result;

use super::KeyspaceTransaction;
use crate::operations::batch::Op;
use crate::operations::bounds::{Bounds, KeyRange, Prefix};
use crate::reads::cursor::Cursor;
use crate::reads::item::Item;
use crate::reads::range::Range;
use crate::settings::merge::Operand;
use crate::settings::time::Lifetime;
use crate::store::snapshot::ReadPoint;

impl KeyspaceTransaction<'_> {
    /// The value of `key`, with the writes of the transaction.
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Bytes>> {
        self.transaction.get_from(&self.snapshot, key.as_ref())
    }

    /// The values of `keys`, in their order, with the writes of the transaction.
    pub fn multi_get<K: AsRef<[u8]>>(&self, keys: &[K]) -> Vec<Result<Option<Bytes>>> {
        self.transaction.multi_get_from(&self.snapshot, keys)
    }

    /// The first key and its value, with the writes of the transaction.
    pub fn first_key_value(&self) -> Result<Option<Item>> {
        self.range(..).next().transpose()
    }

    /// The last key and its value, with the writes of the transaction.
    pub fn last_key_value(&self) -> Result<Option<Item>> {
        self.range(..).next_back().transpose()
    }

    /// Removes the first key at the commit; see [`crate::Transaction::pop_first`].
    pub fn pop_first(&mut self) -> Result<Option<Item>> {
        self.transaction.take(self.snapshot.target(), self.first_key_value()?)
    }

    /// Removes the last key at the commit; see [`crate::Transaction::pop_last`].
    pub fn pop_last(&mut self) -> Result<Option<Item>> {
        self.transaction.take(self.snapshot.target(), self.last_key_value()?)
    }

    /// Whether `key` is there, with the writes of the transaction.
    pub fn contains_key(&self, key: impl AsRef<[u8]>) -> Result<bool> {
        self.transaction.is_in(&self.snapshot, key.as_ref())
    }

    /// Stores `value` under `key` at the commit. Fails as [`crate::Transaction::put`] does.
    pub fn put(&mut self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        let op = Op::put(key.as_ref(), value.as_ref());
        self.transaction.change(self.snapshot.target(), op)
    }

    /// The value of `key`, and when it expires; see [`crate::Transaction::get_with_expiry`].
    pub fn get_with_expiry(
        &self,
        key: impl AsRef<[u8]>,
    ) -> Result<Option<(Bytes, Option<SystemTime>)>> {
        self.transaction.get_with_expiry_from(&self.snapshot, key.as_ref())
    }

    /// Stores `value` under `key` at the commit, until `ttl` has passed from now on. Fails as
    /// [`crate::Transaction::put`] does.
    pub fn put_with_ttl(
        &mut self,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        ttl: Duration,
    ) -> Result<()> {
        let op = Op::put_living(key.as_ref(), value.as_ref(), Lifetime::For(ttl));
        self.transaction.change(self.snapshot.target(), op)
    }

    /// Stores `value` under `key` at the commit, until `time`, or for good. Fails as
    /// [`crate::Transaction::put`] does.
    pub fn put_until(
        &mut self,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        time: Option<SystemTime>,
    ) -> Result<()> {
        let op = Op::put_living(key.as_ref(), value.as_ref(), Lifetime::until(time));
        self.transaction.change(self.snapshot.target(), op)
    }

    /// Changes the value of `key` by `operand` at the commit; see [`crate::Transaction::merge`].
    pub fn merge(&mut self, key: impl AsRef<[u8]>, operand: &Operand) -> Result<()> {
        self.transaction.merge_into(&self.snapshot, key.as_ref(), operand)
    }

    /// The moment at which it reads.
    pub(crate) fn read_point(&self) -> Result<ReadPoint> {
        self.snapshot.at()
    }

    /// Removes `key` at the commit, if it exists.
    pub fn delete(&mut self, key: impl AsRef<[u8]>) -> Result<()> {
        self.transaction.change(self.snapshot.target(), Op::delete(key.as_ref()))
    }

    /// Removes all keys of a range at the commit; see [`crate::Transaction::delete_range`].
    pub fn delete_range(&mut self, range: impl KeyRange) -> Result<()> {
        self.transaction.change_range(Bounds::to_change(self.snapshot.keyspace_id(), &range)?)
    }

    /// Keys of a range and their values, with the writes of the transaction up to now.
    pub fn range(&self, range: impl KeyRange) -> Range {
        Range::of(self.cursor(range))
    }

    /// All keys that begin with `prefix`, and their values.
    pub fn prefix(&self, prefix: impl AsRef<[u8]>) -> Range {
        self.range(Prefix(prefix))
    }

    /// A cursor over a range. What it goes past counts as read.
    pub fn cursor(&self, range: impl KeyRange) -> Cursor {
        self.transaction.cursor_over(&self.snapshot, range)
    }
}
