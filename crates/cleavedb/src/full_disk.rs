//! What keeps a database going when its disk is full: its reserve, and what is known for it.

use std::io;
use std::sync::Arc;
use std::time::Instant;

use cleavedb_base::SeqNo;
use cleavedb_base::sync::Mutex;
use cleavedb_base::sync::atomic::{AtomicU64, Ordering};
use cleavedb_storage::api::is_full;
use cleavedb_storage::{Borrower, File, Reserve, Reserving, Storage};

use crate::limit::Need;
use crate::options::Options;

/// Space that a log file begins with on a full disk, and most that deletes take at a time, in
/// bytes.
pub(crate) const LOG_LEAST: u64 = 16 << 10;

/// Bytes that a database has of its disk: what is free, and its files. Those are not counted where
/// the rest alone is much.
pub(crate) fn disk_of(storage: &dyn Storage) -> io::Result<u64> {
    let free = storage.free_space()?;
    if free >= Options::LARGE_DISK {
        return Ok(free);
    }
    let own: u64 = storage.list()?.into_iter().map(|(_, len)| len).sum();
    Ok(free.saturating_add(own))
}

/// What keeps a database going when its disk is full.
pub(crate) struct FullDisk {
    pub(crate) reserve: Arc<Reserve>,
    pub(crate) seen: Seen,
    /// Bytes that jobs under way may write.
    planned: Arc<AtomicU64>,
    /// The last search for space that deletes waited for, if it found none: what was visible, and
    /// until when it is not made again for that. Held while one searches for all.
    pub(crate) futile_search: Mutex<Option<(SeqNo, Instant)>>,
}

/// What the last look at the files of a database saw, in bytes.
#[derive(Default)]
pub(crate) struct Seen {
    /// All files.
    pub(crate) files: AtomicU64,
    /// The longest table of level 0, which may be longer than others.
    pub(crate) young: AtomicU64,
    /// Blocks that a flush of deletes may fill in groups.
    pub(crate) tombstone_blocks: AtomicU64,
    /// What was written before, as the look counts it.
    pub(crate) written: AtomicU64,
    /// What a new manifest may take.
    pub(crate) manifest: AtomicU64,
}

/// Room on the disk that a job will take, until it ends.
pub(crate) struct RoomTaken {
    planned: Arc<AtomicU64>,
    bytes: u64,
}

impl Drop for RoomTaken {
    fn drop(&mut self) {
        self.planned.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

impl FullDisk {
    /// `storage` with a reserve, and what looks after that.
    pub(crate) fn over(storage: Arc<dyn Storage>) -> (Arc<dyn Storage>, Self) {
        let reserve = Arc::new(Reserve::new(storage.clone()));
        let reserving = Reserving::new(storage, reserve.clone());
        let (seen, planned, futile_search) = Default::default();
        (Arc::new(reserving), Self { reserve, seen, planned, futile_search })
    }

    /// Tells other jobs that one begins which may write so many bytes.
    pub(crate) fn take_room(&self, bytes: u64) -> RoomTaken {
        self.planned.fetch_add(bytes, Ordering::Relaxed);
        RoomTaken { planned: self.planned.clone(), bytes }
    }

    /// Bytes that jobs under way may write.
    pub(crate) fn room_taken(&self) -> u64 {
        self.planned.load(Ordering::Relaxed)
    }

    /// Whether the reserve is in use.
    #[inline]
    pub(crate) fn is_short(&self) -> bool {
        self.reserve.is_short()
    }

    /// Whether the reserve has given something to deletes, which lack log space for `len` bytes.
    pub(crate) fn lends(&self, need: Need, len: u64) -> bool {
        need == Need::Deletes && self.reserve.lend(len.max(LOG_LEAST), Borrower::Deletes)
    }

    /// Reserves `len` bytes for a new log file, or on a full disk what a few deletes need. Returns
    /// how many.
    pub(crate) fn allocate_log(&self, file: &dyn File, len: u64) -> io::Result<u64> {
        match file.allocate(len) {
            Err(e) if is_full(&e) => {
                let least = LOG_LEAST.min(len);
                let allocate = || file.allocate(least);
                self.reserve.lending(least, Borrower::Deletes, allocate).map(|()| least)
            }
            allocated => allocated.map(|()| len),
        }
    }
}
