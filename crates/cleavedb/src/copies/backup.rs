//! Backups: copies of a database in one directory, each whole, which share the files that did not
//! change between them.
//!
//! A file is linked from the previous backup if its identity shows that it is the same file of the
//! same database, unchanged since then, or if every byte of it that holds data is the same. Its
//! name proves nothing: a copy of the database that went its own way, or a disk that was set back,
//! gives the same numbers to other files. Everything else is copied, and nothing is linked to the
//! database itself, so that a backup survives its damage.

use std::collections::{BTreeMap, HashMap};
use std::mem;
use std::sync::Arc;

use cleavedb_base::planted::{Bug, planted};
use cleavedb_base::{Error, ErrorKind, Result};
use cleavedb_storage::{
    Access, BackupName, BackupStorage, File, FileKind, Holder, Lock, LockMode, Mode, Name,
    RemoveMode, Storage, backups, copy,
};

use crate::control::progress::Progress;
use crate::copies::backup_record::BackupRecord;
use crate::copies::moment::{CheckpointReport, CopySource, Copying, Links, SourceFile};
use crate::open::directories;
use crate::store::manifest::Current;

/// What a backup takes from the previous one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BackupMode {
    /// Files that did not change are links to those of the previous backup.
    #[default]
    Incremental,
    /// Nothing: all files are copied. Damage of the previous backup is not passed on.
    Full,
}

/// What a backup has made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BackupReport {
    /// The number of the backup, above those of all others in the directory.
    pub number: u64,
    /// Files that it shares with the previous backup.
    pub linked: u64,
    /// Files that were copied.
    pub copied: u64,
    /// Bytes of these.
    pub copied_bytes: u64,
    /// Bytes of all files but the manifest.
    pub bytes: u64,
}

/// Makes a backup in `storage`; after a failure the backups there are as they were.
pub(crate) fn make(
    source: &dyn CopySource,
    storage: &dyn BackupStorage,
    mode: BackupMode,
    progress: &Progress,
) -> Result<BackupReport> {
    let (_lock, numbers) = begin_change(storage)?;
    // A directory with the last of all numbers is in the way of the next rename, which fails.
    let number = numbers.last().map_or(1, |last| last.saturating_add(1));
    let previous = find_previous(storage, &numbers, source.database_id())?;
    let previous = previous.filter(|_| mode == BackupMode::Incremental);
    let made = make_unfinished(source, storage, number, previous, progress);
    let made = made.and_then(|report| finish(storage, number).map(|()| report));
    if made.is_err() {
        // What cannot be removed now is removed by the next backup.
        let _ = remove_unfinished(storage, &BackupName::Unfinished(number));
    }
    let CheckpointReport { linked, copied, copied_bytes, bytes } = made?;
    Ok(BackupReport { number, linked, copied, copied_bytes, bytes })
}

fn names(number: u64) -> [BackupName; 2] {
    [BackupName::Whole(number), BackupName::Unfinished(number)]
}

/// Makes all of backup `number` durable, under the name of one that is not finished.
fn make_unfinished(
    source: &dyn CopySource,
    storage: &dyn BackupStorage,
    number: u64,
    previous: Option<Previous>,
    progress: &Progress,
) -> Result<CheckpointReport> {
    let [_, unfinished] = names(number);
    let made = storage.create(&unfinished);
    let to = made.map_err(|e| Error::io("make the directory of the backup", e).with_remedy())?;
    // Readers will share the file `lock`, which this makes, so that no backup is removed under one.
    let _lock = directories::lock(&*to)?;
    let mut links = Unchanged { previous, identities: BTreeMap::new() };
    source.copy_to(&mut Copying::new(&to, &mut links, progress))
}

/// Gives an unfinished backup, of which all is durable, the name of a whole one.
fn finish(storage: &dyn BackupStorage, number: u64) -> Result<()> {
    let [whole, unfinished] = names(number);
    let renamed = storage.rename(&unfinished, &whole);
    renamed.map_err(|e| Error::io("rename the finished backup", e).with_remedy())?;
    let synced = sync(storage);
    if synced.is_err() {
        let _ = storage.rename(&whole, &unfinished);
    }
    synced
}

fn sync(storage: &dyn BackupStorage) -> Result<()> {
    let synced = storage.directory().sync_dir();
    synced.map_err(|e| Error::sync_failed("the directory of backups", e))
}

/// The numbers of all whole backups, in their order.
pub(crate) fn numbers(storage: &dyn BackupStorage) -> Result<Vec<u64>> {
    let whole = |name| match name {
        BackupName::Whole(number) => Some(number),
        BackupName::Unfinished(_) => None,
    };
    Ok(listed(storage)?.into_iter().filter_map(whole).collect())
}

fn listed(storage: &dyn BackupStorage) -> Result<Vec<BackupName>> {
    backups::list(storage).map_err(|e| Error::io("list the directory of backups", e))
}

/// Keeps others from changing the backups in `storage`, until the lock is dropped, and removes what
/// a call that did not end has left. Returns the numbers of all backups as well.
pub(crate) fn begin_change(storage: &dyn BackupStorage) -> Result<(Lock, Vec<u64>)> {
    let files = storage.directory().list();
    let files = files.map_err(|e| Error::io("list the directory of backups", e))?;
    if let Some((found, _)) = files.iter().find(|(name, _)| name.kind() != FileKind::Lock) {
        let message = "the directory holds a database; choose another one for its backups";
        return Err(Error::new(ErrorKind::InvalidArgument, message).with("found", found));
    }
    let lock = lock(storage)?;
    for name in listed(storage)? {
        if matches!(name, BackupName::Unfinished(_)) {
            remove_unfinished(storage, &name)?;
        }
    }
    Ok((lock, numbers(storage)?))
}

