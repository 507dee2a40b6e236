//! Collection: the oldest value files give back the space of what died in them.
//!
//! Prepare fixes, under the locks that publish and that create snapshots, the picture, the read
//! point S, the live snapshots and the epoch e of the youngest flush, and from then on keeps runs
//! of later epochs in level 0. Run reads and moves (see [`cleavedb_values::collect`]). What killed
//! the others must be durable (invariant 7): where the log is the store, finish syncs it through S;
//! elsewhere S is durable already. Finish swaps everything by one edit: the run of new pointers
//! enters level 0 at e, above all that was read and below all later flushes, however long it took
//! to write.

use std::sync::Arc;
use std::time::Duration;

use cleavedb_base::planted::{Bug, planted};
use cleavedb_base::sync::Mutex;
use cleavedb_base::sync::atomic::Ordering;
use cleavedb_base::{Error, ErrorKind, FileNumber, Result, SeqNo, ValuePointer};
use cleavedb_index::{Entry, KeySample, RunPosition};
use cleavedb_storage::limited::Plan;
use cleavedb_storage::segment::Segment;
use cleavedb_storage::{FileClass, FileKind};
use cleavedb_values::collect::{Collected, RunEntry, Victim, collect};
use cleavedb_values::found::Arena;
use cleavedb_values::survivors::NewSegment;
use cleavedb_values::{FileFacts, GroupId, GroupTable, Ledger, LedgerEdit, hidden};

use super::Begin;
use super::flush::RunWriter;
use super::liveness::{AsOf, ByLookUp};
use super::new_files::{NewFiles, add_segments};
use super::victims::Target;
use crate::engine::Engine;
use crate::failures::JobKind;
use crate::full_disk::RoomTaken;
use crate::jobs::{Damaged, SHORT};
use crate::limit::{file_rewritten_max, rewritten_max};
use crate::manifest::{Edit, LiveFiles};
use crate::metrics::{Step, StopWatch};
use crate::space::within;
use crate::vain::older;

/// What a collection fixed when it began.
pub(super) struct Fixed {
    pub(super) as_of: AsOf,
    pub(super) target: Target,
    pub(super) groups: Arc<GroupTable>,
    /// Epoch of the youngest flush that the picture holds.
    pub(super) epoch: u64,
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

impl Fixed {
    /// Bytes of what is collected.
    pub(super) fn bytes(&self) -> u64 {
        self.target.bytes(&self.groups)
    }
}

impl Engine {
    /// Bytes of value files, the log in use included.
    pub(crate) fn value_bytes(&self, live: &LiveFiles) -> u64 {
        let all = live.ledger.sealed(FileNumber(u64::MAX)) + live.groups.bytes();
        // Of these files the ledger does not know the length yet.
        let first = self.jobs.log_files.lock().first().map(|(_, file)| file.base);
        all + first.map_or(0, |base| self.commit.log.ring().filled().saturating_sub(base))
    }

    pub(super) fn run_collection(&self) -> Result<bool> {
        self.collect_chosen(Begin::Open)
    }

    /// Collects what is chosen, if that may begin.
    pub(super) fn collect_chosen(&self, begin: Begin) -> Result<bool> {
        let Some(fixed) = self.prepare_collection(begin)? else { return Ok(false) };
        let result = match &fixed.target {
            Target::File(victim, facts) => self.collect_file(&fixed, *victim, facts),
            Target::Groups(groups) => self.collect_groups(&fixed, groups),
        };
        self.jobs.set_victim(FileNumber(0));
        let result = result.map_err(|e| self.blamed_victim(&fixed, e));
        if result.as_ref().is_err_and(|e| e.kind() == ErrorKind::Corruption) {
            let mut state = self.jobs.lock();
            match (&fixed.target, *fixed.failed.lock()) {
                (Target::File(victim, _), _) => _ = state.damaged.files.insert(*victim),
                (Target::Groups(_), Some(group)) => _ = state.damaged.groups.insert(group),
                (Target::Groups(groups), None) => state.damaged.groups.extend(groups),
            }
        }
        let full = |e: &Error| e.kind() == ErrorKind::NoSpace;
        let done = result.is_ok() || result.as_ref().is_err_and(full);
        if let (true, Some(limit), Some(plan)) = (done, &self.limit, &fixed.plan) {
            limit.collected(plan.bytes());
        }
        let retries_split = fixed.retries_split;
        // What only it still held is queued before anybody can find that there is no work left.
        drop(fixed);
        self.end_job(JobKind::Collect, &result, |state| {
            state.constraints.hold_above = None;
            state.collect_alone |= result.as_ref().is_err_and(full);
            if retries_split || result.is_err() {
                state.split_waits = None;
            }
        });
        result.map(|()| true)
    }

