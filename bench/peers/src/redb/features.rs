//! The features of redb: a batch is a transaction, of which one at a time writes, so that none
//! meets a conflict; a keyspace is a table.

use cleavedb_bench::Result;
use cleavedb_bench::capabilities::{
    Batches, Body, Capabilities, Keyspace, Keyspaces, Transaction, Transactions,
};
use redb::{ReadableDatabase, ReadableTable, TableDefinition};

use super::{Pairs, Redb, failed};

/// All of them.
pub(super) fn of(store: &Redb) -> Capabilities<'_> {
    Capabilities {
        batches: Some(store),
        transactions: Some(store),
        keyspaces: Some(store),
        ..Capabilities::default()
    }
}

impl Batches for Redb {
    fn write_batch(&self, pairs: &[(&[u8], &[u8])]) -> Result<()> {
        self.change("batch", |table| {
            pairs.iter().try_for_each(|(key, value)| table.insert(*key, *value).map(drop))
        })
    }
}

impl Transactions for Redb {
    fn transact(&self, body: Body<'_>) -> Result<u64> {
        let mut answer = Ok(());
        self.change("transaction", |table| {
            answer = body(&mut InTransaction(table));
            Ok(())
        })?;
        answer.map(|()| 0)
    }
}

/// The table of an open transaction.
struct InTransaction<'a, 'b>(&'a mut Pairs<'b>);

impl Transaction for InTransaction<'_, '_> {
    fn get(&mut self, key: &[u8], visit: &mut dyn FnMut(&[u8])) -> Result<bool> {
        let value = self.0.get(key).map_err(failed("get in a transaction"))?;
        let Some(value) = value else { return Ok(false) };
        visit(value.value());
        Ok(true)
    }

    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        self.0.insert(key, value).map(drop).map_err(failed("put in a transaction"))
    }
}

impl Keyspaces for Redb {
    fn keyspace(&self, name: &str) -> Result<Box<dyn Keyspace + '_>> {
        let keyspace = InTable { store: self, name: name.to_owned() };
        let transaction = self.db.begin_write().map_err(failed("open a table"))?;
        transaction.open_table(keyspace.table()).map_err(failed("open a table"))?;
        transaction.commit().map_err(failed("open a table"))?;
        Ok(Box::new(keyspace))
    }
}

/// A table as a keyspace.
struct InTable<'a> {
    store: &'a Redb,
    name: String,
}

impl InTable<'_> {
    fn table(&self) -> TableDefinition<'_, &'static [u8], &'static [u8]> {
        TableDefinition::new(&self.name)
    }
}

impl Keyspace for InTable<'_> {
    fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        let transaction = self.store.db.begin_write().map_err(failed("put"))?;
        {
            let mut table = transaction.open_table(self.table()).map_err(failed("put"))?;
            table.insert(key, value).map_err(failed("put"))?;
        }
        transaction.commit().map_err(failed("put"))
    }

    fn get(&self, key: &[u8], visit: &mut dyn FnMut(&[u8])) -> Result<bool> {
        let transaction = self.store.db.begin_read().map_err(failed("get"))?;
        let table = transaction.open_table(self.table()).map_err(failed("get"))?;
        let value = table.get(key).map_err(failed("get"))?;
        let Some(value) = value else { return Ok(false) };
        visit(value.value());
        Ok(true)
    }
}
