//! Values in pieces: those that callers do not want to hold whole.

use std::ffi::{c_char, c_int};
use std::io::{self, BufRead, Read};

use cleavedb::{Error, ErrorKind, Keyspace};

use super::errors::ErrorOut;
use super::keyspace::of;
use super::terms::{HeldValue, held, terms};
use crate::border::needed;
use crate::handles::{CallerState, Handle, export};
use crate::slices::Chars;

/// Fills a buffer with what follows of a value, and returns how many bytes that is: 0 at its end,
/// -1 if it cannot go on.
type ReadPiece = extern "C" fn(CallerState, *mut c_char, usize) -> isize;

/// Takes what follows of a value; 0 if it is to go on.
type TakePiece = extern "C" fn(CallerState, *const c_char, usize) -> c_int;

/// A value that a callback of the caller reads.
struct CallerReader {
    read: ReadPiece,
    state: CallerState,
}

impl Read for CallerReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = (self.read)(self.state, buffer.as_mut_ptr().cast(), buffer.len());
        let len = usize::try_from(read).ok().filter(|len| *len <= buffer.len());
        len.ok_or_else(|| io::Error::other(format!("the callback returned {read}")))
    }
}

/// The error that a reader of a value has wrapped.
fn cause(error: io::Error) -> Error {
    error.downcast().unwrap_or_else(|other| Error::new(ErrorKind::Io, other.to_string()))
}

export! {
    fn cleavedb_put_pieces(keyspace: Handle<Keyspace>, key: Chars, key_len: usize,
        read: Option<ReadPiece>, state: CallerState, ttl_millis: u64, durability: c_int;
        error: ErrorOut) -> c_int {
        let read = needed(read, "callback")?;
        let (key, terms) = (key.bytes(key_len)?, terms(ttl_millis, durability)?);
        of(&keyspace)?.put_reader_with(key, CallerReader { read, state }, terms).map(|_| 0)
    }

    fn cleavedb_get_pieces(keyspace: Handle<Keyspace>, key: Chars, key_len: usize,
        take: Option<TakePiece>, state: CallerState; error: ErrorOut) -> c_int {
        let take = needed(take, "callback")?;
        let Some(mut value) = of(&keyspace)?.get_reader(key.bytes(key_len)?)? else {
            return Ok(0);
        };
        loop {
            let piece = value.fill_buf().map_err(cause)?;
            let len = piece.len();
            if len == 0 {
                return Ok(1);
            }
            let taken = take(state, piece.as_ptr().cast(), len);
            if taken != 0 {
                let what = format!("the callback returned {taken}");
                return Err(Error::new(ErrorKind::Io, what));
            }
            value.consume(len);
        }
    }

    fn cleavedb_get_piece(keyspace: Handle<Keyspace>, key: Chars, key_len: usize, offset: u64,
        len: usize; error: ErrorOut) -> HeldValue {
        of(&keyspace)?.get_range(key.bytes(key_len)?, offset, len).map(held)
    }
}
