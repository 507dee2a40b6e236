//! The threads of a store: they sleep until there is work, and one that cannot be started takes
//! no other with it.
//!
//! That a store which is not used costs nothing is counted in wake-ups, not in time.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::chown;
use std::thread::sleep;
use std::time::Duration;

use cleavedb::{Background, Db, ErrorKind, Options, Preset, Resources};
use cleavedb_testkit::budget::in_turn;
use cleavedb_testkit::child::in_a_child;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::thread::{Uid, set_thread_uid};

/// How long wake-ups are counted, how many a store at rest has in that time, and how often they are
/// counted before it must have come to rest.
const LOOK: Duration = Duration::from_secs(1);
const WAKES_MAX: u64 = 12;
const LOOKS_MAX: usize = 60;

/// Threads of a store that was written: one that drains, one that flushes, one that removes, and
/// the workers that the options ask for.
const THREADS: u64 = 3 + 2;

/// The options that users get.
fn options(preset: Preset) -> Options {
    Options { background: Background::Threads(2), ..Options::preset(preset) }
}

/// A number in a file of this process: `name` is the first word of its line.
fn number(path: &str, name: &str) -> u64 {
    let text = fs::read_to_string(path).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or_default()
}

/// How often all threads of this process went to sleep so far.
fn sleeps() -> u64 {
    let tasks = fs::read_dir("/proc/self/task").unwrap();
    let of = |path: String| number(&path, "voluntary_ctxt_switches:");
    tasks.map(|task| of(format!("{}/status", task.unwrap().path().display()))).sum()
}

fn wakes_of_a_look() -> u64 {
    let before = sleeps();
    sleep(LOOK);
    sleeps() - before
}

/// Each of its threads looked for work ten times a second, and the one that drains the log two
/// hundred times: 1,000 stores that did nothing took more than a processor.
#[test]
fn a_store_that_nobody_uses_wakes_nobody() {
    in_a_child(|| {
        for preset in in_turn(Preset::ALL.into()) {
            let dir = tempfile::tempdir().unwrap();
            let db = Db::open(dir.path(), options(preset)).unwrap();
            for round in 0..2u8 {
                db.put(b"key", [round; 100]).unwrap();
                let rests = (0..LOOKS_MAX).any(|_| wakes_of_a_look() <= WAKES_MAX);
                assert!(rests, "{preset}: {} wake-ups in {LOOK:?}", wakes_of_a_look());
                assert_eq!(db.get(b"key").unwrap().unwrap(), vec![round; 100]);
            }
            db.close().unwrap();
        }
    });
}

/// Threads of this process.
fn threads() -> u64 {
    number("/proc/self/status", "Threads:")
}

/// A user other than root: the system counts the threads of such users.
const USER: u32 = 65_534;

/// Lets this process's user have at most `most` threads, in all processes of the user.
fn limit_threads(most: u64) {
    let maximum = getrlimit(Resource::Nproc).maximum;
    setrlimit(Resource::Nproc, Rlimit { current: Some(most), maximum }).unwrap();
}

/// The threads that had been started were lost, and started again by the next write.
#[test]
fn a_thread_that_cannot_be_started_is_an_error_and_the_others_go_on() {
    in_a_child(|| {
        let dir = tempfile::tempdir().unwrap();
        if rustix::process::getuid().is_root() {
            chown(dir.path(), Some(USER), None).unwrap();
            // The calling thread and the ones that it starts.
            set_thread_uid(Uid::from_raw(USER)).unwrap();
        }
        let enough = getrlimit(Resource::Nproc).current.unwrap_or(u64::MAX);
        let all = THREADS as usize;
        for closes_with in [all, 0, 1, 2, all - 1] {
            let db = Db::open(dir.path(), options(Preset::Lsm)).unwrap();
            let (before, mut started) = (threads(), BTreeSet::new());
            for most in 0.. {
                limit_threads(most);
                let Err(error) = db.put(b"key", b"value") else { break };
                assert_eq!(error.kind(), ErrorKind::Io, "{error}");
                assert!(error.to_string().contains("start a background thread"), "{error}");
                started.insert(threads() - before);
                if started.len() > closes_with {
                    break;
                }
            }
            limit_threads(enough);
            assert_eq!(started.len(), all.min(closes_with + 1), "{started:?}");
            assert!(threads() - before <= THREADS, "{} threads", threads() - before);
            db.close().unwrap();
            assert_eq!(threads(), before, "all of them go at a close");
            let files = fs::read_dir(dir.path()).unwrap();
            let window = |file: fs::DirEntry| file.file_name() == "window";
            assert!(!files.map(Result::unwrap).any(window), "the session has ended");
        }
    });
}

