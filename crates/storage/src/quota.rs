//! QuotaStorage: a storage that takes no more disk space than its limit.
//!
//! Directories of one database share a [`Budget`]. Every call that needs space asks it first and
//! fails as on a full disk if there is none, so that no mistake of the engine exceeds the limit.
//! The engine plans with what the budget tells, so that jobs do not fail in the middle.
//!
//! A file takes what is written of it or reserved ahead, less its holes, until its name is gone and
//! its last handle closed. For files that existed before, the disk beneath is asked when they are
//! opened; from then on the changes are counted.
//!
//! Two kinds of bytes are counted and never refused, since a database is lost without them; they
//! have bounds of their own: metadata (`current`, the manifest, the window, stamps), for which a
//! part of the limit is set apart, and log records, for which space was reserved before.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;

use cleavedb_base::limits::BLOCK;
use cleavedb_base::planted::{Bug, planted};
use cleavedb_base::sync::Mutex;
use cleavedb_base::sync::atomic::{AtomicU64, Ordering};

use crate::api::{Access, File, FileLayer, Mode, RemoveMode, Storage, StorageLayer};
use crate::name::{FileKind, Name};

/// Bytes of the disk that several storages may take together.
pub struct Budget {
    limit: u64,
    /// Part of the limit that is set apart for metadata.
    apart: u64,
    /// Bytes of files with data, and of the others.
    data: AtomicU64,
    names: AtomicU64,
    planned: AtomicU64,
}

/// Bytes that a job announces to need, until this is dropped.
pub struct Plan {
    budget: Arc<Budget>,
    bytes: u64,
}

impl Plan {
    /// The announced bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}

impl Drop for Plan {
    fn drop(&mut self) {
        self.budget.planned.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

impl Budget {
    /// A budget of `limit` bytes, `apart` of which are for metadata, which is never refused.
    pub fn new(limit: u64, apart: u64) -> Self {
        let [data, names, planned] = [0; 3].map(AtomicU64::new);
        Self { limit, apart, data, names, planned }
    }

    /// Most bytes of all files.
    pub fn limit(&self) -> u64 {
        self.limit
    }

    /// Bytes that all files take now.
    pub fn used(&self) -> u64 {
        self.data() + self.names()
    }

    /// Bytes that files with data take now.
    pub fn data(&self) -> u64 {
        self.data.load(Ordering::Relaxed)
    }

    fn names(&self) -> u64 {
        self.names.load(Ordering::Relaxed)
    }

    /// Bytes that running jobs have announced.
    pub fn planned(&self) -> u64 {
        self.planned.load(Ordering::Relaxed)
    }

    /// Most bytes of files with data.
    pub fn most(&self) -> u64 {
        self.limit.saturating_sub(self.apart.max(self.names()))
    }

    /// Plans a job that will need `bytes`; `None` if they do not fit beside `others`. Bytes that
    /// the job has written count twice until its plan is dropped: the next job waits instead of
    /// reaching the limit. A plan of 0 bytes is always granted.
    pub fn plan(self: &Arc<Self>, bytes: u64, others: u64) -> Option<Plan> {
        let room = self.unused(others);
        let fits = |sum: &u64| bytes == 0 || *sum <= room;
        let taken = |planned: u64| planned.checked_add(bytes).filter(fits);
        self.planned.fetch_update(Ordering::Relaxed, Ordering::Relaxed, taken).ok()?;
        Some(Plan { budget: Arc::clone(self), bytes })
    }

    /// Most bytes that a job may plan now, beside `others`.
    pub fn room(&self, others: u64) -> u64 {
        self.unused(others).saturating_sub(self.planned())
    }

    fn unused(&self, others: u64) -> u64 {
        self.most().saturating_sub(self.data()).saturating_sub(others)
    }

    fn counter(&self, names: bool) -> &AtomicU64 {
        if names { &self.names } else { &self.data }
    }

    fn take(&self, bytes: u64, claim: Claim) -> io::Result<()> {
        let refusable = claim == Claim::Data && !planted(Bug::LimitIgnored);
        let most = if refusable { self.most() } else { u64::MAX };
        let taken = |taken: u64| taken.checked_add(bytes).filter(|sum| bytes == 0 || *sum <= most);
        let counter = self.counter(claim == Claim::Name);
        match counter.fetch_update(Ordering::Relaxed, Ordering::Relaxed, taken) {
            Ok(_) => Ok(()),
            Err(data) => {
                let message = format!(
                    "the space limit of {} bytes leaves no room for {bytes} more than the {data} \
                     in use, with {} set apart for manifests; raise it",
                    self.limit, self.apart
                );
                Err(io::Error::new(io::ErrorKind::QuotaExceeded, message))
            }
        }
    }
}

/// The purpose of bytes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Claim {
    /// Data: refused if there is no room.
    Data,
    /// Log records: space was reserved for them before, as data.
    Record,
    /// Metadata: never refused.
    Name,
}

impl Claim {
    /// The purpose of a write to such a file.
    fn of(kind: FileKind) -> Self {
        match kind {
            kind if kind.is_data() => Self::Data,
            FileKind::Log => Self::Record,
            _ => Self::Name,
        }
    }

