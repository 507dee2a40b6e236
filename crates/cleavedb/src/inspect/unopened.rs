//! The files of a database that is not opened: found in its directories, and only read.
//!
//! No lock is taken and nothing is written, so a damaged database stays as it is, and a process
//! that has the database open is not hindered.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use cleavedb_base::{Error, ErrorKind, Result};
use cleavedb_index::{BlockCache, TableStore};
use cleavedb_storage::api::read_exact_at;
use cleavedb_storage::log::FileHeader;
use cleavedb_storage::log::salvage::{WindowBytes, headers_in_window, proven_header};
use cleavedb_storage::{
    Access, Disk, File, FileKind, Mode, Name, ObsoleteFiles, Storage, WINDOW_HEADER_LEN,
};

use crate::settings::options::Preset;
use crate::store::manifest::{Current, ReplayHead};

/// The directories of a database, and what its file `current` says.
pub(crate) struct Unopened {
    /// The database's own directory, and then those of its volumes.
    storages: Vec<Arc<dyn Storage>>,
    /// `None` if it is missing or damaged.
    pub(crate) current: Option<Current>,
}

impl Unopened {
    /// Finds the database in the directory `path`, and its volumes, if `current` names them. Also
    /// returns what is wrong with `current` and the volumes; that `current` is missing is not said.
    pub(crate) fn find(path: &Path) -> Result<(Self, Vec<Error>)> {
        let failed = |e| Error::io("open the directory", e).with("path", path.display());
        let own: Arc<dyn Storage> = Arc::new(Disk::open(path, false).map_err(failed)?);
        let (mut storages, mut damage) = (vec![own], Vec::new());
        let current = Current::read(&*storages[0]).unwrap_or_else(|error| {
            damage.push(error);
            None
        });
        for volume in current.iter().flat_map(|current| &current.volumes) {
            match Disk::open(&volume.directory, false) {
                Ok(disk) => storages.push(Arc::new(disk)),
                Err(e) => {
                    let error = Error::io("open the directory of a volume", e);
                    damage.push(error.with("volume", volume.directory.display()));
                }
            }
        }
        Ok((Self { storages, current }, damage))
    }

    /// The database's own directory.
    pub(crate) fn own(&self) -> &Arc<dyn Storage> {
        &self.storages[0]
    }

    /// Every file of `kind`, in the order of numbers.
    pub(crate) fn names(&self, kind: FileKind) -> Result<BTreeSet<Name>> {
        let mut names = BTreeSet::new();
        for storage in &self.storages {
            let listed = storage.list().map_err(|e| Error::io("list the directory", e))?;
            names.extend(listed.into_iter().map(|(name, _)| name).filter(|n| n.kind() == kind));
        }
        Ok(names)
    }

    /// Opens a file for reading, in whichever directory it lies.
    pub(crate) fn open(&self, name: &Name) -> Result<Arc<dyn File>> {
        let mut missing = None;
        for storage in &self.storages {
            match storage.open(name, Mode::Read, Access::Sequential) {
                Ok(file) => return Ok(file),
                Err(error) => missing = Some(error),
            }
        }
        let error = missing.expect("there is a directory at least");
        Err(Error::unopened("open a file", error).with("file", name))
    }

    /// The database id: that of `current`, or else the one that most headers of value files have.
    pub(crate) fn find_id(&self) -> Result<u64> {
        if let Some(current) = &self.current {
            return Ok(current.database_id);
        }
        let mut ids: BTreeMap<u64, usize> = BTreeMap::new();
        let mut count = |header: FileHeader| *ids.entry(header.database_id).or_default() += 1;
        for kind in FileKind::VALUES {
            for name in self.names(kind)? {
                let header = self.open(&name).ok().and_then(|file| proven_header(&*file));
                header
                    .filter(|header| header.number == name.number())
                    .into_iter()
                    .for_each(&mut count);
            }
        }
        let window = self.read_window().unwrap_or_default();
        headers_in_window(&window).for_each(count);
        let most = ids.into_iter().max_by_key(|(_, files)| *files);
        most.map(|(id, _)| id).ok_or_else(|| {
            let message = "no file says which database it belongs to, and without that nothing in \
                           it can be proved; is it the right directory?";
            Error::new(ErrorKind::NotADatabase, message)
        })
    }

    /// What `current` says, or, without it, what it may have said: each manifest that is there,
    /// youngest first.
    pub(crate) fn manifests(&self, database_id: u64) -> Result<Vec<Current>> {
        if let Some(current) = &self.current {
            return Ok(vec![current.clone()]);
        }
        let of = |name: Name| Current {
            manifest: name.number(),
            database_id,
            preset: Preset::WiscKey,
            volumes: Vec::new(),
        };
        Ok(self.names(FileKind::Manifest)?.into_iter().rev().map(of).collect())
    }

    /// The tables of the database, none of them open, and none ever cached.
    pub(crate) fn tables(&self, database_id: u64) -> Arc<TableStore> {
        let (cache, obsolete_files) =
            (Arc::new(BlockCache::new(0)), Arc::new(ObsoleteFiles::default()));
        Arc::new(TableStore::new(self.own().clone(), database_id, cache, obsolete_files))
    }

    /// All bytes of the window, without its header.
    pub(crate) fn read_window(&self) -> Result<Vec<u8>> {
        let name = Name::fixed(FileKind::Window);
        let file = self.open(&name)?;
        let failed = |e| Error::io("read the window", e).with("file", name);
        let header = WINDOW_HEADER_LEN as u64;
        let mut bytes = vec![0; file.len().map_err(failed)?.saturating_sub(header) as usize];
        read_exact_at(&*file, &mut bytes, header).map_err(failed)?;
        Ok(bytes)
    }
}

/// What the window may hold of a log file of `len` bytes that begins at log position `base`.
pub(crate) fn window_behind(
    window: &[u8],
    base: u64,
    len: u64,
    head: Option<ReplayHead>,
) -> WindowBytes<'_> {
    let begin = head.map_or(0, |head| head.position).max(base.saturating_add(len));
    WindowBytes { bytes: window, base, reach: begin.saturating_add(window.len() as u64) }
}
