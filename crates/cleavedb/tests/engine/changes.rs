//! Changes: what is told of the log is what was committed, in order, exactly once.

use cleavedb_testkit::Setup;
use cleavedb_testkit::follow::{changes_are_the_content, changes_survive_crashes, little_is_kept};

/// Runs `check` with some seeds under every design.
fn every_design(seeds: u64, check: fn(&Setup, u64) -> Result<(), String>) {
    for setup in Setup::designs() {
        for seed in 0..seeds {
            check(&setup, seed).unwrap_or_else(|e| panic!("{setup}, seed {seed}: {e}"));
        }
    }
}

#[test]
fn what_is_told_is_the_content() {
    every_design(6, changes_are_the_content);
}

#[test]
fn no_more_is_kept_than_was_asked_for() {
    every_design(3, little_is_kept);
}

#[test]
fn a_crash_leaves_neither_gap_nor_repeat() {
    every_design(2, changes_survive_crashes);
}
