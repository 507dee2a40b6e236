//! Collection: reclaims the space of dead records in value files and groups.
//!
//! `plan` fixes what readers see, under the locks that publish and that create snapshots: the read
//! point S, the live snapshots and the epoch e of the youngest flush. From then on it keeps runs of
//! later epochs in level 0. `run` reads the records and moves the live ones
//! ([`cleavedb_values::collect`]). The other records may only go once the deletes and newer
//! versions that killed them are durable (invariant 7): where the log is the store, `run` syncs it
//! through S; elsewhere S is durable already. `install` publishes everything by one edit: the run
//! of new pointers enters level 0 at e, above all runs that were read and below all later flushes,
//! however long the collection took. Writers and flushes go on meanwhile: an extent that a flush
//! adds is left to the next collection.

mod plan;
mod run;
mod regroup;

pub(crate) use plan::Collect;

use std::collections::BTreeSet;

use cleavedb_base::planted::{Bug, planted};
use cleavedb_base::{Error, ErrorKind, FileNumber, Result, ValuePointer};
use cleavedb_index::{Entry, KeySample};
use cleavedb_storage::mapped::Arena;
use cleavedb_storage::{FileClass, FileKind, Hole, Name};
use cleavedb_values::collect::output::{CollectionOutput, RunEntry};
use cleavedb_values::collect::record::Content;
use cleavedb_values::collect::survivors::NewSegment;
use cleavedb_values::groups::Location;
use cleavedb_values::groups::victim::group_bytes;
use cleavedb_values::groups::writer::Written;
use cleavedb_values::{GroupEdit, SegmentSet, unexposed};

use crate::background::jobs::new_files::NewFiles;
use crate::background::jobs::run_writer::{RunWriter, run_position};
use crate::background::jobs::{About, Begin, Job, new_files};
use crate::background::log_retention;
use crate::background::victims::Victim;
use crate::control::failures::JobKind;
use crate::control::metrics::{Step, StopWatch};
use crate::control::pace::Pace;
use crate::engine::Engine;
use crate::engine::job_state::JobState;
use crate::engine::value_files;
use crate::store::manifest::{Edit, LiveFiles};
use crate::store::survivors::older;

/// The output of a collection.
pub(crate) struct CollectionFiles<'e> {
    output: CollectionOutput,
    /// Segments of the written files, open for reads.
    opened: SegmentSet,
    writer: RunWriter<&'e Engine>,
    watch: StopWatch,
}

impl<'e> Job<'e> for Collect<'e> {
    type Request = Begin;
    type Output = CollectionFiles<'e>;
    type Done = ();

    fn plan(engine: &'e Engine, begin: Begin) -> Result<Option<Self>> {
        plan::plan(engine, begin)
    }

    fn run(&mut self) -> Result<CollectionFiles<'e>> {
        let engine = self.engine;
        // No flush begins before the end of a split that is tried again.
        let pace = if self.retries_split { Pace::AtOnce } else { Pace::Background };
        let files = NewFiles::new(engine, FileClass::Survivors, pace.clone());
        let segments = NewFiles::new(engine, FileClass::Segments, pace.clone());
        let mut writer = RunWriter::new(engine, self.read_view.points.uncovered_upto(), pace);
        let mut arenas: [Arena; run::PARTS] = std::array::from_fn(|_| Arena::new());
        let mut watch = StopWatch::start();
        let done = run::collect(self, &files, &segments, &mut arenas).and_then(|(output, run)| {
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
        // The deletes and newer versions that killed the dropped records must be durable before
        // those go.
        if !planted(Bug::CollectionWithoutLogSync) {
            engine.options.log().sync_before_drop(|| engine.commit.sync())?;
        }
        Ok(CollectionFiles { output, opened, writer, watch })
    }

    fn install(&mut self, collected: CollectionFiles<'e>) -> Result<()> {
        let CollectionFiles { mut output, opened, writer, mut watch } = collected;
        let keys = std::mem::take(&mut output.written.keys);
        let engine = self.engine;
        let gone: BTreeSet<Location> = output.gone().collect();
        let mut edit = Edit::default();
        value_files::add_segments(&output.segments, &mut edit);
        let still = regroup::hold_flushes(self, &output);
        let mut manifest = engine.manifest.lock();
        let live = manifest.live();
        let written = regroup::regroup(self, &live.groups, &output, still, &mut edit)?;
        let files = emptied_files(self, live, &gone);
        let leave = |(file, _): &(_, _)| live.changes.drop_edit(&live.value_files, *file);
        edit.value_files.extend(files.iter().map(leave));
        edit.index.add_run(run_position(live, self.epoch), writer.tables.iter().cloned());
        let counted = counted(self, live, &gone);
        let left: u64 = output.segments.iter().map(|new| new.live).sum();
        let alive = left + written.extents.iter().map(|extent| extent.live).sum::<u64>();
        let all = live.owned();
        edit.unexposed = Some(unexposed::after_collection(live.unexposed, counted, alive, all));
        give_back_early(self, Bug::PunchBeforeEdit, &gone);
        if planted(Bug::UnlinkBeforeEdit) {
            files.iter().for_each(|(file, kind)| engine.discard(*kind, &[*file]));
        }
        engine.commit_edit(&mut manifest, &edit)?;
        let places: Vec<Location> = gone.iter().copied().collect();
        value_files::mark_obsolete(engine, &places, &files)?;
        let LiveFiles { version, groups, .. } = manifest.live();
        engine.state.swap(|state| {
            let segments = state.segments.joined(&opened).with_extents(&[], &places);
            state.with_version(version.clone()).with_groups(segments, groups.clone())
        });
        value_files::retire_segments(engine, manifest.live(), &files);
        log_retention::enforce(engine, &mut manifest)?;
        let live = manifest.live().clone();
        drop(manifest);
        self.won = self.asked || has_won(self, &gone, &written, left, &edit);
        remember(self, &output.segments, &live);
        let groups = output.groups.iter().map(|own| own.group);
        engine.group_filters.lock().collected(groups, &written.extents, &keys);
        regroup::regrouped(engine, &edit, &output);
        give_back_early(self, Bug::PunchUnderReaders, &gone);
        engine.counters.collections.add(1);
        engine.counters.collection_read.add(output.bytes_read);
        self.written = written.bytes() + left + writer.bytes();
        engine.counters.collection_written.add(self.written);
        engine.counters.spent(Step::CollectIndex, watch.lap());
        Ok(())
    }

    fn blame(&self, error: Error) -> Error {
        match &self.target {
            Victim::File(number, facts) => {
                self.engine.blamed(JobKind::Collect, facts.kind, &[*number], error)
            }
            Victim::Groups(groups) => {
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
                (Victim::File(victim, _), _) => _ = damaged.files.insert(*victim),
                (Victim::Groups(_), Some(group)) => _ = damaged.groups.insert(group),
                (Victim::Groups(groups), None) => damaged.groups.extend(groups),
            }
        }
        if let (Some(limit), Some(plan)) = (&self.engine.limit, &self.plan)
            && (!failed || full)
        {
            limit.collected(plan.bytes());
        }
        let retries_split = self.retries_split;
        move |state| {
            state.constraints.pinned_above = None;
            state.collection_applies = None;
            state.collect_alone |= full;
            if retries_split || failed {
                state.split_waits = None;
            }
        }
    }

    fn bytes_written(&self) -> u64 {
        self.written
    }

    fn has_won(&self) -> bool {
        self.won
    }

    fn about(&self) -> About {
        let why = match (self.retries_split, self.forced, &self.target) {
            (true, ..) => "a group is to split",
            (_, Some(_), _) => "a caller asked for it, or the disk is full",
            (_, None, Victim::File(..)) => "values take more space than is tolerated",
            (_, None, Victim::Groups(_)) => {
                "groups take more space than is tolerated, are too large, or have many short files"
            }
        };
        About { kind: JobKind::Collect, why, bytes: self.bytes() }
    }
}