    fn prepare_collection(&self, begin: Begin) -> Result<Option<Fixed>> {
        let mut jobs = self.jobs.lock();
        if jobs.constraints.hold_above.is_some() || (jobs.split_waits.is_some() && jobs.flushing) {
            return Ok(None);
        }
        let manifest = self.manifest.lock();
        let live = manifest.live();
        let Some(target) = self.choose_target(live, &jobs) else {
            (jobs.forced, jobs.collect_alone) = (None, false);
            return Ok(None);
        };
        self.check_begin(begin)?;
        if matches!(begin, Begin::AtClose) && target.bytes(&live.groups) > SHORT {
            return Ok(None);
        }
        let Some((target, plan)) = self.within_limit(target, live) else {
            // Nobody waits for a split that there is no room for, nor for what was asked for.
            (jobs.split_waits, jobs.forced) = (None, None);
            return Ok(None);
        };
        let (mut snapshots, read_point) = self.snapshots.fix(|| self.read_point());
        if planted(Bug::CollectionWithoutSnapshots) {
            snapshots.clear();
        }
        jobs.constraints.hold_above = Some(hold_above(&target, live));
        if let Target::File(victim, _) = target {
            self.jobs.set_victim(victim);
        }
        let (epoch, groups) = (live.epoch, live.groups.clone());
        // Under the manifest's lock no flush can publish: the picture's tables are those up to the
        // epoch.
        let state = self.state.load_full();
        let as_of = AsOf { state, snapshots, read_point };
        let (damaged, retries_split) = (jobs.damaged.clone(), jobs.split_waits.is_some());
        // Groups that are to split do so as a whole, or not at all.
        let for_space = jobs.forced.is_some() || self.is_over(live, &jobs.damaged);
        let room = (for_space && self.limit.is_none()).then(|| self.room_on_disk());
        let bytes: u64 = match &target {
            Target::File(_, facts) => file_rewritten_max(facts),
            Target::Groups(ids) => ids.iter().map(|id| rewritten_max(&groups, *id)).sum(),
        };
        let _taken = self.full.take_room(bytes.min(room.unwrap_or(u64::MAX)));
        Ok(Some(Fixed {
            as_of,
            target,
            groups,
            epoch,
            damaged,
            retries_split,
            failed: Mutex::default(),
            plan,
            room,
            _taken,
            forced: jobs.forced,
        }))
    }

    /// As much of `target` as there is room to rewrite, below the space limit.
    fn within_limit(&self, target: Target, live: &LiveFiles) -> Option<(Target, Option<Plan>)> {
        let groups = match target {
            Target::File(_, ref facts) => {
                let plan = self.plan(file_rewritten_max(facts))?;
                return Some((target, plan));
            }
            Target::Groups(groups) => groups,
        };
        let bytes = |id: &GroupId| rewritten_max(&live.groups, *id);
        let fitting = [&groups[..], &groups[..1]].into_iter().find_map(|ids| {
            let plan = self.plan(ids.iter().map(bytes).sum())?;
            Some((ids.to_vec(), plan))
        });
        fitting.map(|(ids, plan)| (Target::Groups(ids), plan))
    }

    /// What a collection that failed tells of its victim: see [`Engine::blamed`].
    fn blamed_victim(&self, fixed: &Fixed, error: Error) -> Error {
        match &fixed.target {
            Target::File(number, facts) => {
                self.blamed(JobKind::Collect, facts.kind, &[*number], error)
            }
            Target::Groups(groups) => {
                let extents = groups.iter().flat_map(|id| fixed.groups.extents_of(*id));
                let files: Vec<FileNumber> = extents.map(|extent| extent.place.file).collect();
                self.blamed(JobKind::Collect, FileKind::Group, &files, error)
            }
        }
    }

    /// The youngest operation that a collection may believe.
    fn read_point(&self) -> SeqNo {
        match planted(Bug::CollectionWithoutLogSync) {
            true => self.commit.visible(),
            false => self.options.log().read_point(self.commit.visible(), self.commit.durable()),
        }
    }

    fn collect_file(&self, fixed: &Fixed, number: FileNumber, facts: &FileFacts) -> Result<()> {
        let segment = fixed.as_of.state.segments.get(number).ok_or_else(|| {
            Error::corruption("the victim of a collection is not open").with("file", number)
        })?;
        let victim = Victim {
            segment: segment.clone(),
            base: facts.base,
            len: facts.len.unwrap_or_default(),
        };
        let segments = NewFiles::new(self, FileClass::Segments);
        let (mut writer, arena) = (RunWriter::new(self), Arena::new());
        let mut watch = StopWatch::start();
        let gives_up = self.jobs.gives_up(fixed.bytes());
        let done = collect(
            &[victim],
            &ByLookUp(&fixed.as_of),
            &segments,
            self.database_id,
            self.segment_bytes(),
            &|| gives_up.load(Ordering::Acquire),
            &arena,
        )
        .and_then(|collected| {
            self.collected(watch.lap(), collected.asking);
            write_run(&collected.run, &mut writer)?;
            Ok((self.open_segments(&collected.segments)?, collected))
        });
        let (opened, collected) = done.map_err(|e| self.given_up(&[&segments], &writer, e))?;
        self.sync_dir()?;
        // What killed the records that go must be durable before they do.
        if !planted(Bug::CollectionWithoutLogSync) {
            self.options.log().sync_before_drop(|| self.commit.sync())?;
        }
        self.install_collection(fixed, (number, facts), (&collected, &opened), &writer)?;
        self.counters.spent(Step::CollectIndex, watch.lap());
        Ok(())
    }

