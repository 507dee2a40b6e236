//! The log window: a fixed piece of memory that holds the newest bytes of the log.
//!
//! On a real disk it is a file, all blocks of which are its own, mapped shared and locked: a store
//! into it survives the death of the process as a write to the page cache would, without a system
//! call (design, section 8). The bytes are addressed modulo the length, so callers speak of log
//! positions. Nothing here decides what may be overwritten; the log does.

use std::ops::Range;
use std::sync::Arc;

use cleavedb_base::sync::PlainRange;

use crate::prefetch::prefetch_at;

/// Sees every store into a window; the simulator's ear.
pub trait WindowObserver: Send + Sync {
    /// `bytes` were stored at byte `position` of the window (no wrap-around inside one call).
    fn stored(&self, position: usize, bytes: &[u8]);
}

/// Memory of a window: who owns it and how it is freed.
pub(crate) trait WindowMemory: Send + Sync {
    /// Start of the memory, aligned to the page size.
    fn start(&self) -> *mut u8;
    /// Length in bytes.
    fn len(&self) -> usize;
    /// Has the system put memory behind a range of whole pages now, not at its first use. A hint:
    /// it changes no byte, and may be given while others store there.
    fn touch(&self, _range: Range<usize>) {}
}

/// A fixed piece of memory, addressed modulo its length.
pub struct Window {
    memory: Box<dyn WindowMemory>,
    start: *mut u8,
    len: usize,
    survives: bool,
    observer: Option<Arc<dyn WindowObserver>>,
    bytes: PlainRange,
}

// SAFETY: the pointer refers to memory that `memory` owns and keeps for the life of the window; all
// access goes through the unsafe methods below, whose contracts exclude data races.
unsafe impl Send for Window {}
// SAFETY: as above.
unsafe impl Sync for Window {}

impl Window {
    /// Wraps `memory`; `survives` says whether its bytes outlive the process.
    pub(crate) fn new(
        memory: Box<dyn WindowMemory>,
        survives: bool,
        observer: Option<Arc<dyn WindowObserver>>,
    ) -> Self {
        let (start, len) = (memory.start(), memory.len());
        Self { memory, start, len, survives, observer, bytes: PlainRange::new(len) }
    }

    /// Length in bytes.
    #[expect(clippy::len_without_is_empty, reason = "a window is never empty")]
    pub fn len(&self) -> usize {
        debug_assert_eq!(self.len, self.memory.len());
        self.len
    }

    /// Whether the bytes outlive the process.
    pub fn survives(&self) -> bool {
        self.survives
    }

    /// Splits `len` bytes at log position `at` into at most two pieces of the window.
    fn pieces(&self, at: u64, len: usize) -> (usize, usize) {
        assert!(len <= self.len, "{len} bytes do not fit a window of {}", self.len);
        let position = (at % self.len as u64) as usize;
        (position, len.min(self.len - position))
    }

    /// Stores `bytes` at log position `at`.
    ///
    /// # Safety
    /// No other access to these positions may happen at the same time.
    #[inline]
    pub unsafe fn store(&self, at: u64, bytes: &[u8]) {
        let (position, first) = self.pieces(at, bytes.len());
        self.bytes.written(position, first);
        self.bytes.written(0, bytes.len() - first);
        // SAFETY: `pieces` keeps both copies inside the memory; the caller excludes other access.
        unsafe {
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), self.start.add(position), first);
            std::ptr::copy_nonoverlapping(
                bytes.as_ptr().add(first),
                self.start,
                bytes.len() - first,
            );
        }
        if let Some(observer) = &self.observer {
            observer.stored(position, &bytes[..first]);
            if first < bytes.len() {
                observer.stored(0, &bytes[first..]);
            }
        }
    }

    /// Copies the bytes at log position `at` to `out`.
    ///
    /// # Safety
    /// No store to these positions may happen at the same time.
    #[inline]
    pub unsafe fn load(&self, at: u64, out: &mut [u8]) {
        let (position, first) = self.pieces(at, out.len());
        self.bytes.read(position, first);
        self.bytes.read(0, out.len() - first);
        // SAFETY: as in `store`.
        unsafe {
            std::ptr::copy_nonoverlapping(self.start.add(position), out.as_mut_ptr(), first);
            std::ptr::copy_nonoverlapping(
                self.start,
                out.as_mut_ptr().add(first),
                out.len() - first,
            );
        }
    }

    /// Has the system put memory behind a range of whole pages now: see [`WindowMemory::touch`].
    pub(crate) fn touch(&self, range: Range<usize>) {
        assert!(range.end <= self.len, "{range:?} is not in a window of {}", self.len);
        self.memory.touch(range);
    }

    /// Asks for the memory of the bytes at log position `at`.
    #[inline]
    pub(crate) fn prefetch(&self, at: u64, len: usize) {
        let (position, first) = self.pieces(at, len);
        prefetch_at(self.start.wrapping_add(position), first);
    }

    /// The longest run of bytes at log position `at` that does not wrap, at most `len` of them.
    ///
    /// # Safety
    /// No store to these positions may happen while the slice lives.
    pub unsafe fn slice(&self, at: u64, len: usize) -> &[u8] {
        let (position, first) = self.pieces(at, len);
        self.bytes.read(position, first);
        // SAFETY: `pieces` keeps the slice inside the memory; the caller excludes stores.
        unsafe { std::slice::from_raw_parts(self.start.add(position), first) }
    }
}
