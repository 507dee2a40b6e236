//! Terms of writes, and values, as C states and holds them.

use std::ffi::c_int;
use std::time::Duration;

use cleavedb::{Bytes, Durability, Error, ErrorKind, PutOptions, Result};

use crate::handles::{Handle, export};
use crate::slices::{LentOut, OutPlace};

/// The durability of this number; `None` for that of the database.
pub(super) fn durability(number: c_int) -> Result<Option<Durability>> {
    let unknown = || {
        let what = format!("there is no durability {number}; see CLEAVEDB_SYNC in cleavedb.h");
        Error::new(ErrorKind::InvalidArgument, what)
    };
    match number {
        0 => Ok(None),
        1 => Ok(Some(Durability::Buffered)),
        2 => Ok(Some(Durability::Os)),
        3 => Ok(Some(Durability::Sync)),
        _ => Err(unknown()),
    }
}

/// The terms of a put: a time to live of 0 is that of the keyspace.
pub(super) fn terms(ttl_millis: u64, number: c_int) -> Result<PutOptions> {
    let usual = PutOptions::new();
    let lasting =
        if ttl_millis == 0 { usual } else { usual.ttl(Duration::from_millis(ttl_millis)) };
    Ok(durability(number)?.map_or(lasting, |durability| lasting.durability(durability)))
}

/// A value that C holds without a copy.
pub(super) type HeldValue = Handle<Bytes>;

/// A handle of a value, if there is one.
pub(super) fn held(value: Option<Bytes>) -> HeldValue {
    value.map_or_else(Handle::null, Handle::new)
}

export! {
    fn cleavedb_value_data(value: HeldValue, len: OutPlace<usize>) -> LentOut {
        let bytes = value.get().map_or(&[][..], |it| it);
        len.set(bytes.len());
        LentOut::bytes(bytes)
    }

    fn cleavedb_value_free(value: HeldValue) {
        drop(value.take());
    }
}
