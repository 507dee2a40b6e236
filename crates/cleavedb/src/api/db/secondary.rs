//! Opening a database beside the process that writes it, and catching up with that.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use cleavedb_base::sync::Mutex;
use cleavedb_base::sync::atomic::AtomicBool;
use cleavedb_base::sync::thread;
use cleavedb_base::{Error, ErrorKind, Result};
use cleavedb_storage::process::Own;
use cleavedb_storage::{Beside, Disk, Storage};

use super::{Db, Inner, Keyspace};
use crate::control::events::Event;
use crate::copies::follow::{CatchUp, Follower, PAUSES, may_pass};
use crate::open::directories::{self, OpenDirectory};
use crate::open::recovery::{StoredDatabase, check_openable};
use crate::operations::catalog::KeyspaceRef;
use crate::settings::options::Options;

fn beside(storage: Arc<dyn Storage>) -> Arc<dyn Storage> {
    Arc::new(Beside::new(storage))
}

impl Db {
    /// Opens the database in the directory `path` to read it while another process writes it: a
    /// *secondary* beside the *primary*.
    ///
    /// It sees what was acknowledged with [`Durability::Os`] or [`Durability::Sync`] before the
    /// call, and after each [`Db::catch_up`] what was acknowledged before that, whether it is in
    /// tables, in the log, or in the window of the log alone. That may be more than a loss of power
    /// leaves. Between two calls it stays as it is, but for two things that catch up by
    /// themselves: a read of now, also of several keys ([`Keyspace::multi_get`]), that finds the
    /// data gone that it needs; and a new snapshot, range or cursor, if the primary has changed its
    /// files since.
    ///
    /// The primary does not know of it and never waits for it. No lock is taken, nothing is
    /// written, no thread is started, and the right to read the files suffices. The primary may
    /// close, die and be opened again meanwhile; without one the last state is read.
    ///
    /// All reads, snapshots, ranges, cursors, [`Db::changes`], [`Keyspace::approximate_size`],
    /// [`Db::verify`], [`Db::checkpoint`], [`Db::backup`] and [`Db::metrics`], whose counters begin
    /// anew with each view, work. Other calls fail with [`ErrorKind::ReadOnly`]: those that write,
    /// and transactions.
    ///
    /// Snapshots, ranges and cursors see one moment, whatever is caught up. The primary does not
    /// keep for them what it removes: once it has flushed, compacted or collected what they have
    /// still to read, their calls may fail with [`ErrorKind::Outdated`], and never give another
    /// answer. A later view may not have what theirs has, so they do not go on by themselves: take
    /// a new one, which may begin behind the last key ([`crate::Cursor::seek`]) and sees a later
    /// moment.
    ///
    /// It takes up to [`Options::memory_bytes`], and the part of the log that the primary has not
    /// flushed, as far as that lies in the window. Otherwise fails as [`Db::open_read_only`] does.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let path = dir.path().join("db");
    /// use cleavedb::{Db, ErrorKind, Options};
    ///
    /// let primary = Db::open(&path, Options::default())?;
    /// primary.put("key", "value")?;
    ///
    /// // Usually in another process.
    /// let secondary = Db::open_secondary(&path)?;
    /// assert_eq!(secondary.get("key")?.unwrap(), "value");
    ///
    /// primary.put("key", "new")?;
    /// let before = secondary.snapshot();
    /// secondary.catch_up()?;
    /// assert_eq!(secondary.get("key")?.unwrap(), "new");
    /// assert_eq!(before.get("key")?.unwrap(), "value");
    /// assert_eq!(secondary.put("key", "x").unwrap_err().kind(), ErrorKind::ReadOnly);
    /// # Ok::<(), cleavedb::Error>(())
    /// ```
    ///
    /// [`Durability::Os`]: crate::Durability::Os
    /// [`Durability::Sync`]: crate::Durability::Sync
    pub fn open_secondary(path: impl AsRef<Path>) -> Result<Self> {
        Self::open_secondary_with(path, Options::default())
    }