fn lock(storage: &dyn BackupStorage) -> Result<Lock> {
    storage.directory().lock(LockMode::Exclusive).map_err(|e| {
        if e.kind() != std::io::ErrorKind::WouldBlock {
            return Error::io("lock the directory of backups", e).with_remedy();
        }
        let what = "backups are made or removed in the directory already; try again after that";
        let error = Error::new(ErrorKind::Locked, what);
        match e.get_ref().and_then(|e| e.downcast_ref()) {
            Some(Holder::Writer { process, .. }) => error.with("process", process),
            _ => error,
        }
    })
}

/// Removes a backup that is not whole.
fn remove_unfinished(storage: &dyn BackupStorage, name: &BackupName) -> Result<()> {
    let remove = || {
        remove_files(&*storage.open(name)?)?;
        storage.remove(name)
    };
    let failed = |e| Error::io("remove a part of a backup", e).with("directory", name);
    remove().map_err(|e| failed(e).with_remedy())
}

/// Removes all files of a database, `current` first.
pub(crate) fn remove_files(storage: &dyn Storage) -> std::io::Result<()> {
    let mut files = storage.list()?;
    files.sort_by_key(|(name, _)| name.kind() != FileKind::Current);
    files.iter().try_for_each(|(name, _)| storage.remove(name, RemoveMode::Immediate))
}

/// Removes backup `number`; the caller has begun a change. Fails with [`ErrorKind::Locked`] while a
/// handle reads it.
pub(crate) fn remove(storage: &dyn BackupStorage, number: u64) -> Result<()> {
    let [whole, unfinished] = names(number);
    let directory = open(storage, number)?;
    let lock = directories::lock(&*directory).map_err(|e| e.with("backup", number))?;
    let renamed = storage.rename(&whole, &unfinished);
    renamed.map_err(|e| Error::io("rename a backup to remove it", e).with("backup", number))?;
    // Else a loss of power might give a part of it its whole name.
    sync(storage)?;
    drop(lock);
    remove_unfinished(storage, &unfinished)
}

/// Opens the directory of backup `number`.
pub(crate) fn open(storage: &dyn BackupStorage, number: u64) -> Result<Arc<dyn Storage>> {
    storage.open(&BackupName::Whole(number)).map_err(|e| match e.kind() {
        std::io::ErrorKind::NotFound => no_backup().with("backup", number),
        _ => Error::io("open a backup", e).with("backup", number),
    })
}

/// The error of a call for a backup that is not there.
pub(crate) fn no_backup() -> Error {
    let message = "there is no such backup in the directory; `cleave backup DIR --list` shows all";
    Error::new(ErrorKind::NotADatabase, message)
}

/// The backup whose files may be linked.
struct Previous {
    storage: Arc<dyn Storage>,
    lens: HashMap<Name, u64>,
    record: BackupRecord,
}

/// The newest backup that says which database it is of, which must be `database_id`.
fn find_previous(
    storage: &dyn BackupStorage,
    numbers: &[u64],
    database_id: u64,
) -> Result<Option<Previous>> {
    for number in numbers.iter().rev() {
        let storage = open(storage, *number)?;
        // A damaged one is left alone: what it has is copied again.
        let Ok(Some(current)) = Current::read(&*storage) else { continue };
        if current.database_id != database_id {
            let message = "the directory holds backups of another database; choose another one";
            return Err(Error::new(ErrorKind::InvalidArgument, message).with("backup", number));
        }
        let files = storage.list().map_err(|e| Error::io("list a backup", e))?;
        let record = BackupRecord::read(&*storage).unwrap_or_default();
        return Ok(Some(Previous { storage, lens: files.into_iter().collect(), record }));
    }
    Ok(None)
}

/// Links to the files of the previous backup that did not change since.
struct Unchanged {
    /// `None` also if nothing can be linked there.
    previous: Option<Previous>,
    /// Identities of all files that may be recognised by them later.
    identities: BTreeMap<Name, u64>,
}

impl Links for Unchanged {
    fn link(&mut self, file: &SourceFile<'_>, to: &dyn Storage) -> Result<bool> {
        let source = file.open()?;
        let identity = match file.is_settled {
            true => source.identity().map_err(|e| Error::io("look at a file", e))?,
            false => 0,
        };
        if identity != 0 {
            self.identities.insert(file.name, identity);
        }
        let Some(previous) = &self.previous else { return Ok(false) };
        if !previous.has(file, &*source, identity) {
            return Ok(false);
        }
        let failed = |e| Error::io("link a file", e).with("file", file.name).with_remedy();
        let linked = copy::link(&*previous.storage, &file.name, to).map_err(failed)?;
        if !linked {
            self.previous = None;
        }
        Ok(linked)
    }

    fn finish(&mut self, to: &dyn Storage) -> Result<()> {
        BackupRecord::now(mem::take(&mut self.identities)).write(to)
    }
}

impl Previous {
    /// Whether the backup has the same file as `source` has now, whose identity is 0 if it is not
    /// known. What cannot be read there is not the same.
    fn has(&self, file: &SourceFile<'_>, source: &dyn File, identity: u64) -> bool {
        if self.lens.get(&file.name) != Some(&file.len) {
            return false;
        }
        let is_known = identity != 0 && self.record.identity_of(&file.name) == Some(identity);
        if is_known || planted(Bug::BackupTrustsNames) {
            return true;
        }
        let opened = self.storage.open(&file.name, Mode::Read, Access::Sequential);
        let same = opened.and_then(|copy| copy::is_same(source, &*copy, file.needed()));
        same.unwrap_or(false)
    }
}
