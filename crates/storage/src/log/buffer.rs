//! The newest bytes of the log, in the window, between two watermarks.
//!
//! Log positions grow for the life of the database; a position lies in the window at its value
//! modulo the window's length. Three watermarks bound all accesses: the floor (`drained_upto`), the
//! end of the stored records (`written_upto`), and the end of the reserved ranges:
//!
//! ```text
//!    drained_upto           written_upto             reserved      drained_upto + window
//! ---------|---------------------|-----------------------|-----------------|--->
//!  in file |  readable, drainable | being stored by their |  free            not yet:
//!  only    |  immutable           | owners                |                  still readable
//! ```
//!
//! * positions below the floor are in their file, or released, and may be overwritten here;
//! * [floor, `written_upto`) is immutable: any thread may read it while holding the floor;
//! * [`written_upto`, reserved) belongs to the holders of [`ReservedSlot`]s, each range to one of
//!   them.
//!
//! This proves that no store overlaps another access: slots are disjoint, readers stay below
//! `written_upto` and above a floor that cannot rise while they hold it, and no range is reserved
//! beyond floor + window.

use std::io;
use std::sync::OnceLock;

use cleavedb_base::limits::BLOCK;
use cleavedb_base::planted::{Bug, planted};
use cleavedb_base::sync::atomic::{AtomicU64, Ordering};
use cleavedb_base::sync::{RwLock, RwLockReadGuard};

use crate::window::Window;

/// The window and its watermarks.
pub struct LogBuffer {
    /// None before the first write.
    window: OnceLock<Window>,
    /// Readers hold it shared while they copy; raising the floor waits for them.
    drained_upto: RwLock<u64>,
    /// Copy of `drained_upto` that may lag behind: readers of old positions need no lock.
    floor_hint: AtomicU64,
    written_upto: AtomicU64,
}

impl LogBuffer {
    /// A buffer without a window, for a log that ends at `position`.
    pub(super) fn idle(position: u64) -> Self {
        Self {
            window: OnceLock::new(),
            drained_upto: RwLock::new(position),
            floor_hint: AtomicU64::new(position),
            written_upto: AtomicU64::new(position),
        }
    }

    /// Gives the log buffer its window; the log continues at `position`.
    pub(super) fn begin(&self, window: Window, position: u64) {
        assert!(self.window.set(window).is_ok(), "a ring gets its window once");
        self.set_written_upto(position);
        self.raise_floor(position);
    }

    #[inline]
    pub(super) fn window(&self) -> &Window {
        self.window.get().expect("a log is begun before it is written")
    }

    /// Sets the length of the window, which was extended before if it grows. No range may be
    /// reserved meanwhile.
    pub(super) fn set_len(&self, len: usize) {
        let drained_upto = self.drained_upto.write();
        let drained = *drained_upto == self.written_upto() || planted(Bug::GrowsUndrained);
        assert!(drained, "the window must be drained before its length changes");
        // SAFETY: readers stay above the floor, which is held, and below `written_upto`: there are
        // none. The caller excludes slots.
        unsafe { self.window().set_len(len) };
    }

    /// Length of the window, in bytes; 0 before the first write.
    #[expect(clippy::len_without_is_empty, reason = "a log that was begun has a window")]
    #[inline]
    pub fn len(&self) -> u64 {
        self.window.get().map_or(0, |window| window.len() as u64)
    }

    /// Whether bytes in the window outlive the process.
    #[inline]
    pub fn survives(&self) -> bool {
        self.window.get().is_some_and(Window::survives)
    }

    /// Lowest position that may be only in the window.
    pub fn drained_upto(&self) -> u64 {
        self.floor_hint.load(Ordering::Acquire)
    }

    /// Every position below was stored.
    pub fn written_upto(&self) -> u64 {
        self.written_upto.load(Ordering::Acquire)
    }

    /// Declares every position below `position` stored.
    pub(super) fn set_written_upto(&self, position: u64) {
        let publishing =
            if planted(Bug::FilledUnordered) { Ordering::Relaxed } else { Ordering::AcqRel };
        let before = self.written_upto.swap(position, publishing);
        debug_assert!(before <= position, "the filled mark went back from {before} to {position}");
    }

    /// As [`LogBuffer::written_upto`], by an exchange: a writer that stores more after this look
    /// sees everything that the caller has written before.
    pub(super) fn filled_at_last(&self) -> u64 {
        self.written_upto.fetch_add(0, Ordering::AcqRel)
    }

    /// Allows later stores to overwrite positions below `position`, which are in their file or
    /// released.
    pub(super) fn raise_floor(&self, position: u64) {
        if planted(Bug::FloorUnderReaders) {
            return self.floor_hint.store(position, Ordering::Release);
        }
        let mut drained_upto = self.drained_upto.write();
        assert!(*drained_upto <= position && position <= self.written_upto());
        *drained_upto = position;
        self.floor_hint.store(position, Ordering::Release);
    }

