//! The database: open, read, write, and look after.

use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use cleavedb_base::sync::Mutex;
use cleavedb_base::{Error, ErrorKind, Result, SeqNo};
use cleavedb_index::MemTable;
use cleavedb_storage::log::{Log, SpareLog};
use cleavedb_storage::pages::PagePool;
use cleavedb_storage::{Disk, FileClass, FileKind, Name, Storage};
use cleavedb_values::{LedgerEdit, SegmentSet};

use crate::background::Threads;
use crate::batch::{DEFAULT_KEYSPACE, Op, WriteBatch};
use crate::check::CheckReport;
use crate::commit::{Commit, Prepared};
use crate::directories::{self, Directories, OpenDirectory};
use crate::engine::{Engine, log_access};
use crate::jobs::{JobKind, Jobs};
use crate::limit::Limit;
use crate::manifest::Edit;
use crate::metrics::{Counters, DirectoryMetrics, Metrics};
use crate::options::{Durability, Options, Preset};
use crate::poison::Poison;
use crate::range::{Bounds, Range};
use crate::recovery::{Recovered, check_openable, recover, stored_preset};
use crate::replay::RecoveryReport;
use crate::snapshot::{HeldSnapshot, SnapshotList};
use crate::state::{MemSlot, Pictures, ReadState};
use crate::throttle::Throttle;

/// A handle on an open database: cheap to clone, usable from many threads at once.
///
/// The database closes when its last handle is dropped, or by [`Db::close`], which says whether
/// everything reached the disk. A snapshot is a handle too; a range can be read to its end even
/// after a close, and until it is dropped nobody else can open the directory.
///
/// ```
/// # let dir = tempfile::tempdir().unwrap();
/// # let path = dir.path().join("db");
/// use cleavedb::{Db, Options};
///
/// let db = Db::open(&path, Options::default())?;
/// db.put(b"key", b"value")?;
/// assert_eq!(db.get(b"key")?.as_deref(), Some(&b"value"[..]));
/// db.delete(b"key")?;
/// assert_eq!(db.get(b"key")?, None);
/// db.close()?;
/// # Ok::<(), cleavedb::Error>(())
/// ```
#[derive(Clone)]
pub struct Db {
    inner: Arc<Inner>,
}

/// The engine and its threads; dropped with the last handle.
struct Inner {
    engine: Arc<Engine>,
    threads: Mutex<Threads>,
    report: RecoveryReport,
}

impl Drop for Inner {
    fn drop(&mut self) {
        // Whoever wants to know whether the close went well calls `Db::close`.
        let _ = self.shut_down();
    }
}

impl Inner {
    /// Flushes, syncs and stops; the second call does nothing.
    fn shut_down(&self) -> Result<()> {
        if self.engine.jobs.closing() {
            return Ok(());
        }
        let flushed = self.engine.poison.check().and_then(|()| self.engine.flush_all());
        self.engine.jobs.close();
        self.threads.lock().join();
        self.engine.reap();
        flushed.and_then(|()| self.engine.give_back())
    }
}

impl Db {
    /// Opens the database in the directory `path`, creating it if the options allow. Fails with
    /// [`ErrorKind::Locked`] if somebody has it open, [`ErrorKind::NotADatabase`] if the directory
    /// holds something else, [`ErrorKind::MissingVolume`] if a volume of it cannot be found,
    /// [`ErrorKind::PresetMismatch`], [`ErrorKind::NewerFormat`] or [`ErrorKind::Corruption`] as
    /// they say; nothing is changed then.
    pub fn open(path: impl AsRef<Path>, options: Options) -> Result<Self> {
        Self::open_through(path, options, |_, disk| disk)
    }

