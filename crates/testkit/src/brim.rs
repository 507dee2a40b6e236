//! Stores on disks without a free byte: they can be opened, read, deleted from and closed, and
//! deletes free space.

use std::sync::Arc;
use std::sync::mpsc::Sender;

use cleavedb::{Db, Error, ErrorKind, Options, Preset};
use cleavedb_storage::Storage;
use cleavedb_storage_sim::Sim;

use crate::read::Checked;
use crate::records::{key, value};
use crate::setup::{Setup, set_segments};

/// Capacity of the disk at first, in bytes.
const CAPACITY: u64 = 4 << 20;

fn open(sim: &Sim, options: &Options) -> Checked<Db> {
    let db = Db::open_in(Arc::new(sim.clone()), options.clone(), 7);
    db.map_err(|e| format!("open failed: {e}"))
}

/// Fills the disk, as another program would.
fn take_the_rest(sim: &Sim, capacity: &mut u64) -> Checked<()> {
    *capacity -= sim.free_space().map_err(|e| e.to_string())?;
    sim.set_capacity(*capacity);
    Ok(())
}

/// Number of writes after which a record may be deleted; every tenth is.
const LIFE: u32 = 60;

/// Writes records until one is refused, and deletes some; returns the number of those written.
fn fill(db: &Db, first: u32) -> Checked<u32> {
    for i in first.. {
        if i >= first + LIFE && (i - LIFE) % 10 == 9 {
            db.delete(key(i - LIFE)).map_err(|e| format!("delete {i}: {e}"))?;
        }
        match db.put(key(i), value(i, 0)) {
            Ok(()) => {}
            Err(e) if e.kind() == ErrorKind::NoSpace => return Ok(i - first),
            Err(e) => return Err(format!("record {i}: {e}")),
        }
    }
    unreachable!("the disk is never full")
}

