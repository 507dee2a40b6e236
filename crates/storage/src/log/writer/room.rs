//! Space of log files: where a file ends, and how much of it is reserved.

use std::io;

use cleavedb_base::limits::BLOCK;
use cleavedb_base::sync::atomic::Ordering;
use cleavedb_base::{Error, Result};

use super::{Appender, Log};
use crate::api::is_full;
use crate::log::frame::{FileHeader, SyncMarker};

/// Disk space reserved for a log file at first, and most that is reserved at a time, in bytes.
pub const ALLOCATED_MIN: u64 = 64 << 10;
pub(super) const ALLOCATED_STEP: u64 = 16 << 20;

/// Least that is reserved at a time while the disk is full, in bytes: what deletes take from the
/// reserve.
const ALLOCATED_LEAST: u64 = 16 << 10;

impl Log {
    /// Length at which a file ends, in bytes.
    pub fn file_len(&self) -> u64 {
        self.file_len.load(Ordering::Relaxed)
    }

    /// Sets the length at which files end from now on, the one in use included.
    pub fn set_file_len(&self, len: u64) {
        self.file_len.store(len, Ordering::Relaxed);
    }

    /// Whether a range of `len` bytes needs a new file first.
    pub fn needs_file(&self, appender: &Appender, len: u64) -> bool {
        let used = Self::used(appender);
        // A file that holds only its header takes any range, however long.
        used > FileHeader::RECORD_LEN as u64 && used + Self::overhead() + len > self.file_len()
    }

    /// Whether a range of `len` bytes can be reserved at once: in the window, and in the space that
    /// the file in use has.
    pub fn has_room(&self, appender: &Appender, len: u64) -> bool {
        let more = Self::overhead() + len;
        len <= self.reserve_max() as u64
            && !self.needs_file(appender, len)
            && Self::used(appender) + more <= appender.allocated
            && appender.next + more <= self.buffer.drained_upto() + self.buffer.len()
    }

    /// Used bytes of the file in use.
    pub(super) fn used(appender: &Appender) -> u64 {
        appender.next - appender.file().base
    }

    /// Reserves disk space for a range of `len` bytes: a full disk shows here, where nothing is
    /// lost. Space is reserved in growing steps, so that a small log takes little; after a failure
    /// in shorter ones, since an allocation that fails may cost as much as one that succeeds.
    /// Returns whether any was reserved.
    pub fn allocate(&self, appender: &mut Appender, len: u64) -> Result<bool> {
        let end = Self::used(appender) + Self::overhead() + len;
        if end <= appender.allocated {
            return Ok(false);
        }
        let step = appender.allocated.clamp(ALLOCATED_MIN, ALLOCATED_STEP);
        let step = step.min(appender.step_max);
        let ahead = (appender.allocated + step).min(self.file_len()).max(end);
        let file = appender.file().clone();
        let reserved = [ahead, end].into_iter().find_map(|len| match file.file.allocate(len) {
            // The next record may fit although the step does not.
            Err(e) if is_full(&e) && len > end => None,
            other => Some(other.map(|()| len)),
        });
        let reserved = reserved.unwrap_or(Err(io::ErrorKind::StorageFull.into()));
        let fits = reserved.as_ref().is_ok_and(|len| *len == ahead);
        let next = if fits { step * 2 } else { step / 2 };
        appender.step_max = next.clamp(ALLOCATED_LEAST, ALLOCATED_STEP);
        let name = file.name();
        appender.allocated = reserved.map_err(|e| {
            Error::io("reserve space for the log", e).with("file", name).with_remedy()
        })?;
        Ok(true)
    }

    /// Most bytes that the log adds to a reserved range.
    pub(super) fn overhead() -> u64 {
        (SyncMarker::RECORD_LEN + BLOCK) as u64
    }
}
