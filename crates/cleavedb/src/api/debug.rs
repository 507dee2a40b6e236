//! What `{:?}` prints of handles: enough to tell one from another, and nothing that takes a lock.
//!
//! A program that keeps a handle in a type of its own can so derive `Debug` for it, and
//! `Db::open(..).unwrap_err()` compiles.

use std::fmt;

use bytes::Bytes;

use crate::api::db::{Builder, BulkLoad, Db, Keyspace};
use crate::api::transaction::{KeyspaceTransaction, Transaction};
use crate::copies::changes::Changes;
use crate::inspect::dump::Dump;
use crate::inspect::salvage::Salvage;
use crate::operations::batch::KeyspaceBatch;
use crate::reads::cursor::Cursor;
use crate::reads::range::Range;
use crate::reads::view::Snapshot;
use crate::settings::filter::FilteredValue;

/// Implements `Debug` for types, with the facts of each: `Type { fact: expression of handle }`.
macro_rules! debug {
    ($($type:ty, |$handle:pat_param| { $($fact:ident: $value:expr),* };)*) => { $(
        impl fmt::Debug for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                let $handle = self;
                let name = stringify!($type).trim_end_matches("<'_>");
                f.debug_struct(name)$(.field(stringify!($fact), &$value))*.finish_non_exhaustive()
            }
        }
    )* };
}

debug! {
    Db, |db| { preset: db.options().chosen_preset() };
    Keyspace, |keyspace| { name: keyspace.name() };
    Snapshot, |snapshot| { seq: snapshot.seq() };
    Cursor, |cursor| { key: cursor.key().map(Bytes::copy_from_slice) };
    Range, |_| {};
    Transaction, |_| {};
    KeyspaceTransaction<'_>, |_| {};
    KeyspaceBatch<'_>, |_| {};
    BulkLoad, |_| {};
    Builder, |_| {};
    Changes, |changes| { next_seq: changes.next_seq() };
    FilteredValue<'_>, |value| { keyspace: value.keyspace() };
    Salvage, |_| {};
    Dump, |_| {};
}
