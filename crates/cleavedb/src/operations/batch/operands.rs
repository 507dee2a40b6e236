//! Merges in batches.

use std::sync::Arc;

use cleavedb_base::Result;

use super::{Change, KeyspaceBatch, Op, WriteBatch};
use crate::operations::catalog::CatalogEntry;
use crate::settings::merge::Operand;

impl KeyspaceBatch<'_> {
    /// Adds a merge; see [`WriteBatch::merge`].
    pub fn merge(&mut self, key: impl AsRef<[u8]>, operand: &Operand) -> Result<&mut Self> {
        self.batch.push_merge(key.as_ref(), operand, self.keyspace)?;
        Ok(self)
    }
}

impl WriteBatch {
    /// Adds a merge: see [`crate::Keyspace::merge`]. Fails as [`WriteBatch::put`] does, and on an
    /// operand that is too long. Whether the database knows the operator is checked by the write,
    /// which is a transaction if a merge may meet a value that expires.
    pub fn merge(&mut self, key: impl AsRef<[u8]>, operand: &Operand) -> Result<&mut Self> {
        self.push_merge(key.as_ref(), operand, None)?;
        Ok(self)
    }

    fn push_merge(&mut self, key: &[u8], operand: &Operand, keyspace: Option<u32>) -> Result<()> {
        let stored = operand.stored()?;
        Op::put(key, &stored).check()?;
        self.add(Change::Merge(key, &stored), keyspace)
    }

    /// The keys of its merges, each with its keyspace; `default` is the default one.
    pub(crate) fn merges<'a>(
        &'a self,
        default: &'a Arc<CatalogEntry>,
    ) -> impl Iterator<Item = (&'a Arc<CatalogEntry>, &'a [u8])> {
        self.changes(default).filter_map(|(change, keyspace)| match change {
            Change::Merge(key, _) => Some((keyspace, key)),
            Change::One(_) | Change::Range(..) => None,
        })
    }
}