    /// Copies the part of the log at `at` that the window holds to the end of `out` and returns how
    /// many bytes at the front of `out` must be read from the file.
    pub fn read_tail(&self, at: u64, out: &mut [u8]) -> usize {
        let end = at + out.len() as u64;
        if end <= self.drained_upto() {
            return out.len();
        }
        let drained_upto = self.drained_upto.read();
        let in_file = drained_upto.saturating_sub(at).min(out.len() as u64) as usize;
        if in_file < out.len() {
            assert!(
                end <= self.written_upto(),
                "read of log bytes {at}..{end} that were never stored"
            );
            // SAFETY: the range lies in [floor, `written_upto`), where no stores happen while the
            // floor is held; see the module documentation.
            unsafe { self.window().load(at + in_file as u64, &mut out[in_file..]) };
        }
        in_file
    }

    /// Keeps the floor where it is, for a reader of large parts of the window. Raising the floor
    /// waits, and so do later readers: not to be held across a call of the storage.
    pub fn pin(&self) -> BufferPin<'_> {
        BufferPin {
            buffer: self,
            drained_upto: self.drained_upto.read(),
            written_upto: self.written_upto(),
        }
    }

    /// Prefetches the memory of the log at `at`, if the window holds it.
    #[inline]
    pub fn prefetch(&self, at: u64, len: usize) {
        if at >= self.drained_upto() {
            self.window().prefetch(at, len);
        }
    }

    /// Has the system back the window with memory from the page of `at` on, without wrapping, for
    /// at most `len` bytes in whole pages. Returns the length of the piece.
    pub(super) fn touch(&self, at: u64, len: u64) -> io::Result<u64> {
        let at = at % self.len();
        let begin = at - at % BLOCK as u64;
        let end = self.len().min(begin + len);
        self.window().touch(begin as usize..end as usize)?;
        Ok(end - begin)
    }

    /// The longest unbroken piece of the window at `at`, at most `len` bytes. Only the drain raises
    /// the floor, so the bytes that it reads stay valid.
    pub(super) fn piece(&self, at: u64, len: usize) -> &[u8] {
        assert!(self.drained_upto() <= at && at + len as u64 <= self.written_upto());
        // SAFETY: the range lies in [floor, `written_upto`), and only the caller raises the floor.
        unsafe { self.window().slice(at, len) }
    }

    /// Stores `bytes` at `at`.
    ///
    /// # Safety
    /// The caller owns the range: it was reserved for this caller only and is not filled yet.
    #[inline]
    unsafe fn store(&self, at: u64, bytes: &[u8]) {
        // SAFETY: the caller owns the range, and readers stay below `written_upto`.
        unsafe { self.window().store(at, bytes) }
    }
}

/// The window while its floor is held.
pub struct BufferPin<'a> {
    buffer: &'a LogBuffer,
    drained_upto: RwLockReadGuard<'a, u64>,
    written_upto: u64,
}

impl BufferPin<'_> {
    /// The `len` bytes of the log at `at`, if the window holds all of them in one piece.
    #[inline]
    pub(crate) fn bytes(&self, at: u64, len: usize) -> Option<&[u8]> {
        if at < *self.drained_upto {
            return None;
        }
        let end = at + len as u64;
        assert!(end <= self.written_upto, "read of log bytes {at}..{end} that were never stored");
        // SAFETY: the range lies in [floor, `written_upto`), where no stores happen while the floor
        // is held.
        let piece = unsafe { self.buffer.window().slice(at, len) };
        (piece.len() == len).then_some(piece)
    }
}

/// A reserved range of the log, to be stored by its one owner.
pub struct ReservedSlot<'a> {
    buffer: &'a LogBuffer,
    at: u64,
    end: u64,
}

impl<'a> ReservedSlot<'a> {
    /// The slot of `start..end`.
    ///
    /// # Safety
    /// The range is above `written_upto`, ends at most one window above the floor, and is given to
    /// no other slot.
    pub(super) unsafe fn new(buffer: &'a LogBuffer, start: u64, end: u64) -> Self {
        debug_assert!(
            buffer.written_upto() <= start && end <= buffer.drained_upto() + buffer.len()
        );
        Self { buffer, at: start, end }
    }

    /// Stores `bytes` behind those stored before.
    #[inline]
    pub fn push(&mut self, bytes: &[u8]) {
        let end = self.at + bytes.len() as u64;
        assert!(end <= self.end, "a slot was given more bytes than were reserved");
        // SAFETY: the range lies in this slot, which owns it.
        unsafe { self.buffer.store(self.at, bytes) };
        self.at = end;
    }

    /// Whether the slot was stored in full.
    pub fn is_full(&self) -> bool {
        self.at == self.end
    }
}
