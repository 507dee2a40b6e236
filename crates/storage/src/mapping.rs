//! Mapping: the memory of a window, which may be a file, and the observer of stores into it.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::sync::Arc;

use memmap2::{Advice, MmapOptions, MmapRaw};
use rustix::io::Errno;

/// Receives every store into a window: the simulator records them.
pub trait WindowObserver: Send + Sync {
    /// `bytes` were stored at byte `offset` of the file (no wrap-around inside one call).
    fn stored(&self, offset: usize, bytes: &[u8]);
}

/// Memory of a window: a mapped file, or memory of the process. The contract of [`crate::Window`]
/// says which thread may touch its bytes, and when.
pub struct WindowMemory(MmapRaw);

impl WindowMemory {
    /// The first `len` bytes of `file`, which may have fewer yet; shared, and not gone with the
    /// descriptor.
    pub(crate) fn of_file(file: &File, len: usize) -> io::Result<Self> {
        let mapped = MmapOptions::new().len(len).map_raw(file)?;
        // A system without huge pages of files costs speed only.
        let _ = mapped.advise(Advice::HugePage);
        Ok(Self(mapped))
    }

    /// `len` zeros in memory of the process, which the system puts there when they are used: the
    /// window where files cannot be mapped, and that of a simulated disk.
    pub fn of_zeros(len: usize) -> io::Result<Self> {
        Ok(Self(MmapOptions::new().len(len).map_anon()?.into()))
    }

    /// Start of the memory, aligned to the page size.
    #[inline]
    pub(crate) fn start(&self) -> *mut u8 {
        self.0.as_mut_ptr()
    }

    /// Length in bytes; the file may be shorter.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Has the system back a range of whole pages with memory now, not at their first use. It
    /// changes no byte and is safe beside stores. An error says that a store there would end in a
    /// signal.
    pub(crate) fn touch(&self, range: Range<usize>) -> io::Result<()> {
        let touched = self.0.advise_range(Advice::PopulateWrite, range.start, range.len());
        touched.or_else(|e| match Errno::from_io_error(&e) {
            Some(Errno::FAULT | Errno::HWPOISON) => Err(e),
            // Any other refusal only costs speed.
            _ => Ok(()),
        })
    }
}

/// A file mapped for a window.
pub struct Mapping {
    /// The memory.
    pub memory: WindowMemory,
    /// Receives each store.
    pub observer: Option<Arc<dyn WindowObserver>>,
}
