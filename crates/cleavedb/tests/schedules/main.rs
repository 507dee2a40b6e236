//! Clients and background jobs side by side, on a simulated disk, in an order that a seed draws.
//!
//! The engine runs with its own threads, which shuttle schedules: at every lock, atomic and call of
//! the disk another may go on, so flushes, compactions and collections are half-way at once. Time
//! does not pass, so a wake-up that is missing is a deadlock, which shuttle reports. Run with
//! `--features test-shuttle`.

#![cfg(feature = "test-shuttle")]

mod calls;
mod clients;
#[cfg(feature = "test-planted-bugs")]
mod planted;

use std::panic::{AssertUnwindSafe, catch_unwind};

use cleavedb::tuning::Level0;
use cleavedb::{Background, Preset};
use cleavedb_base::sync::checker::scheduler::{PctScheduler, RandomScheduler, Scheduler};
use cleavedb_base::sync::checker::{Config, FailurePersistence, MaxSteps, Runner};
use cleavedb_testkit::budget::{of, seeds};
use cleavedb_testkit::{
    Disks, Explorer, Generator, Op, Plan, Profile, Recording, Session, Setup, State,
};

/// Schedules of one seed: drawn at random, and by priorities that change at few points (PCT).
const RANDOM: usize = 2;
const BY_PRIORITY: usize = 6;

/// Ordered events that a schedule by priorities is sure to have some chance to hit.
const DEPTH: usize = 3;

/// Stack of a thread, in bytes.
const STACK: usize = 1 << 20;

/// Steps after which a schedule counts as one that does not end.
const STEPS_MAX: usize = 20_000_000;

/// A check from a seed: the failure that it finds.
type Check = fn(u64) -> Result<(), String>;

/// Runs `check` under the schedules of a seed; panics with the first failure.
fn schedules(seed: u64, check: Check) {
    let mut config = Config::new();
    config.stack_size = STACK;
    config.max_steps = MaxSteps::FailAfter(STEPS_MAX);
    config.failure_persistence = FailurePersistence::None;
    config.silence_warnings = true;
    let run = |scheduler: Box<dyn Scheduler + Send>| {
        Runner::new(scheduler, config.clone()).run(move || check(seed).expect("the check passes"));
    };
    run(Box::new(RandomScheduler::new_from_seed(seed, RANDOM)));
    run(Box::new(PctScheduler::new_from_seed(seed, DEPTH, BY_PRIORITY)));
}

/// Runs `check` under the schedules of up to `most` seeds.
fn explore(most: u64, check: Check) {
    let start = std::time::Instant::now();
    let count = of(most / 10, most / 3, most);
    for seed in seeds(count) {
        let outcome = catch_unwind(AssertUnwindSafe(|| schedules(seed, check)));
        assert!(outcome.is_ok(), "seed {seed}, with the feature test-shuttle");
    }
    println!("{} schedules in {:?}", count * (RANDOM + BY_PRIORITY) as u64, start.elapsed());
}

/// The setup with threads that compact and collect.
fn with_threads(mut setup: Setup, threads: usize) -> Setup {
    setup.options.background = Background::Threads(threads);
    setup
}

/// The engine with threads, a preset by the seed; of the last one level 0 has few partitions.
fn setup(seed: u64) -> Setup {
    let preset = Preset::ALL[(seed % Preset::ALL.len() as u64) as usize];
    let mut setup = with_threads(Setup::tiny(preset, seed / 4 % 3 != 2), 2);
    if preset == Preset::Ohdb {
        setup.options.tuning.level0 = Some(Level0::Partitions(3));
    }
    setup
}

/// The setup without threads: for the recovery from a crash.
fn manual(setup: &Setup) -> Setup {
    let mut setup = setup.clone();
    setup.options.background = Background::Manual;
    setup
}

/// Runs operations of one client, and compares every answer with an ordered map's.
fn run(setup: &Setup, ops: &[Op]) -> Result<(), String> {
    let mut session = Session::on(Disks::forgetful(setup), setup, State::default())?;
    for (i, op) in ops.iter().enumerate() {
        session.run(op).map_err(|failure| format!("{setup}: operation {i}: {failure}"))?;
    }
    session.compare_all()?;
    session.db().wait_idle().map_err(|e| format!("{setup}: settle failed: {e}"))?;
    session.verify()?;
    session.leave(true)
}

/// One client under any setup.
fn answers(seed: u64) -> Result<(), String> {
    let mut all = Setup::all();
    let setup = with_threads(all.swap_remove(seed as usize % all.len()), 2);
    // Where the disk is gone a thread that drains goes round, and a caller that waits for a
    // flush may not hear that it was given up: a second later it looks by itself, but no time
    // passes here.
    let profile = Profile { kills: false, ..Profile::model() };
    run(&setup, &Generator::new(seed, profile).take(60))
}

