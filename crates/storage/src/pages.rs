//! Pages: zeroed memory of a MemTable or a flush, mapped from the system and returned to it.
//!
//! A MemTable is tens of MiB that live for less than a second under load, and so is the part of the
//! log that a flush reads. An allocator keeps such memory when it is freed, and then the page cache
//! lacks it, where reads need it most: of 400 MiB resident after a load, 145 were freed memory. So
//! a large piece is a mapping of its own, in huge pages where the system has them, which also saves
//! most TLB misses of random access. A small piece comes from the allocator.

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::{ptr, slice};

use cleavedb_base::sync::Mutex;
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};

/// Length from which a piece is a mapping of its own, in bytes.
pub(crate) const MAPPED_MIN: usize = 128 << 10;

/// Length from which huge pages are asked for, in bytes: one huge page.
pub const HUGE_MIN: usize = 2 << 20;

/// Alignment of every piece, in bytes.
pub const ALIGN: usize = 8;

/// Zeroed memory of a fixed length. Its owner decides which bytes are accessed by whom and when.
pub struct Pages {
    start: *mut u8,
    len: usize,
}

// SAFETY: plain memory without a thread of its own; access is the contract of its owner.
unsafe impl Send for Pages {}
// SAFETY: as above.
unsafe impl Sync for Pages {}

impl Pages {
    /// `len` zeroed bytes, at least 1. Aborts if there is no memory, as every allocation.
    pub fn new(len: usize) -> Self {
        Self::made_of(len, Advice::LinuxHugepage)
    }

    fn made_of(len: usize, pages: Advice) -> Self {
        if len < MAPPED_MIN {
            return Self { start: allocate(len), len };
        }
        let start = map(len);
        if start.is_null() {
            handle_alloc_error(layout(len));
        }
        if len >= HUGE_MIN {
            // SAFETY: the range is a mapping of our own; the advice changes no byte, and a refusal
            // only costs speed or memory.
            let _ = unsafe { madvise(start.cast(), len, pages) };
        }
        Self { start, len }
    }

    /// Start of the memory; aligned to [`ALIGN`].
    #[inline]
    pub fn start(&self) -> *mut u8 {
        self.start
    }

    /// Length in bytes.
    #[expect(clippy::len_without_is_empty, reason = "a piece is never empty")]
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        if self.len < MAPPED_MIN {
            // SAFETY: `start` came from `allocate` with this very layout and is freed once, here.
            unsafe { dealloc(self.start, layout(self.len)) };
            return;
        }
        // SAFETY: the range is the mapping that `map` made; its owner is gone, so there are no
        // references to its bytes.
        unsafe { unmap(self.start, self.len) };
    }
}

fn layout(len: usize) -> Layout {
    Layout::from_size_align(len, ALIGN).expect("pieces are far shorter than isize::MAX")
}

fn allocate(len: usize) -> *mut u8 {
    assert!(len > 0, "a piece of memory has a length");
    // SAFETY: the layout is not of size zero.
    let start = unsafe { alloc_zeroed(layout(len)) };
    if start.is_null() {
        handle_alloc_error(layout(len));
    }
    start
}

/// A new mapping of `len` zeroed bytes; null if there is no memory.
pub(crate) fn map(len: usize) -> *mut u8 {
    let protection = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: a fresh private mapping at an address of the kernel's choice aliases no Rust object.
    let mapped = unsafe { mmap_anonymous(ptr::null_mut(), len, protection, MapFlags::PRIVATE) };
    mapped.map_or(ptr::null_mut(), |start| start.cast())
}

/// Returns a mapping to the system.
///
/// # Safety
/// `start` and `len` are those of a whole mapping by [`map`], to which no reference is left.
pub(crate) unsafe fn unmap(start: *mut u8, len: usize) {
    // SAFETY: the contract of this function.
    let unmapped = unsafe { munmap(start.cast(), len) };
    debug_assert!(unmapped.is_ok(), "munmap of an own mapping failed: {unmapped:?}");
}

/// Bytes in such memory with one owner, used as a buffer to read into.
pub struct PageBuf {
    /// Present until it is dropped.
    pages: Option<Pages>,
    len: usize,
    /// The pool that the memory returns to; `None` for the system.
    pool: Option<Arc<PagePool>>,
}

impl PageBuf {
    /// `len` zeros, at least 1.
    pub fn zeroed(len: usize) -> Self {
        Self { pages: Some(Pages::new(len)), len, pool: None }
    }

    /// As `zeroed`, for memory of which little may be touched: it does not use huge pages.
    pub fn sparse(len: usize) -> Self {
        let pages = Pages::made_of(len, Advice::LinuxNoHugepage);
        Self { pages: Some(pages), len, pool: None }
    }

