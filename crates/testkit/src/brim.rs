//! Stores on disks without a free byte: they are opened, read, deleted from, closed, and give back
//! what was deleted.

use std::sync::Arc;

use cleavedb::{Db, Error, ErrorKind, Options, Preset};
use cleavedb_storage::Storage;
use cleavedb_storage_sim::Sim;

use crate::read::Checked;
use crate::records::{key, value};
use crate::setup::{Setup, set_segments};

/// What the disk holds at first.
const CAPACITY: u64 = 4 << 20;

fn open(sim: &Sim, options: &Options) -> Checked<Db> {
    let db = Db::open_in(Arc::new(sim.clone()), options.clone(), 7);
    db.map_err(|e| format!("open failed: {e}"))
}

/// Somebody takes all that is free.
fn take_the_rest(sim: &Sim, capacity: &mut u64) -> Checked<()> {
    *capacity -= sim.free_space().map_err(|e| e.to_string())?;
    sim.set_capacity(*capacity);
    Ok(())
}

/// How long a record lives of which one in ten is deleted while others are written.
const LIFE: u32 = 60;

/// Writes records until one is refused, and deletes some; says how many were not.
fn fill(db: &Db, first: u32) -> Checked<u32> {
    for i in first.. {
        if i >= first + LIFE && (i - LIFE) % 10 == 9 {
            db.delete(&key(i - LIFE)).map_err(|e| format!("delete {i}: {e}"))?;
        }
        match db.put(&key(i), &value(i, 0)) {
            Ok(()) => {}
            Err(e) if e.kind() == ErrorKind::NoSpace => return Ok(i - first),
            Err(e) => return Err(format!("record {i}: {e}")),
        }
    }
    unreachable!("the disk is never full")
}

/// Whether those of `0..count` are there that `is_there` names, but for those that went when they
/// were written.
fn check(db: &Db, count: u32, is_there: impl Fn(u32) -> bool) -> Checked<()> {
    for i in 0..count {
        let got = db.get(&key(i)).map_err(|e| format!("record {i}: {e}"))?;
        let is_there = |i| is_there(i) && !(i % 10 == 9 && i + LIFE <= count);
        if got.as_deref() != is_there(i).then(|| value(i, 0)).as_deref() {
            return Err(format!("record {i} is wrong"));
        }
    }
    Ok(())
}

/// Fills a disk of `capacity` bytes, closes the store and reads it again.
pub fn closed_when_full(setup: &Setup, capacity: u64) -> Checked<()> {
    let sim = Sim::new();
    sim.stop_recording();
    sim.set_capacity(capacity);
    let db = open(&sim, &setup.options)?;
    // Longer than what a log file begins with on a full disk.
    let value = |i: u32| vec![i as u8; 20 << 10];
    let count = (0..).find(|i| db.put(&key(*i), &value(*i)).is_err()).unwrap_or_default();
    db.close().map_err(|e| format!("close failed: {e}"))?;
    let db = open(&sim, &setup.options)?;
    for i in 0..count {
        let got = db.get(&key(i)).map_err(|e| format!("record {i}: {e}"))?;
        if got.as_deref() != Some(&value(i)) {
            return Err(format!("record {i} of {count} is wrong"));
        }
    }
    Ok(())
}

/// Closes a store of some records and takes what is free. Fails if a write is then refused for
/// another reason.
pub fn refused_when_full(setup: &Setup, records: u32) -> Checked<()> {
    let sim = Sim::new();
    sim.stop_recording();
    let mut capacity = CAPACITY;
    sim.set_capacity(capacity);
    let db = open(&sim, &setup.options)?;
    for i in 0..records {
        match db.put(&key(i.wrapping_mul(7919) % 1_000), &value(i, 0)) {
            Err(e) if e.kind() == ErrorKind::NoSpace => break,
            written => written.map_err(|e| format!("record {i}: {e}"))?,
        }
    }
    db.close().map_err(|e| format!("close failed: {e}"))?;
    take_the_rest(&sim, &mut capacity)?;
    let db = open(&sim, &setup.options)?;
    let refused = |e| format!("put behind {records} records: {e}");
    db.put(b"more", &[7; 100]).or_else(unless_full).map_err(refused)
}

