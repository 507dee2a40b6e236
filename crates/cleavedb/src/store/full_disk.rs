//! What keeps a database usable when its disk is full: its reserve, and the figures that its length
//! depends on.

use std::io;
use std::sync::Arc;
use std::time::Instant;

use cleavedb_base::SeqNo;
use cleavedb_base::sync::Mutex;
use cleavedb_base::sync::atomic::{AtomicU64, Ordering};
use cleavedb_storage::api::is_full;
use cleavedb_storage::{Borrower, File, Reserve, Reserving, Storage};

use crate::settings::options::Options;
use crate::store::limit::Need;

/// Bytes of a log file that is begun on a full disk, and the least that deletes take from the
/// reserve at a time.
pub(crate) const LOG_LEAST: u64 = 16 << 10;

/// Bytes of the disk that a database can use: free space, and its own files. If the free space
/// alone is large, the files are not counted.
pub(crate) fn disk_of(storage: &dyn Storage) -> io::Result<u64> {
    let free = storage.free_space()?;
    if free >= Options::LARGE_DISK {
        return Ok(free);
    }
    let own: u64 = storage.list()?.into_iter().map(|(_, len)| len).sum();
    Ok(free.saturating_add(own))
}

/// The reserve of a database, and what is known for the case that its disk is full.
pub(crate) struct FullDisk {
    pub(crate) reserve: Arc<Reserve>,
    pub(crate) seen: Seen,
    /// Bytes that jobs under way may write.
    planned: Arc<AtomicU64>,
    /// The last search for space for deletes, if it found none: the visible sequence number, and
    /// the time until which an equal search would be futile. The lock is held during a search, so
    /// that one thread searches for all.
    pub(crate) futile_search: Mutex<Option<(SeqNo, Instant)>>,
}

/// Figures from the last look at the files of a database, in bytes.
#[derive(Default)]
pub(crate) struct Seen {
    /// Length of all files.
    pub(crate) files: AtomicU64,
    /// Length of the longest table of level 0, which may be longer than other tables.
    pub(crate) young: AtomicU64,
    /// Bytes of the blocks that a flush of deletes may begin in groups.
    pub(crate) stub_blocks: AtomicU64,
    /// Bytes of data written before the look.
    pub(crate) written: AtomicU64,
    /// Most bytes of a new manifest.
    pub(crate) manifest: AtomicU64,
}

/// Room on the disk that is set aside for a job until it ends.
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
    /// Wraps `storage` into one with a reserve, and returns both.
    pub(crate) fn over(storage: Arc<dyn Storage>) -> (Arc<dyn Storage>, Self) {
        let reserve = Arc::new(Reserve::new(storage.clone()));
        let reserving = Reserving::new(storage, reserve.clone());
        let (seen, planned, futile_search) = Default::default();
        (Arc::new(reserving), Self { reserve, seen, planned, futile_search })
    }

    /// Sets `bytes` aside for a job that begins, so that others do not plan with them.
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

    /// Lends bytes from the reserve to deletes that lack log space for `len` bytes; returns whether
    /// it did.
    pub(crate) fn lends(&self, need: Need, len: u64) -> bool {
        need == Need::Deletes && self.reserve.lend(len.max(LOG_LEAST), Borrower::Deletes)
    }

    /// Reserves `len` bytes for a new log file, or on a full disk the few that deletes need.
    /// Returns the number of bytes reserved.
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
