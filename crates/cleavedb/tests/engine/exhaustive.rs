//! Every sequence of a few operations over two keys survives every crash, inline and separated.
//!
//! Small workloads, all of them, find most crash bugs (ACE). Each sequence starts from a store in
//! which both keys have a flushed version, so that deletes, overwrites and collections meet one.
//! All of them run at night, and else some that the seed draws.

use cleavedb::{Durability, Operand, Preset};
use cleavedb_testkit::budget::{first_seed, of};
use cleavedb_testkit::session::a_part_leaves_level0;
use cleavedb_testkit::{Explorer, Op, Plan, Recording, Setup, Write};

/// Longest sequence.
const LEN: usize = 3;

const KEYS: [&[u8]; 2] = [b"a", b"b"];

/// Least length of a value.
const SHORT: usize = 40;

/// Least length where a value is to be as much as a bucket of level 0 may hold.
const LONG: usize = 3000;

fn value(n: usize, least: usize) -> Vec<u8> {
    vec![n as u8; least + 7 * n]
}

/// The operation `choice` as the `n`th of its sequence.
fn op(choice: usize, n: usize, least: usize) -> Op {
    let [a, b] = KEYS;
    let value = |n| value(n, least);
    let write = |writes, durability| Op::Write(writes, durability);
    match choice {
        0 => write(vec![Write::put(a, value(n))], Durability::Os),
        1 => write(vec![Write::put(b, value(n))], Durability::Sync),
        2 => write(vec![Write::delete(a)], Durability::Os),
        3 => write(vec![Write::delete_range(b, b"c")], Durability::Buffered),
        4 => write(
            vec![Write::merge(a, Operand::append(value(n))), Write::delete(b)],
            Durability::Os,
        ),
        5 => Op::Flush,
        6 => Op::Step(1),
        7 => Op::Collect,
        8 => Op::Snapshot,
        9 => Op::DropSnapshot(0),
        10 => Op::Sync,
        _ => Op::Reopen,
    }
}

const CHOICES: usize = 12;

/// What each sequence begins with: a write of both keys, and `first`.
fn base(least: usize, first: &[Op]) -> Vec<Op> {
    let writes = KEYS.map(|key| Write::put(key, value(9, least))).to_vec();
    [&[Op::Write(writes, Durability::Os)], first].concat()
}

/// One in this number of the sequences runs under a preset, and under a variant of one. No factor
/// of the number of choices, so that any two operations meet, in every place, if it is below that.
fn one_in() -> [usize; 2] {
    of([35, 101], [5, 11], [1, 1])
}

fn every_sequence(preset: Preset) {
    sequences_with(&Setup::tiny(preset, true), (SHORT, one_in()[0]), &[Op::Flush]);
}

fn sequences_of(setup: &Setup) {
    sequences_with(setup, (SHORT, one_in()[1]), &[Op::Flush]);
}

/// One in `one_in` of the sequences, with values of `least` bytes and more, behind the base with
/// `first`.
fn sequences_with(setup: &Setup, (least, one_in): (usize, usize), first: &[Op]) {
    let start = std::time::Instant::now();
    let plan = Plan { images_max: 6, thorough_one_in: 50, depth: 1, ..Plan::default() };
    let mut explorer = Explorer::new(plan);
    let base = base(least, first);
    for number in 0..CHOICES.pow(LEN as u32) {
        if !(number as u64 + first_seed()).is_multiple_of(one_in as u64) {
            continue;
        }
        let choices = (0..LEN).map(|i| number / CHOICES.pow(i as u32) % CHOICES);
        let sequence: Vec<Op> =
            choices.enumerate().map(|(n, choice)| op(choice, n, least)).collect();
        let ops = [&base[..], &sequence[..]].concat();
        let outcome = Recording::first(setup, &ops)
            .and_then(|recording| explorer.explore_from(&recording, recording.after(first.len())));
        if let Err(failure) = outcome {
            panic!("{setup}, {sequence:?}: {failure}");
        }
    }
    println!("{setup}: {:?}, {:?}", explorer.totals, start.elapsed());
}

#[test]
fn inline() {
    every_sequence(Preset::Lsm);
}

#[test]
fn in_partitions() {
    every_sequence(Preset::Ohdb);
}

#[test]
fn in_partitions_without_a_lasting_window() {
    sequences_of(&Setup::tiny(Preset::Ohdb, false));
}

/// Two versions of both keys: in level 1, and in a bucket each of level 0.
fn buckets() -> [Op; 4] {
    let buckets = KEYS.map(|key| Write::put(key, value(0, LONG / 2))).to_vec();
    [Op::Flush, Op::Compact, Op::Write(buckets, Durability::Os), Op::Flush]
}

/// The other presets in partitions. Each key has a bucket of its own over level 1, and a value
/// fills it, so one may leave while the other stays.
#[test]
fn buckets_under_every_preset() {
    for mut setup in Setup::partitioned() {
        setup.options.min_separated = Some(LONG + 14);
        let first = buckets();
        let leaves = [&base(LONG, &first)[..], &[op(0, 0, LONG), Op::Flush, Op::Step(1)]].concat();
        assert!(a_part_leaves_level0(&setup, &leaves).unwrap(), "{setup}: buckets leave together");
        sequences_with(&setup, (LONG, one_in()[1]), &first);
    }
}

/// The collection begins a log file. If power is lost before the next write is synced, the window
/// may have the write while the file has no header.
#[test]
fn a_log_file_that_lost_its_header_holds_nothing() {
    for mut setup in Setup::partitioned() {
        setup.options.min_separated = Some(LONG + 14);
        let sequence = [op(3, 0, LONG), Op::Collect, op(1, 2, LONG)];
        let ops = [&base(LONG, &buckets())[..], &sequence].concat();
        let recording = Recording::first(&setup, &ops).unwrap();
        let plan = Plan { images_max: 50, thorough_one_in: 1, depth: 1, ..Plan::default() };
        let explored = Explorer::new(plan).explore_from(&recording, recording.after(4));
        explored.unwrap_or_else(|failure| panic!("{setup}: {failure}"));
    }
}

#[test]
fn separated() {
    every_sequence(Preset::WiscKey);
}

#[test]
fn separated_without_a_lasting_window() {
    sequences_of(&Setup::tiny(Preset::WiscKey, false));
}

/// Every flush and every collection writes to the second disk.
#[test]
fn separated_on_two_disks() {
    let [_, wisckey, ..] = Setup::two_disks();
    sequences_of(&wisckey);
}

/// Values of 54 bytes and more leave for their groups; shorter ones stay: keys move between both.
#[test]
fn grouped() {
    grouped_sequences(Setup::tiny(Preset::HashKv, true), one_in()[0]);
}

#[test]
fn grouped_by_key() {
    grouped_sequences(Setup::tiny(Preset::KtStore, true), one_in()[0]);
}

#[test]
fn grouped_with_tags() {
    grouped_sequences(Setup::tagged(true), one_in()[1]);
}

fn grouped_sequences(mut setup: Setup, one_in: usize) {
    setup.options.min_separated = Some(54);
    sequences_with(&setup, (SHORT, one_in), &[Op::Flush]);
}
