//! The hot store of HoaKV: every state of a key under every operation.

use cleavedb::Relocation;
use cleavedb_testkit::Setup;
use cleavedb_testkit::hot::{
    a_collection_frees_the_hot_store, damaged_hot_values_stop_no_writer,
    hot_keys_stay_hot_behind_an_open, long_hot_values, matrix, promotions_follow_reads,
};
use cleavedb_testkit::hot_damage::damaged_hot_segments;

const PARTS: usize = 2;

#[test]
fn every_state_of_a_key_under_every_operation_even() {
    matrix(0, PARTS).unwrap_or_else(|e| panic!("{e}"));
}

#[test]
fn every_state_of_a_key_under_every_operation_odd() {
    matrix(1, PARTS).unwrap_or_else(|e| panic!("{e}"));
}

#[test]
fn damaged_values_of_hot_segments_stop_no_writer() {
    let met = |seed: &u64| {
        let check = damaged_hot_values_stop_no_writer(*seed);
        check.unwrap_or_else(|e| panic!("seed {seed}: {e}"))
    };
    assert!((0..40).map(|i| i * 61).filter(met).count() > 20, "flushes meet the damage");
}

#[test]
fn damaged_hot_segments_lose_no_other_key() {
    (0..2).for_each(|seed| damaged_hot_segments(seed).unwrap_or_else(|e| panic!("{e}")));
}

#[test]
fn keys_that_are_read_become_hot() {
    (0..4).for_each(|seed| promotions_follow_reads(seed).unwrap_or_else(|e| panic!("{e}")));
}

/// Only flushes changed the hot store: what was dead in it stayed until the next writes.
#[test]
fn a_collection_leaves_nothing_dead_in_the_hot_store() {
    let mut limited = Setup::hot(Relocation::WriteBack, true);
    limited.options.space_limit = Some(limited.options.space_limit_min() + (128 << 10));
    for setup in [
        Setup::hot(Relocation::WriteBack, true),
        Setup::hot(Relocation::Soft, false),
        Setup::crowded_hot_store(),
        limited,
    ] {
        let check = |seed| a_collection_frees_the_hot_store(&setup, seed);
        let dead =
            (0..20).map(|seed| check(seed).unwrap_or_else(|e| panic!("{setup}, {seed}: {e}")));
        assert!(dead.max() > Some(4000), "{setup}: nothing was dead");
    }
}

#[test]
fn hot_keys_stay_hot_although_an_open_forgets_their_heat() {
    hot_keys_stay_hot_behind_an_open().unwrap_or_else(|e| panic!("{e}"));
}

/// The first record of a segment was taken for one of the segment before, and was lost with it.
#[test]
fn long_values_stay_hot_when_other_segments_leave() {
    long_hot_values().unwrap_or_else(|e| panic!("{e}"));
}
