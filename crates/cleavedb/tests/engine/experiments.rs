//! What only figures of papers need, behind the feature `experiments`: each design of it at work.
//!
//! `cargo test -p cleavedb --features experiments,cleavedb-testkit/experiments --test engine
//! experiments::`

use std::sync::Arc;
use std::thread::sleep;
use std::time::{Duration, Instant};

use cleavedb::layout::Partition;
use cleavedb::tuning::{Level0, VictimPolicy};
use cleavedb::{Background, Db, ErrorKind, Options, Preset};
use cleavedb_storage_sim::Sim;
use cleavedb_testkit::records::{key, value};
use cleavedb_testkit::rounds::{KEYS, check, options, write};
use cleavedb_testkit::{Disks, Generator, Plan, Profile, Session, Setup, State};

use super::{crash, smoke, tagging};

const FLUSHED: u32 = 20;

/// Bytes of a flush, at most: the values have 900 bytes and more.
const FLUSHED_MAX: u64 = FLUSHED as u64 * 1200;

/// Sequences of operations, and their length.
const SEEDS: u64 = 10;
const OPS: usize = 150;

fn answers_as_a_map_does(setup: &Setup, seed: u64) -> Result<(), String> {
    let mut session = Session::on(Disks::forgetful(setup), setup, State::default())?;
    let ops = Generator::new(seed, Profile::model()).take(OPS);
    ops.iter().try_for_each(|op| session.run(op))?;
    session.compare_all()?;
    session.verify()?;
    session.leave(true).map(drop)
}

#[test]
fn they_answer_as_a_map_does() {
    for setup in Setup::experiments() {
        for seed in 0..SEEDS {
            let answered = answers_as_a_map_does(&setup, seed);
            answered.unwrap_or_else(|e| panic!("{setup}, seed {seed}: {e}"));
        }
    }
}

#[test]
fn they_survive_every_crash() {
    for setup in Setup::experiments() {
        crash::visit(&setup, Plan::default(), 64);
    }
}

/// Level 0 may be kept in another way at each open.
#[test]
fn the_level_0_of_hyperleveldb_is_left_and_taken_up() {
    let kinds = [Level0::Whole, Level0::Partitions(3), Level0::HyperLevelDb];
    let base = Setup::tiny(Preset::Ohdb, true);
    for order in [[2, 0, 1], [1, 2, 0], [0, 2, 1]] {
        let [setup, second, third] = order.map(|kind| base.clone().with_small_level0(kinds[kind]));
        let recover_with = vec![second, third, setup.clone()];
        let plan = Plan { recover_with, points: Some(40), deeper_ops: 12, ..Plan::default() };
        crash::visit(&setup, plan, 64);
    }
}

#[test]
fn an_experiment_without_a_meaning_is_refused() {
    let refused = |preset, change: fn(&mut Options)| {
        let mut options = Options::preset(preset);
        change(&mut options);
        let error = options.validate().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidOptions, "{error}");
    };
    refused(Preset::Lsm, |o| o.tuning.groups.experiments.victim = VictimPolicy::CostBenefit);
    refused(Preset::HashKv, |o| o.tuning.groups.experiments.cold_log_counts = false);
    refused(Preset::HashKv, |o| o.tuning.groups.experiments.one_at_first = true);
    refused(Preset::KtStore, |o| {
        by_prefix(o);
        o.tuning.groups.experiments.one_at_first = true;
    });
}

fn by_prefix(options: &mut Options) {
    let mut layout = options.layout();
    layout.groups.as_mut().unwrap().partition = Partition::Prefix(2);
    options.layout = Some(layout);
}

#[test]
fn updates_are_collected_under_every_policy() {
    let policies = [
        VictimPolicy::Greedy,
        VictimPolicy::CostBenefit,
        VictimPolicy::GreedyRandom(2),
        VictimPolicy::Random,
    ];
    for (preset, victim) in [Preset::HashKv, Preset::KtStore]
        .into_iter()
        .flat_map(|p| policies.map(|victim| (p, victim)))
    {
        let mut options = options(preset);
        options.tuning.groups.experiments.victim = victim;
        let sim = Sim::new();
        let db = Db::open_in(Arc::new(sim.clone()), options.clone(), 7).unwrap();
        write(&db, 0..12);
        check(&db, 11);
        let metrics = db.metrics();
        assert!(metrics.collections > 0 && metrics.bytes_punched > 0, "{victim:?}");
        let bytes = metrics.value_bytes;
        assert!(bytes < 2 * u64::from(KEYS) * 900, "{victim:?}: {bytes}");
        db.close().unwrap();
        check(&Db::open_in(Arc::new(sim), options, 7).unwrap(), 11);
    }
}

