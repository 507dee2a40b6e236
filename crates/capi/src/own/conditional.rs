//! Writes on a condition.

use std::ffi::c_int;

use cleavedb::Keyspace;

use super::errors::ErrorOut;
use super::keyspace::of;
use super::terms::terms;
use crate::handles::{Handle, export};
use crate::slices::Chars;

export! {
    fn cleavedb_put_if_absent(keyspace: Handle<Keyspace>, key: Chars, key_len: usize, value: Chars,
        value_len: usize, durability: c_int; error: ErrorOut) -> c_int {
        let (key, value) = (key.bytes(key_len)?, value.bytes(value_len)?);
        let done = of(&keyspace)?.put_if_absent_with(key, value, terms(0, durability)?);
        done.map(c_int::from)
    }

    fn cleavedb_compare_and_swap(keyspace: Handle<Keyspace>, key: Chars, key_len: usize,
        expected: Chars, expected_len: usize, new: Chars, new_len: usize, durability: c_int;
        error: ErrorOut) -> c_int {
        let (expected, new) = (expected.some_bytes(expected_len)?, new.some_bytes(new_len)?);
        let (key, terms) = (key.bytes(key_len)?, terms(0, durability)?);
        of(&keyspace)?.compare_and_swap_with(key, expected, new, terms).map(c_int::from)
    }
}
