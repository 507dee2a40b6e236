//! Hits and misses of a cache, counted without a cache line that all threads write.

use crate::sync::atomic::{AtomicU64, Ordering};

/// The counters are spread over this many cache lines.
const LINES: usize = 16;

#[derive(Default)]
#[repr(align(128))]
struct Line {
    hits: AtomicU64,
    misses: AtomicU64,
}

/// Counters of the look-ups of a cache.
#[derive(Default)]
pub struct LookUps([Line; LINES]);

impl LookUps {
    /// Counts a look-up. `spread` chooses the cache line: it should differ from key to key.
    #[inline]
    pub fn count(&self, spread: u64, hit: bool) {
        let line = &self.0[spread as usize % LINES];
        let side = if hit { &line.hits } else { &line.misses };
        side.fetch_add(1, Ordering::Relaxed);
    }

    /// Look-ups that hit.
    pub fn hits(&self) -> u64 {
        self.0.iter().map(|line| line.hits.load(Ordering::Relaxed)).sum()
    }

    /// Look-ups that missed.
    pub fn misses(&self) -> u64 {
        self.0.iter().map(|line| line.misses.load(Ordering::Relaxed)).sum()
    }
}