/// Fills the disk, closes the store or kills it, and lets somebody take the rest; then half of the
/// store goes, and it is written again. Fails if much less fits then than went.
pub fn freed_without_a_free_byte(setup: &Setup, killed: bool) -> Checked<()> {
    let mut setup = setup.clone();
    // So large that not each of them gets a block of each flush.
    set_segments(&mut setup.options, 64 << 10, 16 << 10);
    let mut sim = Sim::new();
    sim.stop_recording();
    let mut capacity = CAPACITY;
    sim.set_capacity(capacity);
    sim.set_window_survives(setup.window_survives);
    let db = open(&sim, &setup.options)?;
    let count = fill(&db, 0)?;
    match killed {
        true => {
            sim = sim.kill();
            // Else what it has open would take space for ever.
            drop(db);
        }
        false => _ = db.close().map_err(|e| format!("close failed: {e}"))?,
    }
    take_the_rest(&sim, &mut capacity)?;
    for _ in 0..3 {
        let db = open(&sim, &setup.options)?;
        check(&db, count, |_| true)?;
        db.put(b"more", &[7; 100]).or_else(unless_full).map_err(|e| format!("put: {e}"))?;
        db.close().map_err(|e| format!("close failed: {e}"))?;
        take_the_rest(&sim, &mut capacity)?;
    }
    let db = open(&sim, &setup.options)?;
    for i in (0..count).filter(|i| i % 8 < 4) {
        db.delete(&key(i)).map_err(|e| format!("delete {i} of {count}: {e}"))?;
    }
    db.compact().map_err(|e| format!("compact: {e}"))?;
    db.collect().map_err(|e| format!("collect: {e}"))?;
    check(&db, count, |i| i % 8 >= 4)?;
    let again = fill(&db, count)?;
    check(&db, count, |i| i % 8 >= 4)?;
    db.close().map_err(|e| format!("close failed: {e}"))?;
    let db = open(&sim, &setup.options)?;
    check(&db, count, |i| i % 8 >= 4)?;
    let report = db.verify().map_err(|e| format!("verify: {e}"))?;
    match report.problems.first() {
        Some(problem) => Err(format!("{problem}")),
        None if again < count / 5 => Err(format!("room for {again} after {count} records")),
        None => Ok(()),
    }
}

/// Of what is deleted, one part in so many must fit again at least: the reserve is filled first.
const ROOM_MIN: u32 = 5;

/// Files as long as on a large disk, which others fill: a store that is much shorter than the disk
/// loses three of ten of its `count` records of `len` bytes, all over it, and is written again.
/// Fails if much less fits then than went.
pub fn freed_where_others_fill_the_disk(preset: Preset, count: u32, len: usize) -> Checked<()> {
    let sim = Sim::new();
    sim.stop_recording();
    let mut capacity = 16 << 30;
    sim.set_capacity(capacity);
    let options = Options::preset(preset);
    let record = |i: u32| vec![i as u8; len];
    let db = open(&sim, &options)?;
    for i in 0..count {
        db.put(&key(i), &record(i)).map_err(|e| format!("record {i}: {e}"))?;
    }
    db.close().map_err(|e| format!("close failed: {e}"))?;
    take_the_rest(&sim, &mut capacity)?;
    let db = open(&sim, &options)?;
    let goes = |i: u32| i.wrapping_mul(2_654_435_761) >> 16 & 1023 < 307;
    for i in (0..count).filter(|i| goes(*i)) {
        db.delete(&key(i)).map_err(|e| format!("delete {i}: {e}"))?;
    }
    db.compact().map_err(|e| format!("compact: {e}"))?;
    db.collect().map_err(|e| format!("collect: {e}"))?;
    let refused = (count..).find(|i| db.put(&key(*i), &record(*i)).is_err());
    let again = refused.unwrap_or_default() - count;
    for i in 0..count + again {
        let found = db.get(&key(i)).map_err(|e| format!("record {i}: {e}"))?;
        let wanted = (i >= count || !goes(i)).then(|| record(i));
        if found.as_deref() != wanted.as_deref() {
            return Err(format!("record {i} is wrong"));
        }
    }
    db.close().map_err(|e| format!("close failed: {e}"))?;
    let went = (0..count).filter(|i| goes(*i)).count() as u32;
    match again {
        _ if again < went / ROOM_MIN => Err(format!("room for {again} records where {went} went")),
        _ => Ok(()),
    }
}

fn unless_full(error: Error) -> Result<(), Error> {
    if error.kind() == ErrorKind::NoSpace { Ok(()) } else { Err(error) }
}