/// Writes the run of new pointers.
fn write_run(run: &[RunEntry<'_>], writer: &mut RunWriter<&Engine>) -> Result<()> {
    // A marker stays although a range tombstone covers it.
    if run.iter().any(|entry| entry.content == Content::Marker) {
        writer.may_be_covered();
    }
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

/// Value files without a live record, once the extents `gone` are removed.
fn emptied_files(
    job: &Collect<'_>,
    live: &LiveFiles,
    gone: &BTreeSet<Location>,
) -> Vec<(FileNumber, FileKind)> {
    if let Victim::File(victim, facts) = &job.target {
        return vec![(*victim, facts.kind)];
    }
    value_files::emptied(live, gone)
}

/// Bytes that counted as live in the extents or in the file that are removed.
fn counted(job: &Collect<'_>, live: &LiveFiles, gone: &BTreeSet<Location>) -> u64 {
    match &job.target {
        Victim::File(_, facts) => facts.live,
        Victim::Groups(groups) => {
            let extents = groups.iter().flat_map(|group| live.groups.extents_of(*group));
            extents.filter(|e| gone.contains(&e.place)).map(|e| e.live).sum()
        }
    }
}

/// Whether a collection has won space, shorter or longer groups, or fewer files. Of it, `gone` was
/// removed, and `written` and segments of `left` bytes take its place.
fn has_won(
    job: &Collect<'_>,
    gone: &BTreeSet<Location>,
    written: &Written,
    left: u64,
    edit: &Edit,
) -> bool {
    let regroups =
        |edit: &GroupEdit| matches!(edit, GroupEdit::Split { .. } | GroupEdit::Merge { .. });
    let (bytes, count) = match &job.target {
        Victim::File(_, facts) => (facts.len.unwrap_or_default(), 1),
        Victim::Groups(_) => {
            let extents = job.groups.extents().filter(|extent| gone.contains(&extent.place));
            extents.fold((0, 0), |(bytes, count), extent| (bytes + extent.len(), count + 1))
        }
    };
    written.bytes() + left < bytes
        || written.extents.len() < count
        || edit.groups.iter().any(regroups)
}

/// Records the files that the collection has written, and groups that it has rewritten without
/// gain: see `survivors`.
fn remember(job: &Collect<'_>, segments: &[NewSegment], live: &LiveFiles) {
    let files = segments.iter().map(|new| (new.name.number(), new.live));
    let points = &job.read_view.points;
    let (epoch, snapshots) = (job.epoch, older(&points.snapshots, points.read_point));
    let survivors = &mut job.engine.jobs.lock().survivors;
    survivors.written(files, epoch, snapshots, &live.value_files);
    if let (Victim::Groups(groups), false) = (&job.target, job.won) {
        let groups = groups.iter().map(|group| (*group, group_bytes(&live.groups, *group)));
        survivors.collected_without_gain(groups, epoch, snapshots);
    }
}

/// Punches the extents `gone` too early, while readers may need them: a bug that tests plant.
fn give_back_early(job: &Collect<'_>, bug: Bug, gone: &BTreeSet<Location>) {
    if !planted(bug) {
        return;
    }
    for extent in job.groups.extents().filter(|extent| gone.contains(&extent.place)) {
        let Location { file, offset } = extent.place;
        let name = Name::numbered(FileKind::Group, file);
        value_files::punch(job.engine, Hole { name, offset, len: extent.len() });
    }
}
