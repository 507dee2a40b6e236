//! The log window: a piece of memory that holds the newest bytes of the log.
//!
//! On a real disk it is a file with its own blocks, mapped shared: a store into it survives the
//! death of the process as a write to the page cache would, without a system call. Its first page
//! names the database and says how far the log had come ([`Watermark`]); behind it lies the log
//! buffer, whose bytes are addressed modulo its length, so callers use log positions. It starts
//! short, grows with its use, and may be cut. The log decides what may be overwritten, not the
//! window. See `docs/format.md`, "Window".

use std::io;
use std::ops::Range;
use std::sync::Arc;

use cleavedb_base::limits::BLOCK;
use cleavedb_base::sync::PlainRange;
use cleavedb_base::sync::real::{AtomicU64, AtomicUsize, Ordering};

use crate::api::{Access, Mode, RemoveMode, Storage, is_full, write_all_at};
use crate::mapping::{Mapping, WindowMemory, WindowObserver};
use crate::name::{FileKind, Name};
use crate::prefetch::prefetch_at;
use crate::window_header::{HEADER_LEN, Watermark, WindowIdentity, encode_identity, mark_check};

/// Bytes of zeros that are written at once.
const WIPED_AT_ONCE: usize = 256 << 10;

/// A piece of memory, addressed modulo its length.
pub struct Window {
    memory: WindowMemory,
    ring: *mut u8,
    len: AtomicUsize,
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
    /// Creates the window of `identity` in `storage`, for a log that ends at `position` in its
    /// files, with a log buffer of `len` bytes that may grow to `capacity`, both multiples of a
    /// block. Where a file cannot be mapped without the risk of a signal, or on a full disk, it is
    /// memory of the process, which does not survive it ([`Window::survives`]), and there is no
    /// file. The name is durable after the next [`Storage::sync_dir`].
    pub fn create(
        storage: &dyn Storage,
        identity: WindowIdentity,
        position: u64,
        len: usize,
        capacity: usize,
    ) -> io::Result<Self> {
        let name = Name::fixed(FileKind::Window);
        match storage.remove(&name, RemoveMode::Immediate) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
            _ => {}
        }
        let file = match storage.open(&name, Mode::CreateNew, Access::Random) {
            Err(e) if is_full(&e) => return Self::in_the_process(len, capacity),
            created => created?,
        };
        let made = file.map(HEADER_LEN + capacity).and_then(|mapping| {
            let Some(Mapping { memory, observer }) = mapping else { return Ok(None) };
            file.extend_mapped((HEADER_LEN + len) as u64)?;
            // In this order, so that a complete header always has a watermark.
            let drained = Watermark::Drained.offset() as u64;
            write_all_at(&*file, &position.to_le_bytes(), drained)?;
            write_all_at(&*file, &encode_identity(identity), 0)?;
            let window = Self::new(memory, len, true, observer);
            window.memory.touch(0..HEADER_LEN + len)?;
            Ok(Some(window))
        });
        match made {
            Ok(Some(window)) => Ok(window),
            Ok(None) => {
                storage.remove(&name, RemoveMode::Immediate)?;
                Self::in_the_process(len, capacity)
            }
            Err(e) => {
                // Frees the space that was reserved so far.
                let _ = storage.remove(&name, RemoveMode::Immediate);
                match is_full(&e) {
                    true => Self::in_the_process(len, capacity),
                    false => Err(e),
                }
            }
        }
    }

    /// A window in the memory of the process.
    pub(crate) fn in_the_process(len: usize, capacity: usize) -> io::Result<Self> {
        Ok(Self::new(WindowMemory::of_zeros(HEADER_LEN + capacity)?, len, false, None))
    }

    /// Wraps `memory`, whose first bytes are the header; `survives` says whether its bytes outlive
    /// the process.
    pub(crate) fn new(
        memory: WindowMemory,
        len: usize,
        survives: bool,
        observer: Option<Arc<dyn WindowObserver>>,
    ) -> Self {
        let capacity = memory.len() - HEADER_LEN;
        assert!(0 < len && len <= capacity && len.is_multiple_of(BLOCK), "a ring of {len} bytes");
        let ring = memory.start().wrapping_add(HEADER_LEN);
        let bytes = PlainRange::new(capacity);
        Self { memory, ring, len: AtomicUsize::new(len), survives, observer, bytes }
    }

    /// Length of the log buffer, in bytes.
    #[expect(clippy::len_without_is_empty, reason = "a window is never empty")]
    #[inline]
    pub fn len(&self) -> usize {
        self.len.load(Ordering::Relaxed)
    }

    /// The length to which it may grow, in bytes.
    pub fn capacity(&self) -> usize {
        self.memory.len() - HEADER_LEN
    }

    /// Whether the bytes outlive the process.
    pub fn survives(&self) -> bool {
        self.survives
    }

    /// Allocates blocks in the window's file for a log buffer of `len` bytes, which is not used
    /// before `set_len`.
    pub fn extend(&self, storage: &dyn Storage, len: usize) -> io::Result<()> {
        assert!(self.len() <= len && len <= self.capacity(), "a ring of {len} bytes");
        if self.survives {
            let name = Name::fixed(FileKind::Window);
            let file = storage.open(&name, Mode::ReadWrite, Access::Random)?;
            let extended = file.extend_mapped((HEADER_LEN + len) as u64);
            if extended.is_err() {
                // Recovery takes the length of the log buffer from the file, so both must agree.
                let cut = file.truncate((HEADER_LEN + self.len()) as u64);
                cut.map_err(io::Error::other)?;
            }
            extended?;
        }
        Ok(())
    }

    /// Overwrites a part of the log buffer, of which no byte is needed any more and which no other
    /// code uses, with zeros in its file, durably.
    pub(crate) fn wipe(&self, storage: &dyn Storage, parts: &[Range<u64>]) -> io::Result<()> {
        if !self.survives {
            return Ok(());
        }
        let name = Name::fixed(FileKind::Window);
        let file = storage.open(&name, Mode::ReadWrite, Access::Random)?;
        let zeros = vec![0; WIPED_AT_ONCE];
        for part in parts {
            for at in part.clone().step_by(WIPED_AT_ONCE) {
                let len = (part.end - at).min(WIPED_AT_ONCE as u64) as usize;
                write_all_at(&*file, &zeros[..len], HEADER_LEN as u64 + at)?;
            }
        }
        file.sync()
    }

    /// Makes the log buffer `len` bytes long, for which it was extended before if that is longer.
    /// This changes the place of every position.
    ///
    /// # Safety
    /// No other code uses the window, and none of its bytes is needed any more.
    pub(crate) unsafe fn set_len(&self, len: usize) {
        self.len.store(len, Ordering::Relaxed);
    }

    /// Gives back the blocks of its file behind the log buffer, which has become shorter.
    pub(crate) fn cut(&self, storage: &dyn Storage) -> io::Result<()> {
        if !self.survives {
            return Ok(());
        }
        let name = Name::fixed(FileKind::Window);
        let file = storage.open(&name, Mode::ReadWrite, Access::Random)?;
        file.truncate((HEADER_LEN + self.len()) as u64)
    }

    /// Stores how far the log has come, for recovery after the death of the process.
    #[inline]
    pub(crate) fn note(&self, mark: Watermark, value: u64) {
        if !self.survives {
            return;
        }
        self.note_at(mark.offset(), value);
        if mark == Watermark::Durable {
            self.note_at(mark.offset() + 8, mark_check(value));
        }
    }

    #[inline]
    fn note_at(&self, offset: usize, value: u64) {
        let at = self.memory.start().wrapping_add(offset).cast::<u64>();
        // SAFETY: the header lies in the memory, at a multiple of 8, and is accessed only here, as
        // an atomic.
        unsafe { AtomicU64::from_ptr(at) }.store(value.to_le(), Ordering::Release);
        if let Some(observer) = &self.observer {
            observer.stored(offset, &value.to_le_bytes());
        }
    }

    /// Splits `len` bytes at log position `at` into at most two pieces of the log buffer.
    fn pieces(&self, at: u64, len: usize) -> (usize, usize) {
        let ring = self.len();
        assert!(len <= ring, "{len} bytes do not fit a window of {ring}");
        let position = (at % ring as u64) as usize;
        (position, len.min(ring - position))
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
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), self.ring.add(position), first);
            std::ptr::copy_nonoverlapping(
                bytes.as_ptr().add(first),
                self.ring,
                bytes.len() - first,
            );
        }
        if let Some(observer) = &self.observer {
            observer.stored(HEADER_LEN + position, &bytes[..first]);
            if first < bytes.len() {
                observer.stored(HEADER_LEN, &bytes[first..]);
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
            std::ptr::copy_nonoverlapping(self.ring.add(position), out.as_mut_ptr(), first);
            std::ptr::copy_nonoverlapping(
                self.ring,
                out.as_mut_ptr().add(first),
                out.len() - first,
            );
        }
    }

    /// Has the system back a range of whole pages of the log buffer with memory now: see
    /// [`WindowMemory::touch`].
    pub(crate) fn touch(&self, range: Range<usize>) -> io::Result<()> {
        let ring = self.len();
        assert!(range.end <= ring, "{range:?} is not in a window of {ring}");
        // The system refuses partial pages with the same error as unknown advice.
        let whole = range.start.is_multiple_of(BLOCK) && range.end.is_multiple_of(BLOCK);
        debug_assert!(whole, "{range:?} are not whole pages");
        self.memory.touch(HEADER_LEN + range.start..HEADER_LEN + range.end)
    }

    /// Prefetches the memory of the bytes at log position `at`.
    #[inline]
    pub(crate) fn prefetch(&self, at: u64, len: usize) {
        let (position, first) = self.pieces(at, len);
        prefetch_at(self.ring.wrapping_add(position), first);
    }

    /// The longest run of bytes at log position `at` that does not wrap, at most `len` bytes.
    ///
    /// # Safety
    /// No store to these positions may happen while the slice lives.
    pub unsafe fn slice(&self, at: u64, len: usize) -> &[u8] {
        let (position, first) = self.pieces(at, len);
        self.bytes.read(position, first);
        // SAFETY: `pieces` keeps the slice inside the memory; the caller excludes stores.
        unsafe { std::slice::from_raw_parts(self.ring.add(position), first) }
    }
}

/// Access to a window that no other code uses, for the tests of this crate.
#[cfg(test)]
pub(crate) mod probe {
    use super::Window;

    pub(crate) fn store(window: &mut Window, at: u64, bytes: &[u8]) {
        // SAFETY: the exclusive reference excludes all other access.
        unsafe { window.store(at, bytes) };
    }

    pub(crate) fn load(window: &mut Window, at: u64, len: usize) -> Vec<u8> {
        let mut out = vec![0; len];
        // SAFETY: as above.
        unsafe { window.load(at, &mut out) };
        out
    }
}
