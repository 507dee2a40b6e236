//! The storage of backups: a directory whose subdirectories are backups, each the directory of a
//! database.

use std::io;
use std::sync::Arc;

use crate::api::Storage;
use crate::name::BackupName;

/// A directory of backups.
pub trait BackupStorage: Send + Sync + 'static {
    /// The directory itself. Backups are foreign names in it.
    fn directory(&self) -> &Arc<dyn Storage>;
    /// Opens the directory of a backup.
    fn open(&self, name: &BackupName) -> io::Result<Arc<dyn Storage>>;
    /// Makes the directory of a backup, which must not exist. Its name is durable after the next
    /// [`Storage::sync_dir`] of the directory.
    fn create(&self, name: &BackupName) -> io::Result<Arc<dyn Storage>>;
    /// Gives a backup another name, which must be free.
    fn rename(&self, from: &BackupName, to: &BackupName) -> io::Result<()>;
    /// Removes the directory of a backup, which must be empty.
    fn remove(&self, name: &BackupName) -> io::Result<()>;
}

/// The backups in a directory, in the order of their numbers; first those that are whole.
pub fn list(storage: &dyn BackupStorage) -> io::Result<Vec<BackupName>> {
    let found = storage.directory().foreign()?;
    let mut names: Vec<_> = found.iter().filter_map(|name| BackupName::parse(name)).collect();
    names.sort_unstable();
    Ok(names)
}
