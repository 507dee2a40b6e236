//! Bump allocation for one MemTable: entries are never freed one by one, only the whole arena.
//!
//! Allocation is one atomic addition; a lock is taken only to add a chunk. The counted bytes are
//! those taken from the system, so the memory figure of a MemTable is exact.

use std::sync::Arc;

use cleavedb_base::sync::Mutex;
use cleavedb_base::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

use cleavedb_storage::pages::{ALIGN, PageBuf, PagePool};

/// Bounds of the length of an ordinary chunk, in bytes. A chunk is a sixteenth of the budget or a
/// little more: large enough that the lock is rare, small enough that the unused rest of the last
/// one does not matter. A power of two, so that from 2 MiB on it consists of huge pages: with
/// chunks of 1.5 MiB one write in a thousand waited for three small pages, 10 us instead of 2.5.
const CHUNK_LEN_MIN: usize = 1 << 12;
const CHUNK_LEN_MAX: usize = 4 << 20;

/// Length of the first chunk of an arena without a pool, in bytes: such an arena is the first of a
/// database, and may hold little for a long time. Its chunks double up to the ordinary length.
const FIRST_LEN: usize = 16 << 10;

/// Length of a chunk of an arena that will hold about `budget` bytes.
pub(super) fn chunk_len(budget: usize) -> usize {
    (budget / 16).next_power_of_two().clamp(CHUNK_LEN_MIN, CHUNK_LEN_MAX)
}

struct ArenaChunk {
    memory: PageBuf,
    used: AtomicUsize,
}

/// Bump allocator; memory lives until the arena is dropped.
pub(super) struct NodeArena {
    chunk_len: usize,
    /// Pool that chunks come from and return to.
    pool: Option<Arc<PagePool>>,
    current: AtomicPtr<ArenaChunk>,
    /// Owns every chunk. Boxed, because `current` points at one of them while the list grows.
    #[expect(clippy::vec_box, reason = "chunks must not move when the list grows")]
    chunks: Mutex<Vec<Box<ArenaChunk>>>,
    allocated: AtomicUsize,
}

impl NodeArena {
    /// An arena that will hold about `budget` bytes, with chunks from `pool`, if there is one.
    pub(super) fn new(budget: usize, pool: Option<Arc<PagePool>>) -> Self {
        Self {
            chunk_len: chunk_len(budget),
            pool,
            current: AtomicPtr::new(std::ptr::null_mut()),
            chunks: Mutex::new(Vec::new()),
            allocated: AtomicUsize::new(0),
        }
    }

    /// Bytes taken from the system.
    pub(super) fn allocated(&self) -> usize {
        self.allocated.load(Ordering::Relaxed)
    }

    /// Bytes handed out, the unused ends of full chunks included.
    pub(super) fn used(&self) -> usize {
        let chunks = self.chunks.lock();
        // The counter also includes an allocation that did not fit.
        let used = |chunk: &ArenaChunk| chunk.used.load(Ordering::Relaxed).min(chunk.memory.len());
        chunks.iter().map(|chunk| used(chunk)).sum()
    }

    /// Allocates `len` bytes, aligned to 8, that were never allocated before.
    pub(super) fn alloc(&self, len: usize) -> *mut u8 {
        let len = len.next_multiple_of(ALIGN);
        loop {
            let current = self.current.load(Ordering::Acquire);
            if !current.is_null() {
                // SAFETY: a chunk lives as long as the arena, and `current` only ever holds chunks.
                let chunk = unsafe { &*current };
                let offset = chunk.used.fetch_add(len, Ordering::Relaxed);
                if offset + len <= chunk.memory.len() {
                    // SAFETY: the range lies inside the chunk.
                    return unsafe { chunk.memory.start().add(offset) };
                }
            }
            self.grow(current, len);
        }
    }

    /// Replaces `full` by a chunk with room for `len` bytes, unless another thread already did.
    #[cold]
    fn grow(&self, full: *mut ArenaChunk, len: usize) {
        let mut chunks = self.chunks.lock();
        if self.current.load(Ordering::Relaxed) != full {
            return;
        }
        let memory = match &self.pool {
            Some(pool) => pool.take(self.chunk_len.max(len)),
            None => {
                let doubled = self.allocated().max(FIRST_LEN).next_power_of_two();
                PageBuf::zeroed(doubled.min(self.chunk_len).max(len))
            }
        };
        let mut chunk = Box::new(ArenaChunk { memory, used: AtomicUsize::new(0) });
        self.allocated.fetch_add(chunk.memory.len(), Ordering::Relaxed);
        self.current.store(&raw mut *chunk, Ordering::Release);
        chunks.push(chunk);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_arena_of_a_database_begins_small() {
        let arena = NodeArena::new(64 << 20, None);
        arena.alloc(100);
        assert_eq!(arena.allocated(), FIRST_LEN);
        (0..100_000).for_each(|_| _ = arena.alloc(100));
        let whole = CHUNK_LEN_MAX..4 * CHUNK_LEN_MAX;
        assert!(whole.contains(&arena.allocated()), "{}", arena.allocated());
        let pooled = NodeArena::new(64 << 20, Some(PagePool::new(chunk_len(64 << 20))));
        pooled.alloc(100);
        assert_eq!(pooled.allocated(), CHUNK_LEN_MAX, "as full as the one before");
    }

    #[test]
    fn ranges_are_disjoint_aligned_and_counted() {
        let arena = NodeArena::new(0, None);
        let long = CHUNK_LEN_MIN;
        let mut ranges: Vec<(usize, usize)> =
            [1, 7, 8, 9, long, 3 * long, 5].map(|n| (arena.alloc(n) as usize, n)).into();
        ranges.sort_unstable();
        assert!(ranges.iter().all(|r| r.0 % ALIGN == 0));
        assert!(ranges.windows(2).all(|w| w[0].0 + w[0].1 <= w[1].0));
        assert!(arena.allocated() >= 4 * long);
        assert!(arena.used() >= 4 * long + 40 && arena.used() <= arena.allocated());
    }
}
