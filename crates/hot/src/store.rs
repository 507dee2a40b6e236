//! The hot store: finds hot records, and takes what a flush has changed.
//!
//! Readers share it without a version of their own, as there is only one newest record of a key. A
//! flush is its only writer, under the lock of the manifest: it *publishes* new records, and takes
//! out keys that it wrote elsewhere, before readers see its run; it *retires* keys that it moved
//! elsewhere unchanged, and segments without a live record, afterwards. In between a reader may
//! find a marker in a table without a record here, so that it must look again: see
//! [`HotStore::changes`].

mod adapt;

use std::collections::BTreeSet;
use std::sync::Arc;

use cleavedb_base::planted::{Bug, planted};
use cleavedb_base::sync::Mutex;
use cleavedb_base::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use cleavedb_base::sync::swap::ArcSwap;
use cleavedb_base::{Error, Location, Result, ValuePointer};

use self::adapt::{ADAPTED, Judged};
use crate::change::{HotChange, HotReason};
use crate::evacuation::LIMIT_MIN_OF_WRITES;
use crate::heat::HeatSketch;
use crate::index::HotIndex;
use crate::promotions::Promotions;
use crate::segment::{HotKey, HotSegment, Segments};
use crate::slot::Slot;
use crate::stats::HotStats;
use crate::table::HotTable;

/// Keys of which the sketch tells the heat, for each record that fills the store.
const SKETCHED: usize = 2;

/// Accesses after which all heat is halved, for each record that fills the store: the half-life.
const HALF_LIFE: u64 = 4;

/// Length of a record from which the number of keys in a full store is guessed, in bytes.
const RECORD_GUESSED: u64 = 1 << 10;

/// Length of the records, in bytes, of which a store may be full: of shorter ones it takes no more,
/// since each takes memory. And the number of keys that every store may have.
const RECORD_MEAN_MIN: u64 = 256;
const KEYS_MIN: u64 = 1024;

/// Bytes of memory for each hot record: its entry in the index, at the least load, and its place in
/// its segment.
const PER_RECORD: u64 = 10 + 16;

/// Bytes of memory of an empty store, but for its sketch and its waiting versions.
const EMPTY: u64 = 32 << 10;

/// Bits of a hash that tell whether a record may be of one of some keys.
const FILTER_BITS: u32 = 16;

/// Counters of accesses, so that threads seldom meet at one.
const COUNTERS: usize = 16;

/// The records of hot keys, by key.
pub struct HotStore {
    database_id: u64,
    index: HotIndex,
    segments: ArcSwap<Segments>,
    /// Whether a segment has records that are not known.
    incomplete: AtomicBool,
    /// Whether no key may become or stay hot for now.
    paused: AtomicBool,
    sketch: HeatSketch,
    /// Odd during a change.
    changes: AtomicU64,
    /// Reads, and reads of hot keys.
    reads: [AtomicU64; COUNTERS],
    hits: [AtomicU64; COUNTERS],
    /// Writes, as flushes count them, and writes of hot keys.
    writes: AtomicU64,
    write_hits: AtomicU64,
    updates: AtomicU64,
    admitted: AtomicU64,
    kept: AtomicU64,
    promoted: AtomicU64,
    demoted: AtomicU64,
    /// See [`HotStore::staying`].
    staying: AtomicU8,
    /// Accesses at the last halving.
    halved: AtomicU64,
    half_life: u64,
    /// Most hot keys.
    keys_max: u64,
    limit: AtomicU8,
    /// HeatLimit if it is given, and never changes.
    fixed_limit: Option<u8>,
    judged: Mutex<Judged>,
    /// Whether keys that are read may become hot: not while the store, or the disk, is full.
    promotes: AtomicBool,
    promotions: Promotions,
    /// Bytes that the store may have, as the last flush found.
    capacity: AtomicU64,
    /// Segments that the last flush was to read.
    evacuated: Mutex<Vec<Location>>,
}

/// How full the store is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fill {
    /// Bytes of its live records.
    pub live: u64,
    /// Bytes of records that it may have.
    pub capacity: u64,
    /// Live bytes of all values, its own among them.
    pub all_live: u64,
}

impl HotStore {
    /// Most bytes of memory ([`HotStats::memory`]) of a store that is full with `bytes` bytes of
    /// records of at least 1 KiB.
    pub fn memory_max(bytes: u64) -> u64 {
        let records = records_in(bytes);
        let sketch = HeatSketch::memory_of(records as usize * SKETCHED) as u64;
        records * PER_RECORD + sketch + Promotions::memory_of(records) as u64 + EMPTY
    }

