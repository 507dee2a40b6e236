//! Heads of the hash chains of a MemTable.
//!
//! They lie in pooled memory that MemTables reuse, if a piece fits: an insert writes to a random
//! place, and in fresh memory the system first maps a page of zeros, and then, at the write,
//! another one in its place, which costs an interrupt of all processors.

use std::sync::Arc;

use cleavedb_base::sync::atomic::AtomicPtr;
#[cfg(not(feature = "test-checked"))]
use cleavedb_storage::pages::PageBuf;
use cleavedb_storage::pages::PagePool;

use super::Node;

/// A power of two of links, initially null.
#[cfg(not(feature = "test-checked"))]
pub(super) struct Buckets {
    memory: PageBuf,
    mask: usize,
}

#[cfg(not(feature = "test-checked"))]
impl Buckets {
    /// `count` links, a power of two, in memory of `pool`; in small pages without a pool.
    pub(super) fn new(count: usize, pool: Option<&Arc<PagePool>>) -> Self {
        let len = count * size_of::<AtomicPtr<Node>>();
        let memory = match pool {
            Some(pool) => pool.take_zeroed(len),
            None => PageBuf::sparse(len),
        };
        Self { memory, mask: count - 1 }
    }

    /// Memory taken from the system, in bytes.
    pub(super) fn memory(&self) -> usize {
        self.memory.len()
    }

    /// Number of links, a power of two.
    pub(super) fn count(&self) -> usize {
        self.mask + 1
    }

    /// The link of a hash.
    #[inline]
    pub(super) fn of(&self, hash: u64) -> &AtomicPtr<Node> {
        let at = hash as usize & self.mask;
        // SAFETY: the memory holds one link more than `mask` says and is aligned for them; zeroed
        // bytes are null links; every access is atomic.
        unsafe { &*self.memory.start().cast::<AtomicPtr<Node>>().add(at) }
    }
}

/// As above; a checker's links are more than a word, and zeroed bytes are none.
#[cfg(feature = "test-checked")]
pub(super) struct Buckets(Box<[AtomicPtr<Node>]>);

#[cfg(feature = "test-checked")]
impl Buckets {
    pub(super) fn new(count: usize, _: Option<&Arc<PagePool>>) -> Self {
        Self((0..count).map(|_| AtomicPtr::default()).collect())
    }

    pub(super) fn memory(&self) -> usize {
        self.0.len() * size_of::<usize>()
    }

    pub(super) fn count(&self) -> usize {
        self.0.len()
    }

    pub(super) fn of(&self, hash: u64) -> &AtomicPtr<Node> {
        &self.0[hash as usize & (self.0.len() - 1)]
    }
}
