//! Values in pieces: those that callers do not want to hold whole.

use std::ffi::c_char;
use std::io::{Error, Read, Result};

use cleavedb::Keyspace;

use super::errors::ErrorOut;
use super::keyspace::of;
use super::terms::{HeldValue, held, terms};
use crate::border::needed;
use crate::handles::{CallerState, Handle, export};
use crate::slices::Chars;

/// Fills a buffer with what follows of a value, and returns how many bytes that is: 0 at its end,
/// -1 if it cannot go on.
type ReadPiece = extern "C" fn(CallerState, *mut c_char, usize) -> isize;

/// A value that a callback of the caller reads.
struct CallerReader {
    read: ReadPiece,
    state: CallerState,
}

impl Read for CallerReader {
    fn read(&mut self, buffer: &mut [u8]) -> Result<usize> {
        let read = (self.read)(self.state, buffer.as_mut_ptr().cast(), buffer.len());
        let len = usize::try_from(read).ok().filter(|len| *len <= buffer.len());
        len.ok_or_else(|| Error::other(format!("the callback returned {read}")))
    }
}

export! {
    fn cleavedb_put_pieces(keyspace: Handle<Keyspace>, key: Chars, key_len: usize,
        read: Option<ReadPiece>, state: CallerState, ttl_millis: u64, durability: i32;
        error: ErrorOut) -> i32 {
        let read = needed(read, "callback")?;
        let (key, terms) = (key.bytes(key_len)?, terms(ttl_millis, durability)?);
        of(&keyspace)?.put_reader_with(key, CallerReader { read, state }, terms).map(|_| 0)
    }

    fn cleavedb_get_piece(keyspace: Handle<Keyspace>, key: Chars, key_len: usize, offset: u64,
        len: usize; error: ErrorOut) -> HeldValue {
        of(&keyspace)?.get_range(key.bytes(key_len)?, offset, len).map(held)
    }
}