    /// An empty store of up to `bytes` bytes of records, in the database with this id. It adapts
    /// HeatLimit unless a fixed one is given.
    pub fn new(database_id: u64, bytes: u64, fixed_limit: Option<u8>) -> Self {
        let records = records_in(bytes);
        let half_life = records * HALF_LIFE;
        Self {
            database_id,
            index: HotIndex::new(),
            segments: ArcSwap::from_pointee(Segments::default()),
            incomplete: AtomicBool::new(false),
            paused: AtomicBool::new(false),
            sketch: HeatSketch::new(records as usize * SKETCHED),
            changes: AtomicU64::new(0),
            reads: Default::default(),
            hits: Default::default(),
            writes: AtomicU64::new(0),
            write_hits: AtomicU64::new(0),
            updates: AtomicU64::new(0),
            admitted: AtomicU64::new(0),
            kept: AtomicU64::new(0),
            promoted: AtomicU64::new(0),
            demoted: AtomicU64::new(0),
            staying: AtomicU8::new(0),
            halved: AtomicU64::new(0),
            half_life,
            keys_max: (bytes / RECORD_MEAN_MIN).max(KEYS_MIN),
            limit: AtomicU8::new(fixed_limit.unwrap_or(LIMIT_MIN_OF_WRITES)),
            fixed_limit,
            judged: Mutex::new(Judged::new(half_life)),
            promotes: AtomicBool::new(true),
            promotions: Promotions::new(records),
            capacity: AtomicU64::new(bytes),
            evacuated: Mutex::default(),
        }
    }

    /// The fingerprint of a tree key.
    #[inline]
    pub fn key(&self, encoded_key: &[u8]) -> HotKey {
        HotKey::new(encoded_key, self.database_id)
    }

    /// The place of the record of `key`, if it is hot.
    #[inline]
    pub fn find(&self, key: HotKey) -> Option<ValuePointer> {
        let slot = self.slot(key)?;
        self.segments.load().pointer(slot, key)
    }

    /// As [`HotStore::find`], for a read: adds to the heat of the key, hot or not.
    #[inline]
    pub fn read(&self, key: HotKey) -> Option<ValuePointer> {
        let counter = key.hash as usize % COUNTERS;
        let before = self.reads[counter].fetch_add(1, Ordering::Relaxed);
        if before % ADAPTED == ADAPTED - 1 {
            self.adapt_to_reads();
        }
        match self.index.touch(key.hash, |slot| self.is_of(slot, key)) {
            Some(slot) => {
                self.hits[counter].fetch_add(1, Ordering::Relaxed);
                self.segments.load().pointer(slot, key)
            }
            None => {
                if self.is_on() {
                    self.sketch.add(key.hash);
                }
                None
            }
        }
    }

    /// Called when a read has found the newest version of a tree key in its place outside the hot
    /// store: if the key is hot enough, the next flush will move it here, to a record of `len`
    /// bytes. Takes no lock that another thread holds.
    #[inline]
    pub fn found_cold(&self, encoded_key: &[u8], len: u32) {
        if !self.is_on() || !self.promotes.load(Ordering::Relaxed) {
            return;
        }
        let hash = self.key(encoded_key).hash;
        if self.sketch.estimate(hash) >= self.limit() {
            self.promotions.propose(hash, encoded_key, len);
        }
    }

    /// Whether a flush should begin for the keys that wait to be moved here.
    pub fn wants_flush(&self) -> bool {
        self.promotions.want_flush(self.capacity.load(Ordering::Relaxed))
    }

    /// Called by a read that finds that a flush should begin: returns whether it is the first one,
    /// which is to wake the thread that flushes.
    pub fn asks_for_flush(&self) -> bool {
        self.promotions.ask()
    }

    /// Says whether keys that are read may become hot, until the next flush says otherwise.
    pub fn set_promotes(&self, promotes: bool) {
        self.promotes.store(promotes, Ordering::Relaxed);
    }

    /// Takes the tree keys that wait to be moved here.
    pub fn take_promotions(&self) -> Vec<Box<[u8]>> {
        self.promotions.take()
    }

    /// Records that a flush is about to read these segments.
    pub fn evacuates(&self, victims: &[Location]) {
        *self.evacuated.lock() = victims.to_vec();
    }

    /// Hundredths of the live records of the last evacuation that stayed hot; 0 before the first.
    pub fn staying(&self) -> u64 {
        self.staying.load(Ordering::Relaxed).into()
    }

    /// Takes the segments that the last flush was to read.
    pub fn take_evacuated(&self) -> Vec<Location> {
        std::mem::take(&mut *self.evacuated.lock())
    }

    /// Adds `times` writes to the heat of a key, if it is hot. Returns the place of its record.
    pub fn written(&self, key: HotKey, times: u64) -> Option<ValuePointer> {
        let slot = self.slot(key)?;
        self.writes.fetch_add(times, Ordering::Relaxed);
        self.write_hits.fetch_add(times, Ordering::Relaxed);
        let times = 0..times.min(u64::from(u8::MAX));
        times.for_each(|_| _ = self.index.touch(key.hash, |found| found == slot));
        self.segments.load().pointer(slot, key)
    }

