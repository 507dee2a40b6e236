//! Prefetching memory into the processor's cache.
//!
//! Records that are visited in another order than they lie in memory cost a cache miss or two each.
//! A flush that moves values into groups spent a third of its processor time in the three functions
//! that touch a key or a record first (decision 0026).

/// Bytes of a cache line.
const LINE_LEN: usize = 64;

/// Most lines to prefetch: the processor fetches the following ones by itself.
const LINES_MAX: usize = 16;

/// Prefetches the line at `at`, which need not be valid.
#[inline]
pub fn prefetch<T>(at: *const T) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch is a hint; it reads nothing and faults at no address.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(at.cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = at;
}

/// Prefetches the first lines of `bytes`.
#[inline]
pub fn prefetch_bytes(bytes: &[u8]) {
    prefetch_at(bytes.as_ptr(), bytes.len());
}

/// Prefetches the first lines of the `len` bytes at `at`, which need not be valid.
#[inline]
pub(crate) fn prefetch_at(at: *const u8, len: usize) {
    (0..len).step_by(LINE_LEN).take(LINES_MAX).for_each(|line| prefetch(at.wrapping_add(line)));
}
