//! Compaction: runs the index's jobs and publishes their edits, with what died in them.

use std::sync::Arc;

use cleavedb_base::planted::{Bug, planted};
use cleavedb_base::record::FileIdentity;
use cleavedb_base::{Error, ErrorKind, FileNumber, Result};
use cleavedb_index::Version;
use cleavedb_index::compaction::job::{CompactionJob, Halves, TableFactory};
use cleavedb_index::compaction::leveled::{pick, pick_full, pick_short};
use cleavedb_index::compaction::pieces::{pick_cut, pick_piece};
use cleavedb_index::compaction::{Compaction, CompactionOptions, Constraints};
use cleavedb_storage::{Access, File, FileClass, FileKind, Name};
use cleavedb_values::hidden;

use super::Begin;
use super::deaths::Deaths;
use crate::engine::Engine;
use crate::failures::JobKind;
use crate::jobs::{JobState, SHORT};
use crate::manifest::{Edit, LiveFiles};
use crate::options::Background;
use crate::space::within;

/// Into how many parts the room on a full disk is divided for a piece.
const PARTS_MAX: u64 = 16;

/// Makes the files of a compaction's tables.
struct NewTables<'a> {
    engine: &'a Engine,
    access: Access,
}

impl<'a> NewTables<'a> {
    /// Where the inputs are in memory the outputs will be, too: who reads them finds them there.
    /// Otherwise there is no memory for them: they would pass through the page cache, and drive out
    /// what others read, and the young log, which then reaches the device for nothing (decision
    /// 0022).
    fn new(engine: &'a Engine, inputs_in_memory: bool) -> Self {
        let access = if inputs_in_memory { Access::Random } else { Access::Direct };
        Self { engine, access }
    }
}

impl TableFactory for NewTables<'_> {
    fn create(&self, level: u8) -> Result<(FileNumber, Arc<dyn File>, FileIdentity)> {
        let (number, file) = self.engine.create_file(FileClass::of_level(level), self.access)?;
        Ok((number, file, self.engine.tables.identity(number)))
    }
}

impl Engine {
    pub(crate) fn compaction_options(&self) -> CompactionOptions {
        let common = CompactionOptions::default();
        let patience = self.options.log().merge_patience(self.state.load().waiting());
        let options = CompactionOptions {
            l0_merge_runs: common.l0_merge_runs * patience,
            level0: self.options.level0,
            l0_bytes: self.options.level0_bytes,
            l1_bytes: self.options.level1_bytes,
            table_bytes: self.table_bytes(),
            // A table goes down together with others that it meets.
            table_bytes_max: self.file_bytes_max() / 2,
            dead_bytes_read: self.dead_reads.bytes(),
            ..common
        };
        if !self.sinks() {
            return options;
        }
        // No level but the deepest may keep anything.
        CompactionOptions { l0_bytes: 1, l1_bytes: 1, level_ratio: 1, ..options }
    }

    pub(super) fn run_compaction(&self) -> Result<bool> {
        let is_full = self.is_full();
        let mut lacks_room = false;
        let options = self.compaction_options();
        let compacted = self.compact_picked(Begin::Open, &options, |version, constraints| {
            let picked = pick(version, &options, constraints)?;
            let room = self.room_to_compact();
            if picked.bytes_written_max() <= room {
                return Some(picked);
            }
            let piece = pick_piece(version, &options, constraints, room);
            lacks_room = piece.is_none();
            piece
        });
        if !lacks_room || is_full {
            return compacted.map(|tables| tables.is_some());
        }
        // As if it had been tried: who waits for it hears that the disk is full.
        let lacks = Err(no_room());
        self.end_job(JobKind::Compact, &lacks, |_| {});
        lacks.map(|()| false)
    }

    /// Runs a compaction that is due and short, if there is one, at a close.
    pub(super) fn compact_shortly(&self) -> Result<bool> {
        let options = self.compaction_options();
        self.compact_picked(Begin::AtClose, &options, |version, constraints| {
            pick_short(version, &options, constraints, SHORT)
        })
        .map(|tables| tables.is_some())
    }

    /// Whether a compaction would begin now.
    pub(super) fn compacts(&self, live: &LiveFiles, constraints: &Constraints) -> bool {
        pick(&live.version, &self.compaction_options(), constraints).is_some()
    }

