//! The directories of a database, and the proof that each is the right one.
//!
//! An open reads `current` in the database's own directory, finds the volumes that it names, and
//! those that the caller names, and trusts only their stamps: a disk that is not mounted, another
//! database's directory and one that was replaced by an older copy are refused before anything is
//! written. A volume is created only if the caller asks for one and its place is empty.

use std::io;
use std::path::{Path, PathBuf, absolute};
use std::sync::Arc;

use cleavedb_base::{Error, ErrorKind, Result};
use cleavedb_storage::{
    Directory, FileClass, FileKind, Holder, Lock, LockMode, MultiDirStorage, Storage,
};

use crate::settings::options::Options;
use crate::settings::volume::{self, VOLUMES_MAX, Volume};
use crate::store::manifest::{Current, Manifest, VolumeIdentity};

/// Opens the directory of a path, and creates a missing one if the second argument is true.
pub(crate) type OpenDirectory<'a> = dyn FnMut(&Path, bool) -> io::Result<Arc<dyn Storage>> + 'a;

/// All directories of a database, verified and locked.
pub(crate) struct Directories {
    pub(crate) placed: Arc<MultiDirStorage>,
    /// The volumes, in the order of their numbers.
    pub(crate) volumes: Vec<Volume>,
    pub(crate) locks: Vec<Lock>,
}

/// Finds the volumes of the database in `first`, whose lock the caller holds. `path` is the path of
/// `first`, if it has one.
pub(crate) fn find(
    first: &Arc<dyn Storage>,
    path: Option<&Path>,
    options: &Options,
    open: &mut OpenDirectory<'_>,
) -> Result<Directories> {
    let current = Current::read(&**first)?;
    let stored = current.as_ref().map_or(Vec::new(), |current| current.volumes.clone());
    let path = path.map(whole_path).transpose()?;
    let (opened, locks) = (vec![None; stored.len()], Vec::new());
    let mut found = Finder { first, current, open, opened, stored, locks };
    let mut given = Vec::new();
    for volume in &options.volumes {
        let directory = whole_path(&volume.directory)?;
        given.push(Volume { directory, ..volume.clone() });
    }
    // Only now do two names of one directory look the same, and only this form is stored.
    if let Some(rule) = volume::fault(&given) {
        return Err(Error::new(ErrorKind::InvalidOptions, rule));
    }
    let mut new = Vec::new();
    for volume in given {
        found.place_nowhere(&volume.classes);
        if path.as_ref() != Some(&volume.directory) {
            check_outside(path.as_deref(), &volume.directory)?;
            new.extend(found.recognise(volume)?);
        }
    }
    found.open_stored()?;
    for unknown in new {
        found.add(unknown, options.create_if_missing)?;
    }
    found.finish(path.unwrap_or_default())
}

/// A volume within the own directory would be a foreign entry there.
fn check_outside(own: Option<&Path>, volume: &Path) -> Result<()> {
    if own.is_none_or(|own| !volume.starts_with(own)) {
        return Ok(());
    }
    let message = "a volume may not lie within the database's own directory; choose another one";
    let error = Error::new(ErrorKind::InvalidOptions, message);
    Err(error.with("volume", volume.display()))
}

/// A named directory that is not a volume yet; it may be missing.
struct Unknown {
    volume: Volume,
    storage: Option<Arc<dyn Storage>>,
}

fn whole_path(path: &Path) -> Result<PathBuf> {
    absolute(path).map_err(|e| Error::io("find the directory", e).with("path", path.display()))
}

/// The search for volumes.
struct Finder<'a, 'b> {
    first: &'a Arc<dyn Storage>,
    /// `None` if the database is being created.
    current: Option<Current>,
    open: &'a mut OpenDirectory<'b>,
    /// The known volumes, and the storages of those that are open.
    stored: Vec<Volume>,
    opened: Vec<Option<Arc<dyn Storage>>>,
    /// Locks of new volumes.
    locks: Vec<Lock>,
}

impl Finder<'_, '_> {
    /// Removes classes from their current places: they are placed elsewhere.
    fn place_nowhere(&mut self, classes: &[FileClass]) {
        for volume in &mut self.stored {
            volume.classes.retain(|class| !classes.contains(class));
        }
    }