/// Checks that the records of `0..count` exist for which `is_there` is true, except those that
/// `fill` deleted.
fn check(db: &Db, count: u32, is_there: impl Fn(u32) -> bool) -> Checked<()> {
    for i in 0..count {
        let got = db.get(key(i)).map_err(|e| format!("record {i}: {e}"))?;
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
    // Longer than the first allocation of a log file on a full disk.
    let value = |i: u32| vec![i as u8; 20 << 10];
    let count = (0..).find(|i| db.put(key(*i), value(*i)).is_err()).unwrap_or_default();
    db.close().map_err(|e| format!("close failed: {e}"))?;
    let db = open(&sim, &setup.options)?;
    for i in 0..count {
        let got = db.get(key(i)).map_err(|e| format!("record {i}: {e}"))?;
        if got.as_deref() != Some(&value(i)) {
            return Err(format!("record {i} of {count} is wrong"));
        }
    }
    Ok(())
}

/// Closes a store of some records and fills the disk. Fails if a write is then refused for another
/// reason than space.
pub fn refused_when_full(setup: &Setup, records: u32) -> Checked<()> {
    let sim = Sim::new();
    sim.stop_recording();
    let mut capacity = CAPACITY;
    sim.set_capacity(capacity);
    let db = open(&sim, &setup.options)?;
    for i in 0..records {
        match db.put(key(i.wrapping_mul(7919) % 1_000), value(i, 0)) {
            Err(e) if e.kind() == ErrorKind::NoSpace => break,
            written => written.map_err(|e| format!("record {i}: {e}"))?,
        }
    }
    db.close().map_err(|e| format!("close failed: {e}"))?;
    take_the_rest(&sim, &mut capacity)?;
    let db = open(&sim, &setup.options)?;
    let refused = |e| format!("put behind {records} records: {e}");
    db.put(b"more", [7; 100]).or_else(unless_full).map_err(refused)
}

/// Most reservations that a full disk refuses while a store is deleted, one for this many deletes,
/// and in addition: those of jobs, which must each look whether there is room.
const DELETES_A_REFUSAL: u64 = 4;
const REFUSED_FEW: u64 = 100;

/// Fills the disk, deletes most of the store, and counts the reservations that the disk refuses.
pub fn a_full_disk_is_asked_seldom(setup: &Setup) -> Checked<()> {
    let mut setup = setup.clone();
    set_segments(&mut setup.options, 64 << 10, 16 << 10);
    // Log files of which many steps are reserved.
    setup.options.tuning.log_file_bytes = 1 << 20;
    let sim = Sim::new();
    sim.stop_recording();
    let mut capacity = CAPACITY;
    sim.set_capacity(capacity);
    let db = open(&sim, &setup.options)?;
    let count = fill(&db, 0)?;
    take_the_rest(&sim, &mut capacity)?;
    let before = sim.refused_reservations();
    let deletes = (0..count).filter(|i| i % 8 < 7);
    for i in deletes.clone() {
        db.delete(key(i)).map_err(|e| format!("delete {i} of {count}: {e}"))?;
    }
    let refused = sim.refused_reservations() - before;
    let deletes = deletes.count() as u64;
    match refused <= deletes / DELETES_A_REFUSAL + REFUSED_FEW {
        true => Ok(()),
        false => Err(format!("the full disk refused {refused} reservations in {deletes} deletes")),
    }
}

/// Fills the disk, closes or kills the store, and fills the rest of the disk; then deletes half of
/// the store and writes it again. Fails if the new records need much more space than was freed.
pub fn freed_without_a_free_byte(setup: &Setup, killed: bool, ranges: bool) -> Checked<()> {
    let mut setup = setup.clone();
    // So large that a flush does not write a block to each group.
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
            // Otherwise its open files would keep their space.
            drop(db);
        }
        false => _ = db.close().map_err(|e| format!("close failed: {e}"))?,
    }
    take_the_rest(&sim, &mut capacity)?;
    for _ in 0..3 {
        let db = open(&sim, &setup.options)?;
        check(&db, count, |_| true)?;
        db.put(b"more", [7; 100]).or_else(unless_full).map_err(|e| format!("put: {e}"))?;
        db.close().map_err(|e| format!("close failed: {e}"))?;
        take_the_rest(&sim, &mut capacity)?;
    }
    let db = open(&sim, &setup.options)?;
    for i in (0..count).filter(|i| i % 8 < 4) {
        let deleted = match ranges {
            true if i % 8 == 0 => db.delete_range(key(i)..key(i + 4)),
            true => Ok(()),
            false => db.delete(key(i)),
        };
        deleted.map_err(|e| format!("delete {i} of {count}: {e}"))?;
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

/// Divisor: least part of the deleted records that must fit again. The reserve is refilled first.
const ROOM_MIN: u32 = 5;

/// Files as long as on a large disk that other programs fill: a store much shorter than the disk
/// deletes three of ten of its `count` records of `len` bytes, spread over all of it, and writes
/// them again. Fails if the new records need much more space than was freed. A record that is
/// refused is written once more when the jobs that free space have ended. `phases` gets each phase
/// of the check when it begins, with the database if it is on the full disk.
pub fn freed_where_others_fill_the_disk(
    preset: Preset,
    (count, len): (u32, usize),
    phases: &Sender<(&'static str, Option<Db>)>,
) -> Checked<()> {
    let begins = |phase, db: Option<&Db>| _ = phases.send((phase, db.cloned()));
    let sim = Sim::new();
    sim.stop_recording();
    let mut capacity = 16 << 30;
    sim.set_capacity(capacity);
    let options = Options::preset(preset);
    let record = |i: u32| vec![i as u8; len];
    let db = open(&sim, &options)?;
    begins("puts", None);
    for i in 0..count {
        db.put(key(i), record(i)).map_err(|e| format!("record {i}: {e}"))?;
    }
    db.close().map_err(|e| format!("close failed: {e}"))?;
    take_the_rest(&sim, &mut capacity)?;
    let db = open(&sim, &options)?;
    let goes = |i: u32| i.wrapping_mul(2_654_435_761) >> 16 & 1023 < 307;
    begins("deletes on the full disk", Some(&db));
    for i in (0..count).filter(|i| goes(*i)) {
        db.delete(key(i)).map_err(|e| format!("delete {i}: {e}; {:?}", db.metrics()))?;
    }
    begins("compact", Some(&db));
    db.compact().map_err(|e| format!("compact: {e}"))?;
    begins("collect", Some(&db));
    db.collect().map_err(|e| format!("collect: {e}"))?;
    begins("puts on the full disk", Some(&db));
    let mut again = 0;
    loop {
        let first = count + again;
        let refused = (first..).find(|i| db.put(key(*i), record(*i)).is_err());
        let more = refused.unwrap_or_default() - first;
        if more == 0 {
            break;
        }
        again += more;
        // Jobs may lack room, too.
        let _ = db.wait_idle();
    }
    for i in 0..count + again {
        let found = db.get(key(i)).map_err(|e| format!("record {i}: {e}"))?;
        let wanted = (i >= count || !goes(i)).then(|| record(i));
        if found.as_deref() != wanted.as_deref() {
            return Err(format!("record {i} is wrong"));
        }
    }
    begins("close", Some(&db));
    db.close().map_err(|e| format!("close failed: {e}"))?;
    let went = (0..count).filter(|i| goes(*i)).count() as u32;
    match again {
        _ if again < went / ROOM_MIN => Err(format!("room for {again} records of {went} deleted")),
        _ => Ok(()),
    }
}

/// Room for the reserve of a copy, in bytes.
const ROOM_OF_COPY: u64 = 2 << 20;

/// Copies a store by reflinks to a disk that has room, or none at first, until the first write, and
/// deletes half of the copy. Fails if a delete is refused for another reason than space before
/// that, or at all behind it.
pub fn deleted_in_a_reflink_copy(setup: &Setup, full_at_first: bool) -> Checked<()> {
    let mut setup = setup.clone();
    set_segments(&mut setup.options, 64 << 10, 16 << 10);
    let original = Sim::new();
    original.stop_recording();
    original.set_capacity(CAPACITY);
    let db = open(&original, &setup.options)?;
    let count = fill(&db, 0)?;
    db.close().map_err(|e| format!("close failed: {e}"))?;
    let sim = Sim::from_image(original.image());
    sim.stop_recording();
    sim.set_directory_id(2);
    sim.share();
    sim.set_capacity(0);
    let db = open(&sim, &setup.options)?;
    if full_at_first {
        db.delete(key(0)).or_else(unless_full).map_err(|e| format!("without a byte: {e}"))?;
    }
    let mut capacity = ROOM_OF_COPY;
    sim.set_capacity(capacity);
    db.put(b"more", [7; 100]).map_err(|e| format!("put: {e}"))?;
    take_the_rest(&sim, &mut capacity)?;
    for i in (0..count).filter(|i| i % 8 < 4) {
        db.delete(key(i)).map_err(|e| format!("delete {i} of {count}: {e}"))?;
    }
    check(&db, count, |i| i % 8 >= 4)?;
    db.close().map_err(|e| format!("close failed: {e}"))?;
    check(&open(&sim, &setup.options)?, count, |i| i % 8 >= 4)
}

fn unless_full(error: Error) -> Result<(), Error> {
    if error.kind() == ErrorKind::NoSpace { Ok(()) } else { Err(error) }
}
