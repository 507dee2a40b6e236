//! The changes of a batch as those of a transaction: its merges read.

use std::sync::Arc;

use cleavedb_base::{EncodedKey, Result};

use super::Transaction;
use crate::operations::batch::{Change, Op};
use crate::operations::catalog::{CatalogEntry, KeyspaceRef};
use crate::reads::view::Snapshot;
use crate::settings::time::Lifetime;

impl Transaction {
    /// Adds a change of a batch.
    pub(crate) fn apply(&mut self, change: Change<'_>, keyspace: &Arc<CatalogEntry>) -> Result<()> {
        let within = self.keyspace(KeyspaceRef(keyspace.clone()));
        let snapshot = within.snapshot;
        match change {
            Change::One(op) => self.change(snapshot.target(), op),
            Change::Merge(key, stored) => self.merge_stored(&snapshot, key, stored),
            Change::Range(begin, end) => self.change_encoded_range(begin.into(), end.into()),
        }
    }

    /// Changes the value of `key` by a stored operand, which is a read and a put.
    pub(super) fn merge_stored(
        &mut self,
        snapshot: &Snapshot,
        key: &[u8],
        stored: &[u8],
    ) -> Result<()> {
        let operators = self.watch.engine.merges.operators().clone();
        operators.check_stored(stored)?;
        let before = self.get_with_expiry_from(snapshot, key)?;
        let value = before.as_ref().map(|(value, _)| &value[..]);
        let encoded_key = EncodedKey::new(snapshot.keyspace_id(), key);
        let made = operators.value(encoded_key.as_bytes(), value, &[stored])?;
        let lifetime = match before {
            Some((_, expires)) => Lifetime::until(expires),
            None => Lifetime::OfKeyspace,
        };
        self.change(snapshot.target(), Op { lifetime, ..Op::put(key, &made) })
    }
}
