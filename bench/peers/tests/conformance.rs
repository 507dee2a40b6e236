//! Every engine keeps the contract of the harness' interface.

use std::path::Path;
use std::thread;

use bench_peers::engines::{ENGINES, Entry};
use bench_peers::settings::PeerArgs;
use clap::Parser;
use cleavedb_bench::Engine;

/// Larger than a page, a block and the default threshold of every engine that separates.
const LARGE: usize = 64 << 10;

#[derive(Parser)]
struct Arguments {
    #[command(flatten)]
    peer: PeerArgs,
}

fn open(entry: &Entry, directory: &Path) -> Box<dyn Engine> {
    let arguments = Arguments::parse_from(["test"]);
    entry.opener(&arguments.peer).unwrap().open(directory).unwrap()
}

/// Runs `test` on a new store of every engine.
fn on_every_engine(test: impl Fn(&dyn Engine)) {
    assert!(!ENGINES.is_empty(), "no engine was compiled in");
    for entry in ENGINES {
        eprintln!("{}", entry.name);
        let directory = tempfile::tempdir().unwrap();
        let engine = open(entry, directory.path());
        test(engine.as_ref());
        engine.close().unwrap();
    }
}

fn get(engine: &dyn Engine, key: &[u8]) -> Option<Vec<u8>> {
    let mut seen = None;
    let found = engine.get(key, &mut |value| seen = Some(value.to_vec())).unwrap();
    assert_eq!(found, seen.is_some(), "{}", engine.name());
    seen
}

fn scan(engine: &dyn Engine, from: &[u8], limit: usize) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut seen = Vec::new();
    let visited = engine.scan(from, limit, &mut |key, value| {
        seen.push((key.to_vec(), value.to_vec()));
    });
    assert_eq!(visited.unwrap(), seen.len(), "{}", engine.name());
    seen
}

fn key(number: u32) -> Vec<u8> {
    format!("user{number:020}").into_bytes()
}

/// A value that no other number and no other length has.
fn value(number: u32, len: usize) -> Vec<u8> {
    (0..len).map(|at| (at as u32).wrapping_mul(2 * number + 1) as u8 ^ number as u8).collect()
}

#[test]
fn writes_are_synced_by_engines_that_can() {
    let arguments = Arguments::parse_from(["test", "--durability", "sync"]);
    for entry in ENGINES {
        let opener = match entry.opener(&arguments.peer) {
            Ok(opener) => opener,
            Err(error) => {
                assert!(error.to_string().contains("--durability sync"), "{error}");
                continue;
            }
        };
        let directory = tempfile::tempdir().unwrap();
        let engine = opener.open(directory.path()).unwrap();
        engine.put(b"key", b"value").unwrap();
        assert_eq!(get(engine.as_ref(), b"key").unwrap(), b"value");
        engine.close().unwrap();
    }
}

#[test]
fn names_are_unique_and_those_of_the_openers() {
    let arguments = Arguments::parse_from(["test"]);
    for (at, entry) in ENGINES.iter().enumerate() {
        assert!(ENGINES[..at].iter().all(|other| other.name != entry.name));
        assert_eq!(entry.opener(&arguments.peer).unwrap().name(), entry.name);
    }
    on_every_engine(|engine| {
        assert!(ENGINES.iter().any(|entry| entry.name == engine.name()));
    });
}

#[test]
fn what_was_put_is_found_until_it_is_replaced_or_deleted() {
    on_every_engine(|engine| {
        let name = engine.name();
        assert_eq!(get(engine, &key(1)), None, "{name}");
        for (round, len) in [100, 1024, LARGE, 24].into_iter().enumerate() {
            let value = value(round as u32, len);
            engine.put(&key(1), &value).unwrap();
            assert_eq!(get(engine, &key(1)).as_ref(), Some(&value), "{name}, {len} bytes");
        }
        engine.put(&key(2), b"other").unwrap();
        engine.delete(&key(1)).unwrap();
        engine.delete(&key(3)).unwrap();
        assert_eq!(get(engine, &key(1)), None, "{name}");
        assert_eq!(get(engine, &key(2)), Some(b"other".to_vec()), "{name}");
        assert!(engine.read_modify_write(&key(2), b"changed", &mut |_| {}).unwrap());
        assert_eq!(get(engine, &key(2)), Some(b"changed".to_vec()), "{name}");
    });
}

