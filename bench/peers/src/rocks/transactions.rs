//! RocksDB's `OptimisticTransactionDB`: a kind of store of its own, for the benchmark of
//! transactions.

use std::path::Path;

use cleavedb_bench::capabilities::{Batches, Body, Capabilities, Transaction, Transactions};
use cleavedb_bench::engine::VisitPair;
use cleavedb_bench::{BenchError, Engine, Result};
use rocksdb::{
    ErrorKind, MultiThreaded, OptimisticTransactionDB, OptimisticTransactionOptions, Options,
    WriteBatchWithTransaction, WriteOptions,
};

use super::{failed, scan, settle};

type Store = OptimisticTransactionDB<MultiThreaded>;

/// Opens the store in `directory`.
pub(super) fn open(
    name: &'static str,
    options: &Options,
    write: WriteOptions,
    directory: &Path,
) -> Result<Box<dyn Engine>> {
    let db = Store::open(options, directory).map_err(failed(name, "open"))?;
    Ok(Box::new(Optimistic { name, db, write }))
}

struct Optimistic {
    name: &'static str,
    db: Store,
    write: WriteOptions,
}

impl Optimistic {
    fn failed(&self, action: &'static str) -> impl FnOnce(rocksdb::Error) -> BenchError {
        failed(self.name, action)
    }
}

impl Engine for Optimistic {
    fn name(&self) -> &str {
        self.name
    }

    fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        self.db.put_opt(key, value, &self.write).map_err(self.failed("put"))
    }

    fn get(&self, key: &[u8], visit: &mut dyn FnMut(&[u8])) -> Result<bool> {
        let value = self.db.get_pinned(key).map_err(self.failed("get"))?;
        value.as_deref().map(visit);
        Ok(value.is_some())
    }

    fn delete(&self, key: &[u8]) -> Result<()> {
        self.db.delete_opt(key, &self.write).map_err(self.failed("delete"))
    }

    fn scan(&self, from: &[u8], limit: usize, visit: VisitPair<'_>) -> Result<usize> {
        scan(self.db.raw_iterator(), from, limit, visit).map_err(self.failed("scan"))
    }

    fn wait_idle(&self) -> Result<()> {
        self.db.wait_for_compact(&settle()).map_err(self.failed("wait for compaction"))
    }

    fn describe(&self) -> Vec<(String, String)> {
        Vec::new()
    }

    fn capabilities(&self) -> Capabilities<'_> {
        Capabilities { batches: Some(self), transactions: Some(self), ..Capabilities::default() }
    }

    fn close(self: Box<Self>) -> Result<()> {
        self.db.cancel_all_background_work(true);
        Ok(())
    }
}

impl Batches for Optimistic {
    fn write_batch(&self, pairs: &[(&[u8], &[u8])]) -> Result<()> {
        let mut batch = WriteBatchWithTransaction::<true>::default();
        pairs.iter().for_each(|(key, value)| batch.put(key, value));
        self.db.write_opt(batch, &self.write).map_err(self.failed("batch"))
    }
}

impl Transactions for Optimistic {
    fn transact(&self, body: Body<'_>) -> Result<u64> {
        let options = OptimisticTransactionOptions::default();
        let mut conflicts = 0;
        loop {
            let transaction = self.db.transaction_opt(&self.write, &options);
            let mut open = InTransaction { name: self.name, transaction };
            body(&mut open)?;
            match open.transaction.commit() {
                Ok(()) => return Ok(conflicts),
                // The second says that a memtable which would tell of conflicts was flushed.
                Err(error) if [ErrorKind::Busy, ErrorKind::TryAgain].contains(&error.kind()) => {
                    conflicts += 1;
                }
                Err(error) => return Err(self.failed("commit")(error)),
            }
        }
    }
}

/// An open transaction.
struct InTransaction<'a> {
    name: &'static str,
    transaction: rocksdb::Transaction<'a, Store>,
}

impl Transaction for InTransaction<'_> {
    fn get(&mut self, key: &[u8], visit: &mut dyn FnMut(&[u8])) -> Result<bool> {
        let value = self.transaction.get_pinned_for_update(key, true);
        let value = value.map_err(failed(self.name, "get in a transaction"))?;
        value.as_deref().map(visit);
        Ok(value.is_some())
    }

    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        self.transaction.put(key, value).map_err(failed(self.name, "put in a transaction"))
    }
}
