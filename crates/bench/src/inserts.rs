//! How many records exist, while several threads add more.
//!
//! A reader must not choose a record whose insert is still on its way in another thread, so a
//! number is handed out first and counts as existing only when it and all before it are there
//! (YCSB's `AcknowledgedCounterGenerator`).

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// The numbers of the records: all below [`existing`](Self::existing) are there.
#[derive(Debug)]
pub struct Inserts {
    next: AtomicU64,
    existing: AtomicU64,
    /// Numbers that are there while a smaller one is not; at most one a thread.
    early: Mutex<BTreeSet<u64>>,
}

impl Inserts {
    /// Starts with the records below `existing`.
    pub fn new(existing: u64) -> Self {
        Self {
            next: AtomicU64::new(existing),
            existing: AtomicU64::new(existing),
            early: Mutex::default(),
        }
    }

    /// Every record below this number exists.
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
}
