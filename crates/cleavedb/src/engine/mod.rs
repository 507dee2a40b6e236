//! The engine: the three parts (commit path, index, values) and their shared state.
//!
//! Locks, in the order in which they may be taken: catalog, append, spare log, jobs, manifest,
//! snapshots. Readers take none: they load the current [`crate::store::state::ReadState`]. The
//! exception is a read that uses up the seeks that a table may cost: it takes the lock of the jobs,
//! and no other, to wake a thread that compacts ([`cleavedb_index::compaction::Level0`]).

pub(crate) mod blobs;
pub(crate) mod job_state;
pub(crate) mod read_points;
pub(crate) mod range_tombstones;
pub(crate) mod range_deletes;
pub(crate) mod encoded_changes;
pub(crate) mod value_files;
pub(crate) mod space;
pub(crate) mod panic_guard;
pub(crate) mod expiry;
mod changes;
pub(crate) mod hot;
mod decisions;

use std::sync::Arc;
use std::time::{Duration, Instant};

use cleavedb_base::planted::{Bug, planted};
use cleavedb_base::record::FileIdentity;
use cleavedb_base::sync::Mutex;
use cleavedb_base::{Error, ErrorKind, FileNumber, Result};
use cleavedb_index::TableStore;
use cleavedb_storage::log::PreallocatedLog;
use cleavedb_storage::segment::Segment;
use cleavedb_storage::{
    Access, DirLock, File, FileClass, FileKind, LeftWindow, Lock, Mode, MultiDirStorage, Name,
    ObsoleteFiles, RemoveMode, Storage,
};
use cleavedb_values::RecordCache;
use cleavedb_values::groups::GroupFilters;

use crate::control::events::{Event, Events};
use crate::control::failures::{JobKind, TRIES};
use crate::control::flush_parts::FlushParts;
use crate::control::gate::{self, Gate};
use crate::control::latency::{Latencies, Operation, Timer};
use crate::control::metrics::{Counters, StallCause};
use crate::control::pace::{Pace, Pacer};
use crate::control::poison::Poison;
use crate::control::throttle::Throttle;
use crate::control::totals::Totals;
use crate::engine::hot::Apart;
use crate::engine::job_state::Jobs;
use crate::engine::range_tombstones::RangeNumbers;
use crate::engine::space::SpaceContext;
use crate::engine::space::rest::StoreAtRest;
use crate::operations::catalog::Catalog;
use crate::operations::commit::Commit;
use crate::settings::filter::JobFilter;
use crate::settings::merge::Merges;
use crate::settings::options::{MemTableLimits, Options};
use crate::settings::time::Time;
use crate::store::dead::DeadReads;
use crate::store::full_disk::FullDisk;
use crate::store::limit::Limit;
use crate::store::manifest::{Edit, Manifest, ManifestMark};
use crate::store::retained_log::RetainedLog;
use crate::store::snapshot::SnapshotList;
use crate::store::spare_pages::SparePages;
use crate::store::state::ReadStates;

/// The process that writes the database, as a view beside it has found it.
pub(crate) struct Primary {
    /// How far its manifest was read.
    pub(crate) mark: ManifestMark,
    /// The log window of its session.
    pub(crate) window: Option<LeftWindow>,
}

/// Everything behind a [`crate::Db`].
pub(crate) struct Engine {
    pub(crate) options: Options,
    /// The limits of the options, which each write asks for.
    pub(crate) memtable_limits: MemTableLimits,
    pub(crate) storage: Arc<MultiDirStorage>,
    pub(crate) database_id: u64,
    pub(crate) time: Time,
    pub(crate) merges: Merges,
    /// The keyspaces of the database.
    pub(crate) catalog: Catalog,
    pub(crate) commit: Commit,
    pub(crate) state: ReadStates,
    pub(crate) manifest: Mutex<Manifest>,
    /// Another process that writes the database, if this is a view beside it.
    pub(crate) primary: Option<Primary>,
    pub(crate) snapshots: Arc<SnapshotList>,
    /// The log files that changes are read from.
    pub(crate) retained_log: RetainedLog,
    pub(crate) tables: Arc<TableStore>,
    /// Values that users have read; jobs and checks read the files themselves.
    pub(crate) records: Option<RecordCache>,
    pub(crate) obsolete_files: Arc<ObsoleteFiles>,
    /// Held while a hole is punched, and while a file that may have holes is removed: without its
    /// name here the file of a copy would seem to be ours alone. A leaf lock.
    pub(crate) punching: Mutex<()>,
    /// Held by the thread that punches.
    pub(crate) punches: Mutex<()>,
    pub(crate) apart: Apart,
    pub(crate) jobs: Jobs,
    pub(crate) throttle: Throttle,
    pub(crate) limit: Option<Limit>,
    pub(crate) full: FullDisk,
    pub(crate) preallocated_log: Mutex<Option<PreallocatedLog>>,
    pub(crate) flush_parts: FlushParts,
    pub(crate) spare_pages: SparePages,
    /// Which keys groups may hold. A leaf lock.
    pub(crate) group_filters: Mutex<GroupFilters>,
    pub(crate) poison: Arc<Poison>,
    pub(crate) range_numbers: RangeNumbers,
    pub(crate) gate: Gate,
    pub(crate) counters: Counters,
    /// Limits what jobs write.
    pub(crate) pacer: Arc<Pacer>,
    /// The listeners to events, and what they are told.
    pub(crate) events: Events,
    /// How long operations take, if that is measured.
    pub(crate) latencies: Option<Box<Latencies>>,
    /// What it did before this open.
    pub(crate) totals_before: Totals,
    /// A random number that differs at each open.
    pub(crate) salt: u64,
    pub(crate) dead_reads: DeadReads,
    pub(crate) rest: StoreAtRest,
    /// The locks of the directories. Released last, since no other process may use the directories
    /// before.
    pub(crate) locks: Mutex<Vec<Lock>>,
}

