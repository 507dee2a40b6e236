//! A real process is killed with signal 9 between acknowledgements: nothing acknowledged is lost.
//!
//! The test runs itself as a child. Each thread of the child owns some keys and writes to them in
//! turn: puts, deletes, and batches over two keys, with values that name the key and the round. It
//! prints a line when a write was acknowledged (`Os` durability). The parent kills the child after
//! a random time, opens the store, and compares each key with the lines that it read: the round
//! found is the last one acknowledged, or the one after it, which may have been under way. A
//! secondary finds the same, before and after the recovery.

use std::io::{BufRead, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use cleavedb::{Background, Db, Durability, Options, WriteBatch};
use cleavedb_storage_sim::sim::Rng;
use cleavedb_testkit::Setup;
use cleavedb_testkit::budget::{first_seed, in_turn, of};

/// Keys of one thread.
const KEYS: u64 = 40;

/// Every design, and with level 0 in partitions.
fn designs() -> Vec<Setup> {
    Setup::every_design().into_iter().chain(Setup::partitioned()).collect()
}

const CHILD: &str = "CLEAVEDB_KILL_CHILD";

fn options(design: usize) -> Options {
    let options = designs().swap_remove(design).options;
    Options { background: Background::Threads(1), ..options }
}

fn key(thread: u64, round: u64) -> Vec<u8> {
    format!("thread{thread}/{:03}", round % KEYS).into_bytes()
}

/// Key of the other half of a batch.
fn twin(thread: u64, round: u64) -> Vec<u8> {
    format!("twin{thread}/{:03}", round % KEYS).into_bytes()
}

/// What round `round` writes: a value that names it, or a delete.
fn value(thread: u64, round: u64) -> Option<Vec<u8>> {
    let mut rng = Rng::new(thread << 32 | round);
    let len = [10, 200, 1000, 5000, 30_000][rng.index(5)];
    (!rng.chance(15)).then(|| {
        let mut value = format!("{thread} {round} ").into_bytes();
        value.resize(value.len() + len, round as u8);
        value
    })
}

/// Whether a round writes both keys in one batch.
fn is_batch(round: u64) -> bool {
    (round % KEYS).is_multiple_of(4)
}

fn write(db: &Db, thread: u64, round: u64) -> cleavedb::Result<()> {
    let (key, value) = (key(thread, round), value(thread, round));
    if !is_batch(round) {
        return match value {
            Some(value) => db.put_with(&key, &value, Durability::Os),
            None => db.delete_with(&key, Durability::Os),
        };
    }
    let mut batch = WriteBatch::new();
    for key in [key, twin(thread, round)] {
        match &value {
            Some(value) => batch.put(&key, value)?,
            None => batch.delete(&key)?,
        };
    }
    db.write_with(&batch, Durability::Os)
}

/// The child: writes until it is killed. The ordinary test run finds the variable unset.
#[test]
fn child() {
    let Ok(arguments) = std::env::var(CHILD) else { return };
    let mut arguments = arguments.split(' ');
    let mut next = || arguments.next().unwrap();
    let path = next().to_owned();
    let design = next().parse().unwrap();
    let first: Vec<u64> = next().split(',').map(|round| round.parse().unwrap()).collect();
    let db = Db::open(path, options(design)).unwrap();
    println!("open");
    std::thread::scope(|scope| {
        for (thread, first) in first.into_iter().enumerate() {
            let db = &db;
            scope.spawn(move || {
                for round in first.. {
                    write(db, thread as u64, round).unwrap();
                    // One write call a line: a killed process leaves whole lines, or none.
                    let line = format!("\n{thread} {round}\n");
                    std::io::stdout().lock().write_all(line.as_bytes()).unwrap();
                }
            });
        }
    });
}

fn spawn(path: &Path, design: usize, rounds: &[u64]) -> Child {
    let rounds: Vec<String> = rounds.iter().map(u64::to_string).collect();
    Command::new(std::env::current_exe().unwrap())
        .args(["kill::child", "--exact", "--nocapture"])
        .env(CHILD, format!("{} {design} {}", path.display(), rounds.join(",")))
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

/// Kills the child after `delay` from its open, or from its start, and returns the number of rounds
/// that each thread finished.
fn kill(mut child: Child, rounds: &[u64], delay: Duration, while_opening: bool) -> Vec<u64> {
    let out = child.stdout.take().unwrap();
    let (opened, wait) = std::sync::mpsc::channel();
    let mut rounds = rounds.to_vec();
    let reader = std::thread::spawn(move || {
        for line in BufReader::new(out).lines() {
            let Ok(line) = line else { break };
            if line == "open" {
                // The parent may be past waiting for it.
                let _ = opened.send(());
            }
            let fields: Vec<u64> = line.split(' ').filter_map(|f| f.parse().ok()).collect();
            if let [thread, round] = fields[..] {
                rounds[thread as usize] = round + 1;
            }
        }
        rounds
    });
    if !while_opening {
        wait.recv_timeout(Duration::from_secs(20)).expect("the child opens its store");
    }
    std::thread::sleep(delay);
    child.kill().unwrap();
    child.wait().unwrap();
    reader.join().unwrap()
}

/// The last round before `end` that wrote the key of `slot`.
fn last_round(slot: u64, end: u64) -> Option<u64> {
    (0..end).rev().find(|round| round % KEYS == slot)
}

/// Compares everything with the acknowledged rounds; a round under way counts if it is there.
fn compare(db: &Db, rounds: &mut [u64]) {
    for (thread, end) in rounds.iter_mut().enumerate() {
        let thread = thread as u64;
        let expected = |slot, end| last_round(slot, end).and_then(|round| value(thread, round));
        let found = db.get(key(thread, *end)).unwrap();
        if found.as_deref() == value(thread, *end).as_deref()
            && found.as_deref() != expected(*end % KEYS, *end).as_deref()
        {
            *end += 1;
        }
        for slot in 0..KEYS {
            let expected = expected(slot, *end);
            let found = db.get(key(thread, slot)).unwrap();
            assert!(found.as_deref() == expected.as_deref(), "thread {thread}, key {slot}");
            if is_batch(slot) {
                let found = db.get(twin(thread, slot)).unwrap();
                assert!(found.as_deref() == expected.as_deref(), "thread {thread}, twin {slot}");
            }
        }
    }
}

fn verify(db: &Db) {
    let report = db.verify().unwrap();
    assert!(report.problems.is_empty(), "{:?}", report.problems);
}

/// Catches up again and again while a primary writes, until `child` was killed.
fn follow_until<T>(secondary: &Db, child: impl FnOnce() -> T) -> T {
    let ended = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !ended.load(Ordering::Relaxed) {
                secondary.catch_up().unwrap();
                secondary.get(key(0, 0)).unwrap();
            }
        });
        let killed = child();
        ended.store(true, Ordering::Relaxed);
        killed
    })
}

