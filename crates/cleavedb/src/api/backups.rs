//! The backups in a directory, as callers see them: a list, checks, removal, and restoring.

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

use cleavedb_base::{Error, ErrorKind, Result};
use cleavedb_storage::{Access, BackupStorage, Disk, DiskBackups, Mode, Storage};

use crate::api::db::Db;
use crate::control::progress::Progress;
use crate::copies::backup;
use crate::copies::backup_record::BackupRecord;
use crate::copies::moment::CheckpointReport;
use crate::inspect::check::CheckReport;
use crate::settings::options::Options;

/// A backup in a directory.
#[derive(Clone, Debug)]
pub struct Backup {
    /// The number of the backup. The name of its directory is the number in six digits or more:
    /// `000007`.
    pub number: u64,
    /// When it was made; `None` if its file `backup` is damaged.
    pub made: Option<SystemTime>,
    /// The files of the backup.
    pub files: u64,
    /// Bytes that they take on the disk, those of shared files included.
    pub bytes: u64,
    /// Bytes of files that no other backup has: what its removal frees.
    pub own_bytes: u64,
}

/// Whether a database is checked after it was restored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RestoreMode {
    /// All of it is read and checked, as by [`Db::verify`]; a damaged one is removed.
    #[default]
    Checked,
    /// The backup is only copied. What can be read of a damaged one is then saved by
    /// [`crate::Salvage`].
    Unchecked,
}

/// The backups that [`Db::backup`] has made in a directory.
///
/// Each is a database of its own, in a subdirectory that is named by its number, as `000007`, and
/// may be opened by [`Db::open_read_only`]. Backups share files that did not change between them by
/// hard links, so they must be copied elsewhere by a program that keeps these (`rsync -H`,
/// `cp -a`), or take the space of each file again.
pub struct Backups {
    storage: Arc<dyn BackupStorage>,
}

impl fmt::Debug for Backups {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Backups").finish_non_exhaustive()
    }
}

