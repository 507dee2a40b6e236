//! The features of CleaveDB, for their benchmarks.

use std::time::Duration;

use cleavedb::{Bytes, Compression, Operand, PutOptions, ValueCompression, WriteBatch};
use cleavedb_bench::capabilities::{
    Batches, Body, BulkLoad, BulkLoads, Capabilities, Codec, ConditionalWrites, Cursor, Cursors,
    Expiry, Keyspace, Keyspaces, Merges, Needs, RangeDeletes, Transaction, Transactions,
};
use cleavedb_bench::{BenchError, Result};

use super::{Cleave, CleaveOpener};

/// The least memory of a database, in bytes.
const MEMORY_MIN: usize = 48 << 20;

/// An opener like `opener` with what a benchmark needs; `None` if there is no such compression:
/// values in the index are compressed with its blocks, which have no dictionary.
pub(super) fn opener(opener: &CleaveOpener, needs: &Needs) -> Option<CleaveOpener> {
    let mut options = opener.options.clone();
    let in_index = !options.layout().separates();
    match (needs.codec, in_index) {
        (Codec::Plain, _) => {}
        (Codec::Lz4, true) => options.compression = Compression::Lz4,
        (Codec::Zstd, true) => options.compression = Compression::Zstd,
        (Codec::Dictionary, true) => return None,
        (Codec::Lz4, false) => options.value_compression = ValueCompression::Lz4,
        (Codec::Zstd, false) => options.value_compression = ValueCompression::Zstd,
        (Codec::Dictionary, false) => options.value_compression = ValueCompression::ZstdDictionary,
    }
    if let Some(bytes) = needs.memory {
        options.memory_bytes = (bytes as usize).max(MEMORY_MIN);
    }
    if let Some(lifetime) = needs.lifetime {
        options.expired_within = lifetime;
    }
    Some(CleaveOpener { options, ..opener.clone() })
}

/// All of them.
pub(super) fn of(store: &Cleave) -> Capabilities<'_> {
    Capabilities {
        batches: Some(store),
        transactions: Some(store),
        conditional_writes: Some(store),
        merges: Some(store),
        expiry: Some(store),
        range_deletes: Some(store),
        keyspaces: Some(store),
        cursors: Some(store),
        bulk_loads: Some(store),
    }
}

impl Batches for Cleave {
    fn write_batch(&self, pairs: &[(&[u8], &[u8])]) -> Result<()> {
        let mut batch = WriteBatch::new();
        let filled = pairs.iter().try_for_each(|(key, value)| batch.put(key, value).map(drop));
        self.done("batch", filled.and_then(|()| self.db.write(&batch)))
    }
}

impl Transactions for Cleave {
    fn transact(&self, body: Body<'_>) -> Result<u64> {
        let mut attempts = 0;
        let answer = self.db.transact(|transaction| {
            attempts += 1;
            // An error of the harness ends the run: what is committed with it does not matter.
            Ok(body(&mut InTransaction { store: self, transaction }))
        });
        self.done("transaction", answer)??;
        Ok(attempts - 1)
    }
}

/// An open transaction.
struct InTransaction<'a> {
    store: &'a Cleave,
    transaction: &'a mut cleavedb::Transaction,
}

impl Transaction for InTransaction<'_> {
    fn get(&mut self, key: &[u8], visit: &mut dyn FnMut(&[u8])) -> Result<bool> {
        let value = self.store.done("get in a transaction", self.transaction.get(key))?;
        value.as_deref().map(visit);
        Ok(value.is_some())
    }

    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        self.store.done("put in a transaction", self.transaction.put(key, value))
    }
}

impl ConditionalWrites for Cleave {
    fn compare_and_swap(&self, key: &[u8], expected: &[u8], new: &[u8]) -> Result<bool> {
        self.done(
            "swap",
            self.db.default_keyspace().compare_and_swap(key, Some(expected), Some(new)),
        )
    }
}

impl Merges for Cleave {
    fn add(&self, key: &[u8], number: u64) -> Result<()> {
        self.done("merge", self.db.merge(key, &Operand::add(number.cast_signed())))
    }

    fn count(&self, key: &[u8]) -> Result<u64> {
        let value = self.done("get", self.db.get(key))?.unwrap_or(Bytes::from_static(b"0"));
        let number = std::str::from_utf8(&value).ok().and_then(|text| text.parse().ok());
        number.ok_or_else(|| BenchError::engine(&self.name, "get", "the counter is no number"))
    }
}

impl Expiry for Cleave {
    fn put_for(&self, key: &[u8], value: &[u8], lifetime: Duration) -> Result<()> {
        self.done("put", self.db.put_with(key, value, PutOptions::new().ttl(lifetime)))
    }
}

impl RangeDeletes for Cleave {
    fn delete_range(&self, from: &[u8], to: &[u8]) -> Result<()> {
        self.done("delete of a range", self.db.delete_range(from..to))
    }
}

impl Keyspaces for Cleave {
    fn keyspace(&self, name: &str) -> Result<Box<dyn Keyspace + '_>> {
        let keyspace = self.done("opening a keyspace", self.db.keyspace(name))?;
        Ok(Box::new(InKeyspace { store: self, keyspace }))
    }
}

/// A keyspace.
struct InKeyspace<'a> {
    store: &'a Cleave,
    keyspace: cleavedb::Keyspace,
}

impl Keyspace for InKeyspace<'_> {
    fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        self.store.done("put", self.keyspace.put(key, value))
    }

    fn get(&self, key: &[u8], visit: &mut dyn FnMut(&[u8])) -> Result<bool> {
        let value = self.store.done("get", self.keyspace.get(key))?;
        value.as_deref().map(visit);
        Ok(value.is_some())
    }
}

impl Cursors for Cleave {
    fn cursor(&self) -> Result<Box<dyn Cursor + '_>> {
        Ok(Box::new(Position { store: self, cursor: self.db.cursor(..) }))
    }
}

/// A cursor.
struct Position<'a> {
    store: &'a Cleave,
    cursor: cleavedb::Cursor,
}

impl Cursor for Position<'_> {
    fn seek(&mut self, key: &[u8]) -> Result<bool> {
        self.store.done("seek", self.cursor.seek(key))
    }

    fn next(&mut self) -> Result<bool> {
        self.store.done("next", self.cursor.next())
    }

    fn prev(&mut self) -> Result<bool> {
        self.store.done("prev", self.cursor.prev())
    }

    fn show(&mut self, visit: &mut dyn FnMut(&[u8], &[u8])) -> Result<()> {
        let value = self.store.done("read at a cursor", self.cursor.value())?;
        if let (Some(key), Some(value)) = (self.cursor.key(), value) {
            visit(key, &value);
        }
        Ok(())
    }
}

impl BulkLoads for Cleave {
    fn bulk_load(&self) -> Result<Box<dyn BulkLoad + '_>> {
        let load = self.done("begin of a load", self.db.default_keyspace().bulk_load())?;
        Ok(Box::new(Loading { store: self, load }))
    }
}

/// A bulk load.
struct Loading<'a> {
    store: &'a Cleave,
    load: cleavedb::BulkLoad,
}

impl BulkLoad for Loading<'_> {
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        self.store.done("put in a load", self.load.put(key, value))
    }

    fn finish(self: Box<Self>) -> Result<()> {
        self.store.done("end of a load", self.load.finish()).map(drop)
    }
}