/// Few keys, which are overwritten so fast that compactions meet what collections read.
fn collections(seed: u64) -> Result<(), String> {
    let setups = [
        Setup::tiny(Preset::WiscKey, true),
        Setup::tiny(Preset::HashKv, true),
        Setup::tiny(Preset::KtStore, true),
    ];
    let mut setup = with_threads(setups[seed as usize % 3].clone(), 3);
    (setup.options.space_amplification, setup.options.tuning.space_floor) = (1.05, 32 << 10);
    // Short values stay in the tables, so that level 0 fills while values are collected.
    setup.options.min_separated = Some(1000);
    (setup.options.tuning.level0_bytes, setup.options.tuning.level1_bytes) =
        (Some(4 << 10), Some(4 << 10));
    let value_lens = vec![900, 900, 1500, 3000];
    let profile = Profile { value_lens, keys: 12, odd_keys: false, ..Profile::model() };
    run(&setup, &Generator::new(seed, profile).take(80))
}

/// Groups that outgrow their length again and again, while flushes write to them.
fn splits(seed: u64) -> Result<(), String> {
    let preset = [Preset::KtStore, Preset::HashKv][seed as usize % 2];
    let mut setup = with_threads(Setup::tiny(preset, true), 2);
    let groups = &mut setup.options.tuning.groups;
    (groups.main_segment_bytes, groups.capacity_bytes) = (8 << 10, 8 << 10);
    (setup.options.space_amplification, setup.options.tuning.space_floor) = (1.05, 16 << 10);
    let profile = Profile { value_lens: vec![900, 1500], keys: 40, ..Profile::model() };
    run(&setup, &Generator::new(seed, profile).take(120))
}

/// Level 0 in buckets that several threads compact while flushes join them.
fn bucket_setup(seed: u64) -> Setup {
    let mut setup = Setup::tiny(Preset::Ohdb, !seed.is_multiple_of(3));
    setup.options.background = Background::Threads(3);
    setup.options.tuning.level0 = Some(Level0::Partitions(4));
    // What leaves level 0 meets all that is below: compactions that last, so that others begin.
    setup.options.tuning.level1_bytes = Some(1 << 20);
    setup
}

/// Many keys and small flushes, whose tables reach over the buckets that are there.
fn bucket_ops(seed: u64, count: usize, reads: bool) -> Vec<Op> {
    let value_lens = vec![10, 300, 1000, 1500];
    let profile = Profile { value_lens, keys: 64, odd_keys: false, reads, ..Profile::model() };
    let ops = Generator::new(seed, Profile { collects: false, ..profile }).take(count);
    let flush = |(i, op)| [Some(op), (i % 6 == 5).then_some(Op::Flush)];
    ops.into_iter().enumerate().flat_map(flush).flatten().collect()
}

/// One client beside compactions of several buckets.
fn buckets(seed: u64) -> Result<(), String> {
    run(&bucket_setup(seed), &bucket_ops(seed, 500, true))
}

/// Crashes at `points` of what one client and the jobs did to the disk.
fn crash(seed: u64, setup: &Setup, ops: &[Op], points: usize) -> Result<(), String> {
    let recording = Recording::first(setup, ops)?;
    let recover_with = vec![manual(setup)];
    let plan = Plan { seed, images_max: 2, points: Some(points), depth: 1, ..Plan::default() };
    let survived = Explorer::new(Plan { recover_with, ..plan }).explore(&recording);
    survived.map_err(|failure| format!("{setup}: {failure}"))
}

/// Every preset in turn, every fourth time with level 0 in partitions under one of the others.
fn crashes(seed: u64) -> Result<(), String> {
    let mut setup = setup(seed);
    if seed % 4 == 3 {
        setup = with_threads(Setup::partitioned()[(seed / 4 % 4) as usize].clone(), 2);
    }
    crash(seed, &setup, &Generator::new(seed, Profile::crash()).take(30), 30)
}

/// While several buckets are compacted.
fn bucket_crashes(seed: u64) -> Result<(), String> {
    crash(seed, &bucket_setup(seed), &bucket_ops(seed, 80, false), 12)
}

#[test]
fn answers_are_those_of_an_ordered_map() {
    explore(60, answers);
}

#[test]
fn collections_lose_nothing_that_jobs_beside_them_write() {
    explore(80, collections);
}

#[test]
fn groups_split_beside_flushes() {
    explore(60, splits);
}

#[test]
fn every_crash_is_survived() {
    explore(60, crashes);
}

#[test]
fn buckets_that_are_compacted_side_by_side_answer_as_one() {
    explore(40, buckets);
}

#[test]
fn every_crash_beside_compactions_of_buckets_is_survived() {
    explore(30, bucket_crashes);
}

#[test]
fn clients_see_whole_batches_in_their_order() {
    explore(40, clients::clients);
}

#[test]
fn readers_see_what_was_acknowledged() {
    explore(60, clients::lookers);
}

#[test]
fn log_files_end_beside_writers() {
    explore(40, calls::collectors);
}
