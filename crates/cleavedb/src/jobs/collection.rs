//! Collection: value files and groups give back the space of what died in them.
//!
//! `plan` fixes, under the locks that publish and that create snapshots, what readers see, the read
//! point S, the live snapshots and the epoch e of the youngest flush, and from then on keeps runs
//! of later epochs in level 0. `run` reads and moves (see [`cleavedb_values::collect`]). What killed
//! the others must be durable (invariant 7): where the log is the store it is synced through S;
//! elsewhere S is durable already. `install` swaps everything by one edit: the run of new pointers
//! enters level 0 at e, above all that was read and below all later flushes, however long it took
//! to write; where pointers are soft the run is empty. Writers and flushes go on meanwhile: an
//! extent that a flush adds stays for the next collection.

use std::collections::BTreeSet;
use std::sync::Arc;

use cleavedb_base::planted::{Bug, planted};
use cleavedb_base::sync::Mutex;
use cleavedb_base::sync::atomic::Ordering;
use cleavedb_base::{Error, ErrorKind, FileNumber, Result, SeqNo, ValuePointer};
use cleavedb_index::{Entry, KeySample};
use cleavedb_storage::limited::Plan;
use cleavedb_storage::{FileClass, FileKind, Hole, Name};
use cleavedb_values::collect::found::Arena;
use cleavedb_values::collect::output::{CollectionOutput, RunEntry};
use cleavedb_values::collect::survivors::{NewSegment, SurvivorWriter};
use cleavedb_values::collect::{Collector, Liveness, SealedFile};
use cleavedb_values::groups::{ExtentWriter, Place};
use cleavedb_values::{FileFacts, GroupId, GroupTable, Ledger, LedgerEdit, SegmentSet, hidden};

use super::liveness::{AsOf, ByLookUp};
use super::new_files::{self, NewFiles};
use super::run_writer::{RunWriter, run_position};
use super::{About, Begin, Job, group_collection, regroup};
use crate::engine::Engine;
use crate::failures::JobKind;
use crate::full_disk::RoomTaken;
use crate::job_state::{Damaged, JobState, SHORT};
use crate::limit::{file_rewritten_max, rewritten_max};
use crate::manifest::{Edit, LiveFiles};
use crate::metrics::{Step, StopWatch};
use crate::space::{budget, reserve, sizes};
use crate::vain::older;
use crate::value_files;
use crate::victims::{self, Target};

/// A collection, with what was fixed when it began.
pub(crate) struct Collect<'e> {
    pub(super) engine: &'e Engine,
    pub(super) as_of: AsOf,
    target: Target,
    pub(super) groups: Arc<GroupTable>,
    /// Epoch of the youngest flush that the read state holds.
    epoch: u64,
    /// What cannot be collected.
    pub(super) damaged: Damaged,
    /// Whether no flush begins before this collection has ended.
    retries_split: bool,
    /// The first group that was found to be damaged.
    pub(super) failed: Mutex<Option<GroupId>>,
    /// Space for what it writes, where space is limited.
    plan: Option<Plan>,
    /// What the disk has room for, if it may be done in pieces.
    pub(super) room: Option<u64>,
    /// What it takes of that.
    _taken: RoomTaken,
    /// Files up to this number are to be collected.
    pub(super) forced: Option<FileNumber>,
}

/// What a collection has written.
pub(crate) struct Collected<'e> {
    output: CollectionOutput,
    /// What was written, open.
    opened: SegmentSet,
    writer: RunWriter<'e>,
    watch: StopWatch,
}

