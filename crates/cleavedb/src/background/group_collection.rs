//! Collection of a group: which, and how it is installed.
//!
//! What lives is decided by the records of the group, or by a merge-join with its part of the index
//! ([`cleavedb_values::collect_group`]). The rest is as in `collection`: the read point and the
//! epoch are fixed by the same step, and one edit swaps extents and adds the run of new pointers.
//! The read point is one that is durable already. Writers and flushes go on meanwhile: an extent
//! that a flush adds stays for the next collection.
//!
//! A group whose survivors outgrow its main segment splits in the same edit, unless a flush has
//! written for it meanwhile. Then the survivors stay with the group, and the split is tried once
//! more before the next flush may begin: that one attempt is the only time when a flush waits.
//! A range of keys that has become small merges with a neighbour, unless a flush is under way.

use std::collections::BTreeSet;

use cleavedb_base::planted::{Bug, planted};
use cleavedb_base::{FileNumber, GroupId, Partitioner, Result};
use cleavedb_storage::{FileClass, FileKind, Hole, Name};
use cleavedb_values::collect::Liveness;
use cleavedb_values::collect_group::{CollectedGroup, Home, collect_group};
use cleavedb_values::groups::victim::Candidate;
use cleavedb_values::groups::writer::Written;
use cleavedb_values::groups::{ExtentWriter, Place, growth};
use cleavedb_values::survivors::SurvivorWriter;
use cleavedb_values::{GroupEdit, GroupTable, LedgerEdit, SegmentSet, hidden};

use super::cold_log::add_segments;
use super::collection::{Fixed, write_run};
use super::flush::RunWriter;
use super::liveness::Joined;
use super::new_files::NewFiles;
use crate::engine::Engine;
use crate::groups::publish;
use crate::jobs::JobState;
use crate::manifest::{Edit, LiveFiles};
use crate::state::ReadState;

impl Engine {
    /// The group to collect, if one should be: space is `over` the goal, the reserve for log
    /// segments is used up, or somebody asked for all files up to a number.
    pub(super) fn choose_group(
        &self,
        live: &LiveFiles,
        jobs: &JobState,
        over: bool,
    ) -> Option<GroupId> {
        let groups = &live.groups;
        if let Some(group) = jobs.split_waits {
            return Some(group);
        }
        let sound = || groups.groups().filter(|(id, _)| !jobs.damaged.groups.contains(id));
        let old = |group, upto| groups.extents_of(group).any(|e| e.place.file <= upto);
        let forced = jobs.forced.and_then(|upto| sound().find(|(id, _)| old(*id, upto)));
        if let Some((group, _)) = forced {
            return Some(group);
        }
        let segments = self.options.groups.segments();
        let by_hash = !groups.partitioner().keeps_order();
        let due = over || by_hash && segments.exhausted(groups);
        if !due {
            let sound: Vec<GroupId> = sound().map(|(id, _)| id).collect();
            return segments.outgrown(groups, &sound);
        }
        let candidates = self.candidates(live, &jobs.damaged.groups);
        self.options.groups.victim.choose(candidates, self.counters.collections.get())
    }

    /// The groups that can be collected: all but the `damaged` ones.
    pub(super) fn candidates(
        &self,
        live: &LiveFiles,
        damaged: &BTreeSet<GroupId>,
    ) -> Vec<Candidate> {
        let mut candidates = Candidate::all(&live.groups, self.commit.visible(), live.hidden);
        candidates.retain(|candidate| !damaged.contains(&candidate.group));
        candidates
    }

