//! The writes of a transaction, and the memory that its commit takes for them.

use std::ops::Bound;
use std::sync::Arc;

use cleavedb_base::key::{KeptKey, split_encoded_key};
use cleavedb_base::{EncodedKey, Lasting, Result};

use super::{Transaction, Undo};
use crate::operations::batch::{Change, Op, check_end, check_memory, range_memory};
use crate::operations::bounds::Bounds;
use crate::operations::catalog::CatalogEntry;
use crate::reads::item::Item;
use crate::reads::pending_writes::PendingPut;
use crate::settings::time::Lifetime;

impl Transaction {
    /// Adds an operation on a keyspace.
    pub(super) fn change(&mut self, keyspace: Arc<CatalogEntry>, op: Op<'_>) -> Result<()> {
        op.check()?;
        let key = KeptKey::from_slice(EncodedKey::new(keyspace.id, op.key).as_bytes());
        let until = op.lifetime.end(keyspace.lifetime, &self.watch.engine.time);
        let value = op.value.map(|value| PendingPut::new(Lasting { value, until }));
        let before = self.set(key.clone(), Some(value));
        if let Err(e) = self.check_memory(self.takes, 0) {
            self.set(key, before);
            return Err(e);
        }
        if self.has_savepoint {
            self.undo.push(Undo::Write(key, before));
        }
        Ok(())
    }

    /// Fails if its database has no memory for its writes and `more` others, which take `takes`
    /// bytes together.
    fn check_memory(&self, takes: usize, more: usize) -> Result<()> {
        let most = self.watch.engine.options.batch_max();
        check_memory(takes, most, || self.writes.len() + self.ranges.len() + more)
    }

    /// Has it write this under `key`, or nothing; returns what it had.
    pub(super) fn set(
        &mut self,
        key: KeptKey,
        write: Option<Option<PendingPut>>,
    ) -> Option<Option<PendingPut>> {
        let Some(put) = write else {
            let before = self.writes.remove(&key);
            self.takes -= before.as_ref().map_or(0, |before| self.memory(&key, before));
            return before;
        };
        self.takes += self.memory(&key, &put);
        let taken = self.writes.get(&key).map_or(0, |before| self.memory(&key, before));
        self.takes -= taken;
        self.writes.insert(key, put)
    }

    /// Memory that a write takes, in bytes.
    fn memory(&self, key: &[u8], put: &Option<PendingPut>) -> usize {
        let change = self.write_of(key, put);
        change.map_or(0, |(change, keyspace)| change.memory(keyspace))
    }

    /// A write under a tree key, as its commit takes it.
    pub(super) fn write_of<'a>(
        &'a self,
        key: &'a [u8],
        put: &'a Option<PendingPut>,
    ) -> Option<(Change<'a>, &'a Arc<CatalogEntry>)> {
        let (id, key) = split_encoded_key(key)?;
        let keyspace = self.keyspaces.iter().find(|keyspace| keyspace.id == id);
        let op = match put {
            Some(put) => Op { lifetime: Lifetime::Until(put.until), ..Op::put(key, put.bytes()) },
            None => Op::delete(key),
        };
        Some((Change::One(op), keyspace.unwrap_or(&self.watch.engine.catalog.default)))
    }

    /// Removes the key of `found` from `keyspace` at the commit, if there is one.
    pub(super) fn take(
        &mut self,
        keyspace: Arc<CatalogEntry>,
        found: Option<Item>,
    ) -> Result<Option<Item>> {
        if let Some(item) = &found {
            self.change(keyspace, Op::delete(&item.key))?;
        }
        Ok(found)
    }

    pub(super) fn change_range(&mut self, Bounds { lower, upper, .. }: Bounds) -> Result<()> {
        if lower >= upper {
            return Ok(());
        }
        check_end(&lower).and_then(|()| check_end(&upper))?;
        self.change_encoded_range(lower, upper)
    }

    /// Removes the tree keys from `lower` to `upper`, excluded.
    pub(super) fn change_encoded_range(&mut self, lower: Vec<u8>, upper: Vec<u8>) -> Result<()> {
        let within = (Bound::Included(&lower[..]), Bound::Excluded(&upper[..]));
        let own = self.writes.range::<[u8], _>(within);
        let freed: usize = own.clone().map(|(key, put)| self.memory(key, put)).sum();
        let more = range_memory(&lower, &upper);
        self.check_memory(self.takes + more - freed, 1)?;
        let own: Vec<_> = own.map(|(key, _)| key.clone()).collect();
        self.takes += more;
        for key in own {
            let before = self.set(key.clone(), None);
            if self.has_savepoint {
                self.undo.push(Undo::Write(key, before));
            }
        }
        self.ranges.push((lower, upper));
        if self.has_savepoint {
            self.undo.push(Undo::Range);
        }
        Ok(())
    }
}
