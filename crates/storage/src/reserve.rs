//! Reserve: space that a database keeps, so that it continues when its disk is full.
//!
//! The file `reserve` only holds blocks. When a write finds the disk full the file is cut by as
//! much, and the write is tried again; reads need none of it. Lent space is taken back once there
//! is room ([`Reserve::keep`]); until then the reserve is *short*, and only writes that free space
//! should be made. Space that is reserved ahead ([`File::allocate`]) is not lent: its caller can do
//! with less.
//!
//! No part of the file is ever read, so a crash may leave any length of it.

use std::io;
use std::sync::Arc;

use cleavedb_base::limits::BLOCK;
use cleavedb_base::planted::{Bug, planted};
use cleavedb_base::sync::Mutex;
use cleavedb_base::sync::atomic::{AtomicBool, Ordering};

use crate::api::{Access, File, FileLayer, Mode, Storage, StorageLayer, is_full};
use crate::name::{FileKind, Name};

/// Fewest bytes that are lent at once: a file needs blocks beyond those of its data.
const LENT_MIN: u64 = 2 * BLOCK as u64;

/// Divisor of the reserve: data leaves one part to deletes, and deletes leave one part to flushes
/// and metadata, without which they would free nothing.
const FOR_DELETES: u64 = 16;
const FOR_DATA: u64 = 3;

/// The purpose of borrowed space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Borrower {
    /// Tables and values that a job writes: the job can be given up.
    Data,
    /// The log of deletes.
    Deletes,
    /// Metadata, and log records that were admitted: nothing works without them.
    Names,
}

impl Borrower {
    fn of(kind: FileKind) -> Self {
        if kind.is_data() { Self::Data } else { Self::Names }
    }
}

/// Bytes that a reserve should have.
#[derive(Clone, Copy, Debug, Default)]
pub struct Wanted {
    /// The whole length of the reserve.
    pub len: u64,
    /// The part of it for metadata.
    pub names: u64,
    /// The part of it for flushes, which deletes leave to them.
    pub flushes: u64,
    /// Length to which a longer reserve is cut.
    pub most: u64,
}

impl Wanted {
    /// Bytes that a borrower must leave.
    fn left_by(&self, borrower: Borrower) -> u64 {
        match borrower {
            Borrower::Data => self.names + self.len / FOR_DELETES,
            Borrower::Deletes => {
                let flushes = self.flushes + self.len / FOR_DELETES;
                self.names + flushes.max((self.len - self.names) / FOR_DATA)
            }
            Borrower::Names => 0,
        }
    }
}

/// The reserve of one directory.
pub struct Reserve {
    storage: Arc<dyn Storage>,
    kept: Mutex<Kept>,
    short: AtomicBool,
}

#[derive(Default)]
struct Kept {
    /// Length of the file, once it was read.
    len: Option<u64>,
    /// Length that it should have, as last requested.
    wanted: Wanted,
    /// Whether the file system cannot reserve space.
    is_vain: bool,
    /// The length that was asked for last, and what was free on the disk, if that failed.
    refused: Option<(u64, u64)>,
    /// Number of calls that the reserve lends to now.
    lending: usize,
}

impl Kept {
    /// The file, opened for one use: an idle store needs no descriptor for it.
    fn open(&mut self, storage: &dyn Storage) -> io::Result<Arc<dyn File>> {
        let name = Name::fixed(FileKind::Reserve);
        let file = storage.open(&name, Mode::ReadWrite, Access::Random)?;
        if self.len.is_none() {
            // The file of a copy may have a hole there.
            self.len = Some(file.len()?.min(file.space()?));
        }
        Ok(file)
    }

    fn cut(&mut self, file: &dyn File, len: u64) -> io::Result<()> {
        file.truncate(len)?;
        self.len = Some(len);
        Ok(())
    }

    fn len(&self) -> u64 {
        self.len.unwrap_or_default()
    }
}

impl Reserve {
    /// The reserve in `storage`, which is not touched before it is needed.
    pub fn new(storage: Arc<dyn Storage>) -> Self {
        Self { storage, kept: Mutex::default(), short: AtomicBool::new(false) }
    }

    /// Whether it is shorter than it should be, since the disk is full.
    #[inline]
    pub fn is_short(&self) -> bool {
        self.short.load(Ordering::Relaxed)
    }

    /// The current length of the reserve, in bytes.
    pub fn len(&self) -> u64 {
        self.kept.lock().len()
    }

    /// Whether it is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The length that it should have, in bytes.
    pub fn wanted(&self) -> u64 {
        self.kept.lock().wanted.len
    }

    /// Bytes that this borrower may get now.
    pub fn left_for(&self, borrower: Borrower) -> u64 {
        let kept = self.kept.lock();
        kept.len().saturating_sub(kept.wanted.left_by(borrower))
    }

    /// Bytes that deletes may borrow when the reserve has its full length.
    pub fn for_deletes(&self) -> u64 {
        let wanted = self.kept.lock().wanted;
        wanted.len.saturating_sub(wanted.left_by(Borrower::Deletes))
    }

    /// Gives all of it up. In a copy its blocks may be those of the original, and free nothing.
    pub fn give_up(&self) {
        let mut kept = self.kept.lock();
        if let Ok(file) = kept.open(&*self.storage) {
            // What cannot be given up now is kept, and may be lent all the same.
            let _ = kept.cut(&*file, 0);
        }
    }

