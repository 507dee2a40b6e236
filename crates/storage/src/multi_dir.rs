//! One storage made of several directories, each class of file in a place of its own.
//!
//! The first directory is the database's own: it holds the metadata (`current`, the manifest, the
//! window) and every class that is placed nowhere else. The others are *volumes*. A class only
//! decides where a file is created: the place of an existing file is known from the directories
//! themselves, which are listed once, and it stays there until it is removed. So a placement may
//! change from open to open, and a table that moves down a level stays on its disk.

use cleavedb_base::sync::atomic::{AtomicU64, Ordering};
use std::collections::{HashMap, HashSet};
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use cleavedb_base::planted::{Bug, planted};
use cleavedb_base::sync::{Mutex, RwLock};
use cleavedb_base::{Error, FileNumber, Result};
use rustix::io::Errno;

use crate::api::{Access, File, Lock, LockMode, Mode, RemoveMode, Storage};
use crate::class::FileClass;
use crate::name::{FileKind, Name};

/// One of the directories of a database.
#[derive(Clone)]
pub struct Directory {
    /// The files of the directory.
    pub storage: Arc<dyn Storage>,
    /// The path of the directory, for messages.
    pub path: String,
    /// Classes placed here; the first directory also takes all that are placed nowhere.
    pub classes: Vec<FileClass>,
    /// Bytes of its files from which on new ones are created in the first directory.
    pub capacity: Option<u64>,
}

impl Directory {
    /// All of a database that has no volumes.
    pub fn whole(storage: Arc<dyn Storage>) -> Self {
        Self { storage, path: String::new(), classes: Vec::new(), capacity: None }
    }

    /// Sum of the lengths of all files.
    pub fn bytes(&self) -> io::Result<u64> {
        Ok(self.storage.list()?.iter().map(|(_, len)| len).sum())
    }

    fn is_full(&self) -> io::Result<bool> {
        Ok(match self.capacity {
            Some(capacity) => self.bytes()? >= capacity,
            None => false,
        })
    }

    /// Adds the path to the error, unless it concerns the whole process.
    fn says(&self, error: io::Error) -> io::Error {
        let of_process = [Errno::MFILE, Errno::NFILE].map(|e| Some(e.raw_os_error()));
        if self.path.is_empty() || of_process.contains(&error.raw_os_error()) {
            return error;
        }
        io::Error::new(error.kind(), format!("{error}, in {}", self.path))
    }
}

/// A directory, and whether its names are durable.
struct Tracked {
    directory: Directory,
    /// Counts changes of names; incremented after the change.
    changes: AtomicU64,
    /// The count up to which changes are durable, `None` once a sync has failed; locked during a
    /// sync.
    synced: Mutex<Option<u64>>,
}

impl Tracked {
    fn new(directory: Directory) -> Self {
        // Changes of an earlier process may not be durable.
        Self { directory, changes: AtomicU64::new(1), synced: Mutex::new(Some(0)) }
    }

    fn changed(&self) {
        self.changes.fetch_add(1, Ordering::Release);
    }

    fn sync(&self) -> io::Result<()> {
        let mut synced = self.synced.lock();
        let changes = self.changes.load(Ordering::Acquire);
        if *synced == Some(changes) {
            return Ok(());
        }
        // The system reports a failure once: a second sync would seem to succeed.
        let Some(_) = synced.take() else {
            let error = io::Error::other("an earlier sync of the directory failed; reopen");
            return Err(self.directory.says(error));
        };
        self.directory.storage.sync_dir().map_err(|e| self.directory.says(e))?;
        *synced = Some(changes);
        Ok(())
    }
}

/// A storage that creates each class of file in one of several directories, and finds every file
/// where it lies.
pub struct MultiDirStorage {
    first: Directory,
    volumes: Vec<Tracked>,
    /// Files in volumes, and the volume of each.
    homes: RwLock<HashMap<Name, usize>>,
}