impl<'e> Job<'e> for Collect<'e> {
    type Request = Begin;
    type Output = Collected<'e>;
    type Done = ();

    fn plan(engine: &'e Engine, begin: Begin) -> Result<Option<Self>> {
        let mut jobs = engine.jobs.lock();
        if jobs.constraints.hold_above.is_some() || (jobs.split_waits.is_some() && jobs.flushing) {
            return Ok(None);
        }
        let manifest = engine.manifest.lock();
        let live = manifest.live();
        let Some(target) = victims::choose_target(engine, live, &jobs) else {
            (jobs.forced, jobs.collect_alone) = (None, false);
            return Ok(None);
        };
        begin.check(engine)?;
        if matches!(begin, Begin::AtClose) && target.bytes(&live.groups) > SHORT {
            return Ok(None);
        }
        let Some((target, plan)) = within_limit(engine, target, live) else {
            // A split that there is no room for is not waited for, nor is what was asked for.
            (jobs.split_waits, jobs.forced) = (None, None);
            return Ok(None);
        };
        let (mut snapshots, read_point) = engine.snapshots.fix(|| read_point(engine));
        if planted(Bug::CollectionWithoutSnapshots) {
            snapshots.clear();
        }
        jobs.constraints.hold_above = Some(hold_above(&target, live));
        if let Target::File(victim, _) = target {
            engine.jobs.set_victim(victim);
        }
        let (epoch, groups) = (live.epoch, live.groups.clone());
        // Under the manifest's lock no flush can publish: the tables that readers see are those up
        // to the epoch.
        let state = engine.state.load_full();
        // Groups that are to split do so as a whole, or not at all.
        let for_space = jobs.forced.is_some() || victims::is_over(engine, live, &jobs.damaged);
        let room = (for_space && engine.limit.is_none()).then(|| reserve::room_on_disk(engine));
        let bytes = target.rewritten_max(&groups);
        let _taken = engine.full.take_room(bytes.min(room.unwrap_or(u64::MAX)));
        Ok(Some(Self {
            engine,
            as_of: AsOf { state, snapshots, read_point },
            target,
            groups,
            epoch,
            damaged: jobs.damaged.clone(),
            retries_split: jobs.split_waits.is_some(),
            failed: Mutex::default(),
            plan,
            room,
            _taken,
            forced: jobs.forced,
        }))
    }

    fn run(&mut self) -> Result<Collected<'e>> {
        let engine = self.engine;
        let files = NewFiles::new(engine, FileClass::Survivors);
        let segments = NewFiles::new(engine, FileClass::Segments);
        let mut writer = RunWriter::new(engine);
        let mut arenas: [Arena; group_collection::PARTS] = std::array::from_fn(|_| Arena::new());
        let mut watch = StopWatch::start();
        let done = self.collect((&files, &segments), &mut arenas).and_then(|(output, run)| {
            let all = watch.lap();
            engine.counters.spent(Step::CollectLookup, output.liveness_time);
            engine.counters.spent(Step::CollectValues, all.saturating_sub(output.liveness_time));
            write_run(&run, &mut writer)?;
            let segments = value_files::open_segments(engine, &output.segments)?;
            let opened = SegmentSet::default().with(&segments, &[]);
            Ok((value_files::with_written(engine, &opened, &output.written)?, output))
        });
        let done = done.map_err(|e| new_files::given_up(engine, &[&files, &segments], &writer, e));
        let (opened, output) = done?;
        engine.sync_dir()?;
        // What killed the records that go must be durable before they do.
        if !planted(Bug::CollectionWithoutLogSync) {
            engine.options.log().sync_before_drop(|| engine.commit.sync())?;
        }
        Ok(Collected { output, opened, writer, watch })
    }

    fn install(&mut self, collected: Collected<'e>) -> Result<()> {
        let Collected { output, opened, writer, mut watch } = collected;
        let engine = self.engine;
        let gone: BTreeSet<Place> = output.gone().collect();
        let mut edit = Edit::default();
        value_files::add_segments(&output.segments, &mut edit);
        let still = regroup::hold_flushes(self, &output);
        let mut manifest = engine.manifest.lock();
        let live = manifest.live();
        let written = regroup::regroup(self, &live.groups, &output, still, &mut edit)?;
        let files = self.emptied_files(live, &gone);
        edit.ledger.extend(files.iter().map(|(file, _)| LedgerEdit::Remove(*file)));
        edit.index.add_run(run_position(live, self.epoch), writer.tables.iter().cloned());
        let counted = self.counted(live, &gone);
        let left: u64 = output.segments.iter().map(|new| new.live).sum();
        let survived = left + written.extents.iter().map(|extent| extent.live).sum::<u64>();
        let all = live.owned();
        edit.hidden = Some(hidden::after_collection(live.hidden, counted, survived, all));
        self.give_back_early(Bug::PunchBeforeEdit, &gone);
        if planted(Bug::UnlinkBeforeEdit) {
            files.iter().for_each(|(file, kind)| engine.discard(*kind, &[*file]));
        }
        engine.commit_edit(&mut manifest, &edit)?;
        let emptied = |place: &Place| files.iter().any(|(file, _)| *file == place.file);
        for place in gone.iter().filter(|place| !emptied(place)) {
            self.as_of.state.segments.extent(*place)?.mark_obsolete();
        }
        let LiveFiles { version, groups, .. } = manifest.live();
        let dropped: Vec<Place> = gone.iter().copied().collect();
        engine.state.swap(|state| {
            let segments = state.segments.joined(&opened).with_extents(&[], &dropped);
            state.with_version(version.clone()).with_groups(segments, groups.clone())
        });
        value_files::retire_segments(engine, &files);
        let ledger = manifest.live().ledger.clone();
        drop(manifest);
        self.survived(&output.segments, &ledger);
        regroup::regrouped(engine, &edit, &output);
        self.give_back_early(Bug::PunchUnderReaders, &gone);
        engine.counters.collections.add(1);
        engine.counters.collection_read.add(output.bytes_read);
        engine.counters.collection_written.add(written.bytes() + left + writer.bytes());
        engine.counters.spent(Step::CollectIndex, watch.lap());
        Ok(())
    }

    fn blame(&self, error: Error) -> Error {
        match &self.target {
            Target::File(number, facts) => {
                self.engine.blamed(JobKind::Collect, facts.kind, &[*number], error)
            }
            Target::Groups(groups) => {
                let extents = groups.iter().flat_map(|id| self.groups.extents_of(*id));
                let files: Vec<FileNumber> = extents.map(|extent| extent.place.file).collect();
                self.engine.blamed(JobKind::Collect, FileKind::Group, &files, error)
            }
        }
    }

    fn end(self, result: &Result<()>) -> impl FnOnce(&mut JobState) {
        self.engine.jobs.set_victim(FileNumber(0));
        let is = |kind| result.as_ref().is_err_and(|e| e.kind() == kind);
        let (failed, full) = (result.is_err(), is(ErrorKind::NoSpace));
        if is(ErrorKind::Corruption) {
            let damaged = &mut self.engine.jobs.lock().damaged;
            match (&self.target, *self.failed.lock()) {
                (Target::File(victim, _), _) => _ = damaged.files.insert(*victim),
                (Target::Groups(_), Some(group)) => _ = damaged.groups.insert(group),
                (Target::Groups(groups), None) => damaged.groups.extend(groups),
            }
        }
        if let (Some(limit), Some(plan)) = (&self.engine.limit, &self.plan)
            && (!failed || full)
        {
            limit.collected(plan.bytes());
        }
        let retries_split = self.retries_split;
        move |state| {
            state.constraints.hold_above = None;
            state.collect_alone |= full;
            if retries_split || failed {
                state.split_waits = None;
            }
        }
    }

    fn about(&self) -> About {
        let why = match (self.retries_split, self.forced, &self.target) {
            (true, ..) => "a group is to split",
            (_, Some(_), _) => "a caller asked for it, or the disk is full",
            (_, None, Target::File(..)) => "values take more space than is tolerated",
            (_, None, Target::Groups(_)) => "groups take more space than is tolerated",
        };
        About { kind: JobKind::Collect, why, bytes: self.bytes() }
    }
}

