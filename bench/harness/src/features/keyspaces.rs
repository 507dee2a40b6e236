//! Keyspaces: what a thousand of them cost in time and memory, and writes across them beside writes
//! to one.

use std::path::Path;
use std::time::Instant;

use crate::capabilities::{Keyspace, Keyspaces, Needs};
use crate::engine::Engine;
use crate::error::Result;
use crate::features::Feature;
use crate::features::bench::{Bench, Case, Rate, rate};
use crate::features::data::{counted, counter, key, scattered};
use crate::system::process::Processes;

pub(super) const FEATURE: Feature = Feature {
    name: "keyspaces",
    about: "1,000 keyspaces in one store, or as many as it creates in 5 s, with a value of 100 \
            bytes each; a client puts such values in one of them, and in all at random; memory is \
            what is resident",
    figures: &[COUNT, CREATE, IDLE, FILLED, OPEN, ONE, ACROSS, RATIO],
    run,
};

const COUNT: &str = "keyspaces";
const CREATE: &str = "us to create one";
const IDLE: &str = "KiB for an empty one";
const FILLED: &str = "KiB for one with a value";
const OPEN: &str = "ms to open the store";
const ONE: &str = "puts/s in one";
const ACROSS: &str = "puts/s in all";
const RATIO: &str = "x one";

const MOST: u64 = 1_000;
/// Longest time for creating them, in times of a loop.
const PATIENCE: u32 = 5;
const VALUE: usize = 100;

fn run(bench: &mut Bench<'_>) -> Result<Vec<Case>> {
    let needs = Needs { keyspaces: true, ..Needs::default() };
    let directory = bench.directory()?;
    let Some(store) = bench.open(&directory, needs)? else { return Ok(Vec::new()) };
    let Some(keyspaces) = store.capabilities().keyspaces else { return Ok(Vec::new()) };
    // What the first one needs, the store needs only once.
    keyspaces.keyspace("first")?.put(&key(0), &counter(0, VALUE))?;
    let (most, patience) = (bench.count(MOST), bench.time() * PATIENCE);
    let processes = Processes::with(store.other_process());
    let before = processes.memory();
    let (mut opened, start) = (Vec::new(), Instant::now());
    while opened.is_empty() || opened.len() < most as usize && start.elapsed() < patience {
        opened.push(keyspaces.keyspace(&name(opened.len() as u64))?);
    }
    let count = opened.len() as u64;
    let created = Rate::since(start, count);
    let idle = processes.memory();
    (0..count).try_for_each(|at| opened[at as usize].put(&key(0), &counter(at, VALUE)))?;
    let filled = processes.memory();
    let (one, across) = puts(bench, &opened)?;
    drop(opened);
    store.close()?;
    let (store, open) = reopened(bench, &directory, needs, count)?;
    store.close()?;
    let kib = |after: Option<u64>| {
        let bytes = after?.saturating_sub(before?);
        Some(bytes as f64 / 1024.0 / count as f64)
    };
    let known = [(IDLE, kib(idle)), (FILLED, kib(filled))];
    let known = known.into_iter().filter_map(|(name, value)| Some((name, value?)));
    let figures = [
        (COUNT, count as f64),
        (CREATE, 1e6 / created.per_second),
        (OPEN, open * 1e3),
        (ONE, one),
        (ACROSS, across),
        (RATIO, across / one),
    ];
    Ok(vec![Case { name: String::new(), figures: figures.into_iter().chain(known).collect() }])
}

fn name(number: u64) -> String {
    format!("keyspace-{number}")
}

/// Puts a second in one keyspace, and in all of them.
fn puts(bench: &mut Bench<'_>, opened: &[Box<dyn Keyspace + '_>]) -> Result<(f64, f64)> {
    let (time, count) = (bench.time(), opened.len() as u64);
    let value = counter(0, VALUE);
    // Not the key that is read back.
    let key = |i: u64| key(1 + i);
    let one = || rate(1, time, |i| opened[0].put(&key(i), &value));
    let across = || rate(1, time, |i| opened[scattered(i, count) as usize].put(&key(i), &value));
    let (one, across) = bench.both(one, across)?;
    Ok((one.per_second, across.per_second))
}

/// Opens the store again and reads a value from each keyspace; returns it, and the seconds in which
/// the first value was read.
fn reopened(
    bench: &Bench<'_>,
    directory: &Path,
    needs: Needs,
    count: u64,
) -> Result<(Box<dyn Engine>, f64)> {
    let start = Instant::now();
    let absent = || bench.wrong("the store lost its keyspaces".to_owned());
    let store = bench.open(directory, needs)?.ok_or_else(absent)?;
    let mut seconds = 0.0;
    {
        let keyspaces = store.capabilities().keyspaces.ok_or_else(absent)?;
        for number in 0..count {
            read(bench, keyspaces, number)?;
            if number == 0 {
                seconds = start.elapsed().as_secs_f64();
            }
        }
    }
    Ok((store, seconds))
}

fn read(bench: &Bench<'_>, keyspaces: &dyn Keyspaces, number: u64) -> Result<()> {
    let mut found = None;
    let keyspace = keyspaces.keyspace(&name(number))?;
    keyspace.get(&key(0), &mut |value| found = Some(counted(value)))?;
    let wrong = || bench.wrong(format!("keyspace {number} holds {found:?}"));
    if found == Some(number) { Ok(()) } else { Err(wrong()) }
}
