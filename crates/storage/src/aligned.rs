//! A byte buffer whose start is aligned as direct I/O asks.
//!
//! A long buffer lies in a huge page. A direct write passes the pages of its buffer to the device
//! one by one, as many in a request as the device takes, often 128: a write of 1 MiB in small pages
//! is two requests, in a huge page one. The device of the reference machine writes 1,300 MiB/s with
//! the first and 1,600 with the second, for a third less processor time. Huge pages are reused: the
//! system takes as long to clear a new one as the device needs to write it.

use std::ops::{Deref, DerefMut};
use std::sync::{Arc, LazyLock};

use cleavedb_base::limits::BLOCK;

use crate::pages::{HUGE_MIN, PageBuf, PagePool};

/// Length from which a buffer lies in a huge page, in bytes.
const LONG_MIN: usize = 1 << 20;

/// Huge pages that are kept for the next buffers of this process.
const KEPT_MAX: usize = 8;

static HUGE_PAGES: LazyLock<Arc<PagePool>> = LazyLock::new(|| PagePool::of(HUGE_MIN, KEPT_MAX));

/// A growable byte buffer whose first byte lies on a multiple of [`BLOCK`].
#[derive(Default)]
pub struct AlignedBuf {
    /// None for a buffer without capacity.
    memory: Option<PageBuf>,
    /// Bytes in front of the aligned address; not part of the content.
    start: usize,
    /// Bytes of content.
    len: usize,
}

impl AlignedBuf {
    /// An empty buffer that takes `capacity` bytes before it allocates again.
    pub fn with_capacity(capacity: usize) -> Self {
        if capacity == 0 {
            return Self::default();
        }
        let memory = match capacity {
            // Under a checker no memory may outlive a schedule.
            LONG_MIN.. if !cfg!(feature = "test-checked") => {
                HUGE_PAGES.take(capacity.max(HUGE_MIN))
            }
            _ => PageBuf::zeroed(capacity + BLOCK - 1),
        };
        let address = memory.start().addr();
        let start = address.next_multiple_of(BLOCK) - address;
        Self { memory: Some(memory), start, len: 0 }
    }

    /// A buffer of `len` zeros, to be read into.
    pub fn zeroed(len: usize) -> Self {
        let mut buf = Self::with_capacity(len);
        buf.resize(len);
        buf
    }

    /// Bytes that fit without another allocation.
    pub fn capacity(&self) -> usize {
        self.memory.as_ref().map_or(0, |memory| memory.len() - self.start)
    }

    /// Makes room for `additional` more bytes; the content moves if it must.
    pub fn reserve(&mut self, additional: usize) {
        let needed = self.len + additional;
        if needed > self.capacity() {
            let mut larger = Self::with_capacity(needed.max(2 * self.len));
            larger.append(self);
            *self = larger;
        }
    }

    /// Appends `bytes`.
    #[inline]
    pub fn extend_from_slice(&mut self, bytes: &[u8]) {
        self.reserve(bytes.len());
        self.append(bytes);
    }

    /// Appends bytes that fit the capacity.
    #[inline]
    fn append(&mut self, bytes: &[u8]) {
        let at = self.len;
        self.len += bytes.len();
        self[at..].copy_from_slice(bytes);
    }

    /// Cuts the content to `len` bytes, or extends it with zeros.
    pub fn resize(&mut self, len: usize) {
        self.reserve(len.saturating_sub(self.len));
        let before = std::mem::replace(&mut self.len, len);
        if len > before {
            self[before..].fill(0);
        }
    }

    /// Appends zeros up to the next multiple of `unit`.
    pub fn pad_to(&mut self, unit: usize) {
        self.resize(self.len.next_multiple_of(unit));
    }

    /// Removes the first `len` bytes; the others move to the front, the allocation stays.
    pub fn consume(&mut self, len: usize) {
        self.copy_within(len.., 0);
        self.len -= len;
    }

    /// Removes all content; the allocation stays.
    pub fn clear(&mut self) {
        self.len = 0;
    }
}

impl Deref for AlignedBuf {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        let memory = self.memory.as_ref();
        memory.map_or(&[], |memory| &memory[self.start..self.start + self.len])
    }
}

impl DerefMut for AlignedBuf {
    #[inline]
    fn deref_mut(&mut self) -> &mut [u8] {
        let (start, end) = (self.start, self.start + self.len);
        let memory = self.memory.as_mut();
        memory.map_or(&mut [], |memory| &mut memory[start..end])
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
    fn a_long_buffer_holds_no_trace_of_another() {
        let mut first = AlignedBuf::with_capacity(LONG_MIN);
        first.extend_from_slice(&[7; LONG_MIN]);
        assert!(is_aligned(&first));
        drop(first);
        let mut second = AlignedBuf::zeroed(LONG_MIN);
        assert!(is_aligned(&second) && second.iter().all(|&byte| byte == 0));
        second.extend_from_slice(&[1; 2 * HUGE_MIN]);
        assert!(is_aligned(&second));
        assert_eq!((second[LONG_MIN - 1], second[LONG_MIN]), (0, 1));
    }

    #[test]
    fn zeroed_buffers_can_be_read_into() {
        let mut buf = AlignedBuf::zeroed(10);
        buf[9] = 1;
        assert_eq!(buf[..], [0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
    }
}