    /// Adds writes to the heat of keys that are not hot: the hash of each, and the number of its
    /// writes. Passes the heat of each to `visit`, unless the store is off: no key is hot then, and
    /// heat is counted again from when it is on.
    pub fn written_cold(&self, keys: &[(u64, u64)], visit: impl FnMut(u8)) {
        let writes = keys.iter().map(|(_, times)| times).sum();
        self.writes.fetch_add(writes, Ordering::Relaxed);
        if self.is_on() {
            self.sketch.add_all(keys, visit);
        }
    }

    /// The heat of a key: about the number of accesses within the last half-lives.
    pub fn heat(&self, key: HotKey) -> u8 {
        let slot = self.slot(key);
        let hot = slot.and_then(|slot| self.index.heat(key.hash, slot));
        hot.unwrap_or_else(|| self.sketch.estimate(key.hash))
    }

    /// HeatLimit: the heat from which on a key becomes hot.
    pub fn limit(&self) -> u8 {
        self.limit.load(Ordering::Relaxed)
    }

    /// Whether a hot key stays so in an evacuation: it may be colder by one access than HeatLimit,
    /// since it costs to leave.
    pub fn keeps(&self, key: HotKey) -> bool {
        self.is_on() && self.heat(key) >= self.limit().saturating_sub(1).max(1)
    }

    /// Number of hot keys.
    pub fn len(&self) -> usize {
        self.index.len()
    }

    /// Whether the store has no room for this number of keys more, whatever their length.
    pub fn is_crowded(&self, more: u64) -> bool {
        self.len() as u64 + more >= self.keys_max
    }

    /// Whether no key is hot.
    pub fn is_empty(&self) -> bool {
        self.index.is_empty()
    }

    /// The segments are loaded while the entry is locked: it is only there as long as its segment.
    #[inline]
    fn is_of(&self, slot: Slot, key: HotKey) -> bool {
        self.segments.load().pointer(slot, key).is_some()
    }

    #[inline]
    fn slot(&self, key: HotKey) -> Option<Slot> {
        self.index.find(key.hash, |slot| self.is_of(slot, key))
    }

    /// Number of changes that have begun and ended: odd while one is under way. If it was even, and
    /// is the same after a look-up, no change went on meanwhile.
    pub fn changes(&self) -> u64 {
        self.changes.load(Ordering::SeqCst)
    }

    /// Begins `change`: everything that must be true before readers see the run of the flush.
    pub fn publish(&self, change: &HotChange) -> Result<()> {
        self.changes.fetch_add(1, Ordering::SeqCst);
        let mut segments = Segments::clone(&self.segments.load());
        let numbers = change.segments.iter().map(|segment| segments.add(segment.clone()));
        let numbers: Option<Vec<u16>> = numbers.collect();
        let numbers = numbers.ok_or_else(|| Error::corruption("too many hot segments"))?;
        self.swap(segments);
        for put in &change.puts {
            let record = change.segments[put.segment].number_of(put.key, put.pointer);
            let record =
                record.ok_or_else(|| Error::corruption("a hot record is in no segment"))?;
            let slot = Slot { segment: numbers[put.segment], record };
            self.put(put.key, slot, put.heat);
            if put.reason == HotReason::Promoted {
                self.promotions.forget(put.key.hash);
            }
        }
        let count = |reason| change.puts.iter().filter(|put| put.reason == reason).count();
        let kept = count(HotReason::Kept);
        for (counter, count) in [
            (&self.admitted, count(HotReason::Admitted)),
            (&self.updates, count(HotReason::Updated)),
            (&self.kept, kept),
            (&self.promoted, count(HotReason::Promoted)),
        ] {
            counter.fetch_add(count as u64, Ordering::Relaxed);
        }
        if let Some(staying) = (100 * kept).checked_div(kept + change.demoted.len()) {
            self.staying.store(staying as u8, Ordering::Relaxed);
        }
        self.demoted.fetch_add(change.demoted.len() as u64, Ordering::Relaxed);
        if !planted(Bug::OverwrittenStaysHot) {
            change.overwritten.iter().for_each(|key| self.take_out(*key));
        }
        Ok(())
    }

    /// Ends `change`, once readers see the run of the flush.
    pub fn retire(&self, change: &HotChange) {
        change.demoted.iter().for_each(|key| self.take_out(*key));
        if !change.gone.is_empty() {
            let mut segments = Segments::clone(&self.segments.load());
            change.gone.iter().for_each(|place| segments.remove(*place));
            self.swap(segments);
        }
        self.changes.fetch_add(1, Ordering::SeqCst);
    }