    /// The purpose of space that is reserved in such a file.
    fn reserving(self) -> Self {
        if self == Self::Record { Self::Data } else { self }
    }
}

/// The space of a file.
#[derive(Default)]
struct Size {
    len: u64,
    reserved: u64,
    holes: u64,
}

impl Size {
    fn end(&self) -> u64 {
        self.len.max(self.reserved)
    }

    fn space(&self) -> u64 {
        self.end().saturating_sub(self.holes)
    }
}

/// A file, as long as it has a name or is open.
struct Inode {
    budget: Arc<Budget>,
    claim: Claim,
    size: Mutex<Size>,
}

impl Inode {
    fn new(budget: &Arc<Budget>, kind: FileKind, size: Size) -> Arc<Self> {
        let (budget, claim) = (Arc::clone(budget), Claim::of(kind));
        let inode = Self { budget, claim, size: Mutex::default() };
        inode.change(|own| *own = size);
        Arc::new(inode)
    }

    /// Extends the file to `end`, by bytes written or reserved from `from` on, if it ended before.
    /// Returns whether that may fill a hole, such as the rest of one that was cut.
    fn grow(&self, from: u64, end: u64, written: bool) -> io::Result<bool> {
        let mut size = self.size.lock();
        let claim = if written { self.claim } else { self.claim.reserving() };
        let front = from - from % BLOCK as u64;
        let filled = size.end().min(end).saturating_sub(front).min(size.holes);
        self.budget.take(end.saturating_sub(size.end()) + filled, claim)?;
        size.holes -= filled;
        let part = if written { &mut size.len } else { &mut size.reserved };
        *part = end.max(*part);
        Ok(filled > 0)
    }

    /// Asks `file` for its space, if it `may` take less than was counted.
    fn recount(&self, file: &dyn File, may: bool) -> io::Result<()> {
        match may {
            true => self.change(|size| {
                size.holes = size.end().saturating_sub(file.space()?);
                Ok(())
            }),
            false => Ok(()),
        }
    }

    fn end(&self) -> u64 {
        self.size.lock().end()
    }

