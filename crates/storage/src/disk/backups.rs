//! Backups on the real disk: subdirectories of one directory, which is held by its descriptor.

use std::io;
use std::path::Path;
use std::sync::Arc;

use super::Disk;
use super::dir::Dir;
use crate::api::Storage;
use crate::backups::BackupStorage;
use crate::name::BackupName;

/// A directory of backups in the file system.
pub struct DiskBackups {
    dir: Arc<Dir>,
    /// The directory, as a storage.
    disk: Arc<dyn Storage>,
}

impl DiskBackups {
    /// Opens the directory `path`; if it is missing and `create` is set, makes it durably.
    pub fn open(path: impl AsRef<Path>, create: bool) -> io::Result<Self> {
        let disk = Disk::open(path, create)?;
        Ok(Self { dir: disk.dir.clone(), disk: Arc::new(disk) })
    }
}

impl BackupStorage for DiskBackups {
    fn directory(&self) -> &Arc<dyn Storage> {
        &self.disk
    }

    fn open(&self, name: &BackupName) -> io::Result<Arc<dyn Storage>> {
        let dir = self.dir.open_dir(&name.to_string())?;
        Ok(Arc::new(Disk { dir: Arc::new(dir) }))
    }

    fn create(&self, name: &BackupName) -> io::Result<Arc<dyn Storage>> {
        self.dir.make_dir(&name.to_string())?;
        self.open(name)
    }

    fn rename(&self, from: &BackupName, to: &BackupName) -> io::Result<()> {
        self.dir.rename(from, to)
    }

    fn remove(&self, name: &BackupName) -> io::Result<()> {
        self.dir.remove_dir(&name.to_string())
    }
}
