//! The writes of a keyspace, one key at a time.

use cleavedb_base::Result;

use super::Keyspace;
use crate::batch::Op;
use crate::commit::EncodedOp;
use crate::options::Durability;
use crate::write;

impl Keyspace {
    /// Stores `value` under `key`, with the database's default durability.
    pub fn put(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        self.put_with(key, value, self.inner.engine.options.durability)
    }

    /// Stores `value` under `key`.
    pub fn put_with(
        &self,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        durability: Durability,
    ) -> Result<()> {
        self.write_one(Op { key: key.as_ref(), value: Some(value.as_ref()) }, durability)
    }

    /// Removes `key`, if it exists, with the database's default durability.
    pub fn delete(&self, key: impl AsRef<[u8]>) -> Result<()> {
        self.delete_with(key, self.inner.engine.options.durability)
    }

    /// Removes `key`, if it exists.
    pub fn delete_with(&self, key: impl AsRef<[u8]>, durability: Durability) -> Result<()> {
        self.write_one(Op { key: key.as_ref(), value: None }, durability)
    }

    #[inline]
    fn write_one(&self, op: Op<'_>, durability: Durability) -> Result<()> {
        op.check()?;
        let engine = self.inner.writable()?;
        let prepared = EncodedOp::new(op, &self.entry);
        write::write(engine, &[prepared], op.len(), durability, self.terms())
    }
}
