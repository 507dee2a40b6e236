//! Keys that reads have found hot, for the next flush: a small table that forgets.
//!
//! The paper (algorithm 1) moves a pair to the hot store while it is read. Here the reader leaves
//! the place of the record in a slot that its hash selects, and a flush moves it: a read neither
//! writes nor waits. A key that loses its slot to another one is read again, if it is hot.

use cleavedb_base::sync::Mutex;
use cleavedb_base::sync::atomic::{AtomicUsize, Ordering};
use cleavedb_base::{SeqNo, ValuePointer};

/// Slots of the table.
pub const SLOTS: usize = 4096;

/// A version that was read often: its place and its sequence number.
pub type Candidate = (ValuePointer, SeqNo);

/// The table.
pub(crate) struct Promotions {
    slots: Box<[Mutex<Option<Candidate>>]>,
    /// Taken slots.
    taken: AtomicUsize,
}

impl Promotions {
    pub(crate) fn new() -> Self {
        Self { slots: (0..SLOTS).map(|_| Mutex::new(None)).collect(), taken: AtomicUsize::new(0) }
    }

    /// Leaves a version of the key with this hash, unless its slot is in use right now.
    pub(crate) fn propose(&self, hash: u64, candidate: Candidate) {
        let slot = &self.slots[hash as usize % SLOTS];
        if let Some(mut slot) = slot.try_lock()
            && slot.replace(candidate).is_none()
        {
            self.taken.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Number of versions that wait.
    pub(crate) fn waiting(&self) -> usize {
        self.taken.load(Ordering::Relaxed)
    }

    /// Bytes of memory.
    pub(crate) const fn memory() -> usize {
        SLOTS * size_of::<Mutex<Option<Candidate>>>()
    }

    /// Takes all versions.
    pub(crate) fn take(&self) -> Vec<Candidate> {
        let taken: Vec<_> = self.slots.iter().filter_map(|slot| slot.lock().take()).collect();
        self.taken.fetch_sub(taken.len(), Ordering::Relaxed);
        taken
    }
}

#[cfg(test)]
mod tests {
    use cleavedb_base::FileNumber;

    use super::*;

    #[test]
    fn a_key_takes_one_slot_and_another_key_may_take_its_place() {
        let promotions = Promotions::new();
        let candidate = |offset| (ValuePointer { file: FileNumber(1), offset, len: 100 }, offset);
        promotions.propose(5, candidate(1));
        promotions.propose(5, candidate(2));
        promotions.propose(6, candidate(3));
        promotions.propose(5 + SLOTS as u64, candidate(4));
        assert_eq!(promotions.waiting(), 2);
        assert_eq!(promotions.take(), [candidate(4), candidate(3)]);
        assert_eq!((promotions.waiting(), promotions.take().len()), (0, 0));
    }
}
