//! Memory that flushes, MemTables and scans reuse, and when the system gets it back.
//!
//! New memory must be cleared, in huge pages: a virtual machine that has to ask its host for it
//! needs 4 ms for a page of 2 MiB, and the writes that begin a MemTable wait for a few of them. So
//! a database that is written, however slowly, keeps what the next MemTable begins with. One that
//! was not written for a minute keeps nothing (decision 0055).

use std::sync::Arc;
use std::time::{Duration, Instant};

use cleavedb_base::sync::Mutex;
use cleavedb_index::MemTable;
use cleavedb_storage::pages::PagePool;

use crate::settings::options::Options;

/// Most pieces of a MemTable's memory that a database keeps while it is written, 4 MiB each: all
/// of a table of pointers to values, and the hash table and the first entries of another.
const KEPT: usize = 4;

/// Bytes of a piece that a scan reads values ahead into. A value that its user keeps holds one.
const AHEAD_LEN: usize = 256 << 10;

/// Most free pieces of read-ahead: each scan uses a few at a time.
const AHEAD_MAX: usize = 8;

/// Time without a write after which a database is idle.
const IDLE: Duration = Duration::from_secs(60);

/// Memory that waits for the next flush, the next MemTable and the next scan.
pub(crate) struct SparePages {
    /// Pages that a flush reads the log into.
    pub(crate) flush: Arc<PagePool>,
    /// Pages of MemTables.
    pub(crate) memtable: Arc<PagePool>,
    /// Pages that scans read values ahead into: to map new ones takes as long as it takes to copy
    /// the values out of the page cache.
    pub(crate) ahead: Arc<PagePool>,
    /// Bytes written by then, and when they were first seen.
    written: Mutex<(u64, Instant)>,
}

impl SparePages {
    pub(crate) fn new(options: &Options) -> Self {
        Self {
            flush: PagePool::new(options.flush_piece()),
            memtable: MemTable::pool(options.memtable()),
            ahead: PagePool::of(AHEAD_LEN, AHEAD_MAX),
            written: Mutex::new((0, Instant::now())),
        }
    }

    /// The length of the waiting pages in bytes.
    pub(crate) fn waiting(&self) -> u64 {
        self.flush.waiting() + self.memtable.waiting() + self.ahead.waiting()
    }

    /// Returns to the system what a database does not need that has no flush to do at `now`, when
    /// users have written `written` bytes since the open.
    pub(crate) fn give_back(&self, written: u64, now: Instant) {
        self.flush.keep(0);
        self.ahead.keep(0);
        self.memtable.keep(if self.is_idle(written, now) { 0 } else { KEPT });
    }

    fn is_idle(&self, written: u64, now: Instant) -> bool {
        let mut last = self.written.lock();
        if last.0 != written {
            *last = (written, now);
        }
        now.saturating_duration_since(last.1) >= IDLE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_database_keeps_memory_for_one_memtable_while_it_is_written() {
        let spare = SparePages::new(&Options::default());
        let pieces = |count: usize| -> Vec<_> {
            let len = spare.memtable.piece_len();
            (0..count).map(|_| spare.memtable.take(len)).collect()
        };
        let begin = Instant::now();
        drop(pieces(KEPT + 2));
        drop((spare.flush.take(spare.flush.piece_len()), spare.ahead.take(AHEAD_LEN)));
        let kept = (KEPT * spare.memtable.piece_len()) as u64;
        spare.give_back(1, begin);
        assert_eq!(spare.waiting(), kept);
        spare.give_back(2, begin + IDLE);
        assert_eq!(spare.waiting(), kept, "it was written since");
        spare.give_back(2, begin + IDLE + IDLE / 2);
        assert_eq!(spare.waiting(), kept, "not for long");
        spare.give_back(2, begin + 2 * IDLE);
        assert_eq!(spare.waiting(), 0);
    }
}
