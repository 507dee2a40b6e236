//! FlushPace: a flush for which no writer waits writes slowly, so that reads go on beside it.
//!
//! A flush that writes as fast as the device can keeps it from reads for as long as it takes, some
//! 50 ms with the default MemTable: the slowest reads of a database that is written at a moderate
//! rate waited for it. So a flush writes a few times as many bytes as writers do meanwhile, and is
//! done long before the next MemTable is full, or as many as all devices can. It does not wait
//! while the next MemTable is full already, nor while a caller waits for it (decision 0056).

use std::time::{Duration, Instant};

use cleavedb_base::sync::atomic::{AtomicU64, Ordering};

/// How many times as fast as writers a flush writes.
const TIMES: u64 = 4;

/// Least speed of a flush, in bytes per second.
const LEAST: f64 = (64 << 20) as f64;

/// Tells the bytes of log behind the MemTable that is flushed; `None` if the next one is full, too.
type Behind = dyn Fn() -> Option<u64> + Send + Sync;

/// How fast one flush writes.
pub(crate) struct FlushPace {
    begun: Instant,
    behind: Box<Behind>,
    /// Bytes that it has begun to write.
    written: AtomicU64,
}

impl FlushPace {
    /// The pace of a flush that begins now, while `behind` tells what writers do.
    pub(crate) fn new(behind: impl Fn() -> Option<u64> + Send + Sync + 'static) -> Self {
        Self { begun: Instant::now(), behind: Box::new(behind), written: AtomicU64::new(0) }
    }

    /// Counts a write of `len` bytes, and returns how many were written before.
    pub(crate) fn charge(&self, len: u64) -> u64 {
        // Relaxed: no other memory depends on it.
        self.written.fetch_add(len, Ordering::Relaxed)
    }

    /// How long a write of the flush waits that stands behind `before` bytes.
    pub(crate) fn pause(&self, before: u64) -> Duration {
        (self.behind)().map_or(Duration::ZERO, |behind| pause(before, behind, self.begun.elapsed()))
    }
}

/// How long a write waits that stands behind `before` bytes of its flush, when writers have written
/// `behind` bytes of log since, and `elapsed` has passed since the flush began.
fn pause(before: u64, behind: u64, elapsed: Duration) -> Duration {
    let beyond = before.saturating_sub(behind.saturating_mul(TIMES));
    Duration::from_secs_f64(beyond as f64 / LEAST).saturating_sub(elapsed)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    /// How long a flush of 64 MiB takes, on a device of 1,000 MiB a second, beside writers of this
    /// number of MiB a second.
    fn took(writers: u64) -> Duration {
        let (mut now, mut written) = (Duration::ZERO, 0);
        while written < 64 * MIB {
            let behind = writers * MIB * now.as_millis() as u64 / 1000;
            if pause(written, behind, now).is_zero() {
                written += MIB;
            }
            now += Duration::from_millis(1);
        }
        now
    }

    #[test]
    fn a_flush_is_done_before_a_quarter_of_the_next_memtable() {
        let is_about = |took: Duration, millis: u64| {
            let wanted = Duration::from_millis(millis);
            assert!(took > wanted * 9 / 10 && took < wanted * 11 / 10, "{took:?}, not {wanted:?}");
        };
        is_about(took(0), 1000);
        is_about(took(64), 1000 / 5);
        is_about(took(1000), 64);
        let bytes_meanwhile = |writers: u64| writers * took(writers).as_millis() as u64 / 1000;
        assert!([1, 10, 100, 200].into_iter().all(|writers| bytes_meanwhile(writers) <= 64 / 4));
        assert_eq!(pause(0, 0, Duration::ZERO), Duration::ZERO, "the first write");
    }
}
