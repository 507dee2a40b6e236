//! The removal of a database, as callers ask for it.

use std::io;
use std::path::Path;
use std::sync::Arc;

use cleavedb_base::{Error, ErrorKind, Result};
use cleavedb_storage::{Disk, Storage};

use super::Db;
use crate::copies::destroy::{self, DestroyReport};

impl Db {
    /// Removes the database in the directory `path`: its files there and in its volumes, and
    /// nothing else. Directories, and files that are not CleaveDB's, stay; the report names the
    /// latter.
    ///
    /// Fails, and removes nothing, with [`ErrorKind::NotADatabase`] if there is none in the
    /// directory, [`ErrorKind::Locked`] if it is open, here or elsewhere, for reading or writing,
    /// [`ErrorKind::MissingVolume`] if one of its volumes is not where it was, and
    /// [`ErrorKind::Corruption`] if its file `current` is damaged, which names the volumes.
    ///
    /// After any other failure, or a crash, what is left cannot be opened; another call removes
    /// the rest. Once this returns `Ok`, the removal survives a loss of power. Files with a second
    /// name, in a checkpoint or a copy, stay there.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let path = dir.path().join("db");
    /// use cleavedb::{Db, ErrorKind};
    ///
    /// let db = Db::open(&path, Default::default())?;
    /// db.put("key", "value")?;
    /// assert_eq!(Db::destroy(&path).unwrap_err().kind(), ErrorKind::Locked);
    /// db.close()?;
    /// assert!(Db::destroy(&path)?.files > 0);
    /// assert_eq!(std::fs::read_dir(&path).unwrap().count(), 0);
    /// # Ok::<(), cleavedb::Error>(())
    /// ```
    pub fn destroy(path: impl AsRef<Path>) -> Result<DestroyReport> {
        let path = path.as_ref();
        let opened = Disk::open(path, false).map_err(|e| match e.kind() {
            io::ErrorKind::NotFound => {
                Error::new(ErrorKind::NotADatabase, "there is no such directory")
            }
            _ => Error::io("open the directory", e),
        });
        let mut volume = |path: &Path, _: bool| {
            let disk: Arc<dyn Storage> = Arc::new(Disk::open(path, false)?);
            Ok(disk)
        };
        let destroyed = opened.and_then(|disk| destroy::destroy(Arc::new(disk), path, &mut volume));
        destroyed.map_err(|e| e.with("path", path.display()))
    }

    /// As [`Db::destroy`], in `storage`; `volume` opens the directory of a volume by its absolute
    /// path. For tests and tools that bring their own storage.
    #[doc(hidden)]
    pub fn destroy_beside(
        storage: Arc<dyn Storage>,
        mut volume: impl FnMut(&Path) -> io::Result<Arc<dyn Storage>>,
    ) -> Result<DestroyReport> {
        destroy::destroy(storage, Path::new(""), &mut |path, _| volume(path))
    }
}