    /// Recognises a directory as a volume of the database, whatever its path was before; otherwise
    /// returns it.
    fn recognise(&mut self, given: Volume) -> Result<Option<Unknown>> {
        let named = |error: Error| error.with("volume", given.directory.display());
        let by_path = self.stored.iter().position(|v| v.directory == given.directory);
        let storage = match (self.open)(&given.directory, false) {
            Ok(storage) => storage,
            // A missing one that is still at its old path is reported below.
            Err(e) if e.kind() == io::ErrorKind::NotFound => {
                return match by_path {
                    Some(at) => self.know(at, &given, None).map(|()| None),
                    None => Ok(Some(Unknown { volume: given, storage: None })),
                };
            }
            Err(e) => return Err(named(unopened(e))),
        };
        let stamp = VolumeIdentity::read(&*storage).map_err(named)?;
        let (id, manifest) = match &self.current {
            Some(current) => (Some(current.database_id), Some(current.manifest)),
            None => (None, None),
        };
        let mut ours = stamp.filter(|stamp| Some(stamp.database_id) == id);
        // An open that was to add it, and did not finish, has left the stamp of a volume number
        // that another directory may have taken since.
        let outdated = ours.as_ref().is_some_and(|stamp| Some(stamp.manifest) < manifest);
        if outdated && by_path.is_none() && is_empty(&*storage).map_err(named)? {
            ours = None;
        }
        let by_stamp =
            ours.and_then(|stamp| stamp.number.checked_sub(1)).filter(|at| *at < self.stored.len());
        match by_stamp.or(by_path) {
            Some(at) => self.know(at, &given, Some(storage)).map(|()| None),
            None => Ok(Some(Unknown { volume: given, storage: Some(storage) })),
        }
    }

    fn know(&mut self, at: usize, given: &Volume, storage: Option<Arc<dyn Storage>>) -> Result<()> {
        if self.opened[at].is_some() {
            let message = "two directories are copies of one volume; name the one that is right";
            let error = Error::new(ErrorKind::InvalidOptions, message);
            return Err(error.with("volume", given.directory.display()));
        }
        let volume = &mut self.stored[at];
        volume.directory.clone_from(&given.directory);
        volume.classes.extend(&given.classes);
        volume.capacity = given.capacity.or(volume.capacity);
        self.opened[at] = storage;
        Ok(())
    }

    /// Opens the volumes that are not open yet, and checks the stamps of all.
    fn open_stored(&mut self) -> Result<()> {
        for at in 0..self.stored.len() {
            let directory = self.stored[at].directory.clone();
            let named = |error: Error| error.with("volume", directory.display());
            if self.opened[at].is_none() {
                let opened = (self.open)(&directory, false);
                self.opened[at] = Some(opened.map_err(|e| named(unopened(e)))?);
            }
            let storage = self.opened[at].clone().expect("it was opened above");
            self.check(at + 1, &*storage).map_err(named)?;
        }
        Ok(())
    }

    /// Fails unless the stamp in `storage` is that of volume `number`, as old as the database.
    fn check(&self, number: usize, storage: &dyn Storage) -> Result<()> {
        let current = self.current.as_ref().expect("volumes are stored in `current`");
        let Some(stamp) = VolumeIdentity::read(storage)? else {
            let message = if is_empty(storage)? {
                "the directory of a volume is empty; mount its disk, or say where it is mounted"
            } else {
                "the directory of a volume holds something else; say where the volume is"
            };
            return Err(Error::new(ErrorKind::MissingVolume, message));
        };
        if stamp.database_id != current.database_id || stamp.number != number {
            let message = "the directory is a volume of another database, or another volume of \
                           this one; say where the volume is";
            let error = Error::new(ErrorKind::MissingVolume, message).with("expected", number);
            return Err(error.with("found", stamp.number));
        }
        let stale = |what| {
            let error = Error::corruption(what).with("own", current.manifest);
            Err(error.with("found", stamp.manifest))
        };
        if stamp.manifest < current.manifest {
            return stale(
                "the volume is older than the database's own directory; restore all directories \
                 from one backup",
            );
        }
        if stamp.manifest > current.manifest && !self.is_unfinished(&stamp)? {
            return stale(
                "the database's own directory is older than its volume; restore all directories \
                 from one backup",
            );
        }
        Ok(())
    }

    /// Whether an unfinished open has left this stamp: then its manifest lies in the first
    /// directory.
    fn is_unfinished(&self, stamp: &VolumeIdentity) -> Result<bool> {
        Manifest::is_there(&**self.first, stamp.manifest, stamp.database_id)
    }

