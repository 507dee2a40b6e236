//! Identity of the process, and values that only the process that made them may use.
//!
//! `fork` gives a child everything of its parent, descriptors and the mapped log window included,
//! but no thread. An engine used by a child would overwrite data that the parent has acknowledged.
//! So every call checks its process, which must cost next to nothing: the id lies in a page that
//! the kernel clears in every child.

use std::mem::ManuallyDrop;
use std::ops::Deref;

/// The id of this process.
#[cfg(not(feature = "test-checked"))]
#[inline]
pub fn id() -> u32 {
    page::id()
}

/// The id of this process: there is no fork under a checker.
#[cfg(feature = "test-checked")]
pub fn id() -> u32 {
    std::process::id()
}

#[cfg(not(feature = "test-checked"))]
mod page {
    use std::ptr;
    use std::sync::LazyLock;

    use cleavedb_base::limits::BLOCK;
    use cleavedb_base::sync::atomic::{AtomicU32, Ordering};
    use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};

    /// Holds the id, or 0 in a child that has not asked yet; `None` where the kernel cannot clear
    /// pages at a fork.
    static PAGE: LazyLock<Option<&'static AtomicU32>> = LazyLock::new(map);

    #[inline]
    pub(super) fn id() -> u32 {
        match *PAGE {
            Some(page) => match page.load(Ordering::Relaxed) {
                0 => ask(page),
                id => id,
            },
            None => std::process::id(),
        }
    }

    #[cold]
    fn ask(page: &AtomicU32) -> u32 {
        let id = std::process::id();
        page.store(id, Ordering::Relaxed);
        id
    }

    fn map() -> Option<&'static AtomicU32> {
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a fresh mapping at an address of the kernel's choice aliases no Rust object.
        let start =
            unsafe { mmap_anonymous(ptr::null_mut(), BLOCK, protection, MapFlags::PRIVATE) };
        let start = start.ok()?;
        // SAFETY: the range is the mapping that was just made, which is not used yet.
        let emptied = unsafe { madvise(start, BLOCK, Advice::LinuxWipeOnFork) };
        if emptied.is_err() {
            // SAFETY: as above; the mapping is not shared.
            let _ = unsafe { munmap(start, BLOCK) };
            return None;
        }
        // SAFETY: the page is aligned, zeroed, never unmapped, and used only as this atomic; the
        // kernel clears it in a child before the child runs.
        Some(unsafe { &*start.cast::<AtomicU32>() })
    }
}

/// A value of the process that made it. In a child it is not dropped: its drop would act on the
/// parent's resources and take the parent's locks.
pub struct Own<T> {
    value: ManuallyDrop<T>,
    process: u32,
}

impl<T> Own<T> {
    /// A value of this process.
    pub fn new(value: T) -> Self {
        Self { value: ManuallyDrop::new(value), process: id() }
    }
}

impl<T: Clone> Clone for Own<T> {
    /// A copy that belongs to the same process.
    fn clone(&self) -> Self {
        Self { value: self.value.clone(), process: self.process }
    }
}

impl<T> Deref for Own<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T> Drop for Own<T> {
    fn drop(&mut self) {
        if id() == self.process {
            // SAFETY: dropped once, here, and not used afterwards.
            unsafe { ManuallyDrop::drop(&mut self.value) };
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn the_number_is_that_of_the_system() {
        assert_eq!([id(), id()], [std::process::id(); 2]);
    }

    #[test]
    fn what_belongs_to_another_process_is_not_dropped() {
        let value = Arc::new(());
        drop(Own::new(value.clone()));
        assert_eq!(Arc::strong_count(&value), 1);
        let mut inherited = Own::new(value.clone());
        inherited.process += 1;
        drop(inherited);
        assert_eq!(Arc::strong_count(&value), 2);
    }
}
