//! The features of fjall: batches, optimistic transactions, keyspaces, ingestion, and LZ4 as its
//! one compression.

use cleavedb_bench::Result;
use cleavedb_bench::capabilities::{
    self, Batches, Body, BulkLoad, BulkLoads, Capabilities, Codec, Keyspaces, Transactions,
};
use fjall::{CompressionType, Keyspace, OptimisticWriteTx, PersistMode, Readable};

use super::{Durability, Fjall};

/// How it compresses as `codec` says; `None` if it cannot.
pub(super) fn compression(codec: Codec) -> Option<CompressionType> {
    match codec {
        Codec::Plain => Some(CompressionType::None),
        Codec::Lz4 => Some(CompressionType::Lz4),
        Codec::Zstd | Codec::Dictionary => None,
    }
}

/// All of them.
pub(super) fn of(store: &Fjall) -> Capabilities<'_> {
    Capabilities {
        batches: Some(store),
        transactions: store.transactions.is_some().then_some(store),
        keyspaces: Some(store),
        bulk_loads: Some(store),
        ..Capabilities::default()
    }
}

impl Batches for Fjall {
    fn write_batch(&self, pairs: &[(&[u8], &[u8])]) -> Result<()> {
        self.wait_for_room()?;
        let mut batch = self.db.batch();
        pairs.iter().for_each(|(key, value)| batch.insert(&self.keyspace, *key, *value));
        batch.commit().map_err(self.failed("batch"))?;
        self.synced("batch")
    }
}

impl Transactions for Fjall {
    fn transact(&self, body: Body<'_>) -> Result<u64> {
        let Some(database) = &self.transactions else { return Ok(0) };
        let mode = match self.settings.durability {
            Durability::Os => PersistMode::Buffer,
            Durability::Sync => PersistMode::SyncData,
        };
        let mut conflicts = 0;
        loop {
            self.wait_for_room()?;
            let transaction = database.write_tx().map_err(self.failed("transaction"))?;
            let mut open = InTransaction { store: self, open: transaction.durability(Some(mode)) };
            body(&mut open)?;
            match open.open.commit().map_err(self.failed("commit"))? {
                Ok(()) => return Ok(conflicts),
                Err(fjall::Conflict) => conflicts += 1,
            }
        }
    }
}

/// An open transaction.
struct InTransaction<'a> {
    store: &'a Fjall,
    open: OptimisticWriteTx,
}

impl capabilities::Transaction for InTransaction<'_> {
    fn get(&mut self, key: &[u8], visit: &mut dyn FnMut(&[u8])) -> Result<bool> {
        let value = self.open.get(&self.store.keyspace, key).map_err(self.store.failed("get"))?;
        value.as_deref().map(visit);
        Ok(value.is_some())
    }

    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        self.open.insert(&self.store.keyspace, key, value);
        Ok(())
    }
}

impl Keyspaces for Fjall {
    fn keyspace(&self, name: &str) -> Result<Box<dyn capabilities::Keyspace + '_>> {
        let options = || self.settings.keyspace(self.fitted.write_buffer);
        let keyspace = self.db.keyspace(name, options).map_err(self.failed("open a keyspace"))?;
        Ok(Box::new(InKeyspace { store: self, keyspace }))
    }
}

/// A keyspace beside that of the workloads.
struct InKeyspace<'a> {
    store: &'a Fjall,
    keyspace: Keyspace,
}

impl capabilities::Keyspace for InKeyspace<'_> {
    fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        self.store.wait_for_room()?;
        self.keyspace.insert(key, value).map_err(self.store.failed("put"))?;
        self.store.synced("put")
    }

    fn get(&self, key: &[u8], visit: &mut dyn FnMut(&[u8])) -> Result<bool> {
        let value = self.keyspace.get(key).map_err(self.store.failed("get"))?;
        value.as_deref().map(visit);
        Ok(value.is_some())
    }
}

impl BulkLoads for Fjall {
    fn bulk_load(&self) -> Result<Box<dyn BulkLoad + '_>> {
        let load = self.keyspace.start_ingestion().map_err(self.failed("begin of a load"))?;
        let mut load = Some(load);
        let step = move |pair: Option<(&[u8], &[u8])>| match (pair, &mut load) {
            (Some((key, value)), Some(load)) => load.write(key, value),
            _ => load.take().map_or(Ok(()), |load| load.finish()),
        };
        Ok(Box::new(Loading { store: self, step: Box::new(step) }))
    }
}

/// Takes a pair, or the end. fjall does not export the type of an ingestion, so it is in here.
type Step<'a> = Box<dyn FnMut(Option<(&[u8], &[u8])>) -> fjall::Result<()> + 'a>;

/// An ingestion under way.
struct Loading<'a> {
    store: &'a Fjall,
    step: Step<'a>,
}

impl BulkLoad for Loading<'_> {
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        (self.step)(Some((key, value))).map_err(self.store.failed("put in a load"))
    }

    fn finish(mut self: Box<Self>) -> Result<()> {
        (self.step)(None).map_err(self.store.failed("end of a load"))
    }
}
