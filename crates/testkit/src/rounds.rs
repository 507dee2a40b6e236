//! Rounds of writes that overwrite the same keys, under options that collect often.

use std::ops::Range;

use cleavedb::{Db, Options, Preset};

use crate::records::{key, value};
use crate::setup::Setup;

/// Number of keys.
pub const KEYS: u32 = 400;

/// Options under which garbage is collected beyond 30% of what is alive, and beyond 64 KiB.
pub fn options(preset: Preset) -> Options {
    let mut options = Setup::tiny(preset, true).options;
    (options.space_amplification, options.tuning.space_floor) = (1.3, 64 << 10);
    options
}

/// Writes every key once in each round.
pub fn write(db: &Db, rounds: Range<u32>) {
    for round in rounds {
        (0..KEYS).for_each(|i| db.put(key(i), value(i, round)).unwrap());
    }
    db.flush().unwrap();
    db.wait_idle().unwrap();
}

/// Compares every key with what `round` has written, and runs the store's own check.
#[track_caller]
pub fn check(db: &Db, round: u32) {
    (0..KEYS).for_each(|i| assert_eq!(db.get(key(i)).unwrap().unwrap(), value(i, round)));
    let report = db.verify().unwrap();
    assert!(report.problems.is_empty(), "{:?}", report.problems);
}