impl MultiDirStorage {
    /// The database's own directory and its volumes.
    ///
    /// Fails with [`cleavedb_base::ErrorKind::Corruption`] if a file lies in two of them, or if a
    /// volume holds a file that belongs in the first.
    pub fn new(first: Directory, volumes: Vec<Directory>) -> Result<Self> {
        let mut homes = HashMap::new();
        let list = |directory: &Directory| {
            let listed = directory.storage.list();
            listed.map_err(|e| Error::io("list the directory", directory.says(e)))
        };
        let own: HashSet<Name> = match volumes.is_empty() {
            true => HashSet::new(),
            false => list(&first)?.into_iter().map(|(name, _)| name).collect(),
        };
        for (number, volume) in volumes.iter().enumerate() {
            for (name, _) in list(volume)? {
                if stays_in_each(name.kind()) {
                    continue;
                }
                let error = |what| {
                    let error = Error::corruption(what).with("file", name);
                    Err(error.with("directory", &volume.path))
                };
                if !is_placed(name.kind()) {
                    return error(
                        "a file lies in a volume that belongs into the database's own \
                                  directory; move it there, or restore both from a backup",
                    );
                }
                if own.contains(&name) || homes.insert(name, number).is_some() {
                    return error("a file lies in two directories; remove the copy");
                }
            }
        }
        let volumes = volumes.into_iter().map(Tracked::new).collect();
        Ok(Self { first, volumes, homes: RwLock::new(homes) })
    }

    /// A database in one directory.
    pub fn whole(storage: Arc<dyn Storage>) -> Self {
        let homes = RwLock::new(HashMap::new());
        Self { first: Directory::whole(storage), volumes: Vec::new(), homes }
    }

    /// The database's own directory.
    pub fn first(&self) -> &Directory {
        &self.first
    }

    /// The volumes, in their order.
    pub fn volumes(&self) -> impl Iterator<Item = &Directory> {
        self.volumes.iter().map(|volume| &volume.directory)
    }

    /// Creates file `number` where its class is placed, or in the first directory if there is no
    /// room. The name is durable after the next [`Storage::sync_dir`].
    pub fn create(
        &self,
        class: FileClass,
        number: FileNumber,
        access: Access,
    ) -> io::Result<Arc<dyn File>> {
        let name = Name::numbered(class.kind(), number);
        let placed = self.volumes.iter().position(|v| v.directory.classes.contains(&class));
        let Some(at) = placed else {
            return self.first.storage.open(&name, Mode::CreateNew, access);
        };
        let directory = &self.volumes[at].directory;
        if directory.is_full().map_err(|e| directory.says(e))? {
            return self.first.storage.open(&name, Mode::CreateNew, access);
        }
        let created = directory.storage.open(&name, Mode::CreateNew, access);
        let file = created.map_err(|e| directory.says(e))?;
        self.volumes[at].changed();
        self.homes.write().insert(name, at);
        Ok(file)
    }

    /// The volume that holds the file; `None` if it lies in the first directory.
    pub fn volume_of(&self, name: &Name) -> Option<&Directory> {
        Some(&self.home(name)?.directory)
    }

    /// Whether a file that was not found may lie in a volume, where another process has created it
    /// since the volumes were listed.
    fn may_be_new(&self, name: &Name, mode: Mode, error: &io::Error) -> bool {
        let missing = error.kind() == io::ErrorKind::NotFound;
        missing && mode == Mode::Read && !self.volumes.is_empty() && is_placed(name.kind())
    }

    /// Looks for such a file in the volumes.
    fn find_new(&self, name: &Name, access: Access) -> io::Result<Arc<dyn File>> {
        for (at, volume) in self.volumes.iter().enumerate() {
            match volume.directory.storage.open(name, Mode::Read, access) {
                Err(e) if e.kind() == io::ErrorKind::NotFound => {}
                Err(e) => return Err(volume.directory.says(e)),
                Ok(file) => {
                    self.homes.write().insert(*name, at);
                    return Ok(file);
                }
            }
        }
        Err(io::ErrorKind::NotFound.into())
    }

