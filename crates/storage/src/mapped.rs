//! Memory of jobs: long vectors, and many byte strings that are freed together.
//!
//! A job needs a few MiB for a moment. An allocator keeps them for the thread that freed them, so
//! each thread ends up with the most that it ever needed: of 300 MiB resident 150 were freed
//! memory. Here a long piece is a mapping of its own, and the system has it back once it is freed.

use std::alloc::Layout;
use std::cell::RefCell;
use std::ptr::{self, NonNull};
use std::slice;

use allocator_api2::alloc::{AllocError, Allocator, Global};
use rustix::mm::{MremapFlags, mremap};

use crate::pages::{MAPPED_MIN, Pages, map, unmap};

/// Allocator whose long pieces are mappings of their own.
#[derive(Clone, Copy, Debug, Default)]
pub struct Mapped;

/// A vector that the system gets back as soon as it is freed, if it is long.
pub type MappedVec<T> = allocator_api2::vec::Vec<T, Mapped>;

/// A vector without elements or memory.
pub fn mapped_vec<T>() -> MappedVec<T> {
    MappedVec::new_in(Mapped)
}

/// Whether such a piece is a mapping. A page is aligned enough for every type of ours; for a
/// stricter one the allocator is asked.
fn is_mapped(layout: Layout) -> bool {
    layout.size() >= MAPPED_MIN && layout.align() <= 4096
}

// SAFETY: whether a piece is a mapping of its own or comes from `Global` follows from its layout,
// so that it is freed as it was allocated; it stays where it is until then.
unsafe impl Allocator for Mapped {
    fn allocate(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
        if !is_mapped(layout) {
            return Global.allocate(layout);
        }
        let start = NonNull::new(map(layout.size())).ok_or(AllocError)?;
        Ok(NonNull::slice_from_raw_parts(start, layout.size()))
    }

    unsafe fn deallocate(&self, piece: NonNull<u8>, layout: Layout) {
        if is_mapped(layout) {
            // SAFETY: by the caller's contract the piece is what `allocate` mapped for this layout.
            unsafe { unmap(piece.as_ptr(), layout.size()) };
        } else {
            // SAFETY: by the caller's contract the piece came from `Global`, with this layout.
            unsafe { Global.deallocate(piece, layout) };
        }
    }

    unsafe fn grow(
        &self,
        piece: NonNull<u8>,
        old: Layout,
        new: Layout,
    ) -> Result<NonNull<[u8]>, AllocError> {
        if is_mapped(old) && is_mapped(new) {
            // SAFETY: the mapping is the caller's alone, and only the new address is used from now
            // on.
            let moved = unsafe {
                mremap(piece.as_ptr().cast(), old.size(), new.size(), MremapFlags::MAYMOVE)
            };
            let start = moved.ok().and_then(|at| NonNull::new(at.cast())).ok_or(AllocError)?;
            return Ok(NonNull::slice_from_raw_parts(start, new.size()));
        }
        let larger = self.allocate(new)?;
        // SAFETY: both pieces have at least the old length, and the new one overlaps nothing.
        unsafe {
            ptr::copy_nonoverlapping(piece.as_ptr(), larger.as_ptr().cast(), old.size());
            self.deallocate(piece, old);
        }
        Ok(larger)
    }
}

/// Bounds of the length of an arena's chunk, in bytes: each is as long as all before it.
const CHUNK_LEN_MIN: usize = 4 << 10;
const CHUNK_LEN_MAX: usize = 1 << 20;

/// Byte strings side by side, which are freed together.
#[derive(Default)]
pub struct Arena {
    chunks: RefCell<Chunks>,
}

#[derive(Default)]
struct Chunks {
    all: Vec<Pages>,
    /// Bytes in use of the last chunk, and of all chunks together.
    used: usize,
    len: usize,
}

impl Arena {
    /// An arena without memory.
    pub fn new() -> Self {
        Self::default()
    }

    /// A copy of `parts`, one behind the other.
    pub fn copy(&self, parts: &[&[u8]]) -> &[u8] {
        let len = parts.iter().map(|part| part.len()).sum();
        let mut chunks = self.chunks.borrow_mut();
        if chunks.all.last().is_none_or(|chunk| chunk.len() - chunks.used < len) {
            let chunk = Pages::new(chunks.len.clamp(CHUNK_LEN_MIN, CHUNK_LEN_MAX).max(len));
            chunks.len += chunk.len();
            chunks.used = 0;
            chunks.all.push(chunk);
        }
        let used = chunks.used;
        let Some(chunk) = chunks.all.last() else { return &[] };
        // SAFETY: the chunk has `len` bytes from `used` on, as was just made sure of.
        let start = unsafe { chunk.start().add(used) };
        let mut to = start;
        for part in parts {
            // SAFETY: the parts together have `len` bytes. No reference to these leads here yet.
            to = unsafe {
                ptr::copy_nonoverlapping(part.as_ptr(), to, part.len());
                to.add(part.len())
            };
        }
        chunks.used += len;
        // SAFETY: the bytes were written above and are not written again; their chunk stays where
        // it is until the arena is dropped, which the lifetime of the result excludes.
        unsafe { slice::from_raw_parts(start, len) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_vector_keeps_its_content_as_it_grows_and_shrinks() {
        let mut vec = mapped_vec();
        for n in 0..100_000_u64 {
            vec.push(n);
        }
        assert!(vec.capacity() * 8 > MAPPED_MIN);
        vec.truncate(70_000);
        vec.shrink_to_fit();
        vec.extend(70_000..200_000);
        assert!(vec.iter().copied().eq(0..200_000));
        vec.truncate(10);
        vec.shrink_to_fit();
        assert_eq!(vec[..], [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
    }

    #[test]
    fn copies_in_an_arena_stay() {
        let arena = Arena::new();
        let long = vec![7; 3 * CHUNK_LEN_MAX];
        assert_eq!(arena.copy(&[]), b"");
        let copies: Vec<_> =
            (0..100_000_u32).map(|n| arena.copy(&[&n.to_le_bytes(), b"behind"])).collect();
        assert_eq!(arena.copy(&[&long]), long);
        for (n, copy) in (0_u32..).zip(copies) {
            assert_eq!((&copy[..4], &copy[4..]), (&n.to_le_bytes()[..], &b"behind"[..]));
        }
    }
}