impl Engine {
    /// The parts that know about space.
    pub(crate) fn space(&self) -> SpaceContext<'_> {
        SpaceContext {
            options: &self.options,
            storage: &self.storage,
            log: &self.commit.log,
            state: &self.state,
            manifest: &self.manifest,
            jobs: &self.jobs,
            throttle: &self.throttle,
            limit: self.limit.as_ref(),
            full: &self.full,
            counters: &self.counters,
            dead_reads: &self.dead_reads,
            rest: &self.rest,
        }
    }

    /// The filter of values, as a job asks it.
    pub(crate) fn job_filter(&self) -> Option<JobFilter> {
        let filter = self.options.filter.clone()?;
        Some(JobFilter::new(filter, self.catalog.names()))
    }

    /// Measures `operation` until the timer is dropped, if latencies are measured.
    #[inline]
    pub(crate) fn timer(&self, operation: Operation) -> Timer<'_> {
        Timer::of(&self.latencies, operation)
    }

    /// Runs `wait`, by which a writer waits for background work, and tells of it.
    pub(crate) fn waiting<T>(&self, cause: StallCause, wait: impl FnOnce() -> T) -> T {
        self.events.tell(Event::StallBegan { cause });
        let start = Instant::now();
        let waited = wait();
        let took = start.elapsed();
        self.stalled(cause, took);
        self.events.tell(Event::StallEnded { cause, took });
        waited
    }

    /// Tells that writes are refused, if a failure was the reason.
    pub(crate) fn tell_refusal(&self) {
        self.events.tell_refusal(self.poison.cause());
    }

    /// Counts a wait of a writer.
    pub(crate) fn stalled(&self, cause: StallCause, took: Duration) {
        self.counters.stalled(cause, took);
        Latencies::stalled(&self.latencies, took);
    }

    /// What it did since the open, with the bytes that were written to the manifest.
    pub(crate) fn since_open(&self, manifest_written: u64) -> Totals {
        let blocks = self.tables.cache().stats();
        let records = self.records.as_ref().map(RecordCache::stats).unwrap_or_default();
        Totals {
            log_written: self.commit.log.written(),
            manifest_written,
            cache_hits: blocks.hits,
            cache_misses: blocks.misses,
            record_cache_hits: records.hits,
            record_cache_misses: records.misses,
            ..self.counters.totals()
        }
    }

    /// What it did since it was created, for an edit of `manifest`.
    pub(crate) fn totals(&self, manifest: &Manifest) -> Totals {
        self.totals_before.then(self.since_open(manifest.written()))
    }

    /// Creates an empty file with an unused number. Its directory entry is not durable yet.
    pub(crate) fn create_file(
        &self,
        class: FileClass,
        access: Access,
    ) -> Result<(FileNumber, Arc<dyn File>)> {
        let number = self.allocate_number()?;
        let created = self.storage.create(class, number, access);
        let name = Name::numbered(class.kind(), number);
        let failed = |e| Error::io("create a file", e).with("file", name).with_remedy();
        Ok((number, created.map_err(failed)?))
    }

    /// As [`Engine::create_file`], for a job that writes at this pace.
    pub(crate) fn create_paced(
        &self,
        class: FileClass,
        access: Access,
        pace: &Pace,
    ) -> Result<(FileNumber, Arc<dyn File>)> {
        let (number, file) = self.create_file(class, access)?;
        Ok((number, self.pacer.over(file, pace.clone())))
    }

    /// Allocates a file number.
    pub(crate) fn allocate_number(&self) -> Result<FileNumber> {
        let mut manifest = self.manifest.lock();
        let allocated = manifest.allocate();
        allocated.map_err(|e| self.failed_edit(&manifest, e))
    }

    /// Adds to `error` the volume on which its file lies.
    pub(crate) fn with_volume(&self, error: Error) -> Error {
        let name = error.fact("file").and_then(Name::parse);
        match name.and_then(|name| self.storage.volume_of(&name)) {
            Some(volume) => error.with("volume", &volume.path),
            None => error,
        }
    }

    /// Makes the directory entries of new files durable. An edit that names the files must come
    /// later.
    pub(crate) fn sync_dir(&self) -> Result<()> {
        if planted(Bug::NoDirectorySync) {
            return Ok(());
        }
        self.storage.sync_dir().map_err(|e| self.poison.set(Error::sync_failed("the directory", e)))
    }

    /// The error of a failed job of `kind`. If it could not read one of the files `read`, of kind
    /// `of`, for [`TRIES`] times in a row, the file counts as damaged and the error becomes one of
    /// corruption: the file would otherwise keep all such jobs from succeeding.
    pub(crate) fn blamed(
        &self,
        kind: JobKind,
        of: FileKind,
        read: &[FileNumber],
        error: Error,
    ) -> Error {
        let named = error.fact("file").and_then(Name::parse);
        let Some(name) = named.filter(|name| name.kind() == of && read.contains(&name.number()))
        else {
            return error;
        };
        let tries = self.jobs.failure(kind).map_or(0, |failure| failure.tries) + 1;
        if error.kind() != ErrorKind::Io || tries < TRIES {
            return error;
        }
        let message = format!(
            "a file could not be read in {tries} tries and counts as damaged until the next open \
             ({error})"
        );
        Error::corruption(message).with("file", name)
    }

    /// Removes files that a failed job left. A file that cannot be removed now is removed at the
    /// next open.
    pub(crate) fn discard(&self, kind: FileKind, numbers: &[FileNumber]) {
        for number in numbers {
            let _ = self.storage.remove(&Name::numbered(kind, *number), RemoveMode::Immediate);
        }
    }

    /// Makes `edit` durable. If a failure leaves it unknown whether it is, the database is
    /// poisoned. Only failures of the first edit since the open can leave that known.
    pub(crate) fn commit_edit(&self, manifest: &mut Manifest, edit: &Edit) -> Result<()> {
        self.poison.check()?;
        if self.full.is_short() {
            manifest.keep_short();
        }
        let committed = manifest.commit(edit);
        committed.map_err(|e| self.failed_edit(manifest, e))
    }

    fn failed_edit(&self, manifest: &Manifest, error: Error) -> Error {
        match manifest.is_in_doubt() {
            true => self.poison.set(error),
            false => error.with_remedy(),
        }
    }

    /// Opens the segment through which file `number` is read.
    pub(crate) fn open_segment(
        &self,
        kind: FileKind,
        number: FileNumber,
        young_base: Option<u64>,
    ) -> Result<Arc<Segment>> {
        let name = Name::numbered(kind, number);
        let file = self
            .storage
            .open(&name, Mode::Read, Access::Random)
            .map_err(|e| Error::unopened("open a value file", e).with("file", name))?;
        let identity = FileIdentity::new(self.database_id, number);
        let young = young_base.map(|base| (self.commit.log.buffer().clone(), base));
        let segment = Segment::new(name, identity, file, young, self.obsolete_files.clone());
        // Readers that began before the first write of a session have another one of its log file.
        Ok(Arc::new(segment.in_place_of(self.state.load().segments.get(number).cloned())))
    }

    /// Whether another process has changed the files of the database since this view was made.
    pub(crate) fn is_outdated(&self) -> bool {
        self.primary.as_ref().is_some_and(|primary| primary.mark.is_outdated())
    }

    /// The error of a read, as a reader gets it: what another process that writes the database has
    /// removed is not damage.
    #[cold]
    pub(crate) fn explained(&self, error: Error) -> Error {
        let kind = error.kind();
        let is_damage = matches!(kind, ErrorKind::Corruption | ErrorKind::Io);
        if !is_damage || !self.is_outdated() || planted(Bug::RemovedTakenForDamage) {
            return error;
        }
        let what = "the process that writes the database has removed what this view needs; catch \
                    up, and take a new snapshot, range or cursor";
        Error::new(ErrorKind::Outdated, what).with("found", error)
    }

    /// Writes into the lock files, at a close, how many snapshots still hold the locks.
    pub(crate) fn note_held(&self) {
        let held = self.snapshots.len();
        if held > 0 {
            let locks = self.locks.lock();
            locks
                .iter()
                .filter_map(|lock| lock.downcast_ref())
                .for_each(|l: &DirLock| l.note(held));
        }
    }

    /// Ends snapshots and ranges and releases the locks. The database must be closed already.
    pub(crate) fn end(&self) {
        self.gate.end();
        self.jobs.wait_for_callers(&self.poison);
        self.locks.lock().clear();
    }

    /// Fails if the database is closing or poisoned, or was opened for reading: then no more may be
    /// written.
    pub(crate) fn check_open(&self) -> Result<()> {
        if self.jobs.closing() {
            return Err(gate::closed());
        }
        self.gate.check_writable()?;
        self.poison.check()
    }
}
