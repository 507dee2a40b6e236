//! ReadOnly: a storage whose changes stay in memory, over one that is only read.
//!
//! An engine that opens a database after a crash completes log files, begins a manifest and removes
//! files. Over this layer it does all of that, and the directory below does not change: no call
//! that changes something goes there, and every file is opened for reading. So the directory may be
//! one that cannot be written. What was changed is gone with the layer.
//!
//! Memory holds what was written: of a recovery the part of the log that only the window held, and
//! a manifest.

use std::collections::HashMap;
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::{Arc, OnceLock};

use cleavedb_base::planted::{Bug, planted};
use cleavedb_base::sync::{Mutex, RwLock};
use rustix::io::Errno;

use crate::api::{Access, File, Lock, LockMode, Mode, RemoveMode, Storage, StorageLayer};
use crate::mapping::Mapping;
use crate::name::Name;
use crate::overlay::Overlay;

/// A file as all of its handles see it.
struct OverlaidFile {
    /// The name of the file below; `None` if it was created here.
    below: Option<Name>,
    /// What was changed of it, from the first change on.
    changes: OnceLock<RwLock<Overlay>>,
}

impl OverlaidFile {
    fn new(below: Option<Name>) -> Arc<Self> {
        Arc::new(Self { below, changes: OnceLock::new() })
    }
}

/// The names that differ from those below, or were looked up: the file of each, and `None` where
/// there is none any more.
type Names = HashMap<Name, Option<Arc<OverlaidFile>>>;

/// A storage of which only memory is changed.
pub struct ReadOnly {
    inner: Arc<dyn Storage>,
    names: Mutex<Names>,
}

impl ReadOnly {
    /// A layer over `inner`, without changes.
    pub fn new(inner: Arc<dyn Storage>) -> Self {
        Self { inner, names: Mutex::default() }
    }

    /// The file `name`.
    fn find(&self, names: &mut Names, name: &Name) -> io::Result<Arc<OverlaidFile>> {
        match names.get(name) {
            Some(Some(inode)) => Ok(inode.clone()),
            Some(None) => Err(Errno::NOENT.into()),
            None => {
                self.inner.open(name, Mode::Read, Access::Random)?;
                let inode = OverlaidFile::new(Some(*name));
                names.insert(*name, Some(inode.clone()));
                Ok(inode)
            }
        }
    }

    fn create(&self, names: &mut Names, name: &Name) -> io::Result<Arc<OverlaidFile>> {
        match self.find(names, name) {
            Ok(_) => Err(Errno::EXIST.into()),
            Err(e) if e.kind() == io::ErrorKind::NotFound => {
                let inode = OverlaidFile::new(None);
                names.insert(*name, Some(inode.clone()));
                Ok(inode)
            }
            Err(e) => Err(e),
        }
    }
}

impl StorageLayer for ReadOnly {
    fn inner(&self) -> &dyn Storage {
        &*self.inner
    }

    fn open(&self, name: &Name, mode: Mode, access: Access) -> io::Result<Arc<dyn File>> {
        let mut names = self.names.lock();
        let inode = match mode {
            Mode::CreateNew => self.create(&mut names, name)?,
            Mode::Read | Mode::ReadWrite => self.find(&mut names, name)?,
        };
        // What lies in memory has no alignment, so reads of the rest need none.
        let access = if access == Access::Direct { Access::Random } else { access };
        let open = |name: &Name| self.inner.open(name, Mode::Read, access);
        let below = inode.below.as_ref().map(open).transpose()?;
        Ok(Arc::new(ReadOnlyFile { below, inode, writable: mode != Mode::Read }))
    }

    fn rename(&self, from: &Name, to: &Name) -> io::Result<()> {
        let mut names = self.names.lock();
        let inode = self.find(&mut names, from)?;
        names.insert(*from, None);
        names.insert(*to, Some(inode));
        Ok(())
    }

    fn remove(&self, name: &Name, pace: RemoveMode) -> io::Result<()> {
        let mut names = self.names.lock();
        self.find(&mut names, name)?;
        if planted(Bug::ReaderRemovesBelow) {
            let _ = self.inner.remove(name, pace);
        }
        names.insert(*name, None);
        Ok(())
    }

