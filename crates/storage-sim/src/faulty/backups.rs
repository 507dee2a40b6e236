//! A directory of backups whose calls fail as planned, on a real disk, since only that has links.
//!
//! Nothing is synced, so that tests can make thousands of backups: what a crash leaves of a
//! directory is not tested here, but by the storages that simulate one.

use std::io;
use std::os::fd::BorrowedFd;
use std::path::Path;
use std::sync::Arc;

use cleavedb_storage::{
    Access, BackupName, BackupStorage, DiskBackups, File, FileLayer, Mode, Name, Storage,
    StorageLayer,
};

use super::{Faulty, Op};

/// A directory of backups that counts all calls on it, on its backups and on their files.
pub struct FaultyBackups {
    inner: DiskBackups,
    has_links: bool,
    directory: Arc<dyn Storage>,
    /// The directory as a faulty storage, whose plan is that of all.
    plan: Faulty,
}

impl FaultyBackups {
    /// The directory `path`, which must exist; nothing fails until a plan is made.
    pub fn open(path: &Path) -> io::Result<Self> {
        let inner = DiskBackups::open(path, false)?;
        let plan = Faulty::new(unsynced(inner.directory().clone(), true));
        let directory = Arc::new(plan.beside(plan.inner.clone()));
        Ok(Self { inner, has_links: true, directory, plan })
    }

    /// The backups, as if their file system had no links.
    #[must_use]
    pub fn without_links(self) -> Self {
        Self { has_links: false, ..self }
    }

    /// Counts all calls, and says which fail.
    pub fn plan(&self) -> &Faulty {
        &self.plan
    }

    fn enter(&self, op: Op) -> io::Result<()> {
        self.plan.shared.enter(op, None, 0, 0).map(drop)
    }

    fn wrapped(&self, backup: io::Result<Arc<dyn Storage>>) -> io::Result<Arc<dyn Storage>> {
        Ok(Arc::new(self.plan.beside(unsynced(backup?, self.has_links))))
    }
}

impl BackupStorage for FaultyBackups {
    fn directory(&self) -> &Arc<dyn Storage> {
        &self.directory
    }

    fn open(&self, name: &BackupName) -> io::Result<Arc<dyn Storage>> {
        self.enter(Op::Open)?;
        self.wrapped(self.inner.open(name))
    }

    fn create(&self, name: &BackupName) -> io::Result<Arc<dyn Storage>> {
        self.enter(Op::Create)?;
        self.wrapped(self.inner.create(name))
    }

    fn rename(&self, from: &BackupName, to: &BackupName) -> io::Result<()> {
        self.enter(Op::Rename)?;
        self.inner.rename(from, to)
    }

    fn remove(&self, name: &BackupName) -> io::Result<()> {
        self.enter(Op::Remove)?;
        self.inner.remove(name)
    }
}

/// A storage without syncs.
pub struct Unsynced {
    inner: Arc<dyn Storage>,
    has_links: bool,
}

impl Unsynced {
    /// A layer over `inner`.
    pub fn over(inner: Arc<dyn Storage>) -> Arc<dyn Storage> {
        unsynced(inner, true)
    }
}

fn unsynced(inner: Arc<dyn Storage>, has_links: bool) -> Arc<dyn Storage> {
    Arc::new(Unsynced { inner, has_links })
}

impl StorageLayer for Unsynced {
    fn inner(&self) -> &dyn Storage {
        &*self.inner
    }

    fn open(&self, name: &Name, mode: Mode, access: Access) -> io::Result<Arc<dyn File>> {
        Ok(Arc::new(UnsyncedFile(self.inner.open(name, mode, access)?)))
    }

    fn sync_dir(&self) -> io::Result<()> {
        Ok(())
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.inner.descriptor().filter(|_| self.has_links)
    }
}

/// A file of it.
struct UnsyncedFile(Arc<dyn File>);

impl FileLayer for UnsyncedFile {
    fn inner(&self) -> &dyn File {
        &*self.0
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }
}
