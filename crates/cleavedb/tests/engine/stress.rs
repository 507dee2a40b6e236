//! Stress: threads write and read, the store is closed, dropped or killed, and each open draws all
//! options anew, sizes and ratios alike.
//!
//! Each writer owns some keys and writes to them in turn, always two keys in one batch, which
//! differ only in their prefix: puts of drawn lengths, and deletes. What a key holds after a kill
//! is what was acknowledged last, or what was under way; both keys of a batch agree. No call may
//! wait for ever: a writer that is told that it waits for nothing, or that makes no progress for a
//! minute, is a failure.
//!
//! A run is drawn from a seed, but for the order of threads.

use std::collections::BTreeMap;
use std::io::{Write, stderr};
use std::process::abort;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use cleavedb::{Db, WriteBatch};
use cleavedb_storage_sim::Sim;
use cleavedb_storage_sim::sim::Rng;
use cleavedb_testkit::budget::{of, seeds};
use cleavedb_testkit::drawn::{created, redrawn};

/// Opens of one store, and batches that each writer commits in one.
const OPENS: usize = 6;
const BATCHES: u64 = 250;

const WRITERS: usize = 2;

/// Keys of a writer.
const KEYS: usize = 40;

/// Bytes that may be alive: two keys of each batch, of which a mean one has 1.6 KB.
const LIVE: u64 = (2 * WRITERS * KEYS) as u64 * 2000;

/// Time without progress after which a thread counts as waiting for ever.
const PATIENCE: Duration = Duration::from_secs(60);

fn key(prefix: char, writer: usize, at: usize) -> Vec<u8> {
    format!("{prefix}{writer}/{at:03}").into_bytes()
}

/// What `round` writes to a key: a value that names both, or a delete.
fn value(writer: usize, at: usize, round: u64) -> Option<Vec<u8>> {
    let mut rng = Rng::new(round << 20 | (writer << 10 | at) as u64);
    let len = [5, 60, 300, 1500, 6000][rng.index(5)];
    (!rng.chance(20)).then(|| {
        let mut value = format!("{writer}/{at:03} {round} ").into_bytes();
        value.resize(value.len() + len, round as u8);
        value
    })
}

/// Rounds of a key: the one whose value it holds, if nothing is under way, and the youngest begun.
#[derive(Clone, Copy, Default)]
struct Rounds {
    held: u64,
    begun: u64,
}

type Book = Arc<Mutex<BTreeMap<(usize, usize), Rounds>>>;

