//! Stores that are filled up to their space limit, on disks that report the used space.

use std::ops::Range;
use std::sync::Arc;

use cleavedb::{Db, ErrorKind, Options};
use cleavedb_base::limits::BLOCK;
use cleavedb_storage::{FileKind, Storage};
use cleavedb_storage_sim::Sim;
use cleavedb_storage_sim::sim::Image;

use crate::read::Checked;
use crate::records::{key, value};
use crate::setup::{Setup, set_segments};

/// Capacity of the disks: far above any limit here.
const CAPACITY: u64 = 1 << 40;

/// Limit of each store, most of which is set apart for manifests.
pub const LIMIT: u64 = 15 << 20;

/// `setup` within the limit. Groups are so large that a flush does not write a block to each.
pub fn limited(setup: &Setup) -> Options {
    let mut options = Options { space_limit: Some(LIMIT), ..setup.options.clone() };
    set_segments(&mut options, 256 << 10, 32 << 10);
    options
}

/// A store within the limit, and its disk.
pub struct FullStore {
    sim: Sim,
    options: Options,
    /// The store.
    pub db: Db,
}

impl FullStore {
    /// A new store, which is empty.
    pub fn new(options: Options) -> Checked<Self> {
        let sim = Sim::new();
        sim.stop_recording();
        Self::on(sim, options)
    }

    /// The store on `sim`.
    pub fn on(sim: Sim, options: Options) -> Checked<Self> {
        sim.set_capacity(CAPACITY);
        let db = Db::open_in(Arc::new(sim.clone()), options.clone(), 7);
        Ok(Self { sim, options, db: db.map_err(|e| format!("open failed: {e}"))? })
    }

    /// The store, closed and opened again.
    pub fn reopened(self) -> Checked<Self> {
        self.db.close().map_err(|e| format!("close failed: {e}"))?;
        Self::on(self.sim, self.options)
    }

    /// Checks that the used space is within the limit now.
    pub fn within(&self) -> Checked<()> {
        let free = self.sim.free_space().map_err(|e| e.to_string())?;
        let used = CAPACITY - free;
        if used <= LIMIT { Ok(()) } else { Err(format!("{used} bytes in use")) }
    }

    /// Writes the values of `round` to `records` until one is refused; returns the number of those
    /// written.
    pub fn fill(&self, records: impl Iterator<Item = u32>, round: u32) -> Checked<u32> {
        let mut written = 0;
        for i in records {
            let done = self.db.put(key(i), value(i, round));
            self.within()?;
            match done {
                Ok(()) => written += 1,
                Err(e) if e.kind() == ErrorKind::NoSpace => break,
                Err(e) => return Err(format!("record {i}: {e}")),
            }
        }
        Ok(written)
    }

    /// Deletes `records`.
    pub fn delete(&self, records: impl Iterator<Item = u32>) -> Checked<()> {
        for i in records {
            self.db.delete(key(i)).map_err(|e| format!("a delete: {e}"))?;
            self.within()?;
        }
        Ok(())
    }

    /// Checks that each of `records` has the value of its round, or is absent.
    pub fn check(&self, records: impl Iterator<Item = (u32, Option<u32>)>) -> Checked<()> {
        for (i, round) in records {
            let got = self.db.get(key(i)).map_err(|e| format!("record {i}: {e}"))?;
            if got.as_deref() != round.map(|round| value(i, round)).as_deref() {
                return Err(format!("record {i} is wrong"));
            }
        }
        Ok(())
    }
}

