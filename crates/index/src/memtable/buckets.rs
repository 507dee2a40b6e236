//! Heads of the hash chains of a MemTable.

use cleavedb_base::sync::atomic::AtomicPtr;
#[cfg(not(feature = "checked"))]
use cleavedb_storage::pages::Pages;

use super::Node;

/// A power of two of links, all null at first.
#[cfg(not(feature = "checked"))]
pub(super) struct Buckets(Pages);

#[cfg(not(feature = "checked"))]
impl Buckets {
    /// `count` links, a power of two.
    pub(super) fn new(count: usize) -> Self {
        Self(Pages::new(count * size_of::<AtomicPtr<Node>>()))
    }

    /// Memory taken from the system, in bytes.
    pub(super) fn memory(&self) -> usize {
        self.0.len()
    }

    /// The link of a hash.
    #[inline]
    pub(super) fn of(&self, hash: u64) -> &AtomicPtr<Node> {
        let count = self.0.len() / size_of::<AtomicPtr<Node>>();
        let at = hash as usize & (count - 1);
        // SAFETY: the memory holds `count` links and is aligned for them; zeroed bytes are null
        // links; every access is atomic.
        unsafe { &*self.0.start().cast::<AtomicPtr<Node>>().add(at) }
    }
}

/// As above; a checker's links are more than a word, and zeroed bytes are none.
#[cfg(feature = "checked")]
pub(super) struct Buckets(Box<[AtomicPtr<Node>]>);

#[cfg(feature = "checked")]
impl Buckets {
    pub(super) fn new(count: usize) -> Self {
        Self((0..count).map(|_| AtomicPtr::default()).collect())
    }

    pub(super) fn memory(&self) -> usize {
        self.0.len() * size_of::<usize>()
    }

    pub(super) fn of(&self, hash: u64) -> &AtomicPtr<Node> {
        &self.0[hash as usize & (self.0.len() - 1)]
    }
}
