//! Batches of writes.

use std::ffi::c_char;

use cleavedb::{BatchOperation, Error, Result, WriteBatch};

use crate::handles::{CallerState, Handle, export};
use crate::slices::Chars;

type Put = extern "C" fn(CallerState, *const c_char, usize, *const c_char, usize);
type Deleted = extern "C" fn(CallerState, *const c_char, usize);

/// A batch, and the first error of an operation that it could not take.
#[derive(Default)]
pub(super) struct Batch {
    batch: WriteBatch,
    refused: Option<Error>,
}

impl Batch {
    /// The batch, if it has every operation that it was given: LevelDB's calls return no error, so
    /// that the write does.
    pub(super) fn complete(&self) -> Result<&WriteBatch> {
        self.refused.clone().map_or(Ok(&self.batch), Err)
    }

    fn add(&mut self, add: impl FnOnce(&mut WriteBatch) -> Result<()>) {
        if let Err(error) = add(&mut self.batch) {
            self.refused.get_or_insert(error);
        }
    }
}

export! {
    fn leveldb_writebatch_create() -> Handle<Batch> {
        Handle::new(Batch::default())
    }

    fn leveldb_writebatch_destroy(batch: Handle<Batch>) {
        drop(batch.take());
    }

    fn leveldb_writebatch_clear(batch: Handle<Batch>) {
        if let Some(batch) = batch.get_mut() {
            batch.batch.clear();
            batch.refused = None;
        }
    }

    fn leveldb_writebatch_put(batch: Handle<Batch>, key: Chars, key_len: usize, value: Chars,
        value_len: usize) {
        if let Some(batch) = batch.get_mut() {
            batch.add(|it| it.put(key.bytes(key_len)?, value.bytes(value_len)?).map(|_| ()));
        }
    }

    fn leveldb_writebatch_delete(batch: Handle<Batch>, key: Chars, key_len: usize) {
        if let Some(batch) = batch.get_mut() {
            batch.add(|it| it.delete(key.bytes(key_len)?).map(|_| ()));
        }
    }

    fn leveldb_writebatch_iterate(batch: Handle<Batch>, state: CallerState, put: Option<Put>,
        deleted: Option<Deleted>) {
        let Some(batch) = batch.get() else { return };
        for operation in batch.batch.iter() {
            match (operation, put, deleted) {
                (BatchOperation::Put { key, value, .. }, Some(put), _) => {
                    put(state, key.as_ptr().cast(), key.len(), value.as_ptr().cast(), value.len());
                }
                (BatchOperation::Delete { key, .. }, _, Some(deleted)) => {
                    deleted(state, key.as_ptr().cast(), key.len());
                }
                _ => {}
            }
        }
    }

    fn leveldb_writebatch_append(to: Handle<Batch>, from: Handle<Batch>) {
        let Some(from) = from.get().map(|it| (it.batch.clone(), it.refused.clone())) else {
            return;
        };
        if let Some(to) = to.get_mut() {
            to.add(|it| from.1.map_or_else(|| it.append(&from.0), Err));
        }
    }
}