    /// As [`Db::open_secondary`], with `options`: of memory, and where volumes are mounted.
    /// Nothing is created.
    pub fn open_secondary_with(path: impl AsRef<Path>, options: Options) -> Result<Self> {
        let path = path.as_ref();
        let named = |e: Error| e.with("path", path.display());
        let storage =
            Disk::open(path, false).map_err(|e| named(directories::not_opened(e, false)))?;
        let mut volume = |path: &Path, _| {
            let disk: Arc<dyn Storage> = Arc::new(Disk::open(path, false)?);
            Ok(beside(disk))
        };
        let first = beside(Arc::new(storage));
        Self::open_followed(first, Some(path), &mut volume, options).map_err(named)
    }

    /// As [`Db::open_secondary_with`], in `storage`; `volume` opens the directory of a volume by
    /// its absolute path. For tests and tools that bring their own storage.
    #[doc(hidden)]
    pub fn open_secondary_beside(
        storage: Arc<dyn Storage>,
        mut volume: impl FnMut(&Path) -> io::Result<Arc<dyn Storage>>,
        options: Options,
    ) -> Result<Self> {
        let mut volume = |path: &Path, _| volume(path).map(beside);
        Self::open_followed(beside(storage), None, &mut volume, options)
    }

    fn open_followed(
        first: Arc<dyn Storage>,
        path: Option<&Path>,
        volume: &mut OpenDirectory<'_>,
        options: Options,
    ) -> Result<Self> {
        let options = Options { create_if_missing: false, ..options };
        check_openable(&*first, &options)?;
        let start = Instant::now();
        let mut opened = Self::try_to_follow(&first, path, volume, &options);
        // What is missing may have been removed since the manifest was read.
        for pause in PAUSES {
            match &opened {
                Err(e) if may_pass(e.kind()) => thread::sleep(pause),
                _ => break,
            }
            opened = Self::try_to_follow(&first, path, volume, &options);
        }
        let follower = opened?;
        let (engine, report) = (follower.base()?, follower.report());
        let (replayed, took) = (report.operations, start.elapsed());
        engine.events.tell(Event::Opened { replayed, bytes_cut: 0, took });
        let reference = KeyspaceRef(engine.catalog.default.clone());
        let inner = Inner {
            engine: Own::new(Arc::new(engine)),
            threads: Own::new(Mutex::default()),
            begun: AtomicBool::new(false),
            report,
            follower: Some(Own::new(Arc::new(follower))),
        };
        Ok(Self { default: Keyspace { inner: Arc::new(inner), reference } })
    }

    fn try_to_follow(
        first: &Arc<dyn Storage>,
        path: Option<&Path>,
        volume: &mut OpenDirectory<'_>,
        options: &Options,
    ) -> Result<Follower> {
        let Some(found) = StoredDatabase::read(&**first)? else {
            let what = "the database was removed while it was opened";
            return Err(Error::new(ErrorKind::NotADatabase, what));
        };
        let options = found.resolve(options.clone())?;
        options.validate()?;
        let options = options.within_memory();
        let directories = directories::find(first, path, &options, volume)?;
        Follower::new(directories.placed, found.into_current(), options)
    }

    /// Has this secondary see every write that the primary has acknowledged with
    /// [`Durability::Os`] or [`Durability::Sync`] before the call, in all keyspaces, whatever has
    /// become of it since; and says what was read for it. Takes microseconds if there is nothing
    /// new, and else time in proportion to the log since the call before; after a flush of the
    /// primary all of the log behind that is read anew, for which up to 2.9 s were seen at default
    /// sizes beside a fast writer. One call at a time is at work; reads go on meanwhile.
    ///
    /// Handles of keyspaces stay; those of keyspaces that the primary has dropped fail with
    /// [`ErrorKind::NoKeyspace`].
    ///
    /// Fails with [`ErrorKind::Outdated`] if the primary has changed what was read in each of many
    /// looks, for a second or two; call again. Then, and after other failures, what is seen stays
    /// as it was. Fails with [`ErrorKind::InvalidArgument`] on a handle that is not a secondary.
    ///
    /// [`Durability::Os`]: crate::Durability::Os
    /// [`Durability::Sync`]: crate::Durability::Sync
    pub fn catch_up(&self) -> Result<CatchUp> {
        let Some(follower) = &self.default.inner.follower else {
            let what = "only a database that was opened with `Db::open_secondary` catches up";
            return Err(Error::new(ErrorKind::InvalidArgument, what));
        };
        self.engine().gate.check_following()?;
        follower.catch_up()
    }
}