impl Collect<'_> {
    /// Bytes of what is collected.
    pub(super) fn bytes(&self) -> u64 {
        self.target.bytes(&self.groups)
    }

    /// Collects the target into `files`, and into `segments` what leaves its group or has none.
    fn collect<'a>(
        &self,
        files: (&NewFiles<'_>, &NewFiles<'_>),
        arenas: &'a mut [Arena; group_collection::PARTS],
    ) -> Result<(CollectionOutput, Vec<RunEntry<'a>>)> {
        match &self.target {
            Target::File(number, facts) => self.collect_file((*number, facts), files, &arenas[0]),
            Target::Groups(groups) => group_collection::collect_parts(self, groups, files, arenas),
        }
    }

    fn collect_file<'a>(
        &self,
        (number, facts): (FileNumber, &FileFacts),
        files: (&NewFiles<'_>, &NewFiles<'_>),
        arena: &'a Arena,
    ) -> Result<(CollectionOutput, Vec<RunEntry<'a>>)> {
        let segment = self.as_of.state.segments.get(number).ok_or_else(|| {
            Error::corruption("the victim of a collection is not open").with("file", number)
        })?;
        let len = facts.len.unwrap_or_default();
        self.with_collector(&ByLookUp(&self.as_of), files, arena, |collector| {
            collector.collect_file(SealedFile::new(segment.clone(), facts.base, len))
        })
    }

    /// Has `collect` use a collector that asks `liveness`, and ends what it wrote.
    pub(super) fn with_collector<'a>(
        &self,
        liveness: &dyn Liveness,
        (files, segments): (&NewFiles<'_>, &NewFiles<'_>),
        arena: &'a Arena,
        collect: impl FnOnce(&mut Collector<'_, 'a>) -> Result<()>,
    ) -> Result<(CollectionOutput, Vec<RunEntry<'a>>)> {
        let (engine, table) = (self.engine, &*self.groups);
        let extents = ExtentWriter::new(files, engine.database_id, engine.options.segment_bytes)
            .of_survivors()
            .of_groups(table)
            .listing_from(engine.options.groups.listed_record_bytes);
        let segment_bytes = sizes::segment_bytes(engine);
        let segments = SurvivorWriter::new(segments, engine.database_id, segment_bytes);
        let gives_up = engine.jobs.gives_up(self.bytes());
        let cancelled = || gives_up.load(Ordering::Acquire);
        let groups = (table, engine.options.groups.sizes());
        let mut collector =
            Collector::new(groups, liveness, (segments, extents), &cancelled, arena);
        collect(&mut collector)?;
        collector.finish()
    }

    /// Value files in which nothing lives any more, once the extents `gone` are.
    fn emptied_files(
        &self,
        live: &LiveFiles,
        gone: &BTreeSet<Place>,
    ) -> Vec<(FileNumber, FileKind)> {
        if let Target::File(victim, facts) = &self.target {
            return vec![(*victim, facts.kind)];
        }
        let mut files: Vec<FileNumber> = gone.iter().map(|place| place.file).collect();
        files.dedup();
        files.retain(|file| !live.groups.uses_file(*file, gone));
        files.into_iter().map(|file| (file, FileKind::Group)).collect()
    }

    /// Bytes that counted as alive in what goes.
    fn counted(&self, live: &LiveFiles, gone: &BTreeSet<Place>) -> u64 {
        match &self.target {
            Target::File(_, facts) => facts.live,
            Target::Groups(groups) => {
                let extents = groups.iter().flat_map(|group| live.groups.extents_of(*group));
                extents.filter(|e| gone.contains(&e.place)).map(|e| e.live).sum()
            }
        }
    }

    /// Remembers what the collection has written: see `vain`.
    fn survived(&self, segments: &[NewSegment], ledger: &Ledger) {
        let files = segments.iter().map(|new| (new.name.number(), new.live));
        let known = (self.epoch, older(&self.as_of.snapshots, self.as_of.read_point));
        self.engine.jobs.lock().survivors.written(files, known, ledger);
    }

    /// Punches the extents `gone` while readers may need them: a mistake that tests plant.
    fn give_back_early(&self, bug: Bug, gone: &BTreeSet<Place>) {
        if !planted(bug) {
            return;
        }
        for extent in self.groups.extents().filter(|extent| gone.contains(&extent.place)) {
            let Place { file, offset } = extent.place;
            let name = Name::numbered(FileKind::Group, file);
            value_files::punch(self.engine, Hole { name, offset, len: extent.len() });
        }
    }
}

