//! Checkpoints and backups of a database, as callers ask for them.

use std::path::Path;
use std::sync::Arc;

use cleavedb_base::{Error, Result};
use cleavedb_storage::{BackupStorage, Disk, DiskBackups, Storage};

use super::Db;
use crate::control::progress::Progress;
use crate::copies::backup::{self, BackupMode, BackupReport};
use crate::copies::checkpoint;
use crate::copies::moment::{CheckpointReport, CopySource};

impl Db {
    /// What copies are made of.
    fn source(&self) -> Result<&dyn CopySource> {
        match &self.default.inner.follower {
            Some(follower) => {
                self.engine().gate.check_following()?;
                Ok(&***follower)
            }
            None => Ok(self.default.open_engine()?),
        }
    }

    /// Makes a consistent copy of the database in the directory `path`, which must be missing or
    /// empty, while reads and writes go on: a database of its own, which can be opened, written and
    /// removed without effect on this one. It has every write that was acknowledged before the
    /// call, of whatever durability, and of later ones a part in commit order.
    ///
    /// In the same file system most files are linked, so it takes little time and no space; what
    /// either database drops or rewrites later takes its space until the other does so too, since a
    /// file with two names is never changed in place. In another file system all is copied. Writers
    /// wait while the log window is written to the log, up to [`crate::Tuning::window_bytes`]. The
    /// copy is in one directory, without volumes, and survives a loss of power once this returns.
    ///
    /// On a secondary ([`Db::open_secondary`]) it copies what the primary has, which does not know
    /// of it. If that drops a file meanwhile, it goes on with a later moment; at its end all of the
    /// copy is read and checked. Fails with [`crate::ErrorKind::Outdated`] if the primary has
    /// dropped files in each of 20 attempts.
    ///
    /// Fails with [`crate::ErrorKind::AlreadyExists`] if there is something in the directory. After
    /// any other failure its files are removed again.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// use cleavedb::{Db, Options};
    ///
    /// let db = Db::open(dir.path().join("db"), Options::default())?;
    /// db.put("key", "old")?;
    /// db.checkpoint(dir.path().join("copy"))?;
    /// db.put("key", "new")?;
    /// let copy = Db::open(dir.path().join("copy"), Options::default())?;
    /// assert_eq!(copy.get("key")?.unwrap(), "old");
    /// # Ok::<(), cleavedb::Error>(())
    /// ```
    pub fn checkpoint(&self, path: impl AsRef<Path>) -> Result<CheckpointReport> {
        self.checkpoint_with(path, &Progress::default())
    }

    /// As [`Db::checkpoint`]; through `progress` other threads see how far it has come, and stop
    /// it.
    pub fn checkpoint_with(
        &self,
        path: impl AsRef<Path>,
        progress: &Progress,
    ) -> Result<CheckpointReport> {
        let path = path.as_ref();
        self.source()?;
        let opened = Disk::open(path, true).map_err(|e| Error::io("make the directory", e));
        let made = opened.and_then(|disk| self.copy_to(&(Arc::new(disk) as _), progress));
        made.map_err(|e| e.with("checkpoint", path.display()))
    }

    /// As [`Db::checkpoint`], in a storage: for tests and tools that bring their own.
    #[doc(hidden)]
    pub fn checkpoint_in(&self, to: Arc<dyn Storage>) -> Result<CheckpointReport> {
        self.copy_to(&to, &Progress::default())
    }

    /// A checkpoint, whose progress other threads see.
    pub(crate) fn copy_to(
        &self,
        to: &Arc<dyn Storage>,
        progress: &Progress,
    ) -> Result<CheckpointReport> {
        checkpoint::make(self.source()?, to, progress)
    }

    /// Makes a backup in the directory `path`, which is made if it is missing: a consistent copy of
    /// the database, as by [`Db::checkpoint`], in a subdirectory with the next number. Reads and
    /// writes go on. [`crate::Backups`] lists, checks, removes and restores backups.
    ///
    /// Files that did not change since the previous backup are links to its files; all others are
    /// copied. Nothing is linked to the database, so a backup survives its damage; nothing that one
    /// backup has depends on another one that is removed. Where the file system has no links, each
    /// backup copies all. A backup survives a loss of power once this returns.
    ///
    /// Until it returns the database gives back no space of dead values. On a secondary that is not
    /// so, and it works as [`Db::checkpoint`] does there. After a failure the
    /// backups in the directory are as they were; a process that dies leaves a part, which the next
    /// backup removes. Fails with [`crate::ErrorKind::Locked`] while another call makes or removes
    /// backups there, and with [`crate::ErrorKind::InvalidArgument`] if the directory holds backups
    /// of another database, or a database.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// use cleavedb::{Backups, Db, Options};
    ///
    /// let db = Db::open(dir.path().join("db"), Options::default())?;
    /// db.put("key", "value")?;
    /// db.backup(dir.path().join("backups"))?;
    /// db.put("key", "new value")?;
    /// assert_eq!(db.backup(dir.path().join("backups"))?.number, 2);
    /// assert_eq!(Backups::open(dir.path().join("backups"))?.prune(1)?, [1]);
    /// # Ok::<(), cleavedb::Error>(())
    /// ```
    pub fn backup(&self, path: impl AsRef<Path>) -> Result<BackupReport> {
        self.backup_with(path, BackupMode::default(), &Progress::default())
    }

    /// As [`Db::backup`]; through `progress` other threads see how far it has come, and stop it.
    pub fn backup_with(
        &self,
        path: impl AsRef<Path>,
        mode: BackupMode,
        progress: &Progress,
    ) -> Result<BackupReport> {
        let path = path.as_ref();
        self.source()?;
        let opened = DiskBackups::open(path, true);
        let opened = opened.map_err(|e| Error::io("make the directory", e).with_remedy());
        let made = opened.and_then(|storage| self.backup_in(&storage, mode, progress));
        made.map_err(|e| e.with("backups", path.display()))
    }

    /// As [`Db::backup_with`], in a storage: for tests and tools that bring their own.
    #[doc(hidden)]
    pub fn backup_in(
        &self,
        storage: &dyn BackupStorage,
        mode: BackupMode,
        progress: &Progress,
    ) -> Result<BackupReport> {
        backup::make(self.source()?, storage, mode, progress)
    }
}
