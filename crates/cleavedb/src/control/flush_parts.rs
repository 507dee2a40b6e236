//! FlushParts: into how many parts a flush is divided when it moves values into groups.
//!
//! Parts are written side by side, each to files of its own: while one waits for the device,
//! another copies. On a device that writes much more slowly than one thread copies there is nothing
//! to gain, and a hard disk must seek each time another file is written to. What a device says
//! about itself is no guide, since virtual disks often claim to be hard disks, so the flush before
//! is: the processor time of its threads tells how long they copied, and its length how long they
//! could have.

use std::time::Duration;

use cleavedb_base::sync::atomic::{AtomicBool, Ordering};

/// Most parts of a flush.
pub(crate) const PARTS: u64 = 4;

/// A flush that took more than this many times as long as its copying is written by one thread,
/// which the device then lets wait for all but this share of the time.
const WAITING: u32 = 8;

/// Remembers what the last flush waited for.
#[derive(Debug, Default)]
pub(crate) struct FlushParts {
    one: AtomicBool,
}

impl FlushParts {
    /// Most parts of the next flush.
    pub(crate) fn most(&self) -> u64 {
        // Relaxed: no other memory depends on it.
        if self.one.load(Ordering::Relaxed) { 1 } else { PARTS }
    }

    /// Learns from a flush, long enough to be divided, that `took` so long, and whose threads used
    /// `copied` of processor time together.
    pub(crate) fn learn(&self, copied: Duration, took: Duration) {
        // A checker wants the same work in every run.
        let one = !cfg!(feature = "test-checked") && copied * WAITING < took;
        self.one.store(one, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{FlushParts, PARTS};

    #[test]
    fn a_flush_that_only_waits_for_the_device_is_not_divided() {
        if cfg!(feature = "test-checked") {
            return;
        }
        let after = |copied, took| {
            let parts = FlushParts::default();
            assert_eq!(parts.most(), PARTS, "nothing is known yet");
            parts.learn(Duration::from_millis(copied), Duration::from_millis(took));
            parts.most()
        };
        assert_eq!(after(40, 520), 1, "52 MB to a hard disk");
        assert_eq!(after(40, 130), PARTS, "to a disk of 400 MB/s");
        let parts = FlushParts::default();
        parts.learn(Duration::from_millis(1), Duration::from_secs(1));
        parts.learn(Duration::from_millis(1), Duration::from_millis(2));
        assert_eq!(parts.most(), PARTS, "the device has become faster");
    }
}