/// With fixed levels a prefix has its group from its first key on, and keeps it.
#[test]
fn fixed_levels_make_a_group_for_each_prefix() {
    let sim = Sim::new();
    let mut options = options(Preset::KtStore);
    by_prefix(&mut options);
    let open = |options: &Options| Db::open_in(Arc::new(sim.clone()), options.clone(), 7).unwrap();
    let db = open(&options);
    for prefix in ["a", "ab", "ac", "b", "ba"] {
        db.put(prefix.as_bytes(), value(1, 1)).unwrap();
        (0..20).for_each(|i| db.put([prefix.as_bytes(), &key(i)].concat(), value(i, 1)).unwrap());
    }
    db.flush().unwrap();
    // Of "a" and "b" themselves the first group takes care; "ak" and "bk" are prefixes, too.
    assert_eq!(db.metrics().groups, 1 + 5);
    db.collect().unwrap();
    db.close().unwrap();
    let db = open(&options);
    db.put(b"c", value(1, 1)).unwrap();
    db.put(b"cc", value(1, 1)).unwrap();
    db.collect().unwrap();
    assert_eq!(db.metrics().groups, 1 + 6, "also after a second open");
    assert!(db.verify().unwrap().problems.is_empty());
    assert_eq!(db.range(..).with_limit_hint(50).count(), 107);
}

/// The paper's accounting: groups get the space that cold values have left.
#[test]
fn a_cold_log_without_a_limit_is_not_collected_for_space() {
    let collected = |counts| {
        let mut options = tagging::options();
        options.tuning.groups.experiments.cold_log_counts = counts;
        let db = tagging::open(options);
        tagging::age(&db, 20);
        (tagging::HOT..tagging::HOT + 100).for_each(|i| db.put(key(i), value(i, 0)).unwrap());
        db.flush().unwrap();
        db.wait_idle().unwrap();
        tagging::check(&db, 20);
        db.metrics().collections
    };
    let (limited, unlimited) = (collected(true), collected(false));
    assert!(unlimited < limited, "{unlimited} collections of {limited}");
}

/// Options of ranges of keys that begin as one group.
fn one_group(preset: Preset) -> Options {
    let mut options = Setup::tiny(preset, true).options;
    options.tuning.groups.experiments.one_at_first = true;
    // So large that space is no reason to collect.
    options.tuning.space_floor = 1 << 30;
    options
}

fn check_all(db: &Db) {
    check(db, 0);
    let keys: Vec<_> = db.range(..).map(|item| item.unwrap().key.to_vec()).collect();
    assert_eq!(keys, (0..KEYS).map(key).collect::<Vec<_>>());
}

fn grows(preset: Preset) {
    let (sim, options) = (Sim::new(), one_group(preset));
    let open = || Db::open_in(Arc::new(sim.clone()), options.clone(), 7).unwrap();
    let db = open();
    let main = options.tuning.groups.main_segment_bytes;
    let mut before = db.metrics();
    // In no order: keys that ascend begin groups of their own.
    for (count, i) in (0..KEYS).map(|at| at * 147 % KEYS).enumerate() {
        db.put(key(i), value(i, 0)).unwrap();
        if count as u32 % FLUSHED != FLUSHED - 1 {
            continue;
        }
        db.flush().unwrap();
        let flushed = db.metrics();
        if before.flushes == 0 {
            assert_eq!(flushed.groups, 1, "{preset}: the first flush divides nothing");
        }
        while db.step().unwrap() {
            let after = db.metrics();
            if after.splits > before.splits {
                let copied = after.collection_written - before.collection_written;
                let group = 2 * main + FLUSHED_MAX;
                assert!(copied <= group, "{preset}: {copied} bytes of a group of {group} at most");
            }
            before = after;
        }
        before = db.metrics();
    }
    assert!(before.splits > 4, "{preset}: {} splits", before.splits);
    assert!(before.groups as u64 > before.splits, "{preset}");
    check_all(&db);
    db.close().unwrap();
    let db = open();
    assert_eq!(db.metrics().groups, before.groups);
    check_all(&db);
}

#[test]
fn one_group_at_first_splits_as_data_grows() {
    grows(Preset::KtStore);
    grows(Preset::HoaKv);
}

/// A tree whose youngest table reaches across all keys and holds two of them, read a thousand times
/// in between; whether a compaction came of it.
fn compacts_on_reads(level0: Level0, background: Background) -> bool {
    let dir = tempfile::tempdir().unwrap();
    let mut options = smoke::small(Preset::Lsm, background);
    options.tuning.level0 = Some(level0);
    let db = Db::open(dir.path().join("db"), options).unwrap();
    for i in 0..100 {
        db.put(smoke::key(i), b"below").unwrap();
    }
    db.compact().unwrap();
    db.put(b"a", b"above").unwrap();
    db.put(b"z", b"above").unwrap();
    db.flush().unwrap();
    let before = db.metrics().compactions;
    for i in 0..1000 {
        assert_eq!(db.get(smoke::key(i % 100)).unwrap().as_deref(), Some(&b"below"[..]));
    }
    let patience = if level0 == Level0::HyperLevelDb { 60_000 } else { 300 };
    let start = Instant::now();
    while db.metrics().compactions == before && start.elapsed() < Duration::from_millis(patience) {
        match background {
            Background::Manual if db.step().unwrap() => {}
            Background::Manual => break,
            Background::Threads(_) => sleep(Duration::from_millis(1)),
        }
    }
    let compacted = db.metrics().compactions > before;
    db.close().unwrap();
    compacted
}

#[test]
fn reads_have_a_table_compacted_under_the_baseline_of_ohdb_and_nowhere_else() {
    for background in [Background::Manual, Background::Threads(1)] {
        assert!(compacts_on_reads(Level0::HyperLevelDb, background));
        assert!(!compacts_on_reads(Level0::Whole, background));
        assert!(!compacts_on_reads(Level0::Partitions(4), background));
    }
}