    /// As [`Db::open`], through what `wrap` makes of each directory, whose path it gets: a
    /// [`crate::Modelled`] device, for example. The path of a volume is absolute.
    pub fn open_through(
        path: impl AsRef<Path>,
        options: Options,
        mut wrap: impl FnMut(&Path, Arc<dyn Storage>) -> Arc<dyn Storage>,
    ) -> Result<Self> {
        let path = path.as_ref();
        let storage = Disk::open(path, options.create_if_missing).map_err(|e| {
            if e.kind() == std::io::ErrorKind::NotFound {
                let message = "there is no such directory, and none may be created";
                Error::new(ErrorKind::NotADatabase, message).with("path", path.display())
            } else {
                Error::io("open the directory", e).with("path", path.display())
            }
        })?;
        let first = wrap(path, Arc::new(storage));
        let mut volume = |path: &Path, create| {
            let disk: Arc<dyn Storage> = Arc::new(Disk::open(path, create)?);
            Ok(wrap(path, disk))
        };
        Self::open_all((first, Some(path)), &mut volume, options, random_id())
            .map_err(|e| e.with("path", path.display()))
    }

    /// Opens the database in `storage`, which has no volumes; a new one gets the id `new_id`. For
    /// tests and tools that bring their own storage.
    pub fn open_in(storage: Arc<dyn Storage>, options: Options, new_id: u64) -> Result<Self> {
        Self::open_beside(storage, |_, _| Err(std::io::ErrorKind::NotFound.into()), options, new_id)
    }

    /// As [`Db::open_in`], with volumes: `volume` opens the directory of one by its absolute path,
    /// and makes it if it is missing and the second argument says so.
    pub fn open_beside(
        storage: Arc<dyn Storage>,
        mut volume: impl FnMut(&Path, bool) -> std::io::Result<Arc<dyn Storage>>,
        options: Options,
        new_id: u64,
    ) -> Result<Self> {
        Self::open_all((storage, None), &mut volume, options, new_id)
    }

    fn open_all(
        (first, path): (Arc<dyn Storage>, Option<&Path>),
        volume: &mut OpenDirectory<'_>,
        options: Options,
        new_id: u64,
    ) -> Result<Self> {
        options.validate()?;
        let options = options.within_memory();
        // Before the lock, whose file would be left in a directory that is not ours.
        check_openable(&*first, &options)?;
        let limit = Limit::of(&options)?;
        let own = directories::lock(&*first)?;
        let within = |storage| match &limit {
            Some(limit) => limit.over(storage),
            None => Ok(storage),
        };
        let failed = |e| Error::io("find out what space files take", e);
        let first = within(first).map_err(failed)?;
        let mut volume = |path: &Path, create| within(volume(path, create)?);
        let mut directories = directories::find(&first, path, &options, &mut volume)?;
        directories.locks.push(own);
        let recovered = recover(&directories, &options, new_id)?;
        let (engine, report) = build(directories, options, recovered, limit)?;
        let engine = Arc::new(engine);
        // The edit that drops them may have been next when the last process died.
        engine.drop_dead_files(&mut engine.manifest.lock())?;
        engine.reap();
        engine.update_pressure();
        let threads = Mutex::new(Threads::start(&engine)?);
        Ok(Self { inner: Arc::new(Inner { engine, threads, report }) })
    }

    /// The preset with which the database in `path` was created; `None` if there is no database.
    pub fn preset_of(path: impl AsRef<Path>) -> Result<Option<Preset>> {
        match Disk::open(path.as_ref(), false) {
            Ok(storage) => stored_preset(&storage),
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(e) => Err(Error::io("open the directory", e)),
        }
    }

    fn engine(&self) -> &Engine {
        &self.inner.engine
    }

    /// The options it was opened with; [`Options::separation`] says what they came to.
    pub fn options(&self) -> &Options {
        &self.engine().options
    }

    /// Stores with the data from which length on values leave the index, for opens whose options
    /// leave it to the data ([`Separation::Saved`]), as presets do; `None` leaves it to the preset
    /// again. This handle goes on as it was opened, and values stay where they are until they are
    /// written again. Fails with [`ErrorKind::InvalidOptions`] if the preset separates nothing.
    pub fn save_separation(&self, least: Option<usize>) -> Result<()> {
        let engine = self.engine();
        engine.check_open()?;
        if !engine.options.separates() {
            let message = "this preset keeps values in the index; there is no length to save";
            return Err(Error::new(ErrorKind::InvalidOptions, message));
        }
        let separation = Some(least.map_or(0, |least| least.saturating_add(1) as u64));
        engine.commit_edit(&mut engine.manifest.lock(), &Edit { separation, ..Edit::default() })
    }

