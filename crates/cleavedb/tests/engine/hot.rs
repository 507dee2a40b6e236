//! The hot store of HoaKV: every state of a key under every operation.

use cleavedb_testkit::hot::matrix;

const PARTS: usize = 2;

#[test]
fn every_state_of_a_key_under_every_operation_even() {
    matrix(0, PARTS).unwrap_or_else(|e| panic!("{e}"));
}

#[test]
fn every_state_of_a_key_under_every_operation_odd() {
    matrix(1, PARTS).unwrap_or_else(|e| panic!("{e}"));
}
