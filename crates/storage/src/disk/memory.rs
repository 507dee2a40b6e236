//! Memory of a window: a mapped file, or plain heap.

use std::cell::UnsafeCell;
use std::ffi::c_void;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::ptr;

use cleavedb_base::limits::BLOCK;
use rustix::mm::{
    Advice, MapFlags, MlockFlags, ProtFlags, madvise, mlock, mlock_with, mmap, munmap,
};

use crate::window::WindowMemory;

/// When pages of a mapping are locked in memory.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Locked {
    /// All at once: they are read in.
    Now,
    /// Each when it is first touched.
    WhenTouched,
}

/// A file mapped shared and locked in memory. The mapping outlives the descriptor.
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
    /// Maps the first `len` bytes of `file` and locks them; fails if the system refuses either.
    pub(super) fn new(file: &File, len: usize, locked: Locked) -> io::Result<Self> {
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a fresh mapping at an address of the kernel's choice aliases no Rust object.
        let start = unsafe { mmap(ptr::null_mut(), len, protection, MapFlags::SHARED, file, 0) }?;
        let mapped = Self { start, len };
        // SAFETY: the range is the mapping that was just made; the advice changes no byte. A system
        // without huge pages of files costs speed only.
        let _ = unsafe { madvise(start, len, Advice::LinuxHugepage) };
        // SAFETY: the range is the mapping that was just made; locking changes no byte.
        unsafe {
            match locked {
                Locked::Now => mlock(start, len),
                Locked::WhenTouched => mlock_with(start, len, MlockFlags::ONFAULT),
            }
        }?;
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

    fn touch(&self, range: Range<usize>) {
        // SAFETY: the range lies in the mapping (`Window::touch`); the advice changes no byte, and
        // is as harmless beside stores as the faults that it comes before.
        let start = unsafe { self.start.cast::<u8>().add(range.start) };
        // SAFETY: as above. A system that does not know the advice costs speed only.
        let _ = unsafe { madvise(start.cast(), range.len(), Advice::LinuxPopulateWrite) };
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
struct Page([u8; BLOCK]);

/// Heap memory: the window where files cannot be mapped, and the simulator's.
pub(crate) struct Heap(Box<[UnsafeCell<Page>]>);

// SAFETY: `UnsafeCell` only makes the pages writable through a shared reference; who may touch
// which bytes and when is the contract of `Window`.
unsafe impl Sync for Heap {}

impl Heap {
    /// A copy of `content`, which is whole pages.
    pub(crate) fn new(content: &[u8]) -> Self {
        let (pages, rest) = content.as_chunks::<BLOCK>();
        debug_assert!(rest.is_empty(), "a window of {} bytes is not whole pages", content.len());
        Self(pages.iter().map(|page| UnsafeCell::new(Page(*page))).collect())
    }
}

impl WindowMemory for Heap {
    fn start(&self) -> *mut u8 {
        UnsafeCell::raw_get(self.0.as_ptr()).cast()
    }

    fn len(&self) -> usize {
        self.0.len() * BLOCK
    }
}