/// As much of `target` as there is room to rewrite, below the space limit.
fn within_limit(
    engine: &Engine,
    target: Target,
    live: &LiveFiles,
) -> Option<(Target, Option<Plan>)> {
    let groups = match target {
        Target::File(_, ref facts) => {
            let plan = budget::plan(engine, file_rewritten_max(facts))?;
            return Some((target, plan));
        }
        Target::Groups(groups) => groups,
    };
    let bytes = |id: &GroupId| rewritten_max(&live.groups, *id);
    let fitting = [&groups[..], &groups[..1]].into_iter().find_map(|ids| {
        let plan = budget::plan(engine, ids.iter().map(bytes).sum())?;
        Some((ids.to_vec(), plan))
    });
    fitting.map(|(ids, plan)| (Target::Groups(ids), plan))
}

/// The youngest operation that a collection may believe.
fn read_point(engine: &Engine) -> SeqNo {
    match planted(Bug::CollectionWithoutLogSync) {
        true => engine.commit.visible(),
        false => engine.options.log().read_point(engine.commit.visible(), engine.commit.durable()),
    }
}

/// The epoch above which runs stay in level 0 while `target` is collected: its run of new pointers
/// is to enter below them. Where pointers are soft there will be no run.
fn hold_above(target: &Target, live: &LiveFiles) -> u64 {
    if matches!(target, Target::Groups(_)) && !live.groups.relocation().writes_run() {
        return u64::MAX;
    }
    // A run of the next epoch, too, may then sink below the run of new pointers.
    live.epoch + u64::from(planted(Bug::RunsSinkPastACollection)) * (1 << 32)
}

/// Writes the run of new pointers.
fn write_run(run: &[RunEntry<'_>], writer: &mut RunWriter<'_>) -> Result<()> {
    writer.cut_like_level0(|| sample(run));
    let mut room = [0; ValuePointer::ENCODED_LEN_MAX];
    for RunEntry { key, seq, repeat, content } in run {
        let (kind, value) = content.as_entry(&mut room);
        writer.add(Entry { key, seq: *seq, kind, repeat: *repeat, value })?;
    }
    writer.finish()
}

/// The keys of a run, with the bytes of their newest versions.
fn sample(run: &[RunEntry<'_>]) -> KeySample {
    let mut sample = KeySample::default();
    let mut room = [0; ValuePointer::ENCODED_LEN_MAX];
    for versions in run.chunk_by(|a, b| a.key == b.key) {
        let RunEntry { key, content, .. } = &versions[0];
        let (_, value) = content.as_entry(&mut room);
        sample.add(key, (key.len() + value.len()) as u64);
    }
    sample
}
