//! What always goes on: jobs come to an end, none keeps the others from running, and writers wait
//! only for work that a thread does.

use std::ops::Range;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, Instant};

use cleavedb::{Background, Db, Durability, Options, Preset, Tuning};
use cleavedb_storage_sim::Sim;
use cleavedb_storage_sim::sim::Rng;
use cleavedb_testkit::budget::{of, seeds};
use cleavedb_testkit::read::Checked;
use cleavedb_testkit::records::{key, value};
use cleavedb_testkit::{Setup, drawn, endless};

/// Time after which a writer counts as kept waiting for ever.
const LIMIT: Duration = Duration::from_secs(60);

/// Stores with drawn options.
fn drawn_stores() -> Range<u64> {
    seeds(of(6, 20, 600))
}

fn holds(check: fn(u64) -> Checked<()>, seeds: Range<u64>) {
    for seed in seeds {
        // In a thread of its own: what waits for ever fails here.
        let (done, outcome) = channel();
        thread::spawn(move || done.send(check(seed)));
        let outcome = outcome.recv_timeout(LIMIT).expect("a call waits for ever, or panicked");
        outcome.unwrap_or_else(|failure| panic!("seed {seed}: {failure}"));
    }
}

/// A wrong estimate of garbage made collections write the same bytes again and again: of short
/// segments of the cold log, a byte of each of which was worth a collection, hundreds of times.
#[test]
fn a_collection_that_won_nothing_is_not_repeated() {
    holds(endless::short_segments_settle, seeds(of(4, 13, 400)));
}

/// Tables were packed into as many tables for ever: small by their compressed length, they ended by
/// a length in which an open block counted as if it were not compressed.
#[test]
fn tables_shorter_than_a_block_are_packed_once() {
    holds(endless::short_compressed_tables_settle, seeds(of(3, 10, 300)));
}

/// The compaction that met a damaged block was tried for ever, and nothing else ran.
#[test]
fn a_damaged_block_stops_nothing_else() {
    holds(endless::damaged_blocks_stop_nothing, seeds(of(2, 3, 50)));
}

/// Under `wisckey` one flush made 256 MiB of log count as garbage at once, which took writers from
/// full speed to a stop of a second: while there is much garbage, a MemTable covers less.
#[test]
fn a_flush_adds_a_part_of_what_stops_writers() {
    let sim = Sim::new();
    sim.stop_recording();
    let options = Options {
        background: Background::Manual,
        durability: Durability::Os,
        tuning: Tuning {
            log_file_bytes: 4 << 20,
            segment_bytes: 4 << 20,
            space_floor: 0,
            ..Tuning::default()
        },
        ..Options::preset(Preset::WiscKey)
    };
    let db = Db::open_in(Arc::new(sim), options, 7).unwrap();
    let mut rng = Rng::new(7);
    let mut write = |megabytes: u32| {
        let before = db.metrics().flushes;
        for i in 0..megabytes * 10 {
            let key = rng.below(600) as u32;
            db.put(key.to_be_bytes(), vec![i as u8; 100_000]).unwrap();
            db.wait_idle().unwrap();
        }
        db.metrics().flushes - before
    };
    // 60 MB of values, of which 18 more may be dead.
    let (first, second) = (write(600), write(320));
    assert!(second >= 10, "{second} flushes of 320 MB, {first} before");
}

/// A compaction that had no room kept collections from running, which would have made some.
#[test]
fn a_compaction_without_room_lets_collections_run() {
    holds(endless::collections_go_on_without_compactions, 0..1);
}

/// Each flush added a run above damaged tables, for ever.
#[test]
fn runs_above_damage_do_not_pile_up() {
    holds(endless::damage_fills_no_level0, seeds(of(2, 3, 50)));
}

/// Garbage in damaged files counted as collectable: writers waited for ever.
#[test]
fn damaged_values_never_stop_writers() {
    holds(endless::damaged_values_stop_no_writer, seeds(of(1, 2, 30)));
}

/// A store never accepted a write again that was closed behind a long value.
#[test]
fn a_long_last_log_never_stops_writers() {
    holds(endless::a_long_last_log_stops_no_writer, seeds(of(2, 3, 50)));
}

/// Deleted keys stayed until a call for a compaction: the first key of a queue lay behind all that
/// were ever taken from it.
#[test]
fn a_queue_finds_its_first_key_at_once() {
    holds(endless::a_queue_is_popped, seeds(of(3, 4, 24)));
}

/// Deletes in memory hid all that a queue had lost, also after a settle.
#[test]
fn a_queue_that_is_emptied_by_key_finds_its_first_key_at_once() {
    holds(endless::a_queue_is_emptied_by_key, seeds(of(3, 4, 24)));
}

/// Expired values in front stayed until all of a MemTable or half of a table had expired, or for a
/// day, and each search for the first key stepped over them.
#[test]
fn what_has_expired_in_front_is_not_stepped_over_for_long() {
    holds(endless::what_has_expired_is_not_stepped_over, seeds(of(3, 4, 24)));
}

/// What was deleted stayed until a MemTable more was written, or a call asked for it.
#[test]
fn what_was_deleted_gives_its_space_back_without_a_call() {
    let frees = |setup: &Setup| {
        let mut options = Options { background: Background::Threads(1), ..setup.options.clone() };
        (options.tuning.memtable_bytes, options.tuning.memtable_log_bytes) =
            (Some(2 << 20), 2 << 20);
        let db = Db::open_in(Arc::new(Sim::new()), options, 7).unwrap();
        (0..2000).for_each(|i| db.put(key(i), value(i, 0)).unwrap());
        db.flush().unwrap();
        (0..2000).for_each(|i| db.delete(key(i)).unwrap());
        let start = Instant::now();
        let taken = || db.metrics().value_bytes + db.metrics().index_bytes;
        while taken() > 400 << 10 {
            assert!(start.elapsed() < LIMIT, "{setup}: {:?}", db.metrics());
            thread::sleep(Duration::from_millis(20));
        }
    };
    thread::scope(|scope| {
        let setups = Setup::designs();
        let stores: Vec<_> =
            setups.into_iter().map(|setup| scope.spawn(move || frees(&setup))).collect();
        stores.into_iter().for_each(|store| store.join().unwrap());
    });
}

/// A writer that searched for space was refused with the damage that a job had met elsewhere.
#[test]
fn damage_refuses_no_writer_that_searches_for_space() {
    holds(endless::damage_refuses_no_writer_that_searches, seeds(of(2, 3, 50)));
}

/// All options are drawn anew at each open, snapshots are held, and files are damaged.
#[test]
fn work_comes_to_an_end_whatever_the_options() {
    let mut most = 0;
    for seed in drawn_stores() {
        let jobs = drawn::drawn_stores_settle(seed);
        most = most.max(jobs.unwrap_or_else(|failure| panic!("seed {seed}: {failure}")));
    }
    println!("{most} jobs at most after a round of writes");
}

/// The work of stores with hot segments alone.
#[test]
fn work_of_hot_stores_comes_to_an_end() {
    holds(drawn::drawn_hot_stores_settle, drawn_stores());
}

/// Drawn stores with threads, whose order is another each time.
#[test]
fn threads_come_to_an_end_whatever_the_options() {
    holds(drawn::drawn_stores_settle_with_threads, seeds(of(2, 7, 200)));
}
