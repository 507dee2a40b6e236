//! What a storage gives for a window: memory that is a file, and who sees stores into it.

use std::io;
use std::ops::Range;
use std::sync::Arc;

/// Sees every store into a window; the simulator's ear.
pub trait WindowObserver: Send + Sync {
    /// `bytes` were stored at byte `offset` of the file (no wrap-around inside one call).
    fn stored(&self, offset: usize, bytes: &[u8]);
}

/// Memory of a window: who owns it and how it is freed.
pub trait WindowMemory: Send + Sync {
    /// Start of the memory, aligned to the page size.
    fn start(&self) -> *mut u8;
    /// Length in bytes, of which the file need not have all yet.
    fn len(&self) -> usize;
    /// Whether it has no byte: never.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// Has the system put memory behind a range of whole pages now, not at its first use. It
    /// changes no byte, and may be given while others store there. An error says that a store
    /// there would end in a signal.
    fn touch(&self, _range: Range<usize>) -> io::Result<()> {
        Ok(())
    }
}

/// A file mapped for a window.
pub struct Mapping {
    /// The memory.
    pub memory: Box<dyn WindowMemory>,
    /// Who is told of each store.
    pub observer: Option<Arc<dyn WindowObserver>>,
}