    fn home(&self, name: &Name) -> Option<&Tracked> {
        if self.volumes.is_empty() {
            return None;
        }
        self.homes.read().get(name).map(|at| &self.volumes[*at])
    }
}

/// Whether every directory has its own file of this kind.
fn stays_in_each(kind: FileKind) -> bool {
    matches!(kind, FileKind::Lock | FileKind::Volume | FileKind::VolumeNew)
}

/// Whether files of this kind may lie in a volume.
fn is_placed(kind: FileKind) -> bool {
    FileClass::ALL.iter().any(|class| class.kind() == kind)
}

impl Storage for MultiDirStorage {
    /// Files created this way lie in the first directory.
    fn open(&self, name: &Name, mode: Mode, access: Access) -> io::Result<Arc<dyn File>> {
        match self.home(name) {
            None => match self.first.storage.open(name, mode, access) {
                Err(e) if self.may_be_new(name, mode, &e) => self.find_new(name, access),
                opened => opened,
            },
            Some(home) => {
                let opened = home.directory.storage.open(name, mode, access);
                opened.map_err(|e| home.directory.says(e))
            }
        }
    }

    fn rename(&self, from: &Name, to: &Name) -> io::Result<()> {
        if self.home(from).is_some() || self.home(to).is_some() {
            let message = format!("{from} or {to} lies in a volume, where nothing is renamed");
            return Err(io::Error::new(io::ErrorKind::CrossesDevices, message));
        }
        self.first.storage.rename(from, to)
    }

    fn remove(&self, name: &Name, pace: RemoveMode) -> io::Result<()> {
        let Some(home) = self.home(name) else {
            return self.first.storage.remove(name, pace);
        };
        home.directory.storage.remove(name, pace).map_err(|e| home.directory.says(e))?;
        home.changed();
        self.homes.write().remove(name);
        Ok(())
    }

    fn list(&self) -> io::Result<Vec<(Name, u64)>> {
        let mut all = self.first.storage.list()?;
        for volume in self.volumes() {
            let listed = volume.storage.list().map_err(|e| volume.says(e))?;
            all.extend(listed.into_iter().filter(|(name, _)| !stays_in_each(name.kind())));
        }
        Ok(all)
    }

    fn foreign(&self) -> io::Result<Vec<String>> {
        self.first.storage.foreign()
    }

    /// Syncs the first directory always, and volumes whose names have changed since, so that a job
    /// waits only for the disks that it wrote to.
    fn sync_dir(&self) -> io::Result<()> {
        if !planted(Bug::VolumeNotSynced) {
            self.volumes.iter().try_for_each(Tracked::sync)?;
        }
        self.first.storage.sync_dir()
    }

    /// Locks every directory: another database may have been given one of them.
    fn lock(&self, mode: LockMode) -> io::Result<Lock> {
        let mut locks = vec![self.first.storage.lock(mode)?];
        for volume in self.volumes() {
            locks.push(volume.storage.lock(mode).map_err(|e| volume.says(e))?);
        }
        Ok(Box::new(locks))
    }

    /// The free space of the fullest directory, which is the one that stops a write.
    fn free_space(&self) -> io::Result<u64> {
        self.volumes().try_fold(self.first.storage.free_space()?, |least, volume| {
            Ok(least.min(volume.storage.free_space().map_err(|e| volume.says(e))?))
        })
    }

    fn memory(&self) -> u64 {
        self.first.storage.memory()
    }

    fn boot_id(&self) -> u64 {
        self.first.storage.boot_id()
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.first.storage.descriptor()
    }

    fn directory_id(&self) -> u64 {
        self.first.storage.directory_id()
    }
}
