//! Compaction: runs the index's compaction jobs and publishes their edits, with the bytes of
//! records whose last pointer they dropped.

mod blobs;

use std::sync::Arc;

use cleavedb_base::planted::{Bug, planted};
use cleavedb_base::record::FileIdentity;
use cleavedb_base::{Error, ErrorKind, FileNumber, Result};
use cleavedb_index::Version;
use cleavedb_index::compaction::futile;
use cleavedb_index::compaction::job::{CompactionJob, SubcompactionMode, TableFactory};
use cleavedb_index::compaction::leveled::{pick, pick_short};
use cleavedb_index::compaction::pieces::pick_piece;
use cleavedb_index::compaction::{Compaction, CompactionOptions, Constraints};
use cleavedb_storage::quota::Plan;
use cleavedb_storage::{Access, File, FileClass, FileKind, Name};
use cleavedb_values::{GroupTable, unexposed};

use self::blobs::compact_hidden;
use super::removed_owners::RemovedOwners;
use super::{About, Begin, Job, perform};
use crate::background::log_retention;
use crate::control::failures::JobKind;
use crate::control::pace::Pace;
use crate::engine::Engine;
use crate::engine::job_state::{JobState, SHORT};
use crate::engine::range_tombstones;
use crate::engine::read_points::ReadPoints;
use crate::engine::value_files;
use crate::settings::filter::JobFilter;
use crate::settings::options::{Background, Options};
use crate::store::full_disk::RoomTaken;
use crate::store::manifest::Edit;

/// Creates the files of a compaction's output tables.
struct NewTables<'a> {
    engine: &'a Engine,
    access: Access,
}

impl<'a> NewTables<'a> {
    /// If the input tables are in the page cache, the outputs go there too, so that their readers
    /// find them in memory. Otherwise the outputs bypass the page cache: there they would evict
    /// pages that other readers need, and pages of the young log, which would then be written to
    /// the device although nothing needs that (decision 0021).
    fn new(engine: &'a Engine, inputs_in_memory: bool) -> Self {
        let access = if inputs_in_memory { Access::Random } else { Access::Direct };
        Self { engine, access }
    }
}

impl TableFactory for NewTables<'_> {
    fn create(&self, level: u8) -> Result<(FileNumber, Arc<dyn File>, FileIdentity)> {
        let (number, file) =
            self.engine.create_paced(FileClass::of_level(level), self.access, &Pace::Background)?;
        Ok((number, file, self.engine.tables.identity(number)))
    }
}

/// Which compaction a caller requests.
pub(crate) struct Request<'e> {
    pub(crate) begin: Begin,
    pub(crate) options: &'e CompactionOptions,
    /// Chooses a compaction from an immutable version of the index.
    pub(crate) choose: &'e mut dyn FnMut(&Version, &Constraints) -> Option<Compaction>,
}

/// A compaction of some tables.
pub(crate) struct Compact<'e> {
    engine: &'e Engine,
    compaction: Compaction,
    /// Until it runs. It holds the tables that it reads and no whole version, so that what other
    /// jobs retire meanwhile goes at once.
    job: Option<CompactionJob>,
    groups: Arc<GroupTable>,
    subcompactions: SubcompactionMode,
    /// Asked about values in the index. While a collection runs it is not: the collection may
    /// repeat them.
    filter: Option<JobFilter>,
    written: u64,
    /// What marks its tables if it wins nothing, and whether it did.
    why: u8,
    won: bool,
    /// Bytes on the disk that the compaction may write, below a space limit and on a full disk.
    room: (Option<Plan>, RoomTaken),
}

