//! Cursors: what a step, a search and a new cursor cost.

use std::hint::black_box;

use crate::capabilities::{Cursor, Cursors, Needs};
use crate::error::Result;
use crate::features::Feature;
use crate::features::bench::{Bench, Case, each};
use crate::features::data::{counter, fill, key, scattered};

pub(super) const FEATURE: Feature = Feature {
    name: "cursors",
    about: "cursors over 1 M pairs of 100 bytes; nanoseconds of a call",
    figures: &[NEXT, TURNS, RATIO, SEEK, CREATE],
    run,
};

const NEXT: &str = "next ns";
const TURNS: &str = "next and prev in turn ns";
const RATIO: &str = "x next";
const SEEK: &str = "seek ns";
const CREATE: &str = "new cursor and seek ns";

const RECORDS: u64 = 1_000_000;
const VALUE: usize = 100;
const STEPS: u64 = 400_000;
const SEARCHES: u64 = 100_000;

fn run(bench: &mut Bench<'_>) -> Result<Vec<Case>> {
    let Some(store) = bench.store(Needs::default())? else { return Ok(Vec::new()) };
    let Some(cursors) = store.capabilities().cursors else { return Ok(Vec::new()) };
    let records = bench.count(RECORDS);
    fill(&*store, records, |number| (key(number), counter(number, VALUE)))?;
    store.wait_idle()?;
    // Once through, so that what is measured finds warm caches.
    walk(bench, cursors, records, false, false)?;
    let mut cases = Vec::new();
    for (name, values) in [("keys", false), ("values", true)] {
        let next = walk(bench, cursors, records, values, false)?;
        let turns = walk(bench, cursors, records, values, true)?;
        let searches = bench.count(SEARCHES);
        let mut cursor = cursors.cursor()?;
        let seek = each(searches, |i| find(bench, &mut *cursor, scattered(i, records), values))?;
        drop(cursor);
        let create = each(searches, |i| {
            find(bench, &mut *cursors.cursor()?, scattered(i, records), values)
        })?;
        let [seek, create] = [seek, create].map(|rate| 1e9 / rate.per_second);
        let figures = vec![
            (NEXT, next),
            (TURNS, turns),
            (RATIO, turns / next),
            (SEEK, seek),
            (CREATE, create),
        ];
        cases.push(Case { name: name.to_owned(), figures });
    }
    store.close()?;
    Ok(cases)
}

/// Nanoseconds of a step: forward, or to and fro.
fn walk(
    bench: &Bench<'_>,
    cursors: &dyn Cursors,
    records: u64,
    values: bool,
    to_and_fro: bool,
) -> Result<f64> {
    let steps = bench.count(STEPS).min(records / 2);
    let first = records / 3;
    let mut cursor = cursors.cursor()?;
    find(bench, &mut *cursor, first, values)?;
    let done = each(steps, |i| {
        let back = to_and_fro && i % 2 == 1;
        let there = if back { cursor.prev()? } else { cursor.next()? };
        if values && there {
            cursor.show(&mut |key, value| _ = black_box((key, value)))?;
        }
        Ok(())
    })?;
    let last = if to_and_fro { first + steps % 2 } else { first + steps };
    check(bench, &mut *cursor, last)?;
    Ok(1e9 / done.per_second)
}

/// Moves to the key of `number`, which is there.
fn find(bench: &Bench<'_>, cursor: &mut dyn Cursor, number: u64, values: bool) -> Result<()> {
    let there = cursor.seek(&key(number))?;
    match (there, values) {
        (true, true) => check(bench, cursor, number),
        (true, false) => Ok(()),
        (false, _) => Err(bench.wrong(format!("a search does not find key {number}"))),
    }
}

/// Fails unless the cursor is on the key of `number`.
fn check(bench: &Bench<'_>, cursor: &mut dyn Cursor, number: u64) -> Result<()> {
    let mut right = false;
    cursor.show(&mut |found, _| right = found == key(number))?;
    if right { Ok(()) } else { Err(bench.wrong(format!("a cursor is not on key {number}"))) }
}
