//! Wiping the window, and making it shorter: no byte of the log that went to its files, or was
//! released, stays there.
//!
//! The log overwrites the window as it goes round, so bytes of it stay for as long as it takes to
//! fill the window. A caller that wants deleted data to leave the disk cannot wait for that.

use std::ops::Range;

use cleavedb_base::sync::atomic::Ordering;
use cleavedb_base::{Error, Result};

use super::{Appender, Log};
use crate::api::Storage;

impl Log {
    /// Overwrites the window with zeros, durably. The caller holds the appender, and has padded and
    /// drained the log: no byte of the window is needed.
    pub fn wipe_window(&self, storage: &dyn Storage, appender: &Appender) -> Result<()> {
        // See `extend_window`.
        drop(self.undrained.lock());
        assert_eq!(self.buffer.drained_upto(), appender.next, "the log is drained");
        let parts = self.used_parts(appender);
        let wiped = self.buffer.window().wipe(storage, &parts);
        wiped.map_err(|e| Error::io("overwrite the log window", e).with("file", "window"))?;
        self.outgrown.store(0, Ordering::Relaxed);
        Ok(())
    }

    /// Makes the window `len` bytes long, which is shorter than it was, after the log was padded
    /// and drained, and gives the rest of its file back. If that fails, it stays as it is.
    pub fn shrink_window(
        &self,
        storage: &dyn Storage,
        appender: &Appender,
        len: usize,
    ) -> Result<()> {
        // See `extend_window`.
        drop(self.undrained.lock());
        let _not_touched = self.touching.lock();
        let before = self.buffer.window().len();
        // In this order: the part that is cut is not used any more.
        self.buffer.set_len(len);
        if let Err(e) = self.buffer.window().cut(storage) {
            self.buffer.set_len(before);
            return Err(Error::io("make the log window shorter", e).with("file", "window"));
        }
        self.outgrown.store(len as u64, Ordering::Relaxed);
        self.touched.store(0, Ordering::Relaxed);
        self.first.store(appender.next, Ordering::Relaxed);
        Ok(())
    }

    /// The parts of the window that the log has been in, as places in it.
    fn used_parts(&self, appender: &Appender) -> [Range<u64>; 3] {
        let (len, first) = (self.buffer.len(), self.first.load(Ordering::Relaxed));
        if appender.next - first >= len {
            return [0..len, 0..0, 0..0];
        }
        let (from, to) = (first % len, appender.next % len);
        let outgrown = 0..self.outgrown.load(Ordering::Relaxed);
        match from <= to {
            true => [outgrown, from..to, 0..0],
            false => [outgrown, 0..to, from..len],
        }
    }
}
