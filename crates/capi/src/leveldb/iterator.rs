//! Iterators.

use std::sync::{Mutex, OnceLock, PoisonError};

use cleavedb::{Bytes, Cursor, Error, Result};

use super::db::with;
use super::options::ReadOptions;
use crate::databases::HeldDb;
use crate::handles::{Handle, export};
use crate::slices::{Chars, LentOut, Malloced, OutPlace};

/// A position, with its key and, once it is asked for, its value. Calls that do not move it may
/// come from several threads at once.
pub(super) struct LevelIterator {
    /// None if it could not be made.
    cursor: Option<Mutex<Cursor>>,
    /// Whether it is on a key, which is below.
    valid: bool,
    key: Vec<u8>,
    value: OnceLock<Option<Bytes>>,
    failed: OnceLock<Error>,
}

impl LevelIterator {
    fn new(cursor: Result<Cursor>) -> Self {
        let failed = cursor.as_ref().err().cloned().map_or_else(OnceLock::new, OnceLock::from);
        let cursor = cursor.ok().map(Mutex::new);
        Self { cursor, valid: false, key: Vec::new(), value: OnceLock::new(), failed }
    }

    /// Moves it; an error leaves it on no key until it is moved by a seek.
    #[inline]
    fn go(&mut self, step: impl FnOnce(&mut Cursor) -> Result<bool>) {
        let Some(cursor) = &mut self.cursor else { return };
        let cursor = cursor.get_mut().unwrap_or_else(PoisonError::into_inner);
        (self.value, self.failed) = (OnceLock::new(), OnceLock::new());
        let moved = step(cursor);
        self.valid = *moved.as_ref().unwrap_or(&false);
        if let Err(error) = moved {
            self.failed = error.into();
        }
        self.key.clear();
        self.key.extend_from_slice(cursor.key().filter(|_| self.valid).unwrap_or_default());
    }

    fn value(&self) -> Option<&Bytes> {
        let read = || {
            let mut cursor = self.cursor.as_ref()?.lock().unwrap_or_else(PoisonError::into_inner);
            cursor.value().unwrap_or_else(|error| {
                let _ = self.failed.set(error);
                None
            })
        };
        self.value.get_or_init(read).as_ref()
    }
}

/// Moves an iterator that is not NULL.
fn go(mut iterator: Handle<LevelIterator>, step: impl FnOnce(&mut Cursor) -> Result<bool>) {
    if let Some(iterator) = iterator.get_mut() {
        iterator.go(step);
    }
}

export! {
    fn leveldb_create_iterator(db: Handle<HeldDb>, options: Handle<ReadOptions>)
        -> Handle<LevelIterator> {
        let cursor = || match options.get().map_or(Ok(None), ReadOptions::snapshot)? {
            Some(snapshot) => Ok(snapshot.cursor(..)),
            None => with(&db, |db| Ok(db.cursor(..))),
        };
        Handle::new(LevelIterator::new(cursor()))
    }

    fn leveldb_iter_destroy(iterator: Handle<LevelIterator>) {
        drop(iterator.take());
    }

    fn leveldb_iter_valid(iterator: Handle<LevelIterator>) -> u8 {
        iterator.get().is_some_and(|it| it.valid).into()
    }

    fn leveldb_iter_seek_to_first(iterator: Handle<LevelIterator>) {
        go(iterator, Cursor::seek_to_first);
    }

    fn leveldb_iter_seek_to_last(iterator: Handle<LevelIterator>) {
        go(iterator, Cursor::seek_to_last);
    }

    fn leveldb_iter_seek(iterator: Handle<LevelIterator>, key: Chars, key_len: usize) {
        go(iterator, |cursor| cursor.seek(key.bytes(key_len)?));
    }

    fn leveldb_iter_next(iterator: Handle<LevelIterator>) {
        go(iterator, Cursor::next);
    }

    fn leveldb_iter_prev(iterator: Handle<LevelIterator>) {
        go(iterator, Cursor::prev);
    }

    fn leveldb_iter_key(iterator: Handle<LevelIterator>, key_len: OutPlace<usize>) -> LentOut {
        let key = iterator.get().map_or(&[][..], |it| &it.key);
        key_len.set(key.len());
        LentOut::bytes(key)
    }

    fn leveldb_iter_value(iterator: Handle<LevelIterator>, value_len: OutPlace<usize>) -> LentOut {
        let value = iterator.get().and_then(LevelIterator::value).map_or(&[][..], |it| it);
        value_len.set(value.len());
        LentOut::bytes(value)
    }

    fn leveldb_iter_get_error(iterator: Handle<LevelIterator>; error: OutPlace<Malloced>) {
        iterator.get().and_then(|it| it.failed.get().cloned()).map_or(Ok(()), Err)
    }
}
