//! Pages: zeroed memory of a MemTable, taken from the system and given back to it.
//!
//! A MemTable is tens of MiB that live for less than a second under load. An allocator keeps such
//! memory for itself when it is freed, and what it keeps is missing where reads need it most, in
//! the page cache: of 400 MiB resident after a load, 145 were freed. So a large piece is a mapping
//! of its own, in huge pages where the system has them, which also spares look-ups most of their
//! TLB misses. A small piece comes from the allocator.

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::ffi::c_void;
use std::ptr;

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};

/// Length from which a piece is a mapping of its own, in bytes.
const MAPPED_MIN: usize = 1 << 20;

/// Length from which huge pages are asked for, in bytes: theirs.
const HUGE_MIN: usize = 2 << 20;

/// Alignment of every piece, in bytes.
pub(super) const ALIGN: usize = 8;

/// Zeroed memory of a fixed length. Who may touch which bytes and when is its owner's affair.
pub(super) struct Pages {
    start: *mut u8,
    len: usize,
}

// SAFETY: plain memory without a thread of its own; access is the contract of its owner.
unsafe impl Send for Pages {}
// SAFETY: as above.
unsafe impl Sync for Pages {}

impl Pages {
    /// `len` zeroed bytes, at least 1. Ends the process if there is no memory, as every allocation.
    pub(super) fn new(len: usize) -> Self {
        let start = if len < MAPPED_MIN { allocate(len) } else { map(len) };
        Self { start, len }
    }

    /// Where the memory begins; aligned to [`ALIGN`].
    #[inline]
    pub(super) fn start(&self) -> *mut u8 {
        self.start
    }

    /// Length in bytes.
    #[inline]
    pub(super) fn len(&self) -> usize {
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

fn map(len: usize) -> *mut u8 {
    let protection = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: a fresh private mapping at an address of the kernel's choice aliases no Rust object.
    let mapped = unsafe { mmap_anonymous(ptr::null_mut(), len, protection, MapFlags::PRIVATE) };
    let Ok(start) = mapped else { handle_alloc_error(layout(len)) };
    if len >= HUGE_MIN {
        advise_huge(start, len);
    }
    start.cast()
}

/// Asks for huge pages; a system without them costs speed only.
fn advise_huge(start: *mut c_void, len: usize) {
    // SAFETY: the range is a mapping of our own; the advice changes no byte.
    let _ = unsafe { madvise(start, len, Advice::LinuxHugepage) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_zeroed_aligned_and_writable_to_its_last_byte() {
        for len in [1, 4096, MAPPED_MIN - 1, MAPPED_MIN, MAPPED_MIN + 1, HUGE_MIN + 8] {
            let pages = Pages::new(len);
            assert_eq!((pages.start() as usize % ALIGN, pages.len()), (0, len));
            // SAFETY: the range is the piece, which nobody else knows.
            let bytes = unsafe { std::slice::from_raw_parts_mut(pages.start(), len) };
            assert!(bytes.iter().all(|&byte| byte == 0));
            bytes.fill(0xa5);
        }
    }
}
