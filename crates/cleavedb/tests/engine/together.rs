//! Everything at once in one store, so that features meet.

use cleavedb::Preset;
use cleavedb_testkit::budget::{of, seeds};
use cleavedb_testkit::{Setup, together};

/// Operations of one run.
const OPS: usize = 120;

fn check(setup: &Setup, seed: u64) {
    eprintln!("{setup}, seed {seed}");
    together::all_at_once(setup, seed, OPS).unwrap_or_else(|failure| panic!("{setup}: {failure}"));
}

/// Each seed under one setup: those of all setups take turns.
fn some_of_all(part: u64) {
    let setups = Setup::all();
    for seed in seeds(of(40, 100, 2000)).filter(|seed| seed % 2 == part) {
        // Seven is no divisor of the number of setups.
        check(&setups[(seed * 7 % setups.len() as u64) as usize], seed);
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