    /// Makes an empty directory a new volume.
    fn add(&mut self, Unknown { volume, storage }: Unknown, create: bool) -> Result<()> {
        let directory = volume.directory.clone();
        let named = |error: Error| error.with("volume", directory.display());
        // `current` has room for this many; a volume stays in it when nothing is placed there any
        // more.
        if self.stored.len() == VOLUMES_MAX {
            let message = format!("the database has {VOLUMES_MAX} volumes, which is the most");
            return Err(named(Error::new(ErrorKind::InvalidOptions, message)));
        }
        let storage = match storage {
            Some(storage) => storage,
            None => (self.open)(&directory, create).map_err(|e| named(unopened(e)))?,
        };
        self.check_new(&*storage).map_err(named)?;
        if !create {
            let message = "there is no such volume, and none may be created";
            return Err(named(Error::new(ErrorKind::MissingVolume, message)));
        }
        // Another process that held the lock may have made it a volume of another database.
        self.locks.push(lock(&*storage).map_err(named)?);
        self.check_new(&*storage).map_err(named)?;
        self.stored.push(volume);
        self.opened.push(Some(storage));
        Ok(())
    }

    /// A new volume begins in an empty directory; the files of an unfinished open that was to
    /// create it do not count.
    fn check_new(&self, storage: &dyn Storage) -> Result<()> {
        if let Some(stamp) = VolumeIdentity::read(storage)? {
            let ours = self.current.as_ref().map(|current| current.database_id);
            let unfinished = match ours {
                Some(id) => stamp.database_id == id,
                None => self.is_unfinished(&stamp)?,
            };
            if !unfinished {
                let message = "the directory is a volume of another database; choose an empty one";
                return Err(Error::new(ErrorKind::NotADatabase, message));
            }
        }
        if is_empty(storage)? {
            return Ok(());
        }
        let message = "the directory is to become a volume, but there are files in it; choose an \
                       empty one";
        Err(Error::new(ErrorKind::NotADatabase, message))
    }

    /// Locks all new volumes and puts the directories together.
    fn finish(self, path: PathBuf) -> Result<Directories> {
        let (mut locks, mut directories) = (self.locks, Vec::new());
        // New volumes come last, and are locked already.
        let known = self.stored.len() - locks.len();
        for (at, (volume, storage)) in self.stored.iter().zip(self.opened).enumerate() {
            let storage = storage.expect("all volumes were opened");
            let Volume { classes, capacity, directory } = volume.clone();
            let path = directory.display().to_string();
            if at < known {
                locks.push(lock(&*storage).map_err(|e| e.with("volume", &path))?);
            }
            directories.push(Directory { storage, path, classes, capacity });
        }
        let path = path.display().to_string();
        let own = Directory { path, ..Directory::whole(self.first.clone()) };
        let placed = Arc::new(MultiDirStorage::new(own, directories)?);
        Ok(Directories { placed, volumes: self.stored, locks })
    }
}

/// Takes the lock of a directory.
pub(crate) fn lock(storage: &dyn Storage) -> Result<Lock> {
    storage.lock(LockMode::Exclusive).map_err(|e| match e.kind() {
        io::ErrorKind::WouldBlock => match e.get_ref().and_then(|e| e.downcast_ref::<Holder>()) {
            Some(holder) => Error::new(ErrorKind::Locked, holder.to_string()),
            None => Error::new(
                ErrorKind::Locked,
                "another process, or another handle in this one, has the database open",
            ),
        },
        io::ErrorKind::PermissionDenied => Error::io(
            "lock the directory, in which this user must have the right to write, unless the \
             database is opened for reading only",
            e,
        ),
        _ => Error::io("lock the directory", e).with_remedy(),
    })
}

/// Whether a directory holds only the files of every volume.
fn is_empty(storage: &dyn Storage) -> Result<bool> {
    let failed = |e| Error::io("list the directory", e);
    let ours = storage.list().map_err(failed)?;
    let common = |kind| matches!(kind, FileKind::Lock | FileKind::Volume | FileKind::VolumeNew);
    let strangers = storage.foreign().map_err(failed)?;
    Ok(strangers.is_empty() && ours.iter().all(|(name, _)| common(name.kind())))
}

/// The error of a directory of the database that could not be opened, or created if `create` is
/// set.
pub(crate) fn not_opened(error: io::Error, create: bool) -> Error {
    let message = match (error.kind(), create) {
        (io::ErrorKind::NotFound, true) => {
            "the parent of the new database's directory is missing; create it first"
        }
        (io::ErrorKind::NotFound, false) => "there is no such directory, and none may be created",
        (io::ErrorKind::NotADirectory, _) => {
            "the path leads to a file, or through one; a database is a directory"
        }
        _ => return Error::io("open the directory", error),
    };
    Error::new(ErrorKind::NotADatabase, message)
}

fn unopened(error: io::Error) -> Error {
    if error.kind() == io::ErrorKind::NotFound {
        let message = "the directory of a volume is missing; mount its disk, or say where it is \
                       mounted";
        return Error::new(ErrorKind::MissingVolume, message);
    }
    Error::io("open the directory", error)
}