    /// Merges everything into the deepest level that has data. Fails if that cannot be, since a
    /// table is damaged.
    pub(crate) fn compact_all(&self) -> Result<()> {
        self.settle().or_else(within)?;
        let mut lacks_room = false;
        let all = |version: &Version, constraints: &Constraints| {
            let picked = pick_full(version, constraints, None, None)?;
            lacks_room = picked.bytes_written_max() > self.room_to_compact();
            (!lacks_room).then_some(picked)
        };
        let compacted = match self.compact_picked(Begin::Open, &self.compaction_options(), all) {
            Ok(_) if lacks_room => self.compact_in_pieces(&|| true, no_room()),
            Err(e) if e.kind() == ErrorKind::NoSpace => self.compact_in_pieces(&|| true, e),
            compacted => compacted.map(|tables| tables.is_some()),
        };
        if !compacted? {
            let jobs = self.jobs.lock();
            if let (false, Some(error)) = (jobs.constraints.damaged.is_empty(), &jobs.damaged.last)
            {
                return Err(error.clone());
            }
        }
        // What is due now is more than was asked for: that it lacks room is no failure of this.
        self.settle().or_else(within)
    }

    /// Bytes that a compaction may write; below a space limit that is planned elsewhere.
    fn room_to_compact(&self) -> u64 {
        if self.limit.is_some() { u64::MAX } else { self.room_on_disk() }
    }

    /// Merges all, part by part and as long as it is `wanted`, on a disk that has no room for all
    /// at once; fails with `error` if none fits of what would free something.
    pub(crate) fn compact_in_pieces(
        &self,
        wanted: &dyn Fn() -> bool,
        error: Error,
    ) -> Result<bool> {
        let (mut compacted, mut part) = (Err(error), 1);
        loop {
            if !wanted() {
                return Ok(true);
            }
            let room = self.room_on_disk() / part;
            match self.compact_piece(part) {
                Ok(true) => {
                    (compacted, part) = (Ok(true), 1);
                    self.reap();
                }
                // What others do may make room.
                Ok(false) if self.waits_for_others() || self.room_on_disk() / part > room => {}
                Ok(false) if compacted.is_err() && !self.is_piece_due() => return Ok(false),
                Ok(false) => return compacted,
                // Others may take some of it, too.
                Err(e) if e.kind() == ErrorKind::NoSpace && part < PARTS_MAX => part *= 2,
                Err(e) if e.kind() == ErrorKind::NoSpace => return compacted.or(Err(e)),
                Err(e) => return Err(e),
            }
        }
    }

    /// Whether there is a piece that would free something, however long.
    fn is_piece_due(&self) -> bool {
        let jobs = self.jobs.lock();
        let version = self.state.load().version.clone();
        pick_piece(&version, &self.compaction_options(), &jobs.constraints, u64::MAX).is_some()
    }

    /// Does a piece for which one part in so many of the room on the disk suffices, or cuts a table
    /// so that there are some.
    fn compact_piece(&self, part: u64) -> Result<bool> {
        let most = || self.room_on_disk() / part;
        let short = self.short_table_bytes();
        let options = CompactionOptions { table_bytes: short, ..self.compaction_options() };
        let piece = |version: &Version, constraints: &Constraints| {
            pick_piece(version, &options, constraints, most())
        };
        let cut = |version: &Version, constraints: &Constraints| {
            pick_cut(version, &options, constraints, most())
        };
        if self.compact_picked(Begin::Open, &options, piece)?.is_some() {
            return Ok(true);
        }
        // A table of few long values may be as long as before.
        let cut = self.compact_picked(Begin::Open, &options, cut)?;
        Ok(cut.is_some_and(|created| created > 1))
    }

    /// How a compaction that begins now does the halves of its keys. The second one is done in
    /// the place of a worker that has nothing else to do, or begins soon enough what it finds.
    fn halves(&self, jobs: &JobState) -> Halves {
        let running = jobs.compactions + usize::from(jobs.constraints.hold_above.is_some());
        match self.options.background {
            Background::Manual => Halves::InTurn,
            Background::Threads(workers) if running < workers => Halves::AtOnce,
            Background::Threads(_) => Halves::Never,
        }
    }

