//! Memory of a window: a mapped file, or plain heap.

use std::cell::UnsafeCell;
use std::ffi::c_void;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::ptr;

use cleavedb_base::limits::BLOCK;
use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap, munmap};

use crate::window::WindowMemory;

/// A file mapped shared. The mapping outlives the descriptor.
pub(super) struct Mapped {
    start: *mut c_void,
    len: usize,
}

// SAFETY: the mapping is plain memory that belongs to this value alone until it is dropped; who may
// touch its bytes and when is the contract of `Window`.
unsafe impl Send for Mapped {}
// SAFETY: as above.
unsafe impl Sync for Mapped {}

impl Mapped {
    /// Maps the first `len` bytes of `file`, which may have fewer yet.
    pub(super) fn new(file: &File, len: usize) -> io::Result<Self> {
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a fresh mapping at an address of the kernel's choice aliases no Rust object.
        let start = unsafe { mmap(ptr::null_mut(), len, protection, MapFlags::SHARED, file, 0) }?;
        let mapped = Self { start, len };
        // SAFETY: the range is the mapping that was just made; the advice changes no byte. A system
        // without huge pages of files costs speed only.
        let _ = unsafe { madvise(start, len, Advice::LinuxHugepage) };
        Ok(mapped)
    }
}

impl WindowMemory for Mapped {
    fn start(&self) -> *mut u8 {
        self.start.cast()
    }

    fn len(&self) -> usize {
        self.len
    }

    fn touch(&self, range: Range<usize>) -> io::Result<()> {
        // SAFETY: the range lies in the mapping (`Window::touch`); the advice changes no byte, and
        // is as harmless beside stores as the faults that it comes before.
        let start = unsafe { self.start.cast::<u8>().add(range.start) };
        // SAFETY: as above.
        match unsafe { madvise(start.cast(), range.len(), Advice::LinuxPopulateWrite) } {
            Err(e @ (Errno::FAULT | Errno::HWPOISON)) => Err(e.into()),
            // What is refused for another reason costs speed only.
            _ => Ok(()),
        }
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        // SAFETY: the range is a mapping of our own, and `Window` drops its memory last, so nobody
        // holds a reference into it. Unmapping also unlocks.
        let unmapped = unsafe { munmap(self.start, self.len) };
        debug_assert!(unmapped.is_ok(), "munmap of an own mapping failed: {unmapped:?}");
    }
}

/// One page of heap memory, aligned like a page of a mapping.
#[repr(C, align(4096))]
struct Page(UnsafeCell<[u8; BLOCK]>);

/// Heap memory: the window where files cannot be mapped, and the simulator's.
pub(crate) struct Heap(Box<[Page]>);

// SAFETY: `UnsafeCell` only makes the pages writable through a shared reference; who may touch
// which bytes and when is the contract of `Window`.
unsafe impl Sync for Heap {}

impl Heap {
    /// `len` bytes, whole pages of zeros. The system puts memory behind them when they are used.
    pub(crate) fn zeros(len: usize) -> Self {
        debug_assert!(len.is_multiple_of(BLOCK), "a window of {len} bytes is not whole pages");
        let pages = Box::<[Page]>::new_zeroed_slice(len / BLOCK);
        // SAFETY: a page is bytes, for which zeros are valid.
        Self(unsafe { pages.assume_init() })
    }
}

impl WindowMemory for Heap {
    fn start(&self) -> *mut u8 {
        UnsafeCell::raw_get(self.0.as_ptr().cast::<UnsafeCell<[u8; BLOCK]>>()).cast()
    }

    fn len(&self) -> usize {
        self.0.len() * BLOCK
    }
}
