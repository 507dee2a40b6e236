//! A database becomes one of another preset: with all that it has, whatever stops the change, and
//! with the work of calls that were stopped.

use std::sync::Arc;

use cleavedb::{
    Db, ErrorKind, FileClass, KeyspaceOptions, MergeOperators, Operand, Options, Preset, Progress,
    PutOptions, Volume,
};
use cleavedb_storage_sim::Sim;
use cleavedb_storage_sim::faulty::Fault;
use cleavedb_testkit::budget::of;
use cleavedb_testkit::migrated::{
    a_migration_has_all, empty, migrate, migrated_at_any_crash, migrated_despite_faults,
};
use cleavedb_testkit::{Setup, session};

/// Each design that is another one than `from`.
fn others(from: &Setup) -> impl Iterator<Item = Setup> {
    let (layout, preset) = (from.options.layout(), from.options.preset);
    Setup::every_design()
        .into_iter()
        .filter(move |to| to.options.layout() != layout || to.options.preset != preset)
}

#[test]
fn every_design_becomes_every_other_with_all_that_it_has() {
    for from in Setup::every_design() {
        let from = if from.has_blobs() { from } else { from.with_blobs() };
        for to in others(&from) {
            for seed in 0..of(2, 4, 12) {
                // Blobs become values where the other one has none.
                let to = if seed % 2 == 0 { to.clone() } else { to.clone().with_blobs() };
                a_migration_has_all(&from, &to, seed)
                    .unwrap_or_else(|failure| panic!("{from} to {to}, seed {seed}: {failure}"));
            }
        }
    }
}

#[test]
fn a_crash_leaves_the_one_or_the_other_whole() {
    for from in Setup::designs() {
        for to in others(&from).filter(|to| to.options.layout() != from.options.layout()) {
            migrated_at_any_crash(&from, &to, 3);
        }
    }
}

/// Whichever call fails, once or from then on, or finds the disk full.
#[test]
fn whatever_fails_the_next_call_ends_it() {
    let pairs = [(Preset::Lsm, Preset::Cleave), (Preset::HoaKv, Preset::HashKv)];
    for (from, to) in pairs.map(|(from, to)| (Setup::tiny(from, true), Setup::tiny(to, true))) {
        let (from, mut to) = (&from.with_blobs(), to.with_blobs());
        // Loads are finished again and again.
        to.options.tuning.memtable_bytes = Some(64 << 10);
        for (fault, lasts) in [(Fault::Io, false), (Fault::NoSpace, true), (Fault::Io, true)] {
            let found = migrated_despite_faults([from, &to], 5, |faulty, call| match lasts {
                true => faulty.fail_from(call, fault),
                false => faulty.fail_call(call, fault),
            });
            let found = found.unwrap_or_else(|e| panic!("{from} to {to}, {fault:?}: {e}"));
            assert!(found > 0, "{from} to {to}: no call goes on");
        }
    }
}
