//! Removal of a whole database: its files in all of its directories, and nothing else.
//!
//! The file `current` proves that there is a database, and names its volumes; so it goes last. The
//! manifest goes first, and durably, so that no open takes what is left for a database: without
//! `current` there is none, and with it the manifest is missing. Each volume keeps its stamp, which
//! proves that it is mounted, until all data is gone. So a call that did not come to its end is
//! finished by the next one.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cleavedb_base::planted::{Bug, planted};
use cleavedb_base::{Error, ErrorKind, Result};
use cleavedb_storage::{FileKind, Lock, Name, RemoveMode, Storage, copy};

use crate::copies::backup_record;
use crate::open::directories::{self, OpenDirectory};
use crate::store::manifest::{Current, VolumeIdentity};

/// What [`crate::Db::destroy`] has done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DestroyReport {
    /// Files that were removed.
    pub files: u64,
    /// Bytes of the removed files.
    pub bytes: u64,
    /// Files in the directories that are not CleaveDB's, and stay.
    pub foreign: Vec<PathBuf>,
}

/// One directory of the database.
struct LockedDirectory {
    path: PathBuf,
    storage: Arc<dyn Storage>,
    /// Held until the end.
    _lock: Lock,
}

/// Name of the subdirectory in which the copy lies that is to take the database's place. A copy of
/// an earlier state is removed by this name alone, so it is one that no other store has by chance.
pub(crate) const COPY: &str = "cleavedb-migration";

/// When a file goes, in this order: the manifest, then data and what belongs to it, the proofs that
/// volumes are mounted, the proof that there is a database.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Phase {
    Manifest,
    Data,
    Stamps,
    Current,
    Lock,
}

const PHASES: [Phase; 5] =
    [Phase::Manifest, Phase::Data, Phase::Stamps, Phase::Current, Phase::Lock];

/// The phases in their order, or in that of a planted mistake.
fn phases() -> [Phase; 5] {
    let mut phases = PHASES;
    if planted(Bug::DataBeforeManifest) {
        phases.swap(0, 1);
    }
    phases
}

fn phase_of(kind: FileKind) -> Phase {
    match kind {
        FileKind::Manifest => Phase::Manifest,
        FileKind::Volume | FileKind::VolumeNew => Phase::Stamps,
        FileKind::Current => Phase::Current,
        FileKind::Lock => Phase::Lock,
        FileKind::Log
        | FileKind::Segment
        | FileKind::Group
        | FileKind::Blob
        | FileKind::Table
        | FileKind::CurrentNew
        | FileKind::Window
        | FileKind::Reserve
        | FileKind::Backup => Phase::Data,
    }
}

/// Removes the database in `first`, which has the path `path`, and in its volumes.
pub(crate) fn destroy(
    first: Arc<dyn Storage>,
    path: &Path,
    open: &mut OpenDirectory<'_>,
) -> Result<DestroyReport> {
    // Before the lock, whose file must not be left in a foreign directory.
    if Current::read(&*first)?.is_none() {
        return Err(none_there());
    }
    if backup_record::check_no_backup(&*first).is_err() {
        let message = "the directory is a backup; `cleave backup DIR --remove N` removes it";
        return Err(Error::new(ErrorKind::InvalidArgument, message));
    }
    let own = LockedDirectory {
        path: path.to_owned(),
        _lock: directories::lock(&*first)?,
        storage: first.clone(),
    };
    // Another call may have removed it meanwhile.
    let current = Current::read(&*own.storage)?.ok_or_else(none_there)?;
    let is_emptied = is_emptied(&*own.storage)?;
    let mut places = Vec::from_iter(find_copy(path, open)?);
    places.push(own);
    for (at, volume) in current.volumes.iter().enumerate() {
        let named = |e: Error| e.with("volume", volume.directory.display());
        match open_volume(&volume.directory, open, current.database_id, at + 1) {
            Ok(place) => places.push(place),
            // The stamp of the volume went, and with it all that it had.
            Err(e) if e.kind() == ErrorKind::MissingVolume && is_emptied => {}
            Err(e) => return Err(named(e)),
        }
    }
    let mut report = DestroyReport::default();
    for phase in phases() {
        for place in &places {
            let removed = remove(&*place.storage, phase, &mut report);
            removed.map_err(|e| e.with("path", place.path.display()))?;
        }
    }
    // With a file of someone else it stays, and is named below.
    let _ = copy::remove_dir(&*first, COPY);
    for place in &places {
        let foreign = place.storage.foreign().map_err(|e| Error::io("list the directory", e))?;
        report.foreign.extend(foreign.into_iter().map(|name| place.path.join(name)));
    }
    Ok(report)
}

