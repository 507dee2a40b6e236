//! Descriptors of files that are read: a bounded number, shared by all stores of the process.
//!
//! A process gets few descriptors, and a store may have many more files. So a handle for reading
//! (`read_file.rs`) only borrows a descriptor, from its `Seat`: if the seat is empty, the
//! file is opened, and one that was not read lately is closed ([`Clock`]). A reader in the middle
//! of a call keeps what it has borrowed.

use std::fs::File;
use std::io;
use std::sync::{Arc, LazyLock};

use cleavedb_base::clock::Clock;
use cleavedb_base::sync::real::{
    ArcSwap, AtomicBool, AtomicU64, AtomicUsize, Guard, Mutex, Ordering,
};
use rustix::io::Errno;
use rustix::process::{Resource, getrlimit};

/// Least number of descriptors left to the rest of the process, if a quarter is less.
const LEFT_MIN: usize = 32;

/// Fewest descriptors that readers share.
const MAX_LEAST: usize = 8;

/// Descriptors to assume if the system sets no limit.
const UNLIMITED: usize = 1 << 20;

/// How many descriptors the readers of this process share at most: the value of [`set_max`], or a
/// share of the limit of the process (`ulimit -n`): a quarter of that, and at least 32, is left to
/// the rest of the process; readers get at least 8.
pub fn max() -> usize {
    match OPEN.max.load(Ordering::Relaxed) {
        0 => {
            let limit = getrlimit(Resource::Nofile).current;
            of_limit(limit.and_then(|limit| limit.try_into().ok()).unwrap_or(UNLIMITED))
        }
        max => max,
    }
}

fn of_limit(limit: usize) -> usize {
    limit.saturating_sub(LEFT_MIN.max(limit / 4)).max(MAX_LEAST)
}

/// Lets the readers of all stores of this process share at most `max` descriptors from now on (at
/// least 1); 0 returns to the limit of the process. Files that must stay open while they are
/// written are not counted: about ten for each store that is written.
pub fn set_max(max: usize) {
    OPEN.max.store(max, Ordering::Relaxed);
    OPEN.make_room(0);
}

/// Descriptors that readers hold now.
pub fn count() -> usize {
    OPEN.seats.lock().len()
}

/// Calls `open`, which needs a descriptor; while the process has none left, closes files of readers
/// and tries again.
pub(super) fn with_room<T>(open: impl Fn() -> rustix::io::Result<T>) -> io::Result<T> {
    loop {
        match open() {
            Err(Errno::INTR) => {}
            Err(Errno::MFILE | Errno::NFILE) if OPEN.close_some() => {}
            other => return Ok(other?),
        }
    }
}

static OPEN: LazyLock<OpenFiles> = LazyLock::new(OpenFiles::default);

/// All seats of the process that hold a descriptor.
#[derive(Default)]
struct OpenFiles {
    /// Most seats; 0 for a share of the system's limit.
    max: AtomicUsize,
    seats: Mutex<Clock<Arc<Seat>>>,
}

impl OpenFiles {
    /// Closes files until there is room for `more`.
    fn make_room(&self, more: usize) {
        let max = max().saturating_sub(more);
        let mut seats = self.seats.lock();
        let excess = seats.len().saturating_sub(max);
        let closed = vacate(&mut seats, excess);
        drop(seats);
        // After the lock is released: closing a file may take as long as removing it.
        drop(closed);
    }

    /// Closes half of the files; `false` if there was none.
    fn close_some(&self) -> bool {
        let mut seats = self.seats.lock();
        let half = seats.len().div_ceil(2);
        let closed = vacate(&mut seats, half);
        drop(seats);
        !closed.is_empty()
    }
}

/// Empties `count` seats, or all, and returns their files.
fn vacate(seats: &mut Clock<Arc<Seat>>, count: usize) -> Vec<Arc<Option<File>>> {
    let vacated =
        (0..count).map_while(|_| seats.take(|seat| seat.used.swap(false, Ordering::Relaxed)));
    vacated.map(|seat| seat.file.swap(Arc::new(None))).collect()
}

/// The slot of a handle for its descriptor, which may be empty.
pub(super) struct Seat {
    number: u64,
    file: ArcSwap<Option<File>>,
    /// Whether it was read since the last look of the clock.
    used: AtomicBool,
}

impl Seat {
    /// An empty seat.
    pub(super) fn new() -> Arc<Self> {
        static NEXT: LazyLock<AtomicU64> = LazyLock::new(AtomicU64::default);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let (file, used) = (ArcSwap::from_pointee(None), AtomicBool::new(false));
        Arc::new(Self { number, file, used })
    }

    /// The file in the seat, if there is one.
    #[inline]
    pub(super) fn borrow(&self) -> Guard<Arc<Option<File>>> {
        let file = self.file.load();
        // Stored only if it changes: a store would take the cache line from readers on other cores.
        if !self.used.load(Ordering::Relaxed) {
            self.used.store(true, Ordering::Relaxed);
        }
        file
    }

    /// Fills the seat with the file that `open` opens, after making room for it.
    pub(super) fn take(
        self: &Arc<Self>,
        open: impl FnOnce() -> io::Result<File>,
    ) -> io::Result<Arc<Option<File>>> {
        OPEN.make_room(1);
        let file = Arc::new(Some(open()?));
        let mut seats = OPEN.seats.lock();
        // A concurrent reader may have opened it too: its file is closed.
        let before = self.file.swap(file.clone());
        seats.insert(self.number, self.clone());
        drop(seats);
        drop(before);
        Ok(file)
    }

    /// Empties the seat and closes its file.
    pub(super) fn leave(&self) {
        if self.file.load().is_some() {
            OPEN.seats.lock().remove(self.number);
            self.file.swap(Arc::new(None));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_of_the_limit_is_left_to_others() {
        for (limit, share) in [(16, 8), (64, 32), (100, 68), (1024, 768), (8192, 6144)] {
            assert_eq!(of_limit(limit), share, "{limit}");
        }
    }

    #[test]
    fn the_file_that_was_not_read_since_the_last_look_is_closed() {
        let mut seats = Clock::default();
        let all: Vec<_> = (0..4).map(|_| Seat::new()).collect();
        for seat in &all {
            seat.file.swap(Arc::new(Some(tempfile::tempfile().unwrap())));
            seats.insert(seat.number, seat.clone());
        }
        let open = || all.iter().map(|seat| seat.file.load().is_some()).collect::<Vec<_>>();
        _ = all[0].borrow();
        assert_eq!(vacate(&mut seats, 1).len(), 1);
        assert_eq!(open(), [true, false, true, true]);
        _ = all[2].borrow();
        _ = all[3].borrow();
        assert_eq!(vacate(&mut seats, 1).len(), 1, "the first has had its chance");
        assert_eq!(open(), [false, false, true, true]);
        assert_eq!(vacate(&mut seats, 9).len(), 2);
    }
}
