//! Another lifetime of a value: it is put again. Of a blob only an entry is written: the
//! transaction that has found the blob holds the snapshot by which the file stays until then.

use std::sync::Arc;

use cleavedb_base::Result;
use cleavedb_values::Blob;

use super::KeyspaceTransaction;
use crate::engine::Engine;
use crate::operations::batch::Op;
use crate::operations::catalog::CatalogEntry;
use crate::reads::value_reader::FoundValue;
use crate::settings::options::Durability;
use crate::settings::time::Lifetime;
use crate::writes::blobs::{self, BlobTarget};
use crate::writes::write::Terms;

/// A blob that is to get another lifetime.
pub(super) struct Renewed {
    keyspace: Arc<CatalogEntry>,
    key: Vec<u8>,
    blob: Blob,
    lifetime: Lifetime,
}

impl Renewed {
    pub(super) fn commit(
        &self,
        engine: &Engine,
        durability: Durability,
        terms: Terms<'_>,
    ) -> Result<()> {
        let Self { keyspace, key, blob, lifetime } = self;
        let target = BlobTarget { keyspace, key, lifetime: *lifetime, durability };
        blobs::renew(engine, target, blob, terms)
    }
}

impl KeyspaceTransaction<'_> {
    /// The value of `key` without the writes of the transaction; a blob is not read.
    pub(crate) fn find(&self, key: &[u8]) -> Result<Option<FoundValue>> {
        self.transaction.own(&self.snapshot, key)?;
        self.snapshot.find(key)
    }

    /// Stores `value` under `key` at the commit, with this lifetime.
    pub(crate) fn put_living(
        &mut self,
        key: &[u8],
        value: &[u8],
        lifetime: Lifetime,
    ) -> Result<()> {
        self.transaction.change(self.snapshot.target(), Op { lifetime, ..Op::put(key, value) })
    }

    /// Gives the blob of `key`, which was found, another lifetime at the commit, which does nothing
    /// else.
    pub(crate) fn renew(&mut self, key: &[u8], blob: Blob, lifetime: Lifetime) {
        let keyspace = self.snapshot.entry().clone();
        self.transaction.renewed = Some(Renewed { keyspace, key: key.to_vec(), blob, lifetime });
    }
}
