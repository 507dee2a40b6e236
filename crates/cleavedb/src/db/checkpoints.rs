//! Checkpoints of a database, as callers ask for them.

use std::path::Path;
use std::sync::Arc;

use cleavedb_base::{Error, Result};
use cleavedb_storage::{Disk, Storage};

use super::Db;
use crate::checkpoint::{self, CheckpointReport};

impl Db {
    /// Makes a consistent copy of the database in the directory `path`, which must be missing or
    /// empty, while reads and writes go on: a database of its own, which can be opened, written and
    /// removed without effect on this one. It has every write that was acknowledged before the
    /// call, of whatever durability, and of later ones a part in commit order.
    ///
    /// In the same file system most files are linked, so it takes little time and no space; what
    /// either database drops or rewrites later takes its space until the other does so too, since a
    /// file with two names is never changed in place. In another file system all is copied. Writers
    /// wait while the log window is written to the log, up to [`crate::Options::window_bytes`]. The
    /// copy is in one directory, without volumes, and survives a loss of power once this returns.
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
        let path = path.as_ref();
        self.open_engine()?;
        let opened = Disk::open(path, true).map_err(|e| Error::io("make the directory", e));
        let made = opened.and_then(|disk| self.checkpoint_in(Arc::new(disk)));
        made.map_err(|e| e.with("checkpoint", path.display()))
    }

    /// As [`Db::checkpoint`], in a storage: for tests and tools that bring their own.
    pub fn checkpoint_in(&self, to: Arc<dyn Storage>) -> Result<CheckpointReport> {
        let engine = self.open_engine()?;
        checkpoint::make(engine, &to)
    }
}