    /// What the open found.
    pub fn recovery_report(&self) -> &RecoveryReport {
        &self.inner.report
    }

    /// The value of `key`, or `None`. The bytes are not copied again after they were read.
    pub fn get(&self, key: &[u8]) -> Result<Option<Bytes>> {
        self.engine().get(key, None)
    }

    /// The values of `keys`, in their order, as of one moment. What has to come from storage is
    /// fetched side by side: many keys at once cost little more time than one.
    pub fn multi_get<K: AsRef<[u8]>>(&self, keys: &[K]) -> Vec<Result<Option<Bytes>>> {
        self.snapshot().multi_get(keys)
    }

    /// Stores `value` under `key`, with the database's default durability.
    pub fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        self.put_with(key, value, self.options().durability)
    }

    /// Stores `value` under `key`.
    pub fn put_with(&self, key: &[u8], value: &[u8], durability: Durability) -> Result<()> {
        self.write_one(Op { key, value: Some(value) }, durability)
    }

    /// Removes `key`, if it is there, with the database's default durability.
    pub fn delete(&self, key: &[u8]) -> Result<()> {
        self.delete_with(key, self.options().durability)
    }

    /// Removes `key`, if it is there.
    pub fn delete_with(&self, key: &[u8], durability: Durability) -> Result<()> {
        self.write_one(Op { key, value: None }, durability)
    }

    #[inline]
    fn write_one(&self, op: Op<'_>, durability: Durability) -> Result<()> {
        op.check()?;
        let engine = self.engine();
        let prepared = Prepared::new(op, DEFAULT_KEYSPACE, engine.options.separated_from());
        engine.write(&[prepared], op_bytes(op), durability)
    }

    /// Applies a batch: all of it or nothing, also after a crash. With [`Durability::Sync`] it, and
    /// everything committed before it, survives power loss once this returns. Fails with
    /// [`ErrorKind::InvalidArgument`] if what memory would hold of it, all but long values
    /// ([`Options::long_value_bytes`]) and about 256 bytes for each operation, is more than an
    /// eighth of [`Options::memory_bytes`]; nothing is written then.
    pub fn write(&self, batch: &WriteBatch, durability: Durability) -> Result<()> {
        if batch.is_empty() {
            return Ok(());
        }
        let engine = self.engine();
        let separated_from = engine.options.separated_from();
        batch.check_memory(separated_from, engine.options.batch_max())?;
        let bytes = batch.ops().map(op_bytes).sum();
        let prepared: Vec<Prepared<'_>> =
            batch.ops().map(|op| Prepared::new(op, DEFAULT_KEYSPACE, separated_from)).collect();
        engine.write(&prepared, bytes, durability)
    }

    /// Keys and values from `from` (inclusive) to `to` (exclusive), in key order, from both ends,
    /// as of now. `None` is the end of the keys.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = cleavedb::Db::open(dir.path().join("db"), Default::default())?;
    /// for key in ["a", "b", "c"] {
    ///     db.put(key.as_bytes(), b"value")?;
    /// }
    /// let mut range = db.range(Some(b"a"), Some(b"c"));
    /// assert_eq!(range.next().unwrap()?.key, "a");
    /// assert_eq!(range.next_back().unwrap()?.key, "b");
    /// assert!(range.next().is_none());
    /// # Ok::<(), cleavedb::Error>(())
    /// ```
    pub fn range(&self, from: Option<&[u8]>, to: Option<&[u8]>) -> Range {
        self.open_range(Bounds::new(DEFAULT_KEYSPACE, from, to), None, false)
    }

    /// As [`Db::range`], without reading values.
    pub fn range_keys(&self, from: Option<&[u8]>, to: Option<&[u8]>) -> Range {
        self.open_range(Bounds::new(DEFAULT_KEYSPACE, from, to), None, true)
    }

    /// All keys that begin with `prefix`, and their values.
    pub fn prefix(&self, prefix: &[u8]) -> Range {
        self.open_range(Bounds::prefix(DEFAULT_KEYSPACE, prefix), None, false)
    }

    fn open_range(&self, bounds: Bounds, seq: Option<SeqNo>, keys_only: bool) -> Range {
        Range::new(self.inner.engine.clone(), bounds, seq, keys_only)
    }

    /// The database as it is now, to be read at leisure. While it is held, what it sees takes
    /// space.
    pub fn snapshot(&self) -> Snapshot {
        let engine = self.engine();
        let held = engine.snapshots.take(|| engine.commit.visible());
        Snapshot { held: Arc::new(held), db: self.clone() }
    }

    /// Writes what is in memory to tables, so that an open has nothing to replay.
    pub fn flush(&self) -> Result<()> {
        self.engine().check_open()?;
        self.engine().flush_all()
    }

    /// Merges all tables into the deepest level, which drops what no snapshot sees. Takes long.
    pub fn compact(&self) -> Result<()> {
        self.flush()?;
        self.engine().compact_all()
    }

    /// Collects every value file that can be collected, whatever the space goal (offline collection
    /// of WiscKey, section 3.3.2). Online collection needs no call.
    pub fn collect(&self) -> Result<()> {
        self.flush()?;
        self.engine().collect_all()
    }

    /// Waits until no background work is due.
    pub fn settle(&self) -> Result<()> {
        self.engine().settle()
    }

    /// Runs one background job, if one is due: for [`crate::Background::Manual`].
    pub fn step(&self) -> Result<bool> {
        self.engine().run_one(&JobKind::ALL)
    }

    /// Makes every write that was acknowledged before the call survive power loss.
    pub fn sync(&self) -> Result<()> {
        self.engine().check_open()?;
        self.engine().commit.sync()
    }

    /// Reads everything and checks it: checksums, order, that every pointer leads to its record,
    /// that the ledger is exact, that the directory holds what the manifest names.
    pub fn verify(&self) -> Result<CheckReport> {
        crate::check::check(self.engine())
    }

    /// What the database holds and did since it was opened.
    pub fn metrics(&self) -> Metrics {
        crate::stats::metrics(self.engine())
    }

    /// The directories that the database consists of, its own first, and what lies in each.
    pub fn directories(&self) -> Result<Vec<DirectoryMetrics>> {
        crate::stats::directories(self.engine())
    }

    /// Flushes and closes. Writes that were acknowledged are safe whether or not this succeeds, as
    /// far as their durability promised; other handles get [`ErrorKind::Closed`].
    pub fn close(self) -> Result<()> {
        self.inner.shut_down()
    }
}