    /// Extends it to the wanted length, as far as the disk has room. Where space cannot be reserved
    /// it stays empty; where the file cannot be opened now it stays as it is.
    pub fn keep(&self, wanted: Wanted) {
        let mut kept = self.kept.lock();
        kept.wanted = wanted;
        let fits = |len: u64| (wanted.len..=wanted.most).contains(&len);
        if kept.is_vain || kept.len.is_some_and(fits) {
            self.short.store(false, Ordering::Relaxed);
            return;
        }
        // Otherwise the reserve would take back what was lent before the borrower has used it.
        if kept.lending > 0 {
            return;
        }
        match self.fit(&mut kept) {
            Err(e) if e.kind() == io::ErrorKind::Unsupported => kept.is_vain = true,
            Err(_) => return,
            Ok(()) => {}
        }
        self.short.store(!kept.is_vain && kept.len() < wanted.len, Ordering::Relaxed);
    }

    fn fit(&self, kept: &mut Kept) -> io::Result<()> {
        let file = match kept.open(&*self.storage) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => {
                kept.len = Some(0);
                let name = Name::fixed(FileKind::Reserve);
                match self.storage.open(&name, Mode::CreateNew, Access::Random) {
                    Err(e) if is_full(&e) => return Ok(()),
                    created => created?,
                }
            }
            found => found?,
        };
        let (len, wanted) = (kept.len(), kept.wanted.len);
        if len > kept.wanted.most {
            return kept.cut(&*file, wanted);
        }
        if len >= wanted {
            return Ok(());
        }
        if planted(Bug::ReserveNotRefilled) && self.is_short() {
            return Ok(());
        }
        // An allocation that fails may cost as much as one that succeeds, and a full disk has this
        // called for each of its jobs and writers. So no more is asked for than is free, and after
        // a failure less, or nothing before more is.
        let free = self.storage.free_space()? / BLOCK as u64 * BLOCK as u64;
        let within = wanted.min(len.saturating_add(free));
        let refused = |(upto, then): (u64, u64)| within >= upto && free <= then;
        if within == len || kept.refused.is_some_and(refused) {
            return Ok(());
        }
        let allocated = file.allocate(within);
        kept.refused = allocated.as_ref().is_err_and(is_full).then_some((within, free));
        match allocated {
            // A part may have been allocated before the disk was full.
            Err(e) if is_full(&e) => kept.cut(&*file, len),
            Ok(()) if file.space()? >= within => kept.cut(&*file, within),
            failed => {
                let _ = kept.cut(&*file, 0);
                failed?;
                Err(io::ErrorKind::Unsupported.into())
            }
        }
    }

    /// Frees `bytes` of it, rounded up, for a write that finds the disk full. Returns whether any
    /// were freed.
    pub fn lend(&self, bytes: u64, borrower: Borrower) -> bool {
        let mut kept = self.kept.lock();
        let Ok(file) = kept.open(&*self.storage) else { return false };
        let left = kept.wanted.left_by(borrower);
        let len = kept.len();
        if len <= left {
            return false;
        }
        let lent = bytes.clamp(LENT_MIN, len.max(LENT_MIN)).next_multiple_of(BLOCK as u64);
        let is_lent = kept.cut(&*file, len.saturating_sub(lent).max(left)).is_ok();
        self.short.fetch_or(is_lent, Ordering::Relaxed);
        is_lent
    }

    /// Makes a call that needs about `bytes` of space, with the help of the reserve if the disk is
    /// full.
    pub fn lending<T>(
        &self,
        mut bytes: u64,
        borrower: Borrower,
        mut call: impl FnMut() -> io::Result<T>,
    ) -> io::Result<T> {
        let mut done = call();
        if !done.as_ref().is_err_and(is_full) {
            return done;
        }
        self.kept.lock().lending += 1;
        while done.as_ref().is_err_and(is_full) && self.lend(bytes, borrower) {
            bytes = bytes.saturating_mul(2);
            done = call();
        }
        self.kept.lock().lending -= 1;
        done
    }
}

/// A storage whose writes find the disk full only when its reserve is used up.
pub struct Reserving {
    inner: Arc<dyn Storage>,
    reserve: Arc<Reserve>,
}

impl Reserving {
    /// `inner`, backed by `reserve`.
    pub fn new(inner: Arc<dyn Storage>, reserve: Arc<Reserve>) -> Self {
        Self { inner, reserve }
    }
}

impl StorageLayer for Reserving {
    fn inner(&self) -> &dyn Storage {
        &*self.inner
    }

    fn open(&self, name: &Name, mode: Mode, access: Access) -> io::Result<Arc<dyn File>> {
        let borrower = Borrower::of(name.kind());
        let open = || self.inner.open(name, mode, access);
        let inner = match mode {
            Mode::CreateNew => self.reserve.lending(LENT_MIN, borrower, open)?,
            Mode::Read => return open(),
            Mode::ReadWrite => open()?,
        };
        Ok(Arc::new(ReservingFile { inner, reserve: self.reserve.clone(), borrower }))
    }

    fn rename(&self, from: &Name, to: &Name) -> io::Result<()> {
        let rename = || self.inner.rename(from, to);
        self.reserve.lending(LENT_MIN, Borrower::of(to.kind()), rename)
    }
}

struct ReservingFile {
    inner: Arc<dyn File>,
    reserve: Arc<Reserve>,
    borrower: Borrower,
}

impl FileLayer for ReservingFile {
    fn inner(&self) -> &dyn File {
        &*self.inner
    }

    fn write_at(&self, buf: &[u8], offset: u64) -> io::Result<usize> {
        let write = || self.inner.write_at(buf, offset);
        self.reserve.lending(buf.len() as u64, self.borrower, write)
    }

    fn truncate(&self, len: u64) -> io::Result<()> {
        // The last block, if it is shared with a copy, is written to a new place.
        self.reserve.lending(LENT_MIN, self.borrower, || self.inner.truncate(len))
    }
}