    /// Counts the time that it took to read victims, find out what lives, which is `asking` of it,
    /// and write survivors.
    pub(super) fn collected(&self, all: Duration, asking: Duration) {
        self.counters.spent(Step::CollectLookup, asking);
        self.counters.spent(Step::CollectValues, all.saturating_sub(asking));
    }

    /// Where the run of a collection that fixed its inputs at `epoch` enters level 0.
    pub(super) fn run_position(&self, live: &LiveFiles, epoch: u64) -> RunPosition {
        let position = live.version.next_position(epoch);
        if planted(Bug::RunAboveNextFlush) {
            return RunPosition { epoch: position.epoch + 1, order: position.order + 1 };
        }
        position
    }

    fn install_collection(
        &self,
        fixed: &Fixed,
        (victim, facts): (FileNumber, &FileFacts),
        (collected, opened): (&Collected<'_>, &[Arc<Segment>]),
        writer: &RunWriter<'_>,
    ) -> Result<()> {
        let mut edit = Edit::default();
        let survived = collected.segments.iter().map(|new| new.live).sum();
        add_segments(&collected.segments, &mut edit);
        edit.ledger.push(LedgerEdit::Remove(victim));
        let mut manifest = self.manifest.lock();
        let position = self.run_position(manifest.live(), fixed.epoch);
        edit.index.add_run(position, writer.tables.iter().cloned());
        let live = manifest.live();
        let all = live.owned();
        edit.hidden = Some(hidden::after_collection(live.hidden, facts.live, survived, all));
        if planted(Bug::UnlinkBeforeEdit) {
            self.discard(facts.kind, &[victim]);
        }
        self.commit_edit(&mut manifest, &edit)?;
        let version = manifest.live().version.clone();
        self.state.swap(|state| {
            state.with_version(version.clone()).with_segments(state.segments.with(opened, &[]))
        });
        self.retire_segments(&[(victim, facts.kind)]);
        let ledger = manifest.live().ledger.clone();
        drop(manifest);
        self.survived(fixed, &collected.segments, &ledger);
        self.counters.collections.add(1);
        self.counters.collection_read.add(collected.bytes_read);
        self.counters.collection_written.add(collected.bytes_moved + writer.bytes());
        Ok(())
    }

    /// Remembers what a collection has written: see `vain`.
    pub(super) fn survived(&self, fixed: &Fixed, segments: &[NewSegment], ledger: &Ledger) {
        let files = segments.iter().map(|new| (new.name.number(), new.live));
        let known = (fixed.epoch, older(&fixed.as_of.snapshots, fixed.as_of.read_point));
        self.jobs.lock().survivors.written(files, known, ledger);
    }

    /// Collects every value file that is sealed now, whether the space goal asks for it or not.
    pub(crate) fn collect_all(&self) -> Result<()> {
        self.collect_while(&|| true)
    }

    /// The same for as long as it is `wanted`.
    pub(crate) fn collect_while(&self, wanted: &dyn Fn() -> bool) -> Result<()> {
        let before = {
            let mut jobs = self.jobs.lock();
            let manifest = self.manifest.lock();
            let newest = manifest.live().ledger.iter().map(|(number, _)| number).next_back();
            std::mem::replace(&mut jobs.forced, newest)
        };
        let collected = match self.settle_while(wanted) {
            // What a full disk has no room for together goes piece by piece, and gives room to the
            // rest.
            Err(e) if e.kind() == ErrorKind::NoSpace => {
                let compacted = self.compact_in_pieces(wanted, e);
                let settled = self.settle_while(wanted);
                // A compaction that has no room, and would free nothing, is no failure of this.
                let done = compacted.is_ok() && self.jobs.failure(JobKind::Collect).is_none();
                if done { settled.or_else(within) } else { settled }
            }
            settled => settled,
        };
        if !wanted() {
            self.jobs.lock().forced = before;
        }
        collected
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
pub(super) fn write_run(run: &[RunEntry<'_>], writer: &mut RunWriter<'_>) -> Result<()> {
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
