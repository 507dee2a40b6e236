//! The features of RocksDB: batches, merges, deletes of ranges, column families, iterators, files
//! of tables that are ingested, and a time to live of the whole store. LZ4 is the compression that
//! it is built with here.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use cleavedb_bench::capabilities::{
    Batches, BulkLoad, BulkLoads, Capabilities, Codec, Cursor, Cursors, Expiry, Keyspace,
    Keyspaces, Merges, RangeDeletes,
};
use cleavedb_bench::{BenchError, Result};
use rocksdb::{
    BoundColumnFamily, DBCompressionType, DBRawIteratorWithThreadMode, IngestExternalFileOptions,
    MergeOperands, Options, SstFileWriter, WriteBatch,
};

use super::{Rocks, Store, TABLE};

/// How it compresses as `codec` says; `None` if it is built without.
pub(super) fn compression(codec: Codec) -> Option<DBCompressionType> {
    match codec {
        Codec::Plain => Some(DBCompressionType::None),
        Codec::Lz4 => Some(DBCompressionType::Lz4),
        Codec::Zstd | Codec::Dictionary => None,
    }
}

/// Lets merges add to counters of eight bytes.
pub(super) fn set_merge_operator(options: &mut Options) {
    options.set_merge_operator_associative(c"add", add);
}

fn add(_: &[u8], value: Option<&[u8]>, operands: &MergeOperands) -> Option<Vec<u8>> {
    let numbers = value.into_iter().chain(operands).map(counter);
    Some(numbers.sum::<u64>().to_le_bytes().into())
}

fn counter(bytes: &[u8]) -> u64 {
    bytes.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes))
}

/// All but transactions, which need another kind of store.
pub(super) fn of(store: &Rocks) -> Capabilities<'_> {
    Capabilities {
        batches: Some(store),
        merges: Some(store),
        expiry: store.lifetime.is_some().then_some(store),
        range_deletes: Some(store),
        keyspaces: Some(store),
        cursors: Some(store),
        bulk_loads: Some(store),
        ..Capabilities::default()
    }
}

impl Batches for Rocks {
    fn write_batch(&self, pairs: &[(&[u8], &[u8])]) -> Result<()> {
        let mut batch = WriteBatch::default();
        pairs.iter().for_each(|(key, value)| batch.put(key, value));
        self.db.write_opt(batch, &self.write).map_err(self.failed("batch"))
    }
}

impl Merges for Rocks {
    fn add(&self, key: &[u8], number: u64) -> Result<()> {
        let merged = self.db.merge_opt(key, number.to_le_bytes(), &self.write);
        merged.map_err(self.failed("merge"))
    }

    fn count(&self, key: &[u8]) -> Result<u64> {
        let value = self.db.get_pinned(key).map_err(self.failed("get"))?;
        Ok(value.as_deref().map_or(0, counter))
    }
}

impl Expiry for Rocks {
    fn put_for(&self, key: &[u8], value: &[u8], lifetime: Duration) -> Result<()> {
        if self.lifetime != Some(lifetime) {
            let words = "all values of a store live for the time that it was opened with";
            return Err(BenchError::engine(self.settings.name, "put", words));
        }
        self.db.put_opt(key, value, &self.write).map_err(self.failed("put"))
    }
}

impl RangeDeletes for Rocks {
    fn delete_range(&self, from: &[u8], to: &[u8]) -> Result<()> {
        let mut batch = WriteBatch::default();
        batch.delete_range(from, to);
        self.db.write_opt(batch, &self.write).map_err(self.failed("delete of a range"))
    }
}

impl Keyspaces for Rocks {
    fn keyspace(&self, name: &str) -> Result<Box<dyn Keyspace + '_>> {
        if self.db.cf_handle(name).is_none() {
            let created = self.db.create_cf(name, &self.options);
            created.map_err(self.failed("create a column family"))?;
        }
        let absent = || BenchError::engine(self.settings.name, "find a column family", name);
        let family = self.db.cf_handle(name).ok_or_else(absent)?;
        Ok(Box::new(InFamily { store: self, family }))
    }
}

/// A column family as a keyspace.
struct InFamily<'a> {
    store: &'a Rocks,
    family: Arc<BoundColumnFamily<'a>>,
}

impl Keyspace for InFamily<'_> {
    fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        let put = self.store.db.put_cf_opt(&self.family, key, value, &self.store.write);
        put.map_err(self.store.failed("put"))
    }

    fn get(&self, key: &[u8], visit: &mut dyn FnMut(&[u8])) -> Result<bool> {
        let value = self.store.db.get_pinned_cf(&self.family, key);
        let value = value.map_err(self.store.failed("get"))?;
        value.as_deref().map(visit);
        Ok(value.is_some())
    }
}

impl Cursors for Rocks {
    fn cursor(&self) -> Result<Box<dyn Cursor + '_>> {
        Ok(Box::new(Position { store: self, iterator: self.db.raw_iterator() }))
    }
}

/// An iterator as a cursor.
struct Position<'a> {
    store: &'a Rocks,
    iterator: DBRawIteratorWithThreadMode<'a, Store>,
}

impl Position<'_> {
    fn arrived(&self, action: &'static str) -> Result<bool> {
        if self.iterator.valid() {
            return Ok(true);
        }
        self.iterator.status().map_err(self.store.failed(action)).map(|()| false)
    }
}

impl Cursor for Position<'_> {
    fn seek(&mut self, key: &[u8]) -> Result<bool> {
        self.iterator.seek(key);
        self.arrived("seek")
    }

    fn next(&mut self) -> Result<bool> {
        self.iterator.next();
        self.arrived("next")
    }

    fn prev(&mut self) -> Result<bool> {
        self.iterator.prev();
        self.arrived("prev")
    }

    fn show(&mut self, visit: &mut dyn FnMut(&[u8], &[u8])) -> Result<()> {
        if let Some((key, value)) = self.iterator.item() {
            visit(key, value);
        }
        Ok(())
    }
}

impl BulkLoads for Rocks {
    fn bulk_load(&self) -> Result<Box<dyn BulkLoad + '_>> {
        Ok(Box::new(Loading { store: self, files: Vec::new(), writer: None }))
    }
}

/// Tables that are written beside the store, of the size of its own.
struct Loading<'a> {
    store: &'a Rocks,
    files: Vec<PathBuf>,
    writer: Option<SstFileWriter<'a>>,
}

impl<'a> Loading<'a> {
    fn open(&mut self) -> Result<SstFileWriter<'a>> {
        let path = self.store.db.path().join(format!("load-{}.sst", self.files.len()));
        let writer = SstFileWriter::create(&self.store.options);
        writer.open(&path).map_err(self.store.failed("begin of a table"))?;
        self.files.push(path);
        Ok(writer)
    }

    fn close(&mut self) -> Result<()> {
        let finished = self.writer.take().map_or(Ok(()), |mut writer| writer.finish());
        finished.map_err(self.store.failed("end of a table"))
    }
}

impl BulkLoad for Loading<'_> {
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        let writer = match self.writer.take() {
            Some(writer) => writer,
            None => self.open()?,
        };
        let writer = self.writer.insert(writer);
        writer.put(key, value).map_err(self.store.failed("put in a load"))?;
        if writer.file_size() >= TABLE { self.close() } else { Ok(()) }
    }

    fn finish(mut self: Box<Self>) -> Result<()> {
        self.close()?;
        let mut options = IngestExternalFileOptions::default();
        options.set_move_files(true);
        let ingested = self.store.db.ingest_external_file_opts(&options, self.files);
        ingested.map_err(self.store.failed("ingestion"))
    }
}