    /// Gives a shard of the index what an open has found: see [`crate::loading`].
    pub(crate) fn set_shard(&self, shard: usize, table: HotTable) {
        self.index.set(shard, table);
    }

    /// Sets the segments that an open has found.
    pub(crate) fn set_segments(&self, segments: impl Iterator<Item = Arc<HotSegment>>) {
        self.swap(Segments::in_order(segments));
    }

    fn swap(&self, segments: Segments) {
        let segments = Arc::new(segments);
        self.segments.rcu(|_| segments.clone());
    }

    fn put(&self, key: HotKey, slot: Slot, heat: u8) {
        match self.slot(key) {
            Some(old) => _ = self.index.move_to(key.hash, old, slot),
            None => {
                let segments = self.segments.load();
                self.index.insert(key.hash, slot, heat, &|slot| segments.hash_of(slot));
            }
        }
    }

    fn take_out(&self, key: HotKey) {
        if let Some(slot) = self.slot(key) {
            self.index.remove(key.hash, slot);
        }
    }

    /// Records that a segment on disk has records that the store does not know.
    pub fn set_incomplete(&self) {
        self.incomplete.store(true, Ordering::Relaxed);
    }

    /// Whether a segment on disk has records that the store does not know.
    pub fn is_incomplete(&self) -> bool {
        self.incomplete.load(Ordering::Relaxed)
    }

    /// Whether a segment but those at `without` has a record of each of `keys`, of any version, or
    /// may have one: all segments are passed through once, whatever the number of keys.
    pub fn remembered(&self, keys: &[HotKey], without: &BTreeSet<Location>) -> Vec<bool> {
        let mut remembered = vec![self.is_incomplete(); keys.len()];
        if keys.is_empty() || self.is_incomplete() {
            return remembered;
        }
        let mut order: Vec<usize> = (0..keys.len()).collect();
        order.sort_unstable_by_key(|at| keys[*at].hash);
        // Most records are of no such key, which one look tells.
        let bit = |hash: u64| (hash >> (u64::BITS - FILTER_BITS)) as usize;
        let mut filter = vec![false; 1 << FILTER_BITS];
        keys.iter().for_each(|key| filter[bit(key.hash)] = true);
        let segments = self.segments.load();
        let left = segments.iter().filter(|(_, segment)| !without.contains(&segment.place()));
        let records = left.flat_map(|(_, segment)| segment.records());
        for record in records.filter(|record| filter[bit(record.hash())]) {
            let from = order.partition_point(|at| keys[*at].hash < record.hash());
            let alike = order[from..].iter().take_while(|at| keys[**at].hash == record.hash());
            alike.filter(|at| record.is_of(keys[**at])).for_each(|at| remembered[*at] = true);
        }
        remembered
    }

    /// Passes the place of every record that is some key's newest to `visit`.
    pub fn for_each(&self, mut visit: impl FnMut(ValuePointer)) {
        let segments = self.segments.load();
        for (number, segment) in segments.iter() {
            for (record, hash, pointer) in segment.iter() {
                let slot = Slot { segment: number, record };
                if self.index.find(hash, |found| found == slot).is_some() {
                    visit(pointer);
                }
            }
        }
    }

    /// Facts about the store.
    pub fn stats(&self) -> HotStats {
        let segments = self.segments.load();
        let index_memory = self.index.memory() as u64;
        let of_segments: usize = segments.iter().map(|(_, segment)| segment.memory()).sum();
        HotStats {
            keys: self.len() as u64,
            segments: segments.iter().count() as u64,
            index_memory,
            memory: index_memory
                + (of_segments
                    + self.sketch.memory()
                    + self.promotions.memory()
                    + size_of::<Self>()) as u64,
            limit: self.is_on().then(|| self.limit()),
            reads: sum(&self.reads),
            hits: sum(&self.hits),
            writes: self.writes.load(Ordering::Relaxed),
            write_hits: self.write_hits.load(Ordering::Relaxed),
            updates: self.updates.load(Ordering::Relaxed),
            admitted: self.admitted.load(Ordering::Relaxed),
            kept: self.kept.load(Ordering::Relaxed),
            promoted: self.promoted.load(Ordering::Relaxed),
            demoted: self.demoted.load(Ordering::Relaxed),
        }
    }
}

/// Number of records that fill a store of `bytes` bytes, as a guess.
fn records_in(bytes: u64) -> u64 {
    (bytes / RECORD_GUESSED).max(64)
}

fn sum(counters: &[AtomicU64]) -> u64 {
    counters.iter().map(|count| count.load(Ordering::Relaxed)).sum()
}

#[cfg(test)]
mod tests;
