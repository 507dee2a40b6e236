//! The database handle: open, maintenance and close. What it does with keys is in [`keyspace`].

mod builder;
mod operand_chains;
mod keyspace;
mod handle;
mod batches;
mod transactions;
mod keyspaces;
mod read_only;
mod secondary;
mod checkpoints;
mod changes;
mod statistics;
mod destruction;
mod migration;
mod for_tests;
#[cfg(test)]
mod range_tombstone_tests;
#[cfg(test)]
mod at_once_tests;
#[cfg(test)]
mod batch_tests;
#[cfg(test)]
mod flush_pace_tests;
#[cfg(test)]
mod range_work_tests;

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use cleavedb_base::sync::Mutex;
use cleavedb_base::sync::atomic::{AtomicBool, Ordering};
use cleavedb_base::{Error, Result};
use cleavedb_storage::process::Own;
use cleavedb_storage::{Disk, Storage};

pub use self::builder::Builder;
pub use self::keyspace::{BulkLoad, Keyspace};
pub use self::migration::MigrateReport;
use crate::api::transaction::Commits;
use crate::background::jobs::removal;
use crate::background::threads::Threads;
use crate::background::{give_back, maintenance, memtables, pressure, scheduler};
use crate::control::debug::debug;
use crate::control::events;
use crate::control::events::Event;
use crate::control::failures::JobKind;
use crate::control::gate::Intent;
use crate::control::progress::Progress;
use crate::copies;
use crate::copies::backup_record::check_no_backup;
use crate::copies::follow::Follower;
use crate::engine::Engine;
use crate::inspect::check::{self, CheckReport};
use crate::open::build::build;
use crate::open::directories::{self, OpenDirectory};
use crate::open::recovery::{StoredDatabase, check_openable, recover, stored_options};
use crate::open::replay::RecoveryReport;
use crate::open::session::unless_full;
use crate::open::{full_collection, session};
use crate::operations::catalog::KeyspaceRef;
use crate::operations::commit::Commit;
use crate::settings::options::Options;
use crate::store::dead::MANY;
use crate::store::full_disk::{FullDisk, disk_of};
use crate::store::limit::Limit;
use crate::writes::bulk_load;

/// A handle on an open database: cheap to clone, usable from many threads at once.
///
/// The database closes when its last handle is dropped, or by [`Db::close`], which reports whether
/// everything reached the disk. A snapshot is a handle too. Snapshots and ranges can be read even
/// after a close; until they are dropped the directory cannot be opened again, unless
/// [`Db::close_now`] ends them. A fork of the process cannot use the handles
/// ([`crate::ErrorKind::Forked`]), and drops them without harm.
///
/// ```
/// # let dir = tempfile::tempdir().unwrap();
/// # let path = dir.path().join("db");
/// use cleavedb::{Db, Options};
///
/// let db = Db::open(&path, Options::default())?;
/// db.put("key", "value")?;
/// assert_eq!(db.get("key")?.unwrap(), "value");
/// db.delete("key")?;
/// assert!(!db.contains_key("key")?);
/// db.close()?;
/// # Ok::<(), cleavedb::Error>(())
/// ```
///
/// Calls that name no keyspace are those of the *default keyspace*, which every database has; its
/// handle, [`Db::default_keyspace`], has all calls of a [`Keyspace`].
#[derive(Clone)]
pub struct Db {
    default: Keyspace,
}

debug!(Db, |db| { preset: db.options().chosen_preset() });

/// The engine and its threads; dropped with the last handle.
struct Inner {
    engine: Own<Arc<Engine>>,
    threads: Own<Mutex<Threads>>,
    /// Whether the session was begun and its threads run.
    begun: AtomicBool,
    report: RecoveryReport,
    /// The views of a reader beside the writer. Its engine is their base, which has no data.
    follower: Option<Own<Arc<Follower>>>,
}

impl Drop for Inner {
    fn drop(&mut self) {
        // A caller that needs the result of the close calls `Db::close`.
        let _ = self.shut_down();
    }
}

impl Inner {
    /// The engine with the data: that of the current view, if it follows a writer.
    #[inline]
    fn engine_now(&self) -> Own<Arc<Engine>> {
        match &self.follower {
            None => self.engine.clone(),
            Some(follower) => Own::new(follower.own_view()),
        }
    }

    /// The engine, ready for writes: the first call begins the session.
    #[inline]
    fn writable(&self) -> Result<&Engine> {
        if !self.begun.load(Ordering::Acquire) {
            self.begin()?;
        }
        Ok(&self.engine)
    }

