//! Dead entries that reads step over: what they have cost is what may be spent to get rid of them.
//!
//! A queue that takes its first key and deletes it would step over all that it has deleted, each
//! time. So a read that steps over many dead entries at once pays in: once as much was read in vain
//! as it costs to merge the tombstones with what they hide, they are merged (`tombstones` in the
//! index). Those of the MemTable go to level 0 first; so they do, many of them, in a store that is
//! at rest: what they hide would stay until others fill the MemTable.

use cleavedb_base::sync::atomic::{AtomicU64, Ordering};

/// Dead entries that one step of a range may meet before it pays in.
pub(crate) const MANY: u64 = 500;

/// Bytes that may be rewritten for a dead entry that was read: about its length.
const ENTRY_BYTES: u64 = 32;

/// What reads have paid in.
#[derive(Default)]
pub(crate) struct DeadReads {
    /// Entries.
    read: AtomicU64,
    /// Threads that wait for all work: for them no cost is too high.
    settling: AtomicU64,
}

impl DeadReads {
    /// Bytes that may be rewritten for the sake of some tombstones.
    pub(crate) fn bytes(&self) -> u64 {
        match self.settling.load(Ordering::Relaxed) {
            0 => self.read.load(Ordering::Relaxed).saturating_mul(ENTRY_BYTES),
            _ => u64::MAX,
        }
    }

    /// A read has stepped over so many entries at once.
    pub(crate) fn pay(&self, entries: u64) {
        self.read.fetch_add(entries, Ordering::Relaxed);
    }

    /// A compaction has rewritten `bytes`.
    pub(crate) fn spend(&self, bytes: u64) {
        let less = |read: u64| Some(read.saturating_sub(bytes / ENTRY_BYTES));
        let _ = self.read.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
    }

    /// Until what it returns is dropped, no cost is too high.
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