impl<'e> Job<'e> for Compact<'e> {
    type Request = Request<'e>;
    type Output = (CompactionJob, RemovedOwners);
    /// The tables that were written.
    type Done = Vec<FileNumber>;

    fn plan(engine: &'e Engine, request: Request<'e>) -> Result<Option<Self>> {
        let Request { begin, options, choose } = request;
        let mut jobs = engine.jobs.lock();
        let manifest = engine.manifest.lock();
        let version = manifest.live().version.clone();
        let points = ReadPoints::of_compaction(engine);
        jobs.constraints.seen_by_all = points.seen_by_all();
        jobs.constraints.deleted = points.deleted.clone();
        jobs.constraints.eager_upto = range_tombstones::eager_upto(engine);
        jobs.constraints.earliest_time = points.earliest_time;
        jobs.constraints.filters = engine.options.filter.is_some();
        jobs.constraints.long_ago = engine.long_before(points.earliest_time);
        let Some(compaction) = choose(&version, &jobs.constraints) else { return Ok(None) };
        begin.check(engine)?;
        let why = futile::why(&version, options, &jobs.constraints, &compaction);
        let bytes = compaction.bytes_written_max();
        let Some(plan) = engine.space().plan(bytes) else { return Ok(None) };
        let room = (plan, engine.full.take_room(bytes));
        if !planted(Bug::InputsUnclaimed) {
            jobs.constraints.start(&compaction);
        }
        jobs.compactions += 1;
        engine.dead_reads.spend(bytes);
        let younger = |epoch| {
            let mut positions = compaction.inputs.iter().filter_map(|input| input.position);
            positions.any(|position| position.epoch > epoch)
        };
        // The run of a collection under way may enter level 0 below the inputs.
        let pending_write_back = jobs.constraints.pinned_above.is_some_and(younger);
        let tables = engine.options.table_options();
        let ReadPoints { snapshots, deleted, earliest_time, .. } = points;
        let job = CompactionJob::prepare(&version, compaction.clone(), snapshots, options, &tables);
        let job = job.without_deleted(deleted).at_earliest_time(earliest_time);
        let job = job.with_merge_rule(engine.merges.rule.clone());
        let job = if pending_write_back { job.with_pending_write_back() } else { job };
        let subcompactions = subcompactions(&engine.options, &jobs);
        let groups = manifest.live().groups.clone();
        let collects = jobs.constraints.pinned_above.is_some();
        let filter = engine.job_filter().filter(|_| !collects);
        Ok(Some(Self {
            engine,
            compaction,
            job: Some(job),
            groups,
            subcompactions,
            filter,
            written: 0,
            why,
            won: true,
            room,
        }))
    }

    fn run(&mut self) -> Result<Self::Output> {
        let mut job = self.job.take().expect("a job runs once");
        let (engine, compaction) = (self.engine, &self.compaction);
        // Whether tables that are not read are in memory is not asked.
        let in_memory = compaction.is_read() && compaction.is_in_memory();
        if in_memory {
            job = job.of_inputs_in_memory();
        }
        let mut removed_owners = RemovedOwners::new(self.groups.clone(), self.filter.take());
        let tables = NewTables::new(engine, in_memory);
        let gives_up = engine.jobs.gives_up(compaction.bytes_written_max());
        let ran = job.run(&tables, &mut removed_owners, self.subcompactions, gives_up);
        // The directory entries of the new tables must be durable before an edit names them.
        let none = job.created().is_empty();
        let ran = ran.and_then(|()| if none { Ok(()) } else { engine.sync_dir() });
        match ran {
            Ok(()) => Ok((job, removed_owners)),
            Err(error) => {
                let error = super::failed_write(&engine.poison, engine.with_volume(error));
                engine.discard(FileKind::Table, job.created());
                Err(error)
            }
        }
    }

    fn install(&mut self, output: Self::Output) -> Result<Vec<FileNumber>> {
        let (job, removed_owners) = output;
        let (engine, moves) = (self.engine, self.compaction.moves);
        let created = job.created().to_vec();
        let (index, stats) = job.finish();
        let mut manifest = engine.manifest.lock();
        let before = manifest.live().version.clone();
        let live = manifest.live();
        let mut edit = Edit { index, ..Edit::default() };
        let died = removed_owners.add_to(&mut edit, live);
        edit.unexposed = Some(unexposed::after_compaction(live.unexposed, died));
        engine.commit_edit(&mut manifest, &edit)?;
        let version = manifest.live().version.clone();
        engine.state.swap(|state| state.with_version(version.clone()));
        before.retire(&edit.index);
        drop(before);
        // Under the manifest's lock, without which no other compaction is picked.
        self.won = stats.won;
        if !self.won {
            futile::mark(&version, &created, self.why);
        }
        value_files::drop_dead_files(engine, &mut manifest)?;
        log_retention::enforce(engine, &mut manifest)?;
        drop(manifest);
        super::open_ahead(engine, &version, &edit.index);
        let counters = &engine.counters;
        if moves { &counters.compaction_moves } else { &counters.compactions }.add(1);
        if !moves {
            counters.compaction_read.add(stats.input_bytes);
            counters.compaction_written.add(stats.output_bytes);
            self.written = stats.output_bytes;
        }
        Ok(created)
    }

    fn blame(&self, error: Error) -> Error {
        let inputs: Vec<_> = self.compaction.tables().map(|table| table.number()).collect();
        self.engine.blamed(JobKind::Compact, FileKind::Table, &inputs, error)
    }

    fn end(self, result: &Result<()>) -> impl FnOnce(&mut JobState) {
        let damage = result.as_ref().err().filter(|e| e.kind() == ErrorKind::Corruption);
        let damaged = damage.map(|error| damaged_tables(&self.compaction, error));
        let (compaction, room) = (self.compaction, self.room);
        move |state| {
            state.constraints.end(&compaction);
            if !planted(Bug::DamagedBlockTriedAgain) {
                state.constraints.damaged.extend(damaged.into_iter().flatten());
            }
            state.compactions -= 1;
            // Dropping the compaction queues its input tables for removal. This happens under the
            // lock of the jobs, before a thread can find that no work is left.
            drop(compaction);
            // And only then its room: what the inputs take is still in use before.
            drop(room);
        }
    }

    fn bytes_written(&self) -> u64 {
        self.written
    }

    fn has_won(&self) -> bool {
        self.won
    }

    fn about(&self) -> About {
        let why = match (self.compaction.moves, self.compaction.level) {
            _ if self.compaction.drops => "all keys of tables were deleted by range",
            (true, _) => "tables move to the next level",
            (false, 0) => "runs of level 0 merge",
            (false, _) => "a level is full, or has much that is dead, or a caller asked for it",
        };
        About { kind: JobKind::Compact, why, bytes: self.compaction.bytes_written_max() }
    }
}