    pub(super) fn collect_one_group(&self, fixed: &Fixed, group: GroupId) -> Result<()> {
        let victims = fixed.groups.extents_of(group);
        let open = &fixed.as_of.state.segments;
        let handles = victims.map(|extent| open.extent(extent.place).cloned());
        let handles = handles.collect::<Result<Vec<_>>>()?;
        let files = NewFiles::new(self, FileClass::Groups);
        let segments = NewFiles::new(self, FileClass::Segments);
        let table = &*fixed.groups;
        let keeps_order = table.partitioner().keeps_order();
        let extents = ExtentWriter::new(&files, self.database_id, self.options.segment_bytes)
            .of_survivors()
            .with_filters(!keeps_order);
        let tagging = self.options.groups.tagging;
        let cold = || SurvivorWriter::new(&segments, self.database_id, self.options.segment_bytes);
        let mut writer = RunWriter::new(self);
        let home = Home { group, table, main_segment: self.options.groups.main_segment_bytes };
        let joined = keeps_order.then(|| Joined::new(&fixed.as_of));
        let liveness: &dyn Liveness = match &joined {
            Some(joined) => joined,
            None => &fixed.as_of,
        };
        let cancelled = || self.jobs.closing();
        let done = collect_group(&handles, liveness, extents, tagging.then(cold), home, &cancelled)
            .and_then(|collected| {
                write_run(&collected.run, &mut writer)?;
                let cold = self.open_segments(&collected.cold)?;
                let opened = SegmentSet::default().with(&cold, &[]);
                Ok((self.with_written(&opened, &collected.written)?, collected))
            });
        let done = done.map_err(|e| self.given_up(&[&files, &segments], &writer, e))?;
        self.sync_dir()?;
        self.install_group(fixed, &done.1, &done.0, &writer)
    }

    /// Keeps flushes from beginning, so that no group goes for which one is about to write; whether
    /// none is under way.
    fn hold_flushes(&self, group: GroupId) -> bool {
        let mut jobs = self.jobs.lock();
        jobs.split_waits = Some(group);
        !jobs.flushing
    }

    /// Adds to an edit what a collection changes in `groups`; returns what was written, with the
    /// groups that it belongs to by now. `still` says that no flush is under way, nor will be.
    fn regroup(
        &self,
        fixed: &Fixed,
        groups: &GroupTable,
        collected: &CollectedGroup,
        still: bool,
        edit: &mut Edit,
    ) -> Result<Written> {
        let CollectedGroup { group, gone, .. } = collected;
        edit.groups.extend(gone.iter().copied().map(GroupEdit::Remove));
        let added = groups.extents_of(*group).any(|extent| !gone.contains(&extent.place));
        let splits = collected.splits() && still && !added;
        let written = if splits {
            let (divided, split) = collected.divided(groups.next_id());
            edit.groups.push(split);
            divided
        } else {
            collected.undivided()
        };
        publish(&written, edit);
        let collected_at = |home| GroupEdit::Collected(home, fixed.as_of.read_point);
        edit.groups.extend(homes(&written, *group).into_iter().map(collected_at));
        if still && !splits && groups.partitioner() == Partitioner::Key {
            self.merge_small(fixed, groups, *group, edit)?;
        }
        Ok(written)
    }