/// Kills of each design whose turn it is.
fn kills_of_designs(threads: usize, count: usize) {
    let numbers = in_turn((0..designs().len()).collect());
    numbers.into_iter().for_each(|design| kills(design, threads, count));
}

fn kills(design: usize, threads: usize, count: usize) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("db");
    let mut rng = Rng::new(first_seed() + threads as u64);
    let mut rounds = vec![0; threads];
    Db::open(&path, options(design)).unwrap().close().unwrap();
    // The secondary outlives all of them, and is behind whenever it was not asked to catch up.
    let secondary = Db::open_secondary_with(&path, options(design)).unwrap();
    for number in 0..count {
        let child = spawn(&path, design, &rounds);
        let delay = Duration::from_micros(rng.below(100_000));
        let killed = || kill(child, &rounds, delay, false);
        rounds = if number % 3 == 0 { follow_until(&secondary, killed) } else { killed() };
        // What the dead process has left.
        secondary.catch_up().unwrap();
        compare(&secondary, &mut rounds);
        if number % 5 == 4 {
            // Two kills while it opens, which is while it recovers.
            for _ in 0..2 {
                let child = spawn(&path, design, &rounds);
                rounds = kill(child, &rounds, Duration::from_micros(rng.below(8_000)), true);
            }
        }
        let db = Db::open(&path, options(design)).unwrap();
        compare(&db, &mut rounds);
        verify(&db);
        // What the one that has recovered it says.
        secondary.catch_up().unwrap();
        compare(&secondary, &mut rounds);
        // Half of the stores go on from what an unclean end left, half from a clean one.
        match number % 2 {
            0 => drop(db.close().unwrap()),
            _ => drop(db),
        }
    }
    assert!(rounds.iter().sum::<u64>() > 0, "no child wrote anything");
    println!("{}, {threads} threads: {count} kills, rounds {rounds:?}", designs()[design]);
}

#[test]
fn one_writer_loses_nothing() {
    kills_of_designs(1, of(5, 10, 50));
}

#[test]
fn four_writers_lose_nothing() {
    kills_of_designs(4, of(5, 20, 100));
}
