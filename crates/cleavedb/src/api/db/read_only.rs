//! Opening a database for reading only: nothing on its disks changes.
//!
//! Recovery, which completes files after a crash, runs as in any open, over a layer on each
//! directory that keeps all changes in memory ([`ReadOnly`]). The gate refuses every write.

use std::io;
use std::path::Path;
use std::sync::Arc;

use cleavedb_base::Result;
use cleavedb_storage::{ReadOnly, Storage};

use super::Db;
use crate::control::gate::Intent;
use crate::settings::options::Options;

/// The file number salt of a copy that is only read: it creates no files.
const NO_SALT: u64 = 0;

fn layered(storage: Arc<dyn Storage>) -> Arc<dyn Storage> {
    Arc::new(ReadOnly::new(storage))
}

/// The options of a database that must be there.
fn existing(options: Options) -> Options {
    Options { create_if_missing: false, ..options }
}

impl Db {
    /// Opens the database in the directory `path` for reading only: closed, left by a process that
    /// died, or a copy. Nothing is written, so the file system may be mounted for reading only, and
    /// the user needs no right to write. No threads are started.
    ///
    /// Several handles, also of several processes, may have it open so at a time. [`Db::open`]
    /// fails with [`ErrorKind::Locked`](crate::ErrorKind::Locked) meanwhile, and so does this while
    /// a handle that may write has it open. If the file `lock` is missing, as it may be in a copy,
    /// nothing keeps a writer out.
    ///
    /// Every acknowledged write that an open would find is found, those in the log window of a
    /// process that died, too: recovery runs in memory, again at each such open, until a handle
    /// that may write opens the database. It takes as much memory as the part of the log that only
    /// the window held, and a manifest, besides [`Options::memory_bytes`].
    ///
    /// Reads, snapshots, ranges, cursors, [`Db::verify`], [`Db::metrics`] and [`Db::checkpoint`],
    /// which copies all files, work. Calls that write, [`Db::sync`], [`Db::step`] and
    /// [`Db::wait_idle`] fail with [`ErrorKind::ReadOnly`](crate::ErrorKind::ReadOnly). Otherwise
    /// fails as [`Db::open`] does.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let path = dir.path().join("db");
    /// use cleavedb::{Db, ErrorKind, Options};
    ///
    /// let db = Db::open(&path, Options::default())?;
    /// db.put("key", "value")?;
    /// db.close()?;
    ///
    /// let (one, other) = (Db::open_read_only(&path)?, Db::open_read_only(&path)?);
    /// assert_eq!(one.get("key")?, other.get("key")?);
    /// assert_eq!(one.put("key", "new").unwrap_err().kind(), ErrorKind::ReadOnly);
    /// let refused = Db::open(&path, Options::default()).err().unwrap();
    /// assert_eq!(refused.kind(), ErrorKind::Locked);
    /// # Ok::<(), cleavedb::Error>(())
    /// ```
    pub fn open_read_only(path: impl AsRef<Path>) -> Result<Self> {
        Self::open_read_only_with(path, Options::default())
    }

    /// As [`Db::open_read_only`], with `options`: of memory, and where volumes are mounted.
    /// Nothing is created.
    pub fn open_read_only_with(path: impl AsRef<Path>, options: Options) -> Result<Self> {
        let wrap = |_: &Path, disk| layered(disk);
        Self::open_wrapped(path.as_ref(), existing(options), wrap, Intent::Read)
    }

    /// As [`Db::open_read_only_with`], in `storage`; `volume` opens the directory of a volume by
    /// its absolute path. For tests and tools that bring their own storage.
    #[doc(hidden)]
    pub fn open_read_only_beside(
        storage: Arc<dyn Storage>,
        mut volume: impl FnMut(&Path) -> io::Result<Arc<dyn Storage>>,
        options: Options,
    ) -> Result<Self> {
        let mut volume = |path: &Path, _| volume(path).map(layered);
        let (first, options) = (layered(storage), existing(options));
        Self::open_all(first, None, &mut volume, options, Intent::Read, NO_SALT)
    }
}