impl Backups {
    /// Opens the directory of backups `path`, which must exist. Nothing is changed or locked.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let opened = DiskBackups::open(path, false).map_err(|e| match e.kind() {
            std::io::ErrorKind::NotFound => {
                Error::new(ErrorKind::NotADatabase, "there is no such directory of backups")
            }
            _ => Error::io("open the directory of backups", e),
        });
        Ok(Self::open_in(Arc::new(opened.map_err(|e| e.with("path", path.display()))?)))
    }

    /// As [`Backups::open`], in a storage: for tests and tools that bring their own.
    #[doc(hidden)]
    pub fn open_in(storage: Arc<dyn BackupStorage>) -> Self {
        Self { storage }
    }

    /// All backups, oldest first. One that is being made or removed is none.
    pub fn list(&self) -> Result<Vec<Backup>> {
        let mut all = Vec::new();
        for number in backup::numbers(&*self.storage)? {
            match self.describe(number) {
                Ok(backup) => all.push(backup),
                // The backup was removed since the directory was read.
                Err(_) if backup::open(&*self.storage, number).is_err() => {}
                Err(e) => return Err(e),
            }
        }
        Ok(all)
    }

    fn describe(&self, number: u64) -> Result<Backup> {
        let storage = backup::open(&*self.storage, number)?;
        let failed = |e| Error::io("look at the files of a backup", e).with("backup", number);
        let record = BackupRecord::read(&*storage);
        let made = record.ok().and_then(|record| record.made());
        let mut described = Backup { number, made, files: 0, bytes: 0, own_bytes: 0 };
        for (name, _) in storage.list().map_err(failed)? {
            let file = storage.open(&name, Mode::Read, Access::Random).map_err(failed)?;
            let bytes = file.space().map_err(failed)?;
            described.files += 1;
            described.bytes += bytes;
            if !file.is_copied().map_err(failed)? {
                described.own_bytes += bytes;
            }
        }
        Ok(described)
    }

    /// Opens backup `number`, or the newest one, for reading only. It is not removed meanwhile.
    /// Returns its number, too. Fails with [`ErrorKind::NotADatabase`] if it is not there.
    pub fn open_backup(&self, number: Option<u64>) -> Result<(u64, Db)> {
        let newest = || backup::numbers(&*self.storage)?.pop().ok_or_else(backup::no_backup);
        let number = number.map_or_else(newest, Ok)?;
        let storage = backup::open(&*self.storage, number)?;
        let db = open_to_read(storage).map_err(|e| e.with("backup", number))?;
        Ok((number, db))
    }

    /// Reads all of backup `number`, or of the newest one, and compares every live byte with its
    /// checksum, as [`Db::verify`] does. Problems are listed, and no errors.
    pub fn verify(&self, number: Option<u64>, progress: &Progress) -> Result<CheckReport> {
        let (number, db) = self.open_backup(number)?;
        let mut report = db.verify_with(progress)?;
        let record = BackupRecord::read(&*backup::open(&*self.storage, number)?);
        report.problems.extend(record.err());
        if db.recovery_report().copies_healed > 0 {
            let what = "a part of the manifest is damaged; its second copy was used";
            report.problems.push(Error::corruption(what).with("backup", number));
        }
        Ok(report)
    }

    /// Removes backup `number`. Others are not affected. Fails with [`ErrorKind::Locked`] while
    /// backups are made or removed, or a handle reads this one.
    pub fn remove(&self, number: u64) -> Result<()> {
        let (_lock, _) = backup::begin_change(&*self.storage)?;
        backup::remove(&*self.storage, number)
    }

    /// Removes all but the newest `keep` backups, oldest first, and what calls that did not end
    /// have left. Returns the numbers of the removed ones. Fails as [`Backups::remove`] does, and
    /// with [`ErrorKind::InvalidArgument`] if none is to be kept; those before a failure are
    /// removed.
    pub fn prune(&self, keep: usize) -> Result<Vec<u64>> {
        if keep == 0 {
            let message = "no backup would be kept; remove backups one by one for that";
            return Err(Error::new(ErrorKind::InvalidArgument, message));
        }
        let (_lock, mut numbers) = backup::begin_change(&*self.storage)?;
        numbers.truncate(numbers.len().saturating_sub(keep));
        for number in &numbers {
            backup::remove(&*self.storage, *number)?;
        }
        Ok(numbers)
    }

    /// Restores backup `number`, or the newest one, in the directory `path`, which must be missing
    /// or empty: a database of its own, in one directory, without volumes. Every file is copied,
    /// and the copy is checked ([`RestoreMode::Checked`]); it survives a loss of power once this
    /// returns.
    ///
    /// The database that was backed up is not touched, and both can go on. After a failure the
    /// directory is empty again. Fails with [`ErrorKind::AlreadyExists`] if there is something in
    /// the directory, and with [`ErrorKind::Corruption`] if data is damaged.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// use cleavedb::{Backups, Db, Options};
    ///
    /// let db = Db::open(dir.path().join("db"), Options::default())?;
    /// db.put("key", "old")?;
    /// db.backup(dir.path().join("backups"))?;
    /// db.put("key", "new")?;
    /// Backups::open(dir.path().join("backups"))?.restore(None, dir.path().join("restored"))?;
    /// let restored = Db::open(dir.path().join("restored"), Options::default())?;
    /// assert_eq!(restored.get("key")?.unwrap(), "old");
    /// # Ok::<(), cleavedb::Error>(())
    /// ```
    pub fn restore(&self, number: Option<u64>, path: impl AsRef<Path>) -> Result<CheckpointReport> {
        self.restore_with(number, path, RestoreMode::default(), &Progress::default())
    }

    /// As [`Backups::restore`]; through `progress` other threads see how far it has come, first
    /// with the copy and then with the check, and stop it.
    pub fn restore_with(
        &self,
        number: Option<u64>,
        path: impl AsRef<Path>,
        mode: RestoreMode,
        progress: &Progress,
    ) -> Result<CheckpointReport> {
        let path = path.as_ref();
        // Before the directory is made.
        let (number, db) = self.open_backup(number)?;
        let opened = Disk::open(path, true).map_err(|e| Error::io("make the directory", e));
        let restored = opened.and_then(|to| restore(&db, &(Arc::new(to) as _), mode, progress));
        restored.map_err(|e| e.with("backup", number).with("path", path.display()))
    }

    /// As [`Backups::restore_with`], in a storage: for tests and tools that bring their own.
    #[doc(hidden)]
    pub fn restore_in(
        &self,
        number: Option<u64>,
        to: &Arc<dyn Storage>,
        mode: RestoreMode,
        progress: &Progress,
    ) -> Result<CheckpointReport> {
        let (number, db) = self.open_backup(number)?;
        restore(&db, to, mode, progress).map_err(|e| e.with("backup", number))
    }
}

/// Restores the backup `db`, which is open for reading only, so that nothing is linked.
fn restore(
    db: &Db,
    to: &Arc<dyn Storage>,
    mode: RestoreMode,
    progress: &Progress,
) -> Result<CheckpointReport> {
    let restored = db.copy_to(to, progress)?;
    let checked = match mode {
        RestoreMode::Checked => check(to.clone(), progress),
        RestoreMode::Unchecked => Ok(()),
    };
    if checked.is_err() {
        // What cannot be removed now is refused by an open: `current` goes first.
        let _ = backup::remove_files(&**to);
    }
    checked.map(|()| restored)
}

/// Opens the database in `storage` for reading only.
fn open_to_read(storage: Arc<dyn Storage>) -> Result<Db> {
    let no_volume = |_: &Path| Err(std::io::ErrorKind::NotFound.into());
    Db::open_read_only_beside(storage, no_volume, Options::default())
}

/// Fails if a restored database is damaged.
fn check(storage: Arc<dyn Storage>, progress: &Progress) -> Result<()> {
    let report = open_to_read(storage)?.verify_with(progress)?;
    let Some(problem) = report.problems.first() else { return Ok(()) };
    let message = format!(
        "the backup is damaged, and nothing was restored: {problem}; restore another one, or this \
         one without a check, and save what can be read of it with `cleave repair`"
    );
    Err(Error::corruption(message))
}
