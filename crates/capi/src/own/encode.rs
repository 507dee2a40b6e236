//! Parts of keys, encoded so that their bytes order as they do.

use std::ffi::c_char;

use cleavedb::encode;

use crate::handles::export;
use crate::slices::OutPlace;

/// Copies a part to a buffer with room for `room` bytes, and returns its length.
fn part(bytes: &[u8], buffer: &OutPlace<c_char>, room: usize) -> usize {
    buffer.fill(bytes, room);
    bytes.len()
}

export! {
    fn cleavedb_encode_u64(number: u64, buffer: OutPlace<c_char>, room: usize) -> usize {
        part(&encode::key(&(number,)), &buffer, room)
    }

    fn cleavedb_encode_i64(number: i64, buffer: OutPlace<c_char>, room: usize) -> usize {
        part(&encode::key(&(number,)), &buffer, room)
    }

    fn cleavedb_encode_double(number: f64, buffer: OutPlace<c_char>, room: usize) -> usize {
        part(&encode::key(&(number,)), &buffer, room)
    }
}