    #[cold]
    fn begin(&self) -> Result<()> {
        self.engine.gate.check_own()?;
        let mut threads = self.threads.lock();
        self.engine.gate.check_open()?;
        session::begin_session(&self.engine)?;
        threads.start(&self.engine)?;
        self.begun.store(true, Ordering::Release);
        Ok(())
    }

    /// Ends the session and stops; the second call does nothing. In a fork all calls do nothing.
    fn shut_down(&self) -> Result<()> {
        self.engine.gate.check_own()?;
        events::check_may_wait()?;
        let Some(closed) = self.end() else { return Ok(()) };
        let error = closed.clone().err();
        self.engine.tell_refusal();
        self.engine.events.tell(Event::Closed { error });
        closed
    }

    /// Shuts down; `None` if there is nothing to end any more.
    fn end(&self) -> Option<Result<()>> {
        let engine = &self.engine;
        if let Some(follower) = &self.follower {
            follower.close(false);
        }
        // A concurrent close waits here.
        let mut threads = self.threads.lock();
        if self.begun.load(Ordering::Acquire) {
            session::remove_forgotten(engine);
        }
        if !engine.gate.close() {
            return None;
        }
        // Later writers find the log closed; the end of the log waits for earlier ones.
        let begun = {
            let mut append = engine.commit.append();
            append.close();
            append.appender.is_begun()
        };
        if !begun {
            engine.jobs.close();
            engine.note_held();
            return Some(Ok(()));
        }
        if engine.space().is_disk_full() {
            removal::purge(engine);
        }
        // If a thread could not be started, there may be no flush; the log has everything.
        let leaves = !self.begun.load(Ordering::Acquire) || session::leaves_to_replay(engine);
        let flushed = engine.poison.check().and_then(|()| match leaves {
            true => Ok(()),
            false => unless_full(maintenance::flush_all(engine)),
        });
        threads.stop(engine);
        engine.jobs.wait_for_callers(&engine.poison);
        bulk_load::end_at_close(engine);
        if flushed.is_ok() && !leaves {
            scheduler::tidy(engine);
        }
        removal::purge(engine);
        let closed = flushed.and_then(|()| session::end_session(engine));
        engine.note_held();
        Some(closed)
    }
}

impl Commits for Inner {
    fn open_engine(&self) -> Result<&Engine> {
        self.engine.gate.check_open()?;
        Ok(&self.engine)
    }

    fn writable(&self) -> Result<&Engine> {
        self.engine.gate.check_open()?;
        self.writable()
    }
}

impl Db {
    /// As [`Db::open`], with each directory's storage wrapped by `wrap`, which gets its path: in a
    /// device whose time is modelled, for example. The path of a volume is absolute.
    #[doc(hidden)]
    pub fn open_through(
        path: impl AsRef<Path>,
        options: Options,
        wrap: impl FnMut(&Path, Arc<dyn Storage>) -> Arc<dyn Storage>,
    ) -> Result<Self> {
        Self::open_wrapped(path.as_ref(), options, wrap, Intent::Write)
    }

    fn open_wrapped(
        path: &Path,
        options: Options,
        mut wrap: impl FnMut(&Path, Arc<dyn Storage>) -> Arc<dyn Storage>,
        intent: Intent,
    ) -> Result<Self> {
        // Before the directory is created.
        if !path.exists() {
            options.validate().map_err(|e| e.with("path", path.display()))?;
        }
        let storage = Disk::open(path, options.create_if_missing).map_err(|e| {
            directories::not_opened(e, options.create_if_missing).with("path", path.display())
        })?;
        let first = wrap(path, Arc::new(storage));
        let mut volume = |path: &Path, create| {
            let disk: Arc<dyn Storage> = Arc::new(Disk::open(path, create)?);
            Ok(wrap(path, disk))
        };
        let opened = Self::open_all(first, Some(path), &mut volume, options, intent, random_id());
        let db = opened.map_err(|e| e.with("path", path.display()))?;
        if intent == Intent::Write {
            copies::migration::remove_installed(db.engine(), path);
        }
        Ok(db)
    }

    /// Opens the database in `storage`, which has no volumes; a new one gets the id `new_id`. For
    /// tests and tools that bring their own storage.
    #[doc(hidden)]
    pub fn open_in(storage: Arc<dyn Storage>, options: Options, new_id: u64) -> Result<Self> {
        Self::open_beside(storage, |_, _| Err(std::io::ErrorKind::NotFound.into()), options, new_id)
    }

