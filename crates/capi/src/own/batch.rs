//! Batches over several keyspaces.

use std::ffi::c_int;
use std::time::Duration;

use cleavedb::{Keyspace, Result, WriteBatch};

use super::db::with;
use super::errors::ErrorOut;
use super::keyspace::of;
use super::terms::durability;
use crate::border::needed;
use crate::databases::HeldDb;
use crate::handles::{Handle, export};
use crate::slices::Chars;

fn batch_of(batch: &mut Handle<WriteBatch>) -> Result<&mut WriteBatch> {
    needed(batch.get_mut(), "cleavedb_batch")
}

export! {
    fn cleavedb_batch_new() -> Handle<WriteBatch> {
        Handle::new(WriteBatch::new())
    }

    fn cleavedb_batch_free(batch: Handle<WriteBatch>) {
        drop(batch.take());
    }

    fn cleavedb_batch_clear(batch: Handle<WriteBatch>) {
        if let Some(batch) = batch.get_mut() {
            batch.clear();
        }
    }

    fn cleavedb_batch_len(batch: Handle<WriteBatch>) -> usize {
        batch.get().map_or(0, WriteBatch::len)
    }

    fn cleavedb_batch_put(batch: Handle<WriteBatch>, keyspace: Handle<Keyspace>, key: Chars,
        key_len: usize, value: Chars, value_len: usize, ttl_millis: u64; error: ErrorOut)
        -> c_int {
        let (key, value) = (key.bytes(key_len)?, value.bytes(value_len)?);
        let mut batch = batch_of(&mut batch)?.keyspace(of(&keyspace)?);
        if ttl_millis == 0 {
            batch.put(key, value)?;
        } else {
            batch.put_with_ttl(key, value, Duration::from_millis(ttl_millis))?;
        }
        Ok(0)
    }

    fn cleavedb_batch_delete(batch: Handle<WriteBatch>, keyspace: Handle<Keyspace>, key: Chars,
        key_len: usize; error: ErrorOut) -> c_int {
        batch_of(&mut batch)?.keyspace(of(&keyspace)?).delete(key.bytes(key_len)?)?;
        Ok(0)
    }

    fn cleavedb_batch_delete_range(batch: Handle<WriteBatch>, keyspace: Handle<Keyspace>,
        from: Chars, from_len: usize, to: Chars, to_len: usize; error: ErrorOut) -> c_int {
        let range = (from.some_bytes(from_len)?, to.some_bytes(to_len)?);
        batch_of(&mut batch)?.keyspace(of(&keyspace)?).delete_range(range)?;
        Ok(0)
    }

    fn cleavedb_write(db: Handle<HeldDb>, batch: Handle<WriteBatch>, number: c_int;
        error: ErrorOut) -> c_int {
        let (batch, durability) = (batch_of(&mut batch)?, durability(number)?);
        with(&db, |db| match durability {
            Some(durability) => db.write_with(batch, durability),
            None => db.write(batch),
        })?;
        Ok(0)
    }
}
