//! Any sequence of operations, with snapshots and reopening, answers as an ordered map does.
//!
//! The same operations run under many options (presets, windows, sizes, compression), which must
//! all answer alike.

use std::sync::Arc;

use cleavedb::Background;
use cleavedb_storage::{Disk, Storage};
use cleavedb_testkit::budget::{in_turn, of, seeds};
use cleavedb_testkit::{Disks, Generator, Op, Profile, Session, Setup, State};

/// Chance, in percent, that a write of every other seed deletes a range.
const RANGES: u64 = 12;

/// Chance, in percent, that a value of every third seed expires.
const TTLS: u64 = 25;

/// Chance, in percent, that a write to every other key is a merge, in every other pair of seeds.
const MERGES: u64 = 60;

/// Operations of one sequence.
const OPS: usize = 150;

/// Runs `ops` and returns the hash of all answers.
fn run(session: Result<Session, String>, ops: &[Op]) -> Result<u64, String> {
    let mut session = session?;
    for (i, op) in ops.iter().enumerate() {
        session.run(op).map_err(|failure| format!("operation {i}: {failure}"))?;
    }
    session.compare_all()?;
    session.verify()?;
    session.leave(true)?;
    Ok(session.answers())
}

fn check(seed: u64, setup: &Setup, result: Result<u64, String>) -> u64 {
    result.unwrap_or_else(|failure| panic!("{setup}, seed {seed}: {failure}"))
}

fn on_simulated_disks(part: u64) {
    let setups = Setup::some();
    for seed in seeds(of(20, 60, 1000)).filter(|seed| seed % 2 == part) {
        let ttls = if seed % 3 == 0 { TTLS } else { 0 };
        let merges = if seed % 4 < 2 { MERGES } else { 0 };
        let profile = Profile { ranges: part * RANGES, ttls, merges, ..Profile::model() };
        let ops = Generator::new(seed, profile).take(OPS);
        let mut answers = Vec::new();
        for setup in &setups {
            let session = Session::on(Disks::forgetful(setup), setup, State::default());
            answers.push(check(seed, setup, run(session, &ops)));
        }
        assert!(answers.iter().all(|a| *a == answers[0]), "seed {seed}: setups answer differently");
    }
}

#[test]
fn even_seeds_on_simulated_disks() {
    on_simulated_disks(0);
}

#[test]
fn odd_seeds_on_simulated_disks() {
    on_simulated_disks(1);
}

/// Values longer than a log file, a quarter of the window, and the threshold of separation.
#[test]
fn values_of_every_size() {
    for seed in seeds(of(2, 5, 100)) {
        let lens = vec![0, 63, 64, 65, 999, 1000, 1001, 16_000, 16_500, 33_000, 70_000, 140_000];
        let profile = Profile { value_lens: lens, keys: 12, ..Profile::model() };
        let ops = Generator::new(seed, profile).take(80);
        for setup in &Setup::some() {
            eprintln!("{setup}");
            let session = Session::on(Disks::forgetful(setup), setup, State::default());
            check(seed, setup, run(session, &ops));
        }
    }
}

/// Records that are copied in pieces of a MiB: by flushes, collections and an open.
#[test]
fn values_of_more_than_a_piece() {
    for seed in seeds(of(1, 1, 10)) {
        let lens = vec![10, 3_000, 1_100_000, 2_300_000];
        let profile = Profile { value_lens: lens, keys: 6, ..Profile::model() };
        let ops = Generator::new(seed, profile).take(40);
        for setup in &Setup::designs() {
            let session = Session::on(Disks::forgetful(setup), setup, State::default());
            check(seed, setup, run(session, &ops));
        }
    }
}

/// Threads do the background work, on a real disk; a process that shares the disk cannot be killed
/// in a test of its own, so there are no kills here.
#[test]
fn with_threads_on_a_real_disk() {
    for seed in seeds(of(1, 2, 20)) {
        let profile = Profile { kills: false, ..Profile::model() };
        let ops = Generator::new(seed, profile).take(OPS);
        for mut setup in in_turn(Setup::some()) {
            setup.options.background = Background::Threads(2);
            let dir = tempfile::tempdir().unwrap();
            let disk = |number: usize| -> Arc<dyn Storage> {
                Arc::new(Disk::open(dir.path().join(number.to_string()), true).unwrap())
            };
            let disks = (0..setup.disks()).map(disk).collect();
            let session = Session::open(disks, &setup, State::default());
            check(seed, &setup, run(session, &ops));
        }
    }
}
