//! Seeks that a table may still cost before it is compacted: see `compaction/seeks.rs`.

use cleavedb_base::sync::atomic::{AtomicU64, Ordering};

use crate::table_format::TableMeta;

/// Bytes of a table per seek that it may cost before it is compacted, since a seek takes about as
/// long as compacting them (LevelDB's numbers); a minimum number of seeks applies.
const SEEK_BYTES: u64 = 16 << 10;
const SEEKS_MIN: u64 = 100;

/// The seeks that a table may still cost, if level 0 is kept in a way that counts them
/// ([`crate::compaction::compacts_on_seeks`]); otherwise unused.
pub(crate) struct SeeksLeft(AtomicU64);

impl SeeksLeft {
    /// As many as a table with this description may cost.
    pub(crate) fn of(meta: &TableMeta) -> Self {
        Self(AtomicU64::new(allowed(meta)))
    }

    /// Charges the table for a read that went on to another table; true if this was the last seek
    /// that it may cost.
    pub(crate) fn charge(&self) -> bool {
        // Relaxed: only the count matters, and the reader that ends it notifies others through a
        // lock.
        let charged = |left: u64| left.checked_sub(1);
        self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, charged) == Ok(1)
    }

    /// Whether the table has used up its seeks.
    pub(crate) fn are_spent(&self) -> bool {
        self.0.load(Ordering::Relaxed) == 0
    }

    /// Forgets what the table has cost in its last place.
    pub(crate) fn begin_anew(&self, meta: &TableMeta) {
        self.0.store(allowed(meta), Ordering::Relaxed);
    }
}

fn allowed(meta: &TableMeta) -> u64 {
    (meta.size / SEEK_BYTES).max(SEEKS_MIN)
}