    /// Compacts what is chosen, if that may begin; says how many tables it has written.
    fn compact_picked(
        &self,
        begin: Begin,
        options: &CompactionOptions,
        choose: impl FnOnce(&Version, &Constraints) -> Option<Compaction>,
    ) -> Result<Option<usize>> {
        let (mut job, compaction, groups, halves, _plan) = {
            let mut jobs = self.jobs.lock();
            let manifest = self.manifest.lock();
            let version = manifest.live().version.clone();
            let (snapshots, visible) = self.snapshots.fix(|| self.commit.visible());
            jobs.constraints.seen_by_all = snapshots.first().copied().unwrap_or(visible);
            let Some(compaction) = choose(&version, &jobs.constraints) else {
                return Ok(None);
            };
            self.check_begin(begin)?;
            let Some(plan) = self.plan(compaction.bytes_written_max()) else { return Ok(None) };
            let plan = (plan, self.full.take_room(compaction.bytes_written_max()));
            if !planted(Bug::InputsUnclaimed) {
                jobs.constraints.start(&compaction);
            }
            jobs.compactions += 1;
            self.dead_reads.spend(compaction.bytes_written_max());
            let job = CompactionJob::prepare(
                &version,
                compaction.clone(),
                snapshots,
                options,
                &self.table_options(),
            );
            let held = |epoch| {
                compaction
                    .inputs
                    .iter()
                    .any(|input| input.position.is_some_and(|position| position.epoch > epoch))
            };
            let job = match jobs.constraints.hold_above {
                Some(epoch) if held(epoch) => job.below_which_a_run_may_enter(),
                _ => job,
            };
            let halves = self.halves(&jobs);
            (job, compaction, manifest.live().groups.clone(), halves, plan)
        };
        let mut deaths = Deaths::new(self, groups);
        // What only moves is not looked at.
        let in_memory = !compaction.moves && compaction.is_in_memory();
        if in_memory {
            job = job.of_inputs_in_memory();
        }
        let tables = NewTables::new(self, in_memory);
        let gives_up = self.jobs.gives_up(compaction.bytes_written_max());
        let result = job.run(&tables, &mut deaths, halves, gives_up);
        let created = job.created().len();
        let result = match result.and_then(|()| self.sync_names(&job)) {
            Ok(()) => self.install_compaction(job, &deaths),
            Err(e) => Err(self.failed_compaction(&job, e)),
        };
        let damage = result.as_ref().err().filter(|e| e.kind() == ErrorKind::Corruption);
        let damaged = damage.map(|error| damaged_tables(&compaction, error));
        self.end_job(JobKind::Compact, &result, move |state| {
            state.constraints.end(&compaction);
            if !planted(Bug::DamagedBlockTriedAgain) {
                state.constraints.damaged.extend(damaged.into_iter().flatten());
            }
            state.compactions -= 1;
            // Its tables are queued for removal before anybody can find that there is no work left.
            drop(compaction);
        });
        result.map(|()| Some(created))
    }

    /// Makes the names of what `job` has written durable.
    fn sync_names(&self, job: &CompactionJob) -> Result<()> {
        if job.created().is_empty() { Ok(()) } else { self.sync_dir() }
    }

    /// Removes what a compaction that failed has written; what its error says of its inputs.
    fn failed_compaction(&self, job: &CompactionJob, error: Error) -> Error {
        let error = self.failed_write(self.with_volume(error));
        self.discard(FileKind::Table, job.created());
        let inputs: Vec<_> = job.compaction().tables().map(|table| table.number()).collect();
        self.blamed(JobKind::Compact, FileKind::Table, &inputs, error)
    }

    fn install_compaction(&self, job: CompactionJob, deaths: &Deaths<'_>) -> Result<()> {
        let moves = job.compaction().moves;
        let (index, stats) = job.finish();
        let mut manifest = self.manifest.lock();
        let before = manifest.live().version.clone();
        let live = manifest.live();
        let mut edit = Edit { index, ..Edit::default() };
        let died = deaths.add_to(&mut edit, live);
        edit.hidden = Some(hidden::after_compaction(live.hidden, died));
        self.commit_edit(&mut manifest, &edit)?;
        let version = manifest.live().version.clone();
        self.state.swap(|state| state.with_version(version.clone()));
        before.retire(&edit.index);
        drop(before);
        self.drop_dead_files(&mut manifest)?;
        drop(manifest);
        self.open_ahead(&version, &edit.index);
        let counter =
            if moves { &self.counters.compaction_moves } else { &self.counters.compactions };
        counter.add(1);
        self.counters.pointers_refreshed.add(deaths.refreshed());
        if !moves {
            self.counters.compaction_read.add(stats.input_bytes);
            self.counters.compaction_written.add(stats.output_bytes);
        }
        Ok(())
    }
}

/// What the caller of a compaction is told for which not even a piece has room.
#[cold]
fn no_room() -> Error {
    let message = "the disk has no room to merge any of the tables, or nothing to be won by it; \
                   delete something, or make room on the disk";
    Error::new(ErrorKind::NoSpace, message)
}

/// The inputs of `compaction` that `error` shows to be damaged: the one that it names, or all, if
/// it names none.
fn damaged_tables(compaction: &Compaction, error: &Error) -> Vec<FileNumber> {
    let named = error.fact("file").and_then(Name::parse).map(|name| name.number());
    let inputs: Vec<FileNumber> = compaction.tables().map(|table| table.number()).collect();
    match named.filter(|number| inputs.contains(number)) {
        Some(number) => vec![number],
        None => inputs,
    }
}
