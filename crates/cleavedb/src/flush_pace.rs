//! FlushPace: a flush for which no writer waits writes slowly, so that reads go on beside it.
//!
//! A flush that writes as fast as the device can keeps it from reads for as long as it takes, some
//! 50 ms with the default MemTable: the slowest reads of a database that is written at a moderate
//! rate waited for it. So a flush writes a few times as fast as the next MemTable fills, and is
//! done long before that one is full, or at a least speed that all devices have. It does not wait
//! while the next MemTable is full already, nor while a caller waits for it (decision 0056).

use std::time::{Duration, Instant};

use cleavedb_base::sync::atomic::{AtomicU64, Ordering};

/// How many times as fast as the next MemTable fills a flush writes.
const TIMES: f64 = 4.0;

/// Least speed of a flush, in bytes per second.
const LEAST: f64 = (64 << 20) as f64;

/// Tells which part of the next MemTable is full; 1 if a writer waits, or soon will.
type Fill = dyn Fn() -> f64 + Send + Sync;

/// How fast one flush writes.
pub(crate) struct FlushPace {
    begun: Instant,
    /// Bytes of log that it flushes: it writes about as many.
    bytes: u64,
    fill: Box<Fill>,
    /// Bytes that it has begun to write.
    written: AtomicU64,
}

impl FlushPace {
    /// The pace of a flush of `bytes` of log, while the next MemTable is full to the part `fill`.
    pub(crate) fn new(bytes: u64, fill: impl Fn() -> f64 + Send + Sync + 'static) -> Self {
        Self { begun: Instant::now(), bytes, fill: Box::new(fill), written: AtomicU64::new(0) }
    }

    /// Counts a write of `len` bytes, and returns how many were written before.
    pub(crate) fn charge(&self, len: u64) -> u64 {
        // Relaxed: no other memory depends on it.
        self.written.fetch_add(len, Ordering::Relaxed)
    }

    /// How long a write behind `before` bytes waits now.
    pub(crate) fn pause(&self, before: u64) -> Duration {
        pause(before, self.bytes, (self.fill)(), self.begun.elapsed())
    }
}

/// How long a write of a flush of `bytes` waits that stands behind `before` of them, when the next
/// MemTable is full to the part `fill`, and `elapsed` has passed since the flush began.
fn pause(before: u64, bytes: u64, fill: f64, elapsed: Duration) -> Duration {
    if fill >= 1.0 {
        return Duration::ZERO;
    }
    let beyond = before as f64 - TIMES * fill * bytes as f64;
    Duration::from_secs_f64(beyond.max(0.0) / LEAST).saturating_sub(elapsed)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    /// How long a flush of 64 MiB takes on a fast device while the next MemTable fills in `fills`.
    fn took(fills: Duration) -> Duration {
        let (mut now, mut written) = (Duration::ZERO, 0);
        while written < 64 * MIB {
            let fill = now.as_secs_f64() / fills.as_secs_f64();
            if pause(written, 64 * MIB, fill, now).is_zero() {
                written += MIB;
                now += Duration::from_millis(1);
            } else {
                now += Duration::from_millis(1);
            }
        }
        now
    }

    #[test]
    fn a_flush_is_done_before_a_quarter_of_the_next_memtable() {
        let second = Duration::from_secs(1);
        let is_about = |took: Duration, wanted: Duration| {
            assert!(took > wanted * 9 / 10 && took < wanted * 11 / 10, "{took:?}, not {wanted:?}");
        };
        is_about(took(second * 3600), second);
        is_about(took(second), second / 5);
        is_about(took(second / 100), second * 64 / 1000);
        let none = Duration::ZERO;
        assert_eq!(pause(64 * MIB, 64 * MIB, 1.0, none), none, "a writer waits");
        assert_eq!(pause(0, 64 * MIB, 0.0, none), none, "the first write");
    }
}
