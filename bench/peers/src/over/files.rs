//! The directory of the group files: numbers, creation, and what is given back.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use cleavedb_base::record::FileIdentity;
use cleavedb_base::{Error, FileNumber, Result};
use cleavedb_storage::segment::Segment;
use cleavedb_storage::{
    Access, Disk, File, FileKind, Mode, Name, ObsoleteFiles, RemoveMode, Storage,
};
use cleavedb_values::SegmentFactory;

/// Seeds the checksums of all records.
pub const DATABASE_ID: u64 = 13;

/// Makes, opens and removes group files.
pub struct Files {
    disk: Disk,
    next: AtomicU64,
    obsolete_files: Arc<ObsoleteFiles>,
}

impl Files {
    /// The files below `directory`, which is made if it is missing. Numbers begin behind the
    /// greatest one that is there.
    pub fn open(directory: &Path) -> Result<Self> {
        let disk = Disk::open(directory, true).map_err(|e| Error::io("open the values", e))?;
        let files = disk.list().map_err(|e| Error::io("list the values", e))?;
        let last = files.iter().map(|(name, _)| name.number().0).max().unwrap_or_default();
        Ok(Self { disk, next: AtomicU64::new(last + 1), obsolete_files: Arc::default() })
    }

    /// Whether there is a group file.
    pub fn are_there(&self) -> Result<bool> {
        let files = self.disk.list().map_err(|e| Error::io("list the values", e))?;
        Ok(!files.is_empty())
    }

    /// The queue of files and ranges that no reader uses any more.
    pub fn obsolete_files(&self) -> &Arc<ObsoleteFiles> {
        &self.obsolete_files
    }

    /// Opens a group file for reading.
    pub fn segment(&self, number: FileNumber) -> Result<Arc<Segment>> {
        let name = Name::numbered(FileKind::Group, number);
        let file = self.disk.open(&name, Mode::Read, Access::Random);
        let file = file.map_err(|e| Error::io("open a group file", e).with("file", name))?;
        let identity = FileIdentity::new(DATABASE_ID, number);
        Ok(Arc::new(Segment::new(name, identity, file, None, self.obsolete_files.clone())))
    }

    /// Frees the queued ranges and files, which no reader uses any more.
    pub fn reclaim(&self) {
        for hole in self.obsolete_files.take_holes() {
            // If it fails the space comes back with the file.
            if let Ok(file) = self.disk.open(&hole.name, Mode::ReadWrite, Access::Random) {
                let _ = file.punch(hole.offset, hole.len);
            }
        }
        while let Some(name) = self.obsolete_files.take_name() {
            let _ = self.disk.remove(&name, RemoveMode::Immediate);
        }
    }
}

impl SegmentFactory for Files {
    fn create(&self) -> Result<(Name, Arc<dyn File>)> {
        let number = FileNumber(self.next.fetch_add(1, Ordering::Relaxed));
        let name = Name::numbered(FileKind::Group, number);
        let file = self.disk.open(&name, Mode::CreateNew, Access::Direct);
        Ok((name, file.map_err(|e| Error::io("create a group file", e).with("file", name))?))
    }
}