    /// As [`Db::open_in`], with volumes: `volume` opens the directory of one by its absolute path,
    /// and creates a missing one if the second argument is true.
    #[doc(hidden)]
    pub fn open_beside(
        storage: Arc<dyn Storage>,
        mut volume: impl FnMut(&Path, bool) -> std::io::Result<Arc<dyn Storage>>,
        options: Options,
        new_id: u64,
    ) -> Result<Self> {
        Self::open_all(storage, None, &mut volume, options, Intent::Write, new_id)
    }

    fn open_all(
        first: Arc<dyn Storage>,
        path: Option<&Path>,
        volume: &mut OpenDirectory<'_>,
        options: Options,
        intent: Intent,
        new_id: u64,
    ) -> Result<Self> {
        let (start, _span) = (Instant::now(), tracing::info_span!("open").entered());
        // Before the lock, whose file must not be left in a foreign directory.
        check_openable(&*first, &options)?;
        if intent == Intent::Write {
            check_no_backup(&*first)?;
        }
        let own = directories::lock(&*first)?;
        let found = StoredDatabase::read(&*first)?;
        let options = match &found {
            Some(found) => found.resolve(options)?,
            None => options.resolved(None).within_stored(None, 0),
        };
        options.validate()?;
        let options = options.within_memory();
        let options = match disk_of(&*first) {
            Ok(bytes) => options.within_disk(bytes),
            // The free space is unknown: the options stay, and a full disk shows at a write.
            Err(_) => options,
        };
        let options = if intent == Intent::Write { options.within_limit() } else { options };
        let limit = Limit::of(&options, intent)?;
        let within = |storage| match &limit {
            Some(limit) => limit.over(storage),
            None => Ok(storage),
        };
        let failed = |e| Error::io("find out what space files take", e);
        let (first, full) = FullDisk::over(within(first).map_err(failed)?);
        let mut volume = |path: &Path, create| within(volume(path, create)?);
        let mut directories = directories::find(&first, path, &options, &mut volume)?;
        directories.locks.push(own);
        let recovered = recover(&directories, &options, found, new_id)?;
        let (engine, report) = build(directories, options, recovered, limit, full, intent, None)?;
        pressure::update_pressure(&engine);
        let engine = Own::new(Arc::new(engine));
        let (threads, begun) = (Own::new(Mutex::default()), AtomicBool::new(false));
        let reference = KeyspaceRef(engine.catalog.default.clone());
        let RecoveryReport { operations: replayed, bytes_cut, .. } = report;
        let took = start.elapsed();
        engine.events.tell(Event::Opened { replayed, bytes_cut, took });
        let inner = Arc::new(Inner { engine, threads, begun, report, follower: None });
        Ok(Self { default: Keyspace { inner, reference } })
    }

    /// Options for the database in `path` as it was created: its layout, its space limit, and the
    /// tuning of its preset; `None` if there is no database. Nothing is written or locked.
    pub fn stored_options(path: impl AsRef<Path>) -> Result<Option<Options>> {
        match Disk::open(path.as_ref(), false) {
            Ok(storage) => stored_options(&storage),
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(e) => Err(directories::not_opened(e, false)),
        }
    }

    fn engine(&self) -> &Engine {
        &self.default.inner.engine
    }

    /// The engine with the data, to be kept.
    fn engine_now(&self) -> Own<Arc<Engine>> {
        self.default.inner.engine_now()
    }

    /// The engine with the data, held; fails if the database is closed.
    fn own_engine(&self) -> Result<Own<Arc<Engine>>> {
        self.default.open_engine()?;
        Ok(self.default.inner.engine.clone())
    }

    /// The options that it was opened with; [`Options::min_separated`] has the value in effect.
    pub fn options(&self) -> &Options {
        &self.engine().options
    }

    /// The findings of the open.
    pub fn recovery_report(&self) -> &RecoveryReport {
        &self.default.inner.report
    }

    /// Writes MemTables to tables, so that an open has nothing to replay.
    pub fn flush(&self) -> Result<()> {
        let engine = self.default.open_engine()?;
        engine.check_open()?;
        if engine.state.load().has_nothing_to_flush() {
            return Ok(());
        }
        maintenance::flush_all(self.default.inner.writable()?)
    }

    /// Merges all tables into the deepest level, which drops entries that no snapshot sees. Takes
    /// long. On a disk without enough room it is done in pieces, as long as they free something;
    /// fails with [`crate::ErrorKind::NoSpace`] if there is no room for any such piece.
    pub fn compact(&self) -> Result<()> {
        self.default.open_engine()?;
        maintenance::flush_all(self.default.inner.writable()?)?;
        maintenance::compact_all(self.engine())
    }

