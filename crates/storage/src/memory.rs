//! Memory of a window: a mapped file, or memory of the process.

use std::ffi::c_void;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::ptr;

use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap, mmap_anonymous, munmap};

use crate::mapping::{Mapping, WindowMemory};

const PROTECTION: ProtFlags = ProtFlags::READ.union(ProtFlags::WRITE);

/// A mapping: of a file, shared, which outlives the descriptor; or of zeros, behind which the
/// system puts memory when they are used.
pub(crate) struct Mapped {
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
    pub(crate) fn new(file: &File, len: usize) -> io::Result<Self> {
        // SAFETY: a fresh mapping at an address of the kernel's choice aliases no Rust object.
        let start = unsafe { mmap(ptr::null_mut(), len, PROTECTION, MapFlags::SHARED, file, 0) }?;
        let mapped = Self { start, len };
        // SAFETY: the range is the mapping that was just made; the advice changes no byte. A system
        // without huge pages of files costs speed only.
        let _ = unsafe { madvise(start, len, Advice::LinuxHugepage) };
        Ok(mapped)
    }

    /// `len` zeros in memory of the process.
    fn zeros(len: usize) -> io::Result<Self> {
        // SAFETY: as in `new`.
        let start = unsafe { mmap_anonymous(ptr::null_mut(), len, PROTECTION, MapFlags::PRIVATE) }?;
        Ok(Self { start, len })
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

impl Mapping {
    /// `len` zeros in memory of the process: the window where files cannot be mapped, and that of a
    /// simulated disk.
    pub fn of_zeros(len: usize) -> io::Result<Self> {
        Ok(Self { memory: Box::new(Mapped::zeros(len)?), observer: None })
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
