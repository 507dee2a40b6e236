//! Collection of a group: which, and how it is installed.
//!
//! What lives is decided without the index ([`cleavedb_values::collect_group`]); everything else is
//! as in `collection`: the read point and the epoch are fixed by the same step, and one edit swaps
//! extents and adds the run of new pointers. The read point is one that is durable already.
//! Writers and flushes go on meanwhile: an extent that a flush adds stays for the next collection.
//!
//! A group whose survivors outgrow its main segment splits in the same edit, unless a flush has
//! written for it meanwhile. Then the survivors stay with the group, and the split is tried once
//! more before the next flush may begin: that one attempt is the only time when a flush waits.

use cleavedb_base::planted::{Bug, planted};
use cleavedb_base::{FileNumber, GroupId, Result};
use cleavedb_storage::{FileClass, FileKind, Hole, Name};
use cleavedb_values::collect_group::{CollectedGroup, Home, collect_group};
use cleavedb_values::groups::victim::Candidate;
use cleavedb_values::groups::writer::Written;
use cleavedb_values::groups::{Extent, ExtentWriter, Place};
use cleavedb_values::{GroupEdit, LedgerEdit, SegmentSet, hidden};

use super::collection::{Fixed, write_run};
use super::flush::RunWriter;
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
        let sound = || groups.groups().filter(|(id, _)| !jobs.damaged_groups.contains(id));
        let old = |group, upto| groups.extents_of(group).any(|e| e.place.file <= upto);
        let forced = jobs.forced.and_then(|upto| sound().find(|(id, _)| old(*id, upto)));
        if let Some((group, _)) = forced {
            return Some(group);
        }
        if !over && !self.options.groups.segments().exhausted(groups) {
            return None;
        }
        let now = self.commit.visible();
        let candidates = sound().map(|(id, _)| Candidate::of(groups, id, now)).collect();
        self.options.groups.victim.choose(candidates, self.counters.collections.get())
    }

    /// Whether a collection could win space in some group.
    pub(super) fn groups_can_shrink(&self, live: &LiveFiles) -> bool {
        let now = self.commit.visible();
        let mut groups = live.groups.groups();
        groups.any(|(id, _)| Candidate::of(&live.groups, id, now).is_worth_it())
    }

    pub(super) fn collect_one_group(&self, fixed: &Fixed, group: GroupId) -> Result<()> {
        let victims: Vec<Extent> = fixed.groups.extents_of(group).cloned().collect();
        let segments = &fixed.as_of.state.segments;
        let handles = victims.iter().map(|extent| segments.extent(extent.place).cloned());
        let handles = handles.collect::<Result<Vec<_>>>()?;
        let files = NewFiles::new(self, FileClass::Groups);
        let extents = ExtentWriter::new(&files, self.database_id, self.options.segment_bytes, true);
        let mut writer = RunWriter::new(self);
        let home = Home { group, main_segment: self.options.groups.main_segment_bytes };
        let done = collect_group(&handles, &fixed.as_of, extents, home, &|| self.jobs.closing())
            .and_then(|collected| write_run(&collected.run, &mut writer).map(|()| collected));
        let collected = done.map_err(|e| self.given_up(&files, &writer, e))?;
        self.sync_dir()?;
        let gone: Vec<Place> = victims.iter().map(|extent| extent.place).collect();
        self.install_group(fixed, group, &gone, &collected, &writer)
    }

    fn install_group(
        &self,
        fixed: &Fixed,
        group: GroupId,
        gone: &[Place],
        collected: &CollectedGroup,
        writer: &RunWriter<'_>,
    ) -> Result<()> {
        let mut written = collected.written.clone();
        let opened = self.with_written(&SegmentSet::default(), &written)?;
        let halved = written.extents.iter().any(|extent| extent.group != group);
        let mut jobs = halved.then(|| self.jobs.lock());
        let mut manifest = self.manifest.lock();
        let live = manifest.live();
        let mut edit = Edit::default();
        edit.groups.extend(gone.iter().copied().map(GroupEdit::Remove));
        let mut splits = false;
        if let Some(jobs) = &mut jobs {
            let added = live.groups.extents_of(group).any(|e| !gone.contains(&e.place));
            splits = !jobs.flushing && !added;
            // Either way no flush begins that would write for the group: until the split was tried
            // again, or is done.
            jobs.split_waits = Some(group);
        }
        drop(jobs);
        if splits {
            edit.groups.push(GroupEdit::Split(group));
        } else {
            written.extents.iter_mut().for_each(|extent| extent.group = group);
        }
        publish(&written, &mut edit);
        let collected_at = |home| GroupEdit::Group(home, fixed.as_of.read_point);
        edit.groups.extend(homes(&written, group).into_iter().map(collected_at));
        let emptied = emptied_files(live, gone);
        edit.ledger.extend(emptied.iter().copied().map(LedgerEdit::Remove));
        let position = self.run_position(live, fixed.epoch);
        edit.index.add_run(position, writer.tables.iter().cloned());
        let of_victims = live.groups.extents_of(group).filter(|e| gone.contains(&e.place));
        let counted = of_victims.map(|extent| extent.live).sum();
        let survived = written.extents.iter().map(|extent| extent.live).sum();
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
            segments: std::sync::Arc::new(state.segments.joined(&opened).with_extents(&[], gone)),
        });
        let files: Vec<_> = emptied.iter().map(|file| (*file, FileKind::Group)).collect();
        self.retire_segments(&files);
        drop(manifest);
        if splits {
            self.jobs.lock().split_waits = None;
            self.counters.splits.add(1);
        }
        if planted(Bug::PunchUnderReaders) {
            self.punch_now(&fixed.groups, gone);
        }
        self.counters.collections.add(1);
        self.counters.collection_read.add(collected.bytes_read);
        self.counters.collection_written.add(written.bytes() + writer.bytes());
        Ok(())
    }

    /// Gives extents back without asking who reads them: a mistake that tests plant.
    fn punch_now(&self, groups: &cleavedb_values::GroupTable, gone: &[Place]) {
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