    /// Start of the memory; aligned to [`ALIGN`]. The owner decides which bytes are accessed by
    /// whom and when.
    #[inline]
    pub fn start(&self) -> *mut u8 {
        self.pages().start()
    }

    fn pages(&self) -> &Pages {
        self.pages.as_ref().expect("a buffer has its memory until it is dropped")
    }
}

impl Drop for PageBuf {
    fn drop(&mut self) {
        if let (Some(pool), Some(pages)) = (&self.pool, self.pages.take()) {
            let mut free = pool.free.lock();
            if free.len() < pool.most {
                free.push(pages);
            }
        }
    }
}

/// Pool of equal-sized read buffers: clearing new pages each time took a tenth of the processor
/// time of a load.
pub struct PagePool {
    len: usize,
    /// Most free buffers in the pool.
    most: usize,
    free: Mutex<Vec<Pages>>,
}

impl PagePool {
    /// An empty pool of pieces of `len` bytes.
    pub fn new(len: usize) -> Arc<Self> {
        Self::of(len, usize::MAX)
    }

    /// As `new`; keeps at most `most` free buffers.
    pub fn of(len: usize, most: usize) -> Arc<Self> {
        Arc::new(Self { len, most, free: Mutex::default() })
    }

    /// Length of a piece, in bytes.
    pub fn piece_len(&self) -> usize {
        self.len
    }

    /// A buffer of `len` bytes of any content. It returns to the pool when it is dropped; a buffer
    /// longer than the pool's pieces, or much shorter, is allocated on its own: the system clears
    /// at least a huge page of a new one.
    pub fn take(self: &Arc<Self>, len: usize) -> PageBuf {
        if len > self.len || len < self.len / 4 {
            return PageBuf::zeroed(len);
        }
        let free = self.free.lock().pop();
        let pages = free.unwrap_or_else(|| Pages::new(self.len));
        PageBuf { pages: Some(pages), len, pool: Some(Arc::clone(self)) }
    }

    /// As [`PagePool::take`], with zeros in it.
    pub fn take_zeroed(self: &Arc<Self>, len: usize) -> PageBuf {
        let mut piece = self.take(len);
        // A new piece from the system has only zeros, and is best not touched before its use.
        if piece.pool.is_some() {
            piece.fill(0);
        }
        piece
    }

    /// Memory of the free buffers, in bytes.
    pub fn waiting(&self) -> u64 {
        (self.free.lock().len() * self.len) as u64
    }

    /// Returns free buffers to the system, but for `most` of them.
    pub fn keep(&self, most: usize) {
        let mut free = self.free.lock();
        let kept = most.min(free.len());
        let surplus = free.split_off(kept);
        drop(free);
        drop(surplus);
    }
}

impl Deref for PageBuf {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: the piece is initialised memory of at least this length, and no one else has it.
        unsafe { slice::from_raw_parts(self.pages().start(), self.len) }
    }
}

impl DerefMut for PageBuf {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above, and the exclusive reference excludes all other access.
        unsafe { slice::from_raw_parts_mut(self.pages().start(), self.len) }
    }
}

impl AsRef<[u8]> for PageBuf {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_zeroed_aligned_and_writable_to_its_last_byte() {
        for len in [1, 4096, MAPPED_MIN - 1, MAPPED_MIN, MAPPED_MIN + 1, HUGE_MIN + 8] {
            let mut bytes = PageBuf::zeroed(len);
            assert_eq!((bytes.as_ptr() as usize % ALIGN, bytes.len()), (0, len));
            assert!(bytes.iter().all(|&byte| byte == 0));
            bytes.fill(0xa5);
            assert!(PageBuf::sparse(len).iter().all(|&byte| byte == 0));
        }
    }

    #[test]
    fn a_piece_comes_back_to_its_pool() {
        let pool = PagePool::new(4096);
        let mut first = pool.take(4000);
        first.fill(7);
        drop(first);
        assert_eq!(*pool.take(2000), [7; 2000]);
        assert_eq!(*pool.take_zeroed(2000), [0; 2000]);
        assert_eq!((pool.take(4097).len(), pool.take(1).len()), (4097, 1));
        assert_eq!(pool.free.lock().len(), 1, "too long and too short");
        assert_eq!(pool.waiting(), 4096);
        pool.keep(1);
        assert_eq!(pool.waiting(), 4096);
        pool.keep(0);
        assert_eq!(pool.waiting(), 0);
        assert_eq!(*pool.take(2000), [0; 2000]);
    }

    #[test]
    fn a_pool_keeps_no_more_than_it_may() {
        let pool = PagePool::of(4096, 2);
        drop([pool.take(4096), pool.take(4096), pool.take(4096)]);
        assert_eq!(pool.waiting(), 2 * 4096);
    }
}
