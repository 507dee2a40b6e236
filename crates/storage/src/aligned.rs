//! A byte buffer whose start is aligned as direct I/O asks.
//!
//! The trick needs no `unsafe`: the buffer lives inside a `Vec` that is one block larger, behind as
//! many unused bytes as bring its start to a block boundary. A `Vec` does not move its bytes while
//! they fit its capacity, so the boundary is found once per allocation.

use std::ops::{Deref, DerefMut};

use cleavedb_base::limits::BLOCK;

/// A growable byte buffer whose first byte lies on a multiple of [`BLOCK`].
pub struct AlignedBuf {
    bytes: Vec<u8>,
    /// Bytes in front of the boundary; not part of the content.
    start: usize,
}

impl AlignedBuf {
    /// An empty buffer that takes `capacity` bytes before it allocates again.
    pub fn with_capacity(capacity: usize) -> Self {
        let mut bytes = Vec::<u8>::with_capacity(capacity + BLOCK - 1);
        let address = bytes.as_ptr().addr();
        let start = address.next_multiple_of(BLOCK) - address;
        bytes.resize(start, 0);
        Self { bytes, start }
    }

    /// A buffer of `len` zeros, to be read into.
    pub fn zeroed(len: usize) -> Self {
        let mut buf = Self::with_capacity(len);
        buf.resize(len);
        buf
    }

    /// Bytes that fit without another allocation.
    pub fn capacity(&self) -> usize {
        self.bytes.capacity() - self.start
    }

    /// Makes room for `additional` more bytes; the content moves if it must.
    pub fn reserve(&mut self, additional: usize) {
        let needed = self.len() + additional;
        if needed > self.capacity() {
            let mut larger = Self::with_capacity(needed.max(2 * self.len()));
            larger.bytes.extend_from_slice(self);
            *self = larger;
        }
    }

    /// Appends `bytes`.
    #[inline]
    pub fn extend_from_slice(&mut self, bytes: &[u8]) {
        self.reserve(bytes.len());
        self.bytes.extend_from_slice(bytes);
    }

    /// Cuts the content to `len` bytes, or extends it with zeros.
    pub fn resize(&mut self, len: usize) {
        self.reserve(len.saturating_sub(self.len()));
        self.bytes.resize(self.start + len, 0);
    }

    /// Appends zeros up to the next multiple of `unit`.
    pub fn pad_to(&mut self, unit: usize) {
        self.resize(self.len().next_multiple_of(unit));
    }

    /// Removes the first `len` bytes; the others move to the front, the allocation stays.
    pub fn consume(&mut self, len: usize) {
        let rest = self.len() - len;
        self.copy_within(len.., 0);
        self.bytes.truncate(self.start + rest);
    }

    /// Removes all content; the allocation stays.
    pub fn clear(&mut self) {
        self.bytes.truncate(self.start);
    }
}

impl Default for AlignedBuf {
    fn default() -> Self {
        Self::with_capacity(0)
    }
}

impl Deref for AlignedBuf {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        &self.bytes[self.start..]
    }
}

impl DerefMut for AlignedBuf {
    #[inline]
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[self.start..]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_aligned(buf: &AlignedBuf) -> bool {
        buf.as_ptr().addr().is_multiple_of(BLOCK)
    }

    #[test]
    fn the_start_stays_aligned_while_the_buffer_grows_and_moves() {
        let mut buf = AlignedBuf::default();
        let mut expected = Vec::new();
        for i in 0..20_000u32 {
            buf.extend_from_slice(&i.to_le_bytes());
            expected.extend_from_slice(&i.to_le_bytes());
            assert!(is_aligned(&buf));
        }
        let moved = Box::new(buf);
        assert!(is_aligned(&moved));
        assert_eq!(moved[..], expected[..]);
    }

    #[test]
    fn a_buffer_within_its_capacity_does_not_allocate() {
        let mut buf = AlignedBuf::with_capacity(3 * BLOCK);
        let address = buf.as_ptr();
        assert!(buf.capacity() >= 3 * BLOCK);
        buf.extend_from_slice(&[7; BLOCK + 1]);
        buf.pad_to(BLOCK);
        assert_eq!(buf.len(), 2 * BLOCK);
        assert_eq!(buf[BLOCK..BLOCK + 2], [7, 0]);
        buf.consume(BLOCK);
        assert_eq!((buf.len(), buf[0], buf[1]), (BLOCK, 7, 0));
        buf.clear();
        assert!(buf.is_empty());
        buf.resize(3 * BLOCK);
        assert!(buf.iter().all(|&b| b == 0), "old content does not shine through");
        assert_eq!(buf.as_ptr(), address);
    }

    #[test]
    fn zeroed_buffers_can_be_read_into() {
        let mut buf = AlignedBuf::zeroed(10);
        buf[9] = 1;
        assert_eq!(buf[..], [0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
    }
}