#[test]
fn scans_see_live_pairs_in_order_and_no_more_than_their_limit() {
    on_every_engine(|engine| {
        let name = engine.name();
        assert_eq!(scan(engine, b"", usize::MAX), [], "{name}");
        // Scattered, so that order is the engine's doing.
        let numbers = || (0..500).map(|at| at * 7 % 500);
        for number in numbers() {
            engine.put(&key(number), &value(number, 3000)).unwrap();
        }
        engine.delete(&key(10)).unwrap();
        let pairs = |numbers: &[u32]| -> Vec<_> {
            numbers.iter().map(|&number| (key(number), value(number, 3000))).collect()
        };
        assert_eq!(scan(engine, &key(8), 4), pairs(&[8, 9, 11, 12]), "{name}");
        assert_eq!(scan(engine, &key(10), 1), pairs(&[11]), "{name}: from an absent key");
        assert_eq!(scan(engine, &key(498), 9), pairs(&[498, 499]), "{name}: to the end");
        assert_eq!(scan(engine, &key(0), 0), [], "{name}: nothing");
        assert_eq!(scan(engine, b"v", 9), [], "{name}: beyond the end");
        let all: Vec<_> = (0..500).filter(|&number| number != 10).collect();
        assert_eq!(scan(engine, b"", usize::MAX), pairs(&all), "{name}: all");
    });
}

#[test]
fn a_store_is_the_same_after_it_was_settled_and_reopened() {
    for entry in ENGINES {
        let directory = tempfile::tempdir().unwrap();
        let mut engine = open(entry, directory.path());
        for round in 0..3 {
            for number in 0..50 {
                engine.put(&key(number), &value(number + round, 5000)).unwrap();
            }
            engine.delete(&key(round)).unwrap();
            if round == 1 {
                engine.wait_idle().unwrap();
            }
            engine.close().unwrap();
            engine = open(entry, directory.path());
        }
        assert_eq!(get(engine.as_ref(), &key(2)), None, "{}", entry.name);
        for number in (0..50).filter(|&number| number != 2) {
            let found = get(engine.as_ref(), &key(number));
            assert_eq!(found, Some(value(number + 2, 5000)), "{}, {number}", entry.name);
        }
        assert_eq!(scan(engine.as_ref(), b"", usize::MAX).len(), 49, "{}", entry.name);
        engine.close().unwrap();
    }
}

#[test]
fn threads_do_not_see_each_others_answers() {
    on_every_engine(|engine| {
        thread::scope(|scope| {
            for thread in 0..2 {
                scope.spawn(move || {
                    for number in (0..300).map(|number| 2 * number + thread) {
                        engine.put(&key(number), &value(number, 1500)).unwrap();
                        assert_eq!(get(engine, &key(number)), Some(value(number, 1500)));
                        let first = scan(engine, &key(number), 1);
                        assert_eq!(first, [(key(number), value(number, 1500))]);
                    }
                });
            }
        });
        assert_eq!(scan(engine, b"", usize::MAX).len(), 600, "{}", engine.name());
    });
}

#[test]
fn settings_and_counters_have_names() {
    on_every_engine(|engine| {
        let settings = engine.describe();
        assert!(settings.iter().any(|(name, _)| name == "settled"), "{}", engine.name());
        assert!(settings.iter().all(|(name, value)| !name.is_empty() && !value.is_empty()));
        assert!(!engine.counters().is_empty(), "{}", engine.name());
    });
}