    /// Changes the space of the file without asking the budget.
    fn change<T>(&self, change: impl FnOnce(&mut Size) -> T) -> T {
        let mut size = self.size.lock();
        let before = size.space();
        let done = change(&mut size);
        let counter = self.budget.counter(self.claim == Claim::Name);
        counter.fetch_add(size.space().wrapping_sub(before), Ordering::Relaxed);
        done
    }
}

impl Drop for Inode {
    fn drop(&mut self) {
        self.change(|size| *size = Size::default());
    }
}

/// A storage within a [`Budget`].
pub struct QuotaStorage {
    inner: Arc<dyn Storage>,
    budget: Arc<Budget>,
    files: Mutex<HashMap<Name, Arc<Inode>>>,
}

impl QuotaStorage {
    /// `inner` within `budget`. Existing files count, even if they exceed it.
    pub fn new(inner: Arc<dyn Storage>, budget: Arc<Budget>) -> io::Result<Self> {
        let mut files = HashMap::new();
        for (name, len) in inner.list()? {
            let space = match name.kind() {
                FileKind::Lock => len,
                _ => inner.open(&name, Mode::Read, Access::Random)?.space()?,
            };
            let size = Size { len, reserved: space, holes: len.saturating_sub(space) };
            files.insert(name, Inode::new(&budget, name.kind(), size));
        }
        Ok(Self { inner, budget, files: Mutex::new(files) })
    }
}

impl StorageLayer for QuotaStorage {
    fn inner(&self) -> &dyn Storage {
        &*self.inner
    }

    fn open(&self, name: &Name, mode: Mode, access: Access) -> io::Result<Arc<dyn File>> {
        let inner = self.inner.open(name, mode, access)?;
        let new = || Inode::new(&self.budget, name.kind(), Size::default());
        let inode = Arc::clone(self.files.lock().entry(*name).or_insert_with(new));
        Ok(Arc::new(LimitedFile { inner, inode }))
    }

    fn rename(&self, from: &Name, to: &Name) -> io::Result<()> {
        self.inner.rename(from, to)?;
        let mut files = self.files.lock();
        if let Some(inode) = files.remove(from) {
            files.insert(*to, inode);
        }
        Ok(())
    }

    fn remove(&self, name: &Name, pace: RemoveMode) -> io::Result<()> {
        self.inner.remove(name, pace)?;
        self.files.lock().remove(name);
        Ok(())
    }

    fn free_space(&self) -> io::Result<u64> {
        let left = self.budget.most().saturating_sub(self.budget.data());
        Ok(self.inner.free_space()?.min(left))
    }
}

struct LimitedFile {
    inner: Arc<dyn File>,
    inode: Arc<Inode>,
}

impl FileLayer for LimitedFile {
    fn inner(&self) -> &dyn File {
        &*self.inner
    }

    /// A failed write keeps the space that it asked for until the file is removed.
    fn write_at(&self, buf: &[u8], offset: u64) -> io::Result<usize> {
        let filled = self.inode.grow(offset, offset + buf.len() as u64, true)?;
        let written = self.inner.write_at(buf, offset)?;
        self.inode.recount(&*self.inner, filled)?;
        Ok(written)
    }

    fn allocate(&self, len: u64) -> io::Result<()> {
        let end = self.inode.end();
        let filled = self.inode.grow(end.min(len), len, false)?;
        self.inner.allocate(len)?;
        self.inode.recount(&*self.inner, filled)
    }

    fn extend_mapped(&self, len: u64) -> io::Result<()> {
        self.inode.grow(len, len, true)?;
        self.inner.extend_mapped(len)
    }

    fn truncate(&self, len: u64) -> io::Result<()> {
        let filled = self.inode.grow(len, len, true)?;
        self.inode.change(|size| {
            self.inner.truncate(len)?;
            let space = self.inner.space()?;
            if len <= size.len {
                // Also if the length is the same as before.
                size.reserved = size.reserved.min(len);
            }
            size.len = len;
            if filled || size.holes > 0 {
                // The disk tells which holes are gone.
                size.holes = size.end().saturating_sub(space);
            }
            Ok(())
        })
    }

    /// The disk is asked for the freed space while no other call changes the file.
    fn punch(&self, offset: u64, len: u64) -> io::Result<()> {
        self.inode.change(|size| {
            let before = self.inner.space()?;
            self.inner.punch(offset, len)?;
            let freed = before.saturating_sub(self.inner.space()?);
            size.holes = (size.holes + freed).min(size.end());
            Ok(())
        })
    }
}
