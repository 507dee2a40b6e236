//! How many records exist, while several threads add more.
//!
//! A reader must not choose a record whose insert is still running in another thread. So a number
//! is handed out first, and counts as existing only when its insert and those of all numbers before
//! it have returned (YCSB's `AcknowledgedCounterGenerator`). A queue also removes at its other end:
//! records below the oldest are gone.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// The numbers of the records: those from [`oldest`](Self::oldest) to below
/// [`existing`](Self::existing) are there.
#[derive(Debug)]
pub struct Inserts {
    oldest: AtomicU64,
    next: AtomicU64,
    existing: AtomicU64,
    /// Numbers that are there while a smaller one is not; at most one a thread.
    early: Mutex<BTreeSet<u64>>,
}

impl Inserts {
    /// Starts with the records below `existing`.
    pub fn new(existing: u64) -> Self {
        Self::between(0, existing)
    }

    /// Starts with the records from `oldest` to below `existing`.
    pub fn between(oldest: u64, existing: u64) -> Self {
        Self {
            oldest: AtomicU64::new(oldest),
            next: AtomicU64::new(existing),
            existing: AtomicU64::new(existing),
            early: Mutex::default(),
        }
    }

    /// Records below this number were removed from the queue's end, or are about to be.
    pub fn oldest(&self) -> u64 {
        self.oldest.load(Ordering::Relaxed)
    }

    /// Takes the oldest record, to be removed; `None` if only one is left.
    pub fn expire(&self) -> Option<u64> {
        let existing = self.existing();
        let next = |oldest| (oldest + 1 < existing).then_some(oldest + 1);
        self.oldest.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next).ok()
    }

    /// The record `number` was removed as the first one: those below it were gone before.
    pub fn expired(&self, number: u64) {
        if number < self.existing() {
            self.oldest.fetch_max(number + 1, Ordering::Relaxed);
        }
    }

    /// Records that are there, as far as is known.
    pub fn count(&self) -> u64 {
        self.existing() - self.oldest()
    }

    /// Every record below this number exists, but for those below the oldest.
    pub fn existing(&self) -> u64 {
        self.existing.load(Ordering::Acquire)
    }

    /// The number of the next record to insert.
    pub fn take(&self) -> u64 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    /// The record `number`, which was taken, is there now.
    pub fn acknowledge(&self, number: u64) {
        let mut early = self.early.lock().unwrap_or_else(PoisonError::into_inner);
        early.insert(number);
        let mut existing = self.existing.load(Ordering::Relaxed);
        while early.remove(&existing) {
            existing += 1;
        }
        self.existing.store(existing, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::Inserts;

    #[test]
    fn a_record_exists_once_all_before_it_do() {
        let inserts = Inserts::new(10);
        let (first, second, third) = (inserts.take(), inserts.take(), inserts.take());
        inserts.acknowledge(third);
        inserts.acknowledge(second);
        assert_eq!(inserts.existing(), 10);
        inserts.acknowledge(first);
        assert_eq!(inserts.existing(), 13);
    }

    #[test]
    fn a_queue_loses_its_oldest_but_never_all() {
        let inserts = Inserts::between(4, 7);
        assert_eq!(
            (inserts.expire(), inserts.expire(), inserts.expire()),
            (Some(4), Some(5), None)
        );
        inserts.acknowledge(inserts.take());
        assert_eq!((inserts.expire(), inserts.oldest(), inserts.count()), (Some(6), 7, 1));
    }

    #[test]
    fn a_queue_with_holes_goes_on_behind_what_was_removed() {
        let inserts = Inserts::between(4, 9);
        assert_eq!(inserts.expire(), Some(4));
        inserts.expired(6);
        assert_eq!((inserts.expire(), inserts.expire()), (Some(7), None));
        inserts.expired(5);
        inserts.expired(9);
        assert_eq!((inserts.oldest(), inserts.count()), (8, 1));
    }
}