    fn list(&self) -> io::Result<Vec<(Name, u64)>> {
        let names = self.names.lock();
        let below: HashMap<Name, u64> = self.inner.list()?.into_iter().collect();
        let len = |inode: &OverlaidFile| match inode.changes.get() {
            Some(changes) => Some(changes.read().len()),
            None => inode.below.map_or(Some(0), |name| below.get(&name).copied()),
        };
        let unknown = |name: &&Name| !names.contains_key(*name);
        let untouched = below.iter().filter(|(name, _)| unknown(name));
        let known = names.iter().filter_map(|(name, inode)| Some((*name, len(inode.as_ref()?)?)));
        Ok(untouched.map(|(name, len)| (*name, *len)).chain(known).collect())
    }

    fn sync_dir(&self) -> io::Result<()> {
        Ok(())
    }

    /// The lock of the directory below that others may share, whatever was asked for: the changes,
    /// which nothing may share, are those of this layer alone.
    fn lock(&self, _mode: LockMode) -> io::Result<Lock> {
        if planted(Bug::ReaderTakesNoLock) {
            return Ok(Box::new(()));
        }
        self.inner.lock(LockMode::Shared)
    }

    /// None: a link would change the file below, and lack what was changed here.
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        None
    }
}

/// An open file of a [`ReadOnly`].
struct ReadOnlyFile {
    below: Option<Arc<dyn File>>,
    inode: Arc<OverlaidFile>,
    writable: bool,
}

impl ReadOnlyFile {
    /// The changes of the file, to be changed; fails with `refusal` if it was opened for reading.
    fn change<T>(
        &self,
        refusal: Errno,
        change: impl FnOnce(&mut Overlay) -> io::Result<T>,
    ) -> io::Result<T> {
        if !self.writable {
            return Err(refusal.into());
        }
        let changes = match self.inode.changes.get() {
            Some(changes) => changes,
            None => {
                let len = self.len()?;
                self.inode.changes.get_or_init(|| RwLock::new(Overlay::over(len)))
            }
        };
        change(&mut changes.write())
    }
}

impl File for ReadOnlyFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        match (self.inode.changes.get(), &self.below) {
            (Some(changes), below) => changes.read().read(below.as_deref(), buf, offset),
            (None, Some(below)) => below.read_at(buf, offset),
            (None, None) => Ok(0),
        }
    }

    fn read_resident(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        match (self.inode.changes.get(), &self.below) {
            (None, Some(below)) => below.read_resident(buf, offset),
            _ => Err(io::ErrorKind::WouldBlock.into()),
        }
    }

    fn write_at(&self, buf: &[u8], offset: u64) -> io::Result<usize> {
        self.change(Errno::BADF, |changes| changes.write(buf, offset))?;
        Ok(buf.len())
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }

    fn allocate(&self, len: u64) -> io::Result<()> {
        if len == 0 || self.writable { Ok(()) } else { Err(Errno::BADF.into()) }
    }

    fn truncate(&self, len: u64) -> io::Result<()> {
        self.change(Errno::INVAL, |changes| {
            changes.truncate(len);
            Ok(())
        })
    }

    /// Nothing happens: there is no space to be freed.
    fn punch(&self, _offset: u64, len: u64) -> io::Result<()> {
        if len == 0 || self.writable { Ok(()) } else { Err(Errno::BADF.into()) }
    }

    fn len(&self) -> io::Result<u64> {
        match (self.inode.changes.get(), &self.below) {
            (Some(changes), _) => Ok(changes.read().len()),
            (None, Some(below)) => below.len(),
            (None, None) => Ok(0),
        }
    }

    fn space(&self) -> io::Result<u64> {
        match (self.inode.changes.get(), &self.below) {
            (None, Some(below)) => below.space(),
            _ => self.len(),
        }
    }

    /// False: what is written here reaches no other name of the file.
    fn is_copied(&self) -> io::Result<bool> {
        Ok(false)
    }

    fn identity(&self) -> io::Result<u64> {
        match (self.inode.changes.get(), &self.below) {
            (None, Some(below)) => below.identity(),
            _ => Ok(0),
        }
    }

    fn map(&self, _len: usize) -> io::Result<Option<Mapping>> {
        Ok(None)
    }

    fn extend_mapped(&self, len: u64) -> io::Result<()> {
        self.truncate(len)
    }

    fn alignment(&self) -> usize {
        1
    }

    fn will_need(&self, offset: u64, len: usize) {
        if let Some(below) = &self.below {
            below.will_need(offset, len);
        }
    }

    fn is_in_memory(&self, offset: u64) -> bool {
        self.below.as_ref().is_none_or(|below| below.is_in_memory(offset))
    }

    fn wont_need(&self, offset: u64, len: usize) {
        if let Some(below) = &self.below {
            below.wont_need(offset, len);
        }
    }
}
