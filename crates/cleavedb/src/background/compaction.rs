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

/// How many times as many runs of level 0 wait to be merged while MemTables wait to be flushed.
const PATIENCE: usize = 2;

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
        // Where MemTables wait to be flushed, the flush needs the processor more than reads need
        // few runs; runs of pointers are short, and many.
        let pressed = self.options.has_groups() && self.state.load().waiting() > 0;
        let patience = if pressed { PATIENCE } else { 1 };
        let options = CompactionOptions {
            l0_merge_runs: common.l0_merge_runs * patience,
            level0: self.options.level0,
            l0_bytes: self.options.level0_bytes,
            l1_bytes: self.options.level1_bytes,
            table_bytes: self.table_bytes(),
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
        let piece = self.is_full().then(|| self.room_on_disk());
        self.compact_picked(Begin::Open, |version, constraints| {
            let options = self.compaction_options();
            let picked = pick(version, &options, constraints)?;
            match piece {
                Some(most) if picked.bytes_written_max() > most => {
                    pick_piece(version, &options, constraints, most)
                }
                _ => Some(picked),
            }
        })
    }

    /// Runs a compaction that is due and short, if there is one, at a close.
    pub(super) fn compact_shortly(&self) -> Result<bool> {
        self.compact_picked(Begin::AtClose, |version, constraints| {
            pick_short(version, &self.compaction_options(), constraints, SHORT)
        })
    }

    /// Whether a compaction would begin now.
    pub(super) fn compacts(&self, live: &LiveFiles, constraints: &Constraints) -> bool {
        pick(&live.version, &self.compaction_options(), constraints).is_some()
    }

    /// Merges everything into the deepest level that has data. Fails if that cannot be, since a
    /// table is damaged.
    pub(crate) fn compact_all(&self) -> Result<()> {
        self.settle().or_else(within)?;
        let room = self.is_full().then(|| self.room_on_disk());
        let mut lacks_room = false;
        let all = |version: &Version, constraints: &Constraints| {
            let picked = pick_full(version, constraints, None, None)?;
            lacks_room = room.is_some_and(|room| picked.bytes_written_max() > room);
            (!lacks_room).then_some(picked)
        };
        let compacted = match self.compact_picked(Begin::Open, all) {
            Ok(_) if lacks_room => self.compact_in_pieces(no_room()),
            Err(e) if e.kind() == ErrorKind::NoSpace => self.compact_in_pieces(e),
            compacted => compacted,
        };
        if !compacted? {
            let jobs = self.jobs.lock();
            if let (false, Some(error)) = (jobs.constraints.damaged.is_empty(), &jobs.damaged.last)
            {
                return Err(error.clone());
            }
        }
        self.settle()
    }

    /// Merges all, part by part, on a disk that has no room for all at once; fails with `error` if
    /// none of it fits.
    pub(super) fn compact_in_pieces(&self, error: Error) -> Result<bool> {
        let (mut compacted, mut part) = (Err(error), 1);
        loop {
            match self.compact_piece(self.room_on_disk() / part) {
                Ok(true) => {
                    (compacted, part) = (Ok(true), 1);
                    self.reap();
                }
                // What others do may make room.
                Ok(false) if self.waits_for_others() => {}
                Ok(false) => return compacted,
                // Others may take some of it, too.
                Err(e) if e.kind() == ErrorKind::NoSpace && part < PARTS_MAX => part *= 2,
                Err(e) if e.kind() == ErrorKind::NoSpace => return compacted.or(Err(e)),
                Err(e) => return Err(e),
            }
        }
    }

    /// Does a piece of at most so many bytes, or cuts a table so that there are some.
    fn compact_piece(&self, most: u64) -> Result<bool> {
        let piece = |version: &Version, constraints: &Constraints| {
            pick_piece(version, &self.compaction_options(), constraints, most)
        };
        let cut = |version: &Version, constraints: &Constraints| {
            pick_cut(version, &self.compaction_options(), constraints, most)
        };
        let tables = || self.state.load().version.tables().count();
        let before = tables();
        // A table of few long values may be as long as before.
        Ok(self.compact_picked(Begin::Open, piece)?
            || self.compact_picked(Begin::Open, cut)? && tables() > before)
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

    fn compact_picked(
        &self,
        begin: Begin,
        choose: impl FnOnce(&Version, &Constraints) -> Option<Compaction>,
    ) -> Result<bool> {
        let (mut job, compaction, groups, halves, _plan) = {
            let mut jobs = self.jobs.lock();
            let manifest = self.manifest.lock();
            let version = manifest.live().version.clone();
            let (snapshots, visible) = self.snapshots.fix(|| self.commit.visible());
            jobs.constraints.seen_by_all = snapshots.first().copied().unwrap_or(visible);
            let Some(compaction) = choose(&version, &jobs.constraints) else {
                return Ok(false);
            };
            self.check_begin(begin)?;
            let Some(plan) = self.plan(compaction.bytes_written_max()) else { return Ok(false) };
            let plan = (plan, self.full.take_room(compaction.bytes_written_max()));
            if !planted(Bug::InputsUnclaimed) {
                jobs.constraints.start(&compaction);
            }
            jobs.compactions += 1;
            self.dead_reads.spend(compaction.bytes_written_max());
            let options = (self.compaction_options(), self.table_options());
            let job = CompactionJob::prepare(
                &version,
                compaction.clone(),
                snapshots,
                &options.0,
                &options.1,
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
        result.map(|()| true)
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