    fn install_group(
        &self,
        fixed: &Fixed,
        collected: &CollectedGroup,
        opened: &SegmentSet,
        writer: &RunWriter<'_>,
    ) -> Result<()> {
        let CollectedGroup { group, gone, .. } = collected;
        let mut edit = Edit::default();
        add_segments(&collected.cold, &mut edit);
        let regroups = collected.splits() || fixed.groups.partitioner() == Partitioner::Key;
        let still = regroups && self.hold_flushes(*group);
        let mut manifest = self.manifest.lock();
        let live = manifest.live();
        let written = self.regroup(fixed, &live.groups, collected, still, &mut edit)?;
        let emptied = emptied_files(live, gone);
        edit.ledger.extend(emptied.iter().copied().map(LedgerEdit::Remove));
        let position = self.run_position(live, fixed.epoch);
        edit.index.add_run(position, writer.tables.iter().cloned());
        let of_victims = live.groups.extents_of(*group).filter(|e| gone.contains(&e.place));
        let counted = of_victims.map(|extent| extent.live).sum();
        let left: u64 = collected.cold.iter().map(|new| new.live).sum();
        let survived = left + written.extents.iter().map(|extent| extent.live).sum::<u64>();
        let all = live.owned();
        edit.hidden = Some(hidden::after_collection(live.hidden, counted, survived, all));
        if planted(Bug::PunchBeforeEdit) {
            self.punch_now(&fixed.groups, gone);
        }
        self.commit_edit(&mut manifest, &edit)?;
        for place in gone.iter().filter(|place| !emptied.contains(&place.file)) {
            fixed.as_of.state.segments.extent(*place)?.mark_obsolete();
        }
        let version = manifest.live().version.clone();
        self.swap_state(|state| ReadState {
            memtables: state.memtables.clone(),
            version: version.clone(),
            segments: std::sync::Arc::new(state.segments.joined(opened).with_extents(&[], gone)),
        });
        let files: Vec<_> = emptied.iter().map(|file| (*file, FileKind::Group)).collect();
        self.retire_segments(&files);
        drop(manifest);
        self.regrouped(&edit, collected.splits());
        if planted(Bug::PunchUnderReaders) {
            self.punch_now(&fixed.groups, gone);
        }
        self.counters.collections.add(1);
        self.counters.collection_read.add(collected.bytes_read);
        self.counters.collection_written.add(written.bytes() + left + writer.bytes());
        Ok(())
    }

    /// Adds to a collection's edit that its group becomes one with a neighbour, if both are small.
    /// A damaged group, which cannot be collected, stays alone with that.
    fn merge_small(
        &self,
        fixed: &Fixed,
        groups: &GroupTable,
        group: GroupId,
        edit: &mut Edit,
    ) -> Result<()> {
        let after = growth::after(groups, &edit.groups)?;
        let sound =
            |groups: &[GroupId; 2]| !groups.iter().any(|id| fixed.damaged.groups.contains(id));
        if let Some(groups) = self.options.groups.growth().merges(&after, group).filter(sound) {
            edit.groups.push(GroupEdit::Merge { groups, into: after.next_id() });
        }
        Ok(())
    }

    /// Counts what an edit did to groups, and lets flushes begin, unless the split that was `due`
    /// is to be tried once more.
    fn regrouped(&self, edit: &Edit, due: bool) {
        let count = |of: fn(&GroupEdit) -> bool| edit.groups.iter().filter(|edit| of(edit)).count();
        let splits = count(|edit| matches!(edit, GroupEdit::Split { .. })) as u64;
        self.counters.splits.add(splits);
        self.counters.merges.add(count(|edit| matches!(edit, GroupEdit::Merge { .. })) as u64);
        if splits > 0 || !due {
            self.jobs.lock().split_waits = None;
        }
    }

    /// Gives extents back without asking who reads them: a mistake that tests plant.
    fn punch_now(&self, groups: &GroupTable, gone: &[Place]) {
        for extent in groups.extents().filter(|extent| gone.contains(&extent.place)) {
            let Place { file, offset } = extent.place;
            let name = Name::numbered(FileKind::Group, file);
            self.punch(Hole { name, offset, len: extent.len() });
        }
    }
}

/// The groups that have what was written: `group` itself if that is nothing.
fn homes(written: &Written, group: GroupId) -> Vec<GroupId> {
    let mut homes: Vec<GroupId> = written.extents.iter().map(|extent| extent.group).collect();
    homes.dedup();
    if homes.is_empty() { vec![group] } else { homes }
}

/// Files of `gone` that hold no other extent.
fn emptied_files(live: &LiveFiles, gone: &[Place]) -> Vec<FileNumber> {
    let mut files: Vec<FileNumber> = gone.iter().map(|place| place.file).collect();
    files.sort_unstable();
    files.dedup();
    files.retain(|file| !live.groups.uses_file(*file, gone));
    files
}
