//! Everything at once in one store, so that features meet.
//!
//! A failure prints the command that repeats it; `CLEAVEDB_SEED` runs one seed under every setup,
//! `CLEAVEDB_SEEDS` another number of them by turns.

use cleavedb::Preset;
use cleavedb_testkit::{Setup, together};

/// Seeds, each under one setup: those of all setups take turns.
const SEEDS: u64 = 200;

/// Operations of one run.
const OPS: usize = 120;

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}

fn check(setup: &Setup, seed: u64) {
    eprintln!("{setup}, seed {seed}");
    if let Err(failure) = together::all_at_once(setup, seed, OPS) {
        panic!(
            "{setup}: {failure}\n\
             to repeat: CLEAVEDB_SEED={seed} cargo test -p cleavedb --test engine together::"
        );
    }
}

fn some_of_all(part: u64) {
    let setups = Setup::all();
    let count = setups.len() as u64;
    if let Some(seed) = number("CLEAVEDB_SEED") {
        let own = setups.iter().enumerate().filter(|(at, _)| *at as u64 % 2 == part);
        own.for_each(|(_, setup)| check(setup, seed));
        return;
    }
    for seed in 0..number("CLEAVEDB_SEEDS").unwrap_or(SEEDS) {
        if seed % 2 == part {
            // Seven is no divisor of the number of setups.
            check(&setups[(seed * 7 % count) as usize], seed);
        }
    }
}

#[test]
fn features_meet_in_even_seeds() {
    some_of_all(0);
}

#[test]
fn features_meet_in_odd_seeds() {
    some_of_all(1);
}

/// An operand has taken up a short value in the index, above an older value outside it. A hash
/// group took the short value for one whose range tombstone is forgotten, and so the older one for
/// alive.
#[test]
fn a_value_that_an_operand_has_taken_up_hides_older_ones() {
    check(&Setup::tiny(Preset::HashKv, false), 97);
}

/// A collection has repeated an entry that expires, and a compaction drops the original with its
/// record. A check took the repeat, which no reader sees, for damage.
#[test]
fn what_is_left_of_an_expired_value_is_no_damage() {
    check(&Setup::long_values(Preset::Ohdb, false), 4729);
}
