//! Cursors.

use std::ffi::c_int;

use cleavedb::{Bytes, Cursor, Keyspace, Result};

use super::errors::ErrorOut;
use super::keyspace::of;
use crate::border::needed;
use crate::handles::{Handle, export};
use crate::slices::{Chars, LentOut, OutPlace};

/// A cursor that C holds, and the value that it has asked for last.
pub(super) struct HeldCursor {
    cursor: Cursor,
    value: Bytes,
}

impl HeldCursor {
    pub(super) fn handle(cursor: Cursor) -> Handle<Self> {
        Handle::new(Self { cursor, value: Bytes::new() })
    }
}

/// Moves a cursor: 1 if it is on a key.
fn go(
    cursor: &mut Handle<HeldCursor>,
    step: impl FnOnce(&mut Cursor) -> Result<bool>,
) -> Result<c_int> {
    let held = needed(cursor.get_mut(), "cleavedb_cursor")?;
    step(&mut held.cursor).map(c_int::from)
}

export! {
    fn cleavedb_cursor_open(keyspace: Handle<Keyspace>, from: Chars, from_len: usize, to: Chars,
        to_len: usize; error: ErrorOut) -> Handle<HeldCursor> {
        let range = (from.some_bytes(from_len)?, to.some_bytes(to_len)?);
        Ok(HeldCursor::handle(of(&keyspace)?.cursor(range)))
    }

    fn cleavedb_cursor_free(cursor: Handle<HeldCursor>) {
        drop(cursor.take());
    }

    fn cleavedb_cursor_next(cursor: Handle<HeldCursor>; error: ErrorOut) -> c_int {
        go(&mut cursor, Cursor::next)
    }

    fn cleavedb_cursor_prev(cursor: Handle<HeldCursor>; error: ErrorOut) -> c_int {
        go(&mut cursor, Cursor::prev)
    }

    fn cleavedb_cursor_first(cursor: Handle<HeldCursor>; error: ErrorOut) -> c_int {
        go(&mut cursor, Cursor::seek_to_first)
    }

    fn cleavedb_cursor_last(cursor: Handle<HeldCursor>; error: ErrorOut) -> c_int {
        go(&mut cursor, Cursor::seek_to_last)
    }

    fn cleavedb_cursor_seek(cursor: Handle<HeldCursor>, key: Chars, key_len: usize;
        error: ErrorOut) -> c_int {
        let key = key.bytes(key_len)?;
        go(&mut cursor, |cursor| cursor.seek(key))
    }

    fn cleavedb_cursor_seek_for_prev(cursor: Handle<HeldCursor>, key: Chars, key_len: usize;
        error: ErrorOut) -> c_int {
        let key = key.bytes(key_len)?;
        go(&mut cursor, |cursor| cursor.seek_for_prev(key))
    }

    fn cleavedb_cursor_key(cursor: Handle<HeldCursor>, len: OutPlace<usize>) -> LentOut {
        let key = cursor.get_mut().and_then(|it| it.cursor.key());
        len.set(key.map_or(0, <[u8]>::len));
        key.map_or_else(LentOut::null, LentOut::bytes)
    }

    fn cleavedb_cursor_value(cursor: Handle<HeldCursor>, len: OutPlace<usize>; error: ErrorOut)
        -> LentOut {
        len.set(0);
        let held = needed(cursor.get_mut(), "cleavedb_cursor")?;
        let Some(value) = held.cursor.value()? else { return Ok(LentOut::null()) };
        held.value = value;
        len.set(held.value.len());
        Ok(LentOut::bytes(&held.value))
    }
}
