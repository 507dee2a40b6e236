//! Bump allocation for one MemTable: entries are never freed one by one, the arena goes as a whole.
//!
//! Allocation is one atomic addition; a lock is taken only to add a chunk. What is counted is what
//! was taken from the system, so the memory figure of a MemTable is exact.

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

use parking_lot::Mutex;

/// Bounds of the length of an ordinary chunk, in bytes. A chunk is a sixteenth of the budget: large
/// enough that the lock is rare, small enough that the unused rest of the last one does not matter.
const CHUNK_LEN_MIN: usize = 1 << 12;
const CHUNK_LEN_MAX: usize = 1 << 20;

/// Alignment of everything the arena hands out.
const ALIGN: usize = 8;

struct Chunk {
    start: *mut u8,
    len: usize,
    used: AtomicUsize,
}

impl Chunk {
    fn layout(len: usize) -> Layout {
        Layout::from_size_align(len, ALIGN).expect("chunk lengths are far below isize::MAX")
    }

    fn new(len: usize) -> Box<Self> {
        let layout = Self::layout(len);
        // SAFETY: `len` is at least `CHUNK_LEN_MIN`, so the layout is not of size zero.
        let start = unsafe { alloc(layout) };
        if start.is_null() {
            handle_alloc_error(layout);
        }
        Box::new(Self { start, len, used: AtomicUsize::new(0) })
    }
}

impl Drop for Chunk {
    fn drop(&mut self) {
        // SAFETY: `start` came from `alloc` with this very layout and is freed once, here.
        unsafe { dealloc(self.start, Self::layout(self.len)) }
    }
}

/// Bump allocator; memory lives until the arena is dropped.
pub(super) struct Arena {
    chunk_len: usize,
    current: AtomicPtr<Chunk>,
    /// Owns every chunk. Boxed, because `current` points at one of them while the list grows.
    #[expect(clippy::vec_box, reason = "chunks must not move when the list grows")]
    chunks: Mutex<Vec<Box<Chunk>>>,
    allocated: AtomicUsize,
}

// SAFETY: chunks are raw memory that only hands out disjoint ranges; the list is behind a lock.
unsafe impl Send for Arena {}
// SAFETY: as above; the bump counter is atomic.
unsafe impl Sync for Arena {}

impl Arena {
    /// An arena that will hold about `budget` bytes.
    pub(super) fn new(budget: usize) -> Self {
        Self {
            chunk_len: (budget / 16).clamp(CHUNK_LEN_MIN, CHUNK_LEN_MAX),
            current: AtomicPtr::new(std::ptr::null_mut()),
            chunks: Mutex::new(Vec::new()),
            allocated: AtomicUsize::new(0),
        }
    }

    /// Bytes taken from the system.
    pub(super) fn allocated(&self) -> usize {
        self.allocated.load(Ordering::Relaxed)
    }

    /// Hands out `len` bytes, uninitialised, aligned to 8, never handed out before.
    pub(super) fn alloc(&self, len: usize) -> *mut u8 {
        let len = len.next_multiple_of(ALIGN);
        loop {
            let current = self.current.load(Ordering::Acquire);
            if !current.is_null() {
                // SAFETY: a chunk lives as long as the arena, and `current` only ever holds chunks.
                let chunk = unsafe { &*current };
                let offset = chunk.used.fetch_add(len, Ordering::Relaxed);
                if offset + len <= chunk.len {
                    // SAFETY: the range lies inside the chunk.
                    return unsafe { chunk.start.add(offset) };
                }
            }
            self.grow(current, len);
        }
    }

    /// Puts a chunk with room for `len` bytes in place of `full`, unless somebody was faster.
    #[cold]
    fn grow(&self, full: *mut Chunk, len: usize) {
        let mut chunks = self.chunks.lock();
        if self.current.load(Ordering::Relaxed) != full {
            return;
        }
        let mut chunk = Chunk::new(self.chunk_len.max(len));
        self.allocated.fetch_add(chunk.len, Ordering::Relaxed);
        self.current.store(&raw mut *chunk, Ordering::Release);
        chunks.push(chunk);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_disjoint_aligned_and_counted() {
        let arena = Arena::new(0);
        let long = CHUNK_LEN_MIN;
        let mut ranges: Vec<(usize, usize)> =
            [1, 7, 8, 9, long, 3 * long, 5].map(|n| (arena.alloc(n) as usize, n)).into();
        ranges.sort_unstable();
        assert!(ranges.iter().all(|r| r.0 % ALIGN == 0));
        assert!(ranges.windows(2).all(|w| w[0].0 + w[0].1 <= w[1].0));
        assert!(arena.allocated() >= 4 * long);
    }
}