/// Does the compaction that is most overdue, or a piece of it if the disk has no room for all of
/// it. Returns whether there was one.
pub(crate) fn compact_due(engine: &Engine) -> Result<bool> {
    let is_full = engine.space().is_disk_full();
    let mut lacks_room = false;
    let options = engine.space().compaction_options();
    let compacted = compact(engine, Begin::Open, &options, |version, constraints| {
        let picked = pick(version, &options, constraints)?;
        let room = room_to_compact(engine);
        if picked.bytes_written_max() <= room {
            return Some(picked);
        }
        let piece = pick_piece(version, &options, constraints, room);
        lacks_room = piece.is_none();
        piece
    });
    if matches!(compacted, Ok(None)) && compact_hidden(engine, Begin::Open, u64::MAX)? {
        return Ok(true);
    }
    if matches!(compacted, Ok(None)) {
        // The end of a snapshot may have made one needless.
        range_tombstones::forget(engine);
    }
    if !lacks_room || is_full {
        return compacted.map(|tables| tables.is_some());
    }
    // The lack of room counts as a failed job, so that writers which wait for it get the error that
    // the disk is full.
    let lacks = Err(no_room());
    super::ended(engine, JobKind::Compact, &lacks, |_| {});
    super::tell_change(engine, JobKind::Compact, &lacks, None);
    lacks.map(|()| false)
}

/// At a close, does one compaction that is due and short, if there is one.
pub(crate) fn compact_shortly(engine: &Engine) -> Result<()> {
    let options = engine.space().compaction_options();
    let short = |version: &Version, constraints: &Constraints| {
        pick_short(version, &options, constraints, SHORT)
    };
    if compact(engine, Begin::AtClose, &options, short)?.is_none() {
        compact_hidden(engine, Begin::AtClose, SHORT)?;
    }
    Ok(())
}

/// Runs the compaction that `choose` picks, if it may begin. Returns the tables that it wrote.
pub(crate) fn compact(
    engine: &Engine,
    begin: Begin,
    options: &CompactionOptions,
    mut choose: impl FnMut(&Version, &Constraints) -> Option<Compaction>,
) -> Result<Option<Vec<FileNumber>>> {
    perform::<Compact<'_>>(engine, Request { begin, options, choose: &mut choose })
}

/// Bytes that a compaction may write. Below a space limit the budget plans them instead
/// ([`crate::engine::space::budget`]).
pub(crate) fn room_to_compact(engine: &Engine) -> u64 {
    if engine.limit.is_some() { u64::MAX } else { engine.space().room_on_disk() }
}

/// How a compaction that begins now runs the two halves of its keys: at once if a worker is idle,
/// since the second half takes the place of one. If all workers are busy, the compaction stays
/// whole; without threads, the halves run in turn.
fn subcompactions(options: &Options, jobs: &JobState) -> SubcompactionMode {
    let running = jobs.compactions + usize::from(jobs.constraints.pinned_above.is_some());
    match options.background {
        Background::Manual => SubcompactionMode::InTurn,
        // The workers are those of other databases, too.
        Background::Threads(_) if options.crew().is_some() => SubcompactionMode::Never,
        Background::Threads(workers) if running < workers => SubcompactionMode::AtOnce,
        Background::Threads(_) => SubcompactionMode::Never,
    }
}

/// The error of a caller whose compaction has no room on the disk, not even for a piece of it.
#[cold]
pub(crate) fn no_room() -> Error {
    let message = "the disk has no room to merge any of the tables, or merging would free nothing; \
                   delete something, or make room on the disk";
    Error::new(ErrorKind::NoSpace, message)
}

/// The inputs of `compaction` that count as damaged after `error`: the table that it names, or all
/// of them if it names none.
fn damaged_tables(compaction: &Compaction, error: &Error) -> Vec<FileNumber> {
    let named = error.fact("file").and_then(Name::parse).map(|name| name.number());
    let inputs: Vec<FileNumber> = compaction.tables().map(|table| table.number()).collect();
    match named.filter(|number| inputs.contains(number)) {
        Some(number) => vec![number],
        None => inputs,
    }
}
