//! Opening, reading and writing.

use std::ffi::c_int;
use std::sync::Arc;

use cleavedb::{Db, Result, Snapshot};

use super::batch::Batch;
use super::options::{self, OpenOptions, ReadOptions, WriteOptions, durability};
use crate::border::needed;
use crate::databases::{self, HeldDb};
use crate::handles::{Handle, export};
use crate::slices::{Array, Chars, Malloced, OutPlace};

/// What `call` returns for the database of a handle.
#[inline]
pub(super) fn with<T>(db: &Handle<HeldDb>, call: impl FnOnce(&Db) -> Result<T>) -> Result<T> {
    needed(db.get(), "leveldb_t")?.with(call)
}

export! {
    fn leveldb_open(options: Handle<OpenOptions>, name: Chars; error: OutPlace<Malloced>)
        -> Handle<HeldDb> {
        Ok(HeldDb::handle(Db::open(name.path()?, options::of_open(&options)?)?))
    }

    fn leveldb_close(db: Handle<HeldDb>) {
        // LevelDB has no place for this error, either. What was acknowledged is safe.
        let _ = databases::close(db);
    }

    fn leveldb_put(db: Handle<HeldDb>, options: Handle<WriteOptions>, key: Chars, key_len: usize,
        value: Chars, value_len: usize; error: OutPlace<Malloced>) {
        let (key, value) = (key.bytes(key_len)?, value.bytes(value_len)?);
        with(&db, |db| db.put_with(key, value, durability(&options)))
    }

    fn leveldb_delete(db: Handle<HeldDb>, options: Handle<WriteOptions>, key: Chars,
        key_len: usize; error: OutPlace<Malloced>) {
        let key = key.bytes(key_len)?;
        with(&db, |db| db.delete_with(key, durability(&options)))
    }

    fn leveldb_write(db: Handle<HeldDb>, options: Handle<WriteOptions>, batch: Handle<Batch>;
        error: OutPlace<Malloced>) {
        let batch = needed(batch.get(), "leveldb_writebatch_t")?.complete()?;
        with(&db, |db| db.write_with(batch, durability(&options)))
    }

    fn leveldb_get(db: Handle<HeldDb>, options: Handle<ReadOptions>, key: Chars, key_len: usize,
        value_len: OutPlace<usize>; error: OutPlace<Malloced>) -> Malloced {
        value_len.set(0);
        let key = key.bytes(key_len)?;
        let snapshot = options.get().map_or(Ok(None), ReadOptions::snapshot)?;
        let found = with(&db, |db| match snapshot {
            Some(snapshot) => snapshot.get(key),
            None => db.get(key),
        })?;
        let Some(value) = found else { return Ok(Malloced::null()) };
        value_len.set(value.len());
        Malloced::of(&value)
    }

    fn leveldb_create_snapshot(db: Handle<HeldDb>) -> Handle<Arc<Snapshot>> {
        let taken = with(&db, |db| Ok(Arc::new(db.snapshot())));
        taken.map_or_else(|_| Handle::null(), Handle::new)
    }

    fn leveldb_release_snapshot(_db: Handle<HeldDb>, snapshot: Handle<Arc<Snapshot>>) {
        drop(snapshot.take());
    }

    fn leveldb_approximate_sizes(db: Handle<HeldDb>, ranges: c_int, from: Array<Chars>,
        from_len: Array<usize>, to: Array<Chars>, to_len: Array<usize>, sizes: OutPlace<u64>) {
        let ranges = usize::try_from(ranges).unwrap_or(0);
        let size = |at: usize| {
            let key = |keys: &Array<Chars>, lens: &Array<usize>| {
                let (key, len) = (keys.elements(ranges)?[at], lens.elements(ranges)?[at]);
                Ok::<_, cleavedb::Error>(key.bytes(len)?.to_vec())
            };
            let range = key(&from, &from_len)?..key(&to, &to_len)?;
            let size = with(&db, |db| db.default_keyspace().approximate_size(range))?;
            Ok::<_, cleavedb::Error>(size.index_bytes + size.value_bytes)
        };
        // LevelDB has no place for an error, either.
        (0..ranges).for_each(|at| sizes.set_at(at, size(at).unwrap_or(0)));
    }

    fn leveldb_compact_range(db: Handle<HeldDb>, from: Chars, from_len: usize, to: Chars,
        to_len: usize) {
        let compacted = || {
            let range = (from.some_bytes(from_len)?, to.some_bytes(to_len)?);
            with(&db, |db| {
                db.default_keyspace().compact_range(range)?;
                db.default_keyspace().collect_range(range)
            })
        };
        // LevelDB has no place for this error, either.
        let _ = compacted();
    }
}
