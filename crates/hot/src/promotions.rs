//! Keys that reads have found hot, for the next flush: a small table that forgets.
//!
//! The paper (algorithm 1) moves a pair to the hot store while it is read. Here the reader leaves
//! its key in a slot that its hash selects, and a flush moves the newest version: a read neither
//! writes nor waits. A key that loses its slot to another one is read again, if it is hot.
//!
//! A flush begins for such keys alone once their records are long enough together, whatever the
//! MemTable holds that it cuts: a part of what the store may have, so that a few flushes fill it,
//! and no clock holds promotions back.

use cleavedb_base::sync::Mutex;
use cleavedb_base::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

/// Most slots of a table, and the fewest.
const SLOTS_MAX: u64 = 1 << 16;
const SLOTS_MIN: u64 = 1 << 11;

/// Slots of a table, as a part of the records that fill the store: half of them are about as many
/// as begin a flush.
const SLOTS: u64 = 20;

/// Length of the records that begin a flush, as a part of the store, which takes that many flushes
/// to fill: a quarter of what one may take, as more come while it begins.
const ENOUGH: u64 = 32;

/// Least length of the records that begin a flush, in bytes.
const ENOUGH_MIN: u64 = 512 << 10;

/// Longest tree key that may wait, in bytes, so that a full table takes little memory.
const KEY_MAX: usize = 512;

/// Length of a key from which the memory of a full table is guessed, in bytes.
const KEY_GUESSED: usize = 32;

/// A key that was read often.
struct Waiting {
    encoded_key: Box<[u8]>,
    /// Length of its record, in bytes.
    len: u32,
}

/// The table.
pub(crate) struct Promotions {
    slots: Box<[Mutex<Option<Waiting>>]>,
    /// Taken slots, and the length of their records in bytes.
    taken: AtomicUsize,
    bytes: AtomicU64,
    /// Whether a flush was asked for since keys were last taken.
    asked: AtomicBool,
}

impl Promotions {
    /// A table for a store that is full with about this number of records.
    pub(crate) fn new(records: u64) -> Self {
        Self {
            slots: (0..slots(records)).map(|_| Mutex::new(None)).collect(),
            taken: AtomicUsize::new(0),
            bytes: AtomicU64::new(0),
            asked: AtomicBool::new(false),
        }
    }

    /// Leaves the key with this hash, of which a record has `len` bytes, unless its slot is in use
    /// right now.
    pub(crate) fn propose(&self, hash: u64, encoded_key: &[u8], len: u32) {
        let Some(mut slot) = self.slot(hash).try_lock() else { return };
        let waits = slot.as_ref().is_some_and(|waiting| *waiting.encoded_key == *encoded_key);
        if waits || encoded_key.len() > KEY_MAX {
            return;
        }
        self.empty(&mut slot);
        *slot = Some(Waiting { encoded_key: encoded_key.into(), len });
        self.taken.fetch_add(1, Ordering::Relaxed);
        self.bytes.fetch_add(len.into(), Ordering::Relaxed);
    }

    /// Forgets a key that was moved: it may have been read, and left here again, until readers
    /// found the copy.
    pub(crate) fn forget(&self, hash: u64) {
        self.empty(&mut self.slot(hash).lock());
    }

    fn slot(&self, hash: u64) -> &Mutex<Option<Waiting>> {
        &self.slots[hash as usize % self.slots.len()]
    }

    fn empty(&self, slot: &mut Option<Waiting>) -> Option<Box<[u8]>> {
        let Waiting { encoded_key, len } = slot.take()?;
        self.taken.fetch_sub(1, Ordering::Relaxed);
        self.bytes.fetch_sub(len.into(), Ordering::Relaxed);
        Some(encoded_key)
    }

    /// Whether enough keys wait for a flush that begins for them alone, in a store of up to
    /// `capacity` bytes.
    pub(crate) fn want_flush(&self, capacity: u64) -> bool {
        self.bytes.load(Ordering::Relaxed) >= (capacity / ENOUGH).max(ENOUGH_MIN)
            || self.taken.load(Ordering::Relaxed) >= self.slots.len() / 2
    }

    /// Notes that a flush is asked for; returns whether it was not since keys were last taken.
    pub(crate) fn ask(&self) -> bool {
        !self.asked.load(Ordering::Relaxed) && !self.asked.swap(true, Ordering::Relaxed)
    }

    /// Bytes of memory of a full table for this number of records.
    pub(crate) fn memory_of(records: u64) -> usize {
        slots(records) as usize * (size_of::<Mutex<Option<Waiting>>>() + KEY_GUESSED)
    }

    /// Bytes of memory of the table if it is full.
    pub(crate) fn memory(&self) -> usize {
        size_of_val(&*self.slots) + self.slots.len() * KEY_GUESSED
    }

    /// Takes all keys.
    pub(crate) fn take(&self) -> Vec<Box<[u8]>> {
        let taken = self.slots.iter().filter_map(|slot| self.empty(&mut slot.lock())).collect();
        self.asked.store(false, Ordering::Relaxed);
        taken
    }
}

fn slots(records: u64) -> u64 {
    (records / SLOTS).clamp(SLOTS_MIN, SLOTS_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_takes_one_slot_and_another_key_may_take_its_place() {
        let promotions = Promotions::new(0);
        let waiting = || {
            let (taken, bytes) = (&promotions.taken, &promotions.bytes);
            (taken.load(Ordering::Relaxed), bytes.load(Ordering::Relaxed))
        };
        let keys = [(5, "a", 100), (5, "a", 200), (6, "b", 300), (5 + SLOTS_MIN, "c", 400)];
        keys.into_iter().for_each(|(hash, key, len)| promotions.propose(hash, key.as_bytes(), len));
        promotions.propose(7, &[0; KEY_MAX + 1], 500);
        assert_eq!(waiting(), (2, 700));
        assert_eq!(promotions.take(), [Box::from(*b"c"), Box::from(*b"b")]);
        assert_eq!((waiting(), promotions.take().len()), ((0, 0), 0));
        promotions.propose(5, b"a", 100);
        (5..8).for_each(|hash| promotions.forget(hash));
        assert_eq!((waiting(), promotions.take().len()), ((0, 0), 0));
    }

    #[test]
    fn a_flush_is_asked_for_once_when_enough_wait() {
        const CAPACITY: u64 = 256 << 20;
        let promotions = Promotions::new(CAPACITY >> 10);
        let wanted_with = |count: u64, len, capacity| {
            let propose = |i: u64| promotions.propose(i, &i.to_be_bytes(), len);
            (0..count - 1).for_each(propose);
            let before = promotions.want_flush(capacity);
            propose(count - 1);
            (before, promotions.want_flush(capacity))
        };
        assert_eq!(wanted_with(1 << 10, 8 << 10, CAPACITY), (false, true), "a part of the store");
        assert_eq!((promotions.ask(), promotions.ask()), (true, false));
        assert_eq!(promotions.take().len(), 1 << 10);
        assert!(!promotions.want_flush(CAPACITY) && promotions.ask());
        let half = promotions.slots.len() as u64 / 2;
        assert_eq!(wanted_with(half, 100, CAPACITY), (false, true), "half of the slots");
        promotions.take();
        assert_eq!(wanted_with(512, 1 << 10, 0), (false, true), "less would be a tiny run");
    }
}
