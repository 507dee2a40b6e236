//! Bulk loads: all or nothing, at one moment, whatever goes on around them.

use cleavedb_testkit::Setup;
use cleavedb_testkit::loads::{among_operations, beside_writes};

#[test]
fn loads_among_operations_give_the_answers_of_the_model() {
    for setup in &Setup::all() {
        for seed in 0..3 {
            among_operations(setup, seed)
                .unwrap_or_else(|failure| panic!("{setup}, seed {seed}: {failure}"));
        }
    }
}

#[test]
fn writes_during_a_load_are_older_than_it() {
    for setup in &Setup::designs() {
        for seed in 0..40 {
            beside_writes(setup, seed)
                .unwrap_or_else(|failure| panic!("{setup}, seed {seed}: {failure}"));
        }
    }
}