/// Fills a store, reads it, reopens it, deletes half of it and fills it again. Returns the numbers
/// of records that it accepted.
pub fn filled_twice(setup: &Setup) -> Checked<(u32, u32)> {
    let store = FullStore::new(limited(setup))?;
    let count = store.fill(0.., 0)?;
    let error = store.db.put(b"another", [0; 900]).err().ok_or("one more is taken")?;
    if error.kind() != ErrorKind::NoSpace || error.fact("limit").is_none() {
        return Err(format!("not the error of a full store: {error}"));
    }
    store.check((0..count).map(|i| (i, Some(0))))?;
    // The store is still full after the next open.
    let store = store.reopened()?;
    store.within()?;
    store.delete((0..count).step_by(2))?;
    let again = store.fill(count.., 1)?;
    store.check((0..count).map(|i| (i, (i % 2 == 1).then_some(0))))?;
    store.check((count..count + again).map(|i| (i, Some(1))))?;
    let report = store.db.verify().map_err(|e| e.to_string())?;
    match report.problems.first() {
        Some(problem) => Err(format!("after all that: {problem:?}")),
        None => Ok((count, again)),
    }
}

/// Collects a store on a full disk, with room for 0 to `rooms` more blocks: checks that it fails
/// with the right error, leaves no file behind, loses nothing, and succeeds once there is room.
/// Returns the number of failed collections.
pub fn collected_on_a_full_disk(setup: &Setup, rooms: u64) -> Checked<usize> {
    let records = 0..120;
    let image = half_dead(setup, records.clone())?;
    let mut failed = 0;
    for room in 0..=rooms {
        let sim = Sim::from_image(image.clone());
        let store = FullStore::on(sim.clone(), setup.options.clone())?;
        // The files that the first write creates must exist before the disk is full.
        store.db.delete(key(records.end)).map_err(|e| format!("a delete: {e}"))?;
        let used = CAPACITY - sim.free_space().map_err(|e| e.to_string())?;
        // The reserve cannot help: all of it is used up.
        sim.set_capacity(used + room * BLOCK as u64 - reserve(&sim)?);
        let full = match store.db.collect() {
            Ok(()) => false,
            Err(e) if e.kind() == ErrorKind::NoSpace => true,
            Err(e) => return Err(format!("with room for {room} blocks: {e}")),
        };
        sim.set_capacity(CAPACITY);
        failed += usize::from(full);
        store.check(records.clone().map(|i| (i, Some(i % 2))))?;
        // An edit that found no room may or may not be durable: then the store must be reopened.
        let writes = store.db.put(key(records.end), b"more").is_ok();
        let closed = store.db.close();
        let before = data_files(&sim)?;
        let store = FullStore::on(sim, setup.options.clone())?;
        if writes && (closed.is_err() || data_files(&store.sim)? != before) {
            return Err(format!("with room for {room} blocks something remains of {before:?}"));
        }
        store.db.collect().map_err(|e| format!("once there is room: {e}"))?;
        if let Some(hot) = store.db.metrics().hot.filter(|hot| hot.dead_bytes > 0) {
            return Err(format!("{} dead bytes are left in the hot store", hot.dead_bytes));
        }
        store.check(records.clone().map(|i| (i, Some(i % 2))))?;
    }
    Ok(failed)
}

/// Length of the reserve.
fn reserve(sim: &Sim) -> Checked<u64> {
    let files = sim.list().map_err(|e| e.to_string())?;
    let reserve = files.into_iter().find(|(name, _)| name.kind() == FileKind::Reserve);
    Ok(reserve.map_or(0, |(_, len)| len))
}

/// Tables, segments and groups on a disk: an open removes unknown ones.
fn data_files(sim: &Sim) -> Checked<Vec<String>> {
    let data = |kind| {
        matches!(kind, FileKind::Table | FileKind::Segment | FileKind::Group | FileKind::Blob)
    };
    let files = sim.list().map_err(|e| e.to_string())?.into_iter().map(|(name, _)| name);
    Ok(files.filter(|name| data(name.kind())).map(|name| name.to_string()).collect())
}

/// A closed store of `records`, every other one of which was written twice.
fn half_dead(setup: &Setup, records: Range<u32>) -> Checked<Image> {
    let sim = Sim::new();
    let store = FullStore::on(sim.clone(), setup.options.clone())?;
    for round in 0..2 {
        store.fill(records.clone().filter(|i| i % 2 >= round), round)?;
        store.db.flush().map_err(|e| format!("flush failed: {e}"))?;
    }
    store.db.close().map_err(|e| format!("close failed: {e}"))?;
    Ok(sim.image())
}