fn rounds(book: &Book) -> BTreeMap<(usize, usize), Rounds> {
    book.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

fn note(book: &Book, id: (usize, usize), change: impl FnOnce(&mut Rounds)) {
    change(book.lock().unwrap_or_else(PoisonError::into_inner).entry(id).or_default());
}

/// Writes until it has written enough, or until it is told to stop: by a kill, after which whatever
/// its handle says is of no account.
fn write(db: &Db, book: &Book, writer: usize, seed: u64, (done, stop): (&AtomicU64, &AtomicBool)) {
    let mut rng = Rng::new(seed ^ (writer as u64) << 32);
    for _ in 0..BATCHES {
        let at = rng.index(KEYS).min(rng.index(KEYS));
        let id = (writer, at);
        let mut round = 0;
        note(book, id, |rounds| {
            rounds.begun += 1;
            round = rounds.begun;
        });
        let mut batch = WriteBatch::new();
        for prefix in ['a', 'b'] {
            let key = key(prefix, writer, at);
            match value(writer, at, round) {
                Some(value) => batch.put(&key, &value).unwrap(),
                None => batch.delete(&key).unwrap(),
            };
        }
        let written = db.write_with(&batch, db.options().durability);
        if stop.load(Ordering::SeqCst) {
            return;
        }
        written.unwrap_or_else(|e| panic!("writer {writer}: {e}\n{:?}", db.metrics()));
        note(book, id, |rounds| rounds.held = round);
        done.fetch_add(1, Ordering::SeqCst);
    }
}

/// Reads ranges and keys until it is told to stop: what is there is in order, and is what a
/// writer wrote to that key.
fn read(db: &Db, seed: u64, stop: &AtomicBool) {
    let mut rng = Rng::new(seed);
    while !stop.load(Ordering::SeqCst) {
        let writer = rng.index(WRITERS);
        let at = rng.index(KEYS);
        let mut last = Vec::new();
        for item in db.range(&key('a', writer, at)..).take(1 + rng.index(20)) {
            let item = match item {
                Ok(item) => item,
                Err(_) if stop.load(Ordering::SeqCst) => return,
                Err(e) => panic!("a range: {e}"),
            };
            assert!(last < item.key.to_vec(), "keys in order");
            last = item.key.to_vec();
            let name = item.key.escape_ascii();
            assert!(item.value.starts_with(&item.key[1..]), "{name} holds another's value");
        }
        thread::yield_now();
    }
}

/// Compares each key with what may be there, and takes down what is.
fn compare(db: &Db, book: &Book, least: &BTreeMap<(usize, usize), Rounds>) {
    for (&(writer, at), now) in &rounds(book) {
        let held = least.get(&(writer, at)).map_or(0, |rounds| rounds.held);
        let found = ['a', 'b'].map(|prefix| db.get(key(prefix, writer, at)).unwrap());
        assert_eq!(found[0], found[1], "writer {writer}, key {at}: half a batch");
        let written = |round: &u64| match round {
            0 => None,
            round => value(writer, at, *round),
        };
        let since = least.get(&(writer, at)).map_or(1, |rounds| (rounds.held + 1).max(1));
        let round = std::iter::once(held)
            .chain(since..=now.begun)
            .find(|round| written(round).as_deref() == found[0].as_deref());
        let round = round.unwrap_or_else(|| {
            panic!("writer {writer}, key {at}: neither round {held} nor one up to {}", now.begun)
        });
        note(book, (writer, at), |rounds| rounds.held = round);
    }
}

/// Waits until `over`, as long as `done` grows.
fn watch(done: &AtomicU64, over: impl Fn() -> bool, db: &Db) {
    let mut last = (0, Instant::now());
    while !over() {
        let now = done.load(Ordering::SeqCst);
        if now != last.0 {
            last = (now, Instant::now());
        }
        if last.1.elapsed() >= PATIENCE {
            // A thread that waits for ever cannot be joined, so a panic would not end the test.
            let (options, metrics) = (db.options(), db.metrics());
            let _ = writeln!(stderr(), "no thread goes on under {options:?}: {metrics:?}");
            abort();
        }
        thread::sleep(Duration::from_millis(2));
    }
}

/// One process: threads at work, until all is written or it is killed. The disk that it leaves, and
/// what had been acknowledged.
fn process(
    sim: Sim,
    db: Db,
    book: &Book,
    rng: &mut Rng,
) -> (Sim, BTreeMap<(usize, usize), Rounds>) {
    let (seed, killed_at) = (rng.next_u64(), rng.below(3 * WRITERS as u64 * BATCHES));
    let (done, stop) = (AtomicU64::new(0), AtomicBool::new(false));
    let all = WRITERS as u64 * BATCHES;
    let left = thread::scope(|scope| {
        let writers: Vec<_> = (0..WRITERS)
            .map(|writer| {
                let (db, done, stop) = (&db, &done, &stop);
                scope.spawn(move || write(db, book, writer, seed, (done, stop)))
            })
            .collect();
        scope.spawn(|| read(&db, seed, &stop));
        let ended = || writers.iter().all(|writer| writer.is_finished());
        let at = killed_at.min(all);
        watch(&done, || ended() || done.load(Ordering::SeqCst) >= at, &db);
        if killed_at >= all {
            watch(&done, ended, &db);
            stop.store(true, Ordering::SeqCst);
            return None;
        }
        let least = rounds(book);
        stop.store(true, Ordering::SeqCst);
        // What is done from now on belongs to a dead process.
        Some((sim.kill(), least))
    });
    if let Some(left) = left {
        return left;
    }
    if rng.chance(50) {
        db.close().unwrap();
    }
    (sim, rounds(book))
}

/// One store through several processes.
fn store(seed: u64) {
    let mut rng = Rng::new(seed);
    let base = created(&mut rng);
    let sim = Sim::new();
    sim.stop_recording();
    let book = Book::default();
    let (mut sim, mut least) = (sim, BTreeMap::new());
    for open in 0..OPENS {
        let options = redrawn(&base, LIVE, &mut rng);
        println!("seed {seed}, open {open}: {options:?}");
        let db = Db::open_in(Arc::new(sim.clone()), options.clone(), 7).unwrap();
        compare(&db, &book, &least);
        let problems = db.verify().unwrap().problems;
        assert!(problems.is_empty(), "{problems:?}");
        (sim, least) = process(sim.clone(), db, &book, &mut rng);
    }
}

#[test]
fn all_options_are_drawn_at_every_open() {
    seeds(of(10, 100, 3000)).for_each(store);
}
