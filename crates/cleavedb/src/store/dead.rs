//! Dead entries that reads step over: their cost limits what may be spent on removing them.
//!
//! A queue that takes its first key and deletes it would step over all the keys that it has
//! deleted, each time. So a read that steps over many dead entries at once adds their number to a
//! credit. Once the credit pays for merging the tombstones with the entries that they hide, they
//! are merged (`tombstones` in the index). Tombstones in the MemTable are flushed to level 0 first.
//! They are also flushed, if there are many of them, in a store that is at rest: the entries that
//! they hide would otherwise stay until other writes fill the MemTable. A value that has expired is
//! a dead entry like a tombstone: a flush makes one of it, and the credit pays for the rewriting of
//! tables that have some (`hidden_tables` in the index).

use cleavedb_base::sync::atomic::{AtomicU64, Ordering};

/// Dead entries that one step of a range may meet before the read adds to the credit.
pub(crate) const MANY: u64 = 500;

/// Bytes that may be rewritten for each dead entry that a read stepped over: about an entry's
/// length.
const ENTRY_BYTES: u64 = 32;

/// The credit for merging tombstones.
#[derive(Default)]
pub(crate) struct DeadReads {
    /// Dead entries that reads have stepped over, less what was spent.
    read: AtomicU64,
    /// Number of threads that wait for all work: while there are any, the credit is unlimited.
    settling: AtomicU64,
}

impl DeadReads {
    /// Bytes that may be rewritten to merge tombstones.
    pub(crate) fn bytes(&self) -> u64 {
        match self.settling.load(Ordering::Relaxed) {
            0 => self.read.load(Ordering::Relaxed).saturating_mul(ENTRY_BYTES),
            _ => u64::MAX,
        }
    }

    /// Adds to the credit after a read has stepped over `entries` dead entries at once.
    pub(crate) fn pay(&self, entries: u64) {
        self.read.fetch_add(entries, Ordering::Relaxed);
    }

    /// Takes from the credit after a compaction has rewritten `bytes`.
    pub(crate) fn spend(&self, bytes: u64) {
        let less = |read: u64| Some(read.saturating_sub(bytes / ENTRY_BYTES));
        let _ = self.read.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
    }

    /// Makes the credit unlimited until the returned guard is dropped.
    pub(crate) fn wait_idle(&self) -> impl Drop + use<'_> {
        self.settling.fetch_add(1, Ordering::Relaxed);
        Settling(self)
    }
}

struct Settling<'a>(&'a DeadReads);

impl Drop for Settling<'_> {
    fn drop(&mut self) {
        self.0.settling.fetch_sub(1, Ordering::Relaxed);
    }
}