/// The copy of a migration that was not finished, or not removed, if there is one. The copy goes
/// before the database: without that no call would find it.
fn find_copy(own: &Path, open: &mut OpenDirectory<'_>) -> Result<Option<LockedDirectory>> {
    let path = own.join(COPY);
    match open(&path, false) {
        Ok(storage) => {
            let _lock = directories::lock(&*storage)?;
            Ok(Some(LockedDirectory { path, storage, _lock }))
        }
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(Error::io("open the directory", e).with("path", path.display())),
    }
}

/// Removes all files of the database in `storage`, whose lock the caller holds; `current` goes when
/// all data is gone, durably.
pub(crate) fn clear(storage: &dyn Storage) -> Result<()> {
    let mut report = DestroyReport::default();
    PHASES.into_iter().try_for_each(|phase| remove(storage, phase, &mut report))
}

fn none_there() -> Error {
    let message = "there is no database in the directory; nothing was removed";
    Error::new(ErrorKind::NotADatabase, message)
}

fn list(storage: &dyn Storage) -> Result<Vec<(Name, u64)>> {
    storage.list().map_err(|e| Error::io("list the directory", e))
}

/// Whether an earlier call has removed all data.
fn is_emptied(storage: &dyn Storage) -> Result<bool> {
    Ok(list(storage)?.iter().all(|(name, _)| phase_of(name.kind()) > Phase::Data))
}

/// Opens and locks volume `number` of a database, if that is what is there.
fn open_volume(
    path: &Path,
    open: &mut OpenDirectory<'_>,
    database_id: u64,
    number: usize,
) -> Result<LockedDirectory> {
    let missing = |what| Error::new(ErrorKind::MissingVolume, what);
    let storage = open(path, false).map_err(|e| match e.kind() {
        io::ErrorKind::NotFound => {
            missing("the directory of a volume is missing; mount its disk. Nothing was removed")
        }
        _ => Error::io("open the directory", e),
    })?;
    let stamp = VolumeIdentity::read(&*storage)?;
    if stamp.is_none_or(|stamp| (stamp.database_id, stamp.number) != (database_id, number)) {
        let what = "the directory of a volume holds something else, or its disk is not mounted. \
                    Nothing was removed";
        return Err(missing(what));
    }
    Ok(LockedDirectory { path: path.to_owned(), _lock: directories::lock(&*storage)?, storage })
}

/// Removes the files of one phase from a directory, durably.
fn remove(storage: &dyn Storage, phase: Phase, report: &mut DestroyReport) -> Result<()> {
    let all = list(storage)?;
    let mut any = false;
    for (name, len) in all.into_iter().filter(|(name, _)| phase_of(name.kind()) == phase) {
        let removed = storage.remove(&name, RemoveMode::Immediate);
        let failed = |e| Error::io("remove a file", e).with("file", name).with_remedy();
        removed.map_err(failed)?;
        (report.files, report.bytes, any) = (report.files + 1, report.bytes + len, true);
    }
    if any {
        storage.sync_dir().map_err(|e| Error::sync_failed("the directory", e))?;
    }
    Ok(())
}
