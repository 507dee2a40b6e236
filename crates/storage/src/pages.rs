//! Pages: zeroed memory of a MemTable or a flush, taken from the system and given back to it.
//!
//! A MemTable is tens of MiB that live for less than a second under load, and so is what a flush
//! reads of the log. An allocator keeps such memory for itself when it is freed, and what it keeps
//! is missing where reads need it most, in the page cache: of 400 MiB resident after a load, 145
//! were freed. So a large piece is a mapping of its own, in huge pages where the system has them,
//! which also spares most TLB misses to whoever asks for one place after another. A small piece
//! comes from the allocator.

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::{ptr, slice};

use cleavedb_base::sync::Mutex;
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};

/// Length from which a piece is a mapping of its own, in bytes.
const MAPPED_MIN: usize = 1 << 20;

/// Length from which huge pages are asked for, in bytes: theirs.
pub const HUGE_MIN: usize = 2 << 20;

/// Alignment of every piece, in bytes.
pub const ALIGN: usize = 8;

/// Zeroed memory of a fixed length. Who may touch which bytes and when is its owner's affair.
pub struct Pages {
    start: *mut u8,
    len: usize,
}

// SAFETY: plain memory without a thread of its own; access is the contract of its owner.
unsafe impl Send for Pages {}
// SAFETY: as above.
unsafe impl Sync for Pages {}

impl Pages {
    /// `len` zeroed bytes, at least 1. Ends the process if there is no memory, as every allocation.
    pub fn new(len: usize) -> Self {
        Self::made_of(len, Advice::LinuxHugepage)
    }

    fn made_of(len: usize, pages: Advice) -> Self {
        let start = if len < MAPPED_MIN { allocate(len) } else { map(len, pages) };
        Self { start, len }
    }

    /// Where the memory begins; aligned to [`ALIGN`].
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
        // SAFETY: the range is the mapping that `map` made; its owner is gone, so nobody refers to
        // its bytes any more.
        let unmapped = unsafe { munmap(self.start.cast(), self.len) };
        debug_assert!(unmapped.is_ok(), "munmap of an own mapping failed: {unmapped:?}");
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

fn map(len: usize, pages: Advice) -> *mut u8 {
    let protection = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: a fresh private mapping at an address of the kernel's choice aliases no Rust object.
    let mapped = unsafe { mmap_anonymous(ptr::null_mut(), len, protection, MapFlags::PRIVATE) };
    let Ok(start) = mapped else { handle_alloc_error(layout(len)) };
    if len >= HUGE_MIN {
        // SAFETY: the range is a mapping of our own; the advice changes no byte, and a system that
        // does not take it costs speed or memory only.
        let _ = unsafe { madvise(start, len, pages) };
    }
    start.cast()
}

/// Bytes in such memory, with one owner: to be read into as a whole.
pub struct PageBuf {
    /// There until it is dropped.
    pages: Option<Pages>,
    len: usize,
    /// Where the memory goes then, if not to the system.
    pool: Option<Arc<PagePool>>,
}

impl PageBuf {
    /// `len` zeros, at least 1.
    pub fn zeroed(len: usize) -> Self {
        Self { pages: Some(Pages::new(len)), len, pool: None }
    }

    /// The same, of which maybe little is ever touched: no huge page is taken for a byte.
    pub fn sparse(len: usize) -> Self {
        let pages = Pages::made_of(len, Advice::LinuxNoHugepage);
        Self { pages: Some(pages), len, pool: None }
    }

    /// Where the memory begins; aligned to [`ALIGN`]. Who may touch which bytes and when is the
    /// owner's affair.
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

/// Pieces of one length for who reads much, again and again: for the system to clear their pages
/// each time was a tenth of all processor time of a load.
pub struct PagePool {
    len: usize,
    /// Most pieces that wait for somebody.
    most: usize,
    free: Mutex<Vec<Pages>>,
}

impl PagePool {
    /// An empty pool of pieces of `len` bytes.
    pub fn new(len: usize) -> Arc<Self> {
        Self::of(len, usize::MAX)
    }

    /// The same; no more than `most` wait in it.
    pub fn of(len: usize, most: usize) -> Arc<Self> {
        Arc::new(Self { len, most, free: Mutex::default() })
    }

    /// Length of a piece, in bytes.
    pub fn piece_len(&self) -> usize {
        self.len
    }

    /// `len` bytes of any content, in a piece that comes back to the pool when it is dropped; in
    /// one of their own if they are longer than the pool's, or much shorter: the least that the
    /// system clears of one is a huge page.
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
        // What is the system's has none but zeros, and is best not touched before its use.
        if piece.pool.is_some() {
            piece.fill(0);
        }
        piece
    }

    /// Memory of the pieces that wait for somebody, in bytes.
    pub fn waiting(&self) -> u64 {
        (self.free.lock().len() * self.len) as u64
    }

    /// Gives to the system what nobody uses now.
    pub fn clear(&self) {
        let free = std::mem::take(&mut *self.free.lock());
        drop(free);
    }
}

impl Deref for PageBuf {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: the piece is initialised memory of at least this length, known to nobody else.
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
        pool.clear();
        assert_eq!(pool.waiting(), 0);
        assert_eq!(*pool.take(2000), [0; 2000]);
    }
}
