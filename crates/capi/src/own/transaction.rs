//! Transactions.

use std::ffi::c_int;

use cleavedb::{Db, Error, ErrorKind, Keyspace, Result, Transaction};

use super::db::with;
use super::errors::ErrorOut;
use super::keyspace::of;
use super::terms::{HeldValue, durability, held};
use crate::border::needed;
use crate::databases::HeldDb;
use crate::handles::{Handle, export};
use crate::slices::Chars;

/// A transaction that C holds, until it is committed.
pub(super) struct HeldTransaction(Option<Transaction>);

fn begun(transaction: &mut Handle<HeldTransaction>) -> Result<&mut Transaction> {
    let held = needed(transaction.get_mut(), "cleavedb_transaction")?;
    let over = || Error::new(ErrorKind::InvalidArgument, "the transaction was committed");
    held.0.as_mut().ok_or_else(over)
}

export! {
    fn cleavedb_transaction_begin(db: Handle<HeldDb>; error: ErrorOut) -> Handle<HeldTransaction> {
        with(&db, Db::transaction).map(|it| Handle::new(HeldTransaction(Some(it))))
    }

    fn cleavedb_transaction_get(transaction: Handle<HeldTransaction>, keyspace: Handle<Keyspace>,
        key: Chars, key_len: usize; error: ErrorOut) -> HeldValue {
        let within = begun(&mut transaction)?.keyspace(of(&keyspace)?);
        within.get(key.bytes(key_len)?).map(held)
    }

    fn cleavedb_transaction_put(transaction: Handle<HeldTransaction>, keyspace: Handle<Keyspace>,
        key: Chars, key_len: usize, value: Chars, value_len: usize; error: ErrorOut) -> c_int {
        let (key, value) = (key.bytes(key_len)?, value.bytes(value_len)?);
        begun(&mut transaction)?.keyspace(of(&keyspace)?).put(key, value).map(|()| 0)
    }

    fn cleavedb_transaction_delete(transaction: Handle<HeldTransaction>,
        keyspace: Handle<Keyspace>, key: Chars, key_len: usize; error: ErrorOut) -> c_int {
        let key = key.bytes(key_len)?;
        begun(&mut transaction)?.keyspace(of(&keyspace)?).delete(key).map(|()| 0)
    }

    fn cleavedb_transaction_commit(transaction: Handle<HeldTransaction>, number: c_int;
        error: ErrorOut) -> c_int {
        let durability = durability(number)?;
        begun(&mut transaction)?;
        let taken = transaction.get_mut().and_then(|it| it.0.take());
        let taken = needed(taken, "cleavedb_transaction")?;
        match durability {
            Some(durability) => taken.commit_with(durability)?,
            None => taken.commit()?,
        }
        Ok(0)
    }

    fn cleavedb_transaction_free(transaction: Handle<HeldTransaction>) {
        drop(transaction.take());
    }
}
