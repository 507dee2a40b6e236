//! Bulk writes: in batches, so that each costs little, made durable once at the end.

use std::io::Read;
use std::time::SystemTime;

use cleavedb::{Durability, Keyspace, PutOptions, WriteBatch};

use crate::failure::Result;

/// A batch is written when it has this many bytes or operations.
const BATCH_BYTES: u64 = 1 << 20;
const BATCH_OPS: usize = 1000;

/// Writes to keyspaces in batches.
pub struct Loader {
    keyspace: Keyspace,
    batch: WriteBatch,
    batch_bytes: u64,
    /// Keys so far.
    pub items: u64,
    /// Keys whose batch is written.
    pub stored: u64,
    /// Bytes of keys and values so far.
    pub bytes: u64,
}

impl Loader {
    /// Writes to `keyspace`.
    pub fn new(keyspace: &Keyspace) -> Self {
        let keyspace = keyspace.clone();
        Self { keyspace, batch: WriteBatch::new(), batch_bytes: 0, items: 0, stored: 0, bytes: 0 }
    }

    /// Goes on with this keyspace of the same database.
    pub fn enter(&mut self, keyspace: &Keyspace) {
        self.keyspace = keyspace.clone();
    }

    /// Stores `value` under `key`, with the rest of its batch.
    pub fn put(&mut self, key: &[u8], value: &[u8]) -> cleavedb::Result<()> {
        self.batch.keyspace(&self.keyspace).put(key, value)?;
        self.count(key.len() + value.len())
    }

    /// Stores a value that expires at a time, or stays, with the rest of its batch.
    pub fn put_until(
        &mut self,
        key: &[u8],
        value: &[u8],
        expires: Option<SystemTime>,
    ) -> cleavedb::Result<()> {
        self.batch.keyspace(&self.keyspace).put_until(key, value, expires)?;
        self.count(key.len() + value.len())
    }

    /// Stores what `reader` has under `key`, behind the batch so far.
    pub fn put_reader(&mut self, key: &[u8], reader: impl Read) -> cleavedb::Result<()> {
        self.write()?;
        let len = self.keyspace.put_reader_with(key, reader, Durability::Os)?;
        self.items += 1;
        self.stored += 1;
        self.bytes += key.len() as u64 + len;
        Ok(())
    }

    /// Stores a value that is as long as a blob, and expires at a time or stays, behind the batch
    /// so far.
    pub fn put_blob(
        &mut self,
        key: &[u8],
        value: &[u8],
        expires: Option<SystemTime>,
    ) -> cleavedb::Result<()> {
        self.write()?;
        self.keyspace.put_reader_with(key, value, PutOptions::new().until(expires))?;
        self.items += 1;
        self.stored += 1;
        self.bytes += (key.len() + value.len()) as u64;
        Ok(())
    }

    /// Removes `key`, with the rest of its batch.
    pub fn delete(&mut self, key: &[u8]) -> cleavedb::Result<()> {
        self.batch.keyspace(&self.keyspace).delete(key)?;
        self.count(key.len())
    }

    fn count(&mut self, bytes: usize) -> cleavedb::Result<()> {
        self.items += 1;
        self.bytes += bytes as u64;
        self.batch_bytes += bytes as u64;
        if self.batch_bytes >= BATCH_BYTES || self.batch.len() >= BATCH_OPS {
            self.write()?;
        }
        Ok(())
    }

    fn write(&mut self) -> cleavedb::Result<()> {
        self.keyspace.database().write_with(&self.batch, Durability::Os)?;
        self.stored = self.items;
        self.batch.clear();
        self.batch_bytes = 0;
        Ok(())
    }

    /// Writes the last batch and makes all of them durable.
    pub fn finish(&mut self) -> Result<()> {
        self.write()?;
        Ok(self.keyspace.database().sync()?)
    }
}