/// The database as of one moment; holds what it sees until the last clone is dropped.
#[derive(Clone)]
pub struct Snapshot {
    held: Arc<HeldSnapshot>,
    db: Db,
}

impl Snapshot {
    /// The value that `key` had.
    pub fn get(&self, key: &[u8]) -> Result<Option<Bytes>> {
        self.db.engine().get(key, Some(self.held.seq))
    }

    /// The values that `keys` had, in their order.
    pub fn multi_get<K: AsRef<[u8]>>(&self, keys: &[K]) -> Vec<Result<Option<Bytes>>> {
        self.db.engine().multi_get(keys, self.held.seq)
    }

    /// As [`Db::range`], at the snapshot. The snapshot must outlive the range's use only in that
    /// the range holds a clone of it.
    pub fn range(&self, from: Option<&[u8]>, to: Option<&[u8]>) -> Range {
        self.open_range(Bounds::new(DEFAULT_KEYSPACE, from, to))
    }

    /// As [`Db::prefix`], at the snapshot.
    pub fn prefix(&self, prefix: &[u8]) -> Range {
        self.open_range(Bounds::prefix(DEFAULT_KEYSPACE, prefix))
    }

    fn open_range(&self, bounds: Bounds) -> Range {
        let range = self.db.open_range(bounds, Some(self.held.seq), false);
        range.holding(self.held.clone())
    }
}