/// Seconds of processor time that this process has taken.
fn processor_seconds() -> f64 {
    let stat = fs::read_to_string("/proc/self/stat").unwrap();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
    fields[11..13].iter().map(|ticks| ticks.parse::<f64>().unwrap()).sum::<f64>() / 100.0
}

/// Fifty stores of one process had 250 threads.
#[test]
fn stores_that_share_threads_have_one_each_and_a_few_together() {
    in_a_child(|| {
        const STORES: u64 = 50;
        let before = threads();
        let dir = tempfile::tempdir().unwrap();
        let resources = Resources::new(8 << 20, 1 << 20).with_threads(2);
        let open = |i: u64| {
            let shared = Options { resources: Some(resources.clone()), ..options(Preset::KtStore) };
            Db::open(dir.path().join(i.to_string()), shared).unwrap()
        };
        let dbs: Vec<Db> = (0..STORES).map(open).collect();
        assert_eq!(threads(), before, "none before the first write");
        for db in &dbs {
            db.put(b"key", [7; 1000]).unwrap();
            db.flush().unwrap();
        }
        // Two that flush, two that compact and collect, one that removes files.
        assert_eq!(threads(), before + STORES + 5);
        assert!((0..LOOKS_MAX).any(|_| wakes_of_a_look() <= WAKES_MAX), "they come to rest");
        for db in dbs {
            assert_eq!(db.get(b"key").unwrap().unwrap(), vec![7; 1000]);
            db.close().unwrap();
        }
        assert_eq!(threads(), before + 5);
        drop(resources);
        let gone = (0..100).any(|_| {
            sleep(Duration::from_millis(100));
            threads() == before
        });
        assert!(gone, "they go with the last clone of the resources");
    });
}

/// For a run by hand: what `CLEAVEDB_STORES` unused stores with one record each cost.
#[test]
#[ignore = "prints what many stores cost, for a run by hand"]
fn what_many_stores_cost() {
    let stores = std::env::var("CLEAVEDB_STORES").map_or(1000, |it| it.parse().unwrap());
    let hard = getrlimit(Resource::Nofile).maximum;
    setrlimit(Resource::Nofile, Rlimit { current: Some(8192), maximum: hard }).unwrap();
    for preset in Preset::ALL {
        let dir = tempfile::tempdir().unwrap();
        // Threads and caches of their own, or shared ones.
        let shares = std::env::var("CLEAVEDB_SHARED").is_ok();
        let resources = shares.then(|| Resources::new(64 << 20, 0).with_threads(2));
        let options = Options { resources, ..options(preset) };
        let open = |i: usize| Db::open(dir.path().join(i.to_string()), options.clone()).unwrap();
        let resident = || number("/proc/self/status", "VmRSS:") / 1024;
        let before = resident();
        let dbs: Vec<Db> = (0..stores).map(open).collect();
        let opened = resident();
        dbs.iter().for_each(|db| db.put(b"key", [7; 100]).unwrap());
        let threads = threads();
        let files = fs::read_dir("/proc/self/fd").unwrap().count();
        for wait in [1, 10, 10] {
            let (busy, slept) = (processor_seconds(), sleeps());
            sleep(Duration::from_secs(wait));
            let (busy, slept) = (processor_seconds() - busy, sleeps() - slept);
            let percent = busy / wait as f64 * 100.0;
            println!("{preset}: {percent:.1}% of a processor, {} wake-ups/s", slept / wait);
        }
        println!(
            "{preset}: {} MiB, {} open and {} written; {files} descriptors, {threads} threads",
            before,
            opened - before,
            resident() - before
        );
        dbs.into_iter().for_each(|db| _ = db.close().unwrap());
    }
}