    /// Frees the space of everything that is dead, whatever the space goal: of values that were
    /// deleted, overwritten or have expired, blobs among them, of deleted ranges and dropped
    /// keyspaces, in tables and in value files. What a snapshot sees stays. It flushes, compacts
    /// the index as far as something in it is dead, and rewrites every value file and every hot
    /// segment with dead records (offline collection of WiscKey, section 3.3.2): it takes long.
    /// Online collection, up to the space goal, needs no call. A damaged table is left alone; its
    /// error is returned once all else is collected.
    pub fn collect(&self) -> Result<()> {
        self.default.open_engine()?;
        full_collection::collect_all(self.default.inner.writable()?)
    }

    /// Waits until no background work is due. Many deletes, including those in memory, count as due
    /// then, whatever their compaction costs. A small store is flushed, and gives back its window.
    pub fn wait_idle(&self) -> Result<()> {
        self.default.open_engine()?;
        let engine = self.default.inner.writable()?;
        let _patient = engine.dead_reads.wait_idle();
        engine.rest.end();
        engine.pacer.be_gentle(false);
        scheduler::wait_idle(engine)?;
        // Twice as many entries are dead, and level 0 may keep as many as a range can skip cheaply.
        if memtables::rotate_dead(engine, MANY / 8) {
            scheduler::wait_idle(engine)?;
        }
        if engine.space().window_is_long() {
            maintenance::flush_all(engine)?;
            scheduler::wait_idle(engine)?;
            give_back::give_back_at_rest(engine);
        }
        Ok(())
    }

    /// Runs one background job, if one is due: for [`crate::Background::Manual`].
    pub fn step(&self) -> Result<bool> {
        self.default.open_engine()?;
        scheduler::run_one(self.default.inner.writable()?, &JobKind::ALL)
    }

    /// Makes every write that was acknowledged before the call survive power loss.
    pub fn sync(&self) -> Result<()> {
        self.sync_by(Commit::sync)
    }

    fn sync_by(&self, sync: impl FnOnce(&Commit) -> Result<()>) -> Result<()> {
        let engine = self.default.open_engine()?;
        engine.check_open()?;
        match self.default.inner.begun.load(Ordering::Acquire) {
            true => sync(&engine.commit).inspect_err(|_| engine.tell_refusal()),
            // What an open finds is already durable.
            false => Ok(()),
        }
    }

    /// Reads and checks everything: checksums, order, that every pointer leads to its record, that
    /// the live bytes in the table of value files are right, that the directory holds the files of
    /// the manifest.
    ///
    /// A secondary checks the view that it has caught up with. If it finds a problem, and the
    /// primary has changed its files meanwhile, it begins anew; after five times it fails with
    /// [`crate::ErrorKind::Outdated`].
    pub fn verify(&self) -> Result<CheckReport> {
        self.verify_with(&Progress::default())
    }

    /// As [`Db::verify`]; through `progress` other threads see how far it has come, and stop it.
    pub fn verify_with(&self, progress: &Progress) -> Result<CheckReport> {
        match &self.default.inner.follower {
            Some(follower) => follower.check(progress),
            None => check::check(self.default.open_engine()?, progress),
        }
    }

    /// Flushes and closes. Acknowledged writes are safe whether or not this succeeds, as far as
    /// their durability promised. Every call of other handles fails with
    /// [`crate::ErrorKind::Closed`].
    ///
    /// Returns the number of snapshots, and of ranges without one, that are still held: they can be
    /// read, and until they are dropped they keep their files, and the database cannot be opened
    /// again.
    pub fn close(self) -> Result<usize> {
        self.default.inner.shut_down()?;
        Ok(self.engine().snapshots.len())
    }

    /// As [`Db::close`], and ends all snapshots and ranges: their calls fail with
    /// [`crate::ErrorKind::Closed`], and the database can be opened again at once, whether or not
    /// they are dropped and this succeeds.
    pub fn close_now(self) -> Result<()> {
        let closed = self.default.inner.shut_down();
        if self.engine().gate.is_own() {
            self.engine().end();
            if let Some(follower) = &self.default.inner.follower {
                follower.close(true);
            }
        }
        closed
    }
}

/// An id that is unique among databases: time, process and address space, mixed.
fn random_id() -> u64 {
    use std::hash::{BuildHasher, RandomState};
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    RandomState::new().hash_one((now.map_or(0, |d| d.as_nanos()), std::process::id()))
}