fn op_bytes(op: Op<'_>) -> u64 {
    (op.key.len() + op.value.map_or(0, <[u8]>::len)) as u64
}

/// An id that no other database has: time, process and address space, mixed.
fn random_id() -> u64 {
    use std::hash::{BuildHasher, RandomState};
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    RandomState::new().hash_one((now.map_or(0, |d| d.as_nanos()), std::process::id()))
}

/// Puts the engine together from what recovery found.
fn build(
    directories: Directories,
    options: Options,
    recovered: Recovered,
    limit: Option<Limit>,
) -> Result<(Engine, RecoveryReport)> {
    let Directories { placed: storage, locks, .. } = directories;
    let Recovered { mut manifest, database_id, tables, reaper, .. } = recovered;
    let separation = options.separation.given(manifest.live().saved_separation());
    let options = Options { separation, ..options };
    let poison = Arc::new(Poison::default());
    // The first log file, named before it is written.
    let number = manifest.allocate()?;
    let name = Name::numbered(FileKind::Log, number);
    let access = log_access(&options, recovered.window.survives());
    let failed = |e| Error::io("create the log", e).with("file", name);
    let file = storage.create(FileClass::Log, number, access).map_err(failed)?;
    file.allocate(options.log_file_bytes).map_err(failed)?;
    storage.sync_dir().map_err(|e| Error::sync_failed("the directory", e))?;
    let ledger = vec![LedgerEdit::Add(number, FileKind::Log)];
    manifest.commit(&Edit { ledger, ..Edit::default() })?;
    let spare = SpareLog { number, file };
    let drain = options.drain_of(recovered.window.len());
    let (log, appender) = Log::start(
        recovered.window,
        database_id,
        spare,
        recovered.position,
        options.log_file_bytes,
        drain,
    );
    let memtable = Arc::new(MemSlot::new(options.memtable(), appender.next()));
    let mut memtables = vec![memtable.clone()];
    memtables.extend(recovered.memtable);
    let jobs = Jobs::default();
    jobs.set_seq_limit(manifest.live().seq_limit);
    jobs.log_files.lock().push((number, appender.file().clone()));
    let young = (number, appender.file().base);
    let commit = Commit::new(log, appender, memtable, recovered.next_seq, poison.clone());
    let live = manifest.live().clone();
    let state = ReadState {
        memtables,
        version: live.version.clone(),
        segments: Arc::new(SegmentSet::default()),
        groups: live.groups.clone(),
    };
    let engine = Engine {
        storage,
        database_id,
        commit,
        state: Pictures::new(state),
        manifest: Mutex::new(manifest),
        snapshots: Arc::new(SnapshotList::default()),
        tables,
        reaper,
        jobs,
        throttle: Throttle::default(),
        limit,
        spare_log: Mutex::new(None),
        memtable_pages: MemTable::pool(options.memtable()),
        flush_pages: PagePool::new(options.flush_piece()),
        poison,
        counters: Counters::default(),
        options,
        _locks: locks,
    };
    open_segments(&engine, &live, young)?;
    Ok((engine, recovered.report))
}

/// Opens every value file of the ledger for reading.
fn open_segments(
    engine: &Engine,
    live: &crate::manifest::LiveFiles,
    young: (cleavedb_base::FileNumber, u64),
) -> Result<()> {
    let mut segments = Vec::new();
    for (number, facts) in live.ledger.iter() {
        let base = (number == young.0).then_some(young.1);
        segments.push(engine.open_segment(facts.kind, number, base)?);
    }
    let segments = SegmentSet::default().with(&segments, &[]);
    let segments = engine.open_groups(live, &segments)?;
    engine.state.swap(|state| state.with_segments(segments.clone()));
    Ok(())
}
