//! Collection of groups: how it runs and is installed; `victims` says which are collected.
//!
//! What lives is decided by the records of the group, or by a merge-join with its part of the index
//! ([`cleavedb_values::collect_group`]). The rest is as in `collection`: the read point and the
//! epoch are fixed by the same step, and one edit swaps extents and adds the run of new pointers,
//! which is empty where pointers are soft.
//! The read point is one that is durable already. Writers and flushes go on meanwhile: an extent
//! that a flush adds stays for the next collection.
//!
//! A group whose survivors outgrow its main segment splits in the same edit, unless a flush has
//! written for it meanwhile. Then the survivors stay with the group, and the split is tried once
//! more before the next flush may begin: that one attempt is the only time when a flush waits.
//! A range of keys that has become small merges with a neighbour, unless a flush is under way.

use std::collections::BTreeSet;

use cleavedb_base::planted::{Bug, planted};
use cleavedb_base::sync::atomic::Ordering;
use cleavedb_base::sync::{Mutex, side_by_side};
use cleavedb_base::{Error, ErrorKind, FileNumber, Result};
use cleavedb_storage::{FileClass, FileKind, Hole, Name};
use cleavedb_values::collect_group::GroupCollector;
use cleavedb_values::collected::CollectedGroups;
use cleavedb_values::found::Arena;
use cleavedb_values::groups::writer::Written;
use cleavedb_values::groups::{Extent, ExtentWriter, Place, sizing};
use cleavedb_values::survivors::SurvivorWriter;
use cleavedb_values::{GroupEdit, GroupId, GroupTable, LedgerEdit, SegmentSet, hidden};

use super::collection::{Fixed, write_run};
use super::flush::RunWriter;
use super::liveness::of_groups;
use super::new_files::{NewFiles, add_segments};
use crate::engine::Engine;
use crate::groups::publish;
use crate::limit::{extents_alive_max, extents_rewritten_max};
use crate::manifest::{Edit, LiveFiles};
use crate::metrics::{Step, StopWatch};
use crate::options::Background;

/// Parts of a collection: its reads and its writes take about the same time.
const PARTS: usize = 2;

impl Engine {
    pub(super) fn collect_groups(&self, fixed: &Fixed, groups: &[GroupId]) -> Result<()> {
        let files = NewFiles::new(self, FileClass::Survivors);
        let segments = NewFiles::new(self, FileClass::Segments);
        let mut writer = RunWriter::new(self);
        let mut arenas: [Arena; PARTS] = std::array::from_fn(|_| Arena::new());
        let mut watch = StopWatch::start();
        let done = self.collect_parts(fixed, groups, (&files, &segments), &mut arenas);
        let done = done.and_then(|collected| {
            self.collected(watch.lap(), collected.asking);
            write_run(&collected.run, &mut writer)?;
            let cold = self.open_segments(&collected.cold)?;
            let opened = SegmentSet::default().with(&cold, &[]);
            Ok((self.with_written(&opened, &collected.written)?, collected))
        });
        let done = done.map_err(|e| self.given_up(&[&files, &segments], &writer, e))?;
        self.sync_dir()?;
        self.install_groups(fixed, &done.1, &done.0, &writer)?;
        self.counters.spent(Step::CollectIndex, watch.lap());
        Ok(())
    }

    /// Collects `groups` in parts side by side, each into files of its own: while one waits for the
    /// device the other finds out what lives (HashKV, section 3.3, retrieves segments in parallel).
    fn collect_parts<'a>(
        &self,
        fixed: &Fixed,
        groups: &[GroupId],
        (files, segments): (&NewFiles<'_>, &NewFiles<'_>),
        arenas: &'a mut [Arena; PARTS],
    ) -> Result<CollectedGroups<'a>> {
        let mut groups = groups.to_vec();
        groups.sort_unstable_by_key(|id| fixed.groups.group(*id).map(|group| &group.bound));
        let arenas = arenas.each_mut().map(|arena| Mutex::new(Some(arena)));
        let parts: Vec<_> = groups.chunks(groups.len().div_ceil(PARTS)).zip(&arenas).collect();
        let collect = |(groups, arena): (&[GroupId], &Mutex<Option<&'a mut Arena>>)| {
            let arena = arena.lock().take().expect("each part has an arena of its own");
            self.collect_part(fixed, groups, (files, segments), arena)
        };
        // Where tests step through jobs, one thread does all.
        let done: Vec<Result<CollectedGroups<'a>>> = match self.options.background {
            Background::Manual => parts.into_iter().map(collect).collect(),
            Background::Threads(_) => side_by_side(&parts, collect),
        };
        let mut done = done.into_iter();
        let first = done.next().expect("a collection has a group")?;
        done.try_fold(first, |joined, part| Ok(joined.joined(part?)))
    }

    /// Collects some groups, one after the other.
    fn collect_part<'a>(
        &self,
        fixed: &Fixed,
        groups: &[GroupId],
        (files, segments): (&NewFiles<'_>, &NewFiles<'_>),
        arena: &'a Arena,
    ) -> Result<CollectedGroups<'a>> {
        let table = &*fixed.groups;
        let extents = ExtentWriter::new(files, self.database_id, self.options.segment_bytes)
            .of_survivors()
            .of_groups(table)
            .listing_from(self.options.groups.listed_record_bytes);
        let cold = || SurvivorWriter::new(segments, self.database_id, self.segment_bytes());
        let liveness = of_groups(table, &fixed.as_of);
        let gives_up = self.jobs.gives_up(fixed.bytes());
        let cancelled = || gives_up.load(Ordering::Acquire);
        let cold = table.has_cold_log().then(cold);
        let table = (table, self.options.groups.sizes());
        let collector = GroupCollector::new(table, &*liveness, extents, cold, &cancelled, arena);
        collect_each(fixed, groups, collector)
    }

    /// Keeps flushes from beginning, so that no group goes for which one is about to write; whether
    /// none is under way.
    fn hold_flushes(&self, group: GroupId) -> bool {
        let mut jobs = self.jobs.lock();
        jobs.split_waits = Some(group);
        !jobs.flushing || planted(Bug::SplitUnderFlush)
    }

    /// Adds to an edit what a collection changes in `groups`; returns what was written, with the
    /// groups that it belongs to by now. `still` says that no flush is under way, nor will be.
    fn regroup(
        &self,
        fixed: &Fixed,
        groups: &GroupTable,
        collected: &CollectedGroups<'_>,
        still: bool,
        edit: &mut Edit,
    ) -> Result<Written> {
        let files = collected.written.files.clone();
        let mut written = Written { extents: Vec::new(), files };
        let mut next = groups.next_id();
        let mut homes = Vec::new();
        edit.groups.extend(collected.gone().map(GroupEdit::Remove));
        for own in &collected.groups {
            let added = groups.extents_of(own.group).any(|e| !own.gone.contains(&e.place));
            let extents = if own.splits() && still && !added {
                let (divided, split) = own.divided(&collected.written, next);
                next.0 += own.parts();
                edit.groups.push(split);
                divided
            } else {
                own.undivided(&collected.written)
            };
            homes.extend(homes_of(&extents, own.group));
            written.extents.extend(extents);
        }
        publish(&written, edit);
        let collected_at = |home| GroupEdit::Collected(home, fixed.as_of.read_point);
        edit.groups.extend(homes.into_iter().map(collected_at));
        if still && !collected.splits() {
            self.merge_small(fixed, groups, collected, edit)?;
        }
        Ok(written)
    }

    fn install_groups(
        &self,
        fixed: &Fixed,
        collected: &CollectedGroups<'_>,
        opened: &SegmentSet,
        writer: &RunWriter<'_>,
    ) -> Result<()> {
        let gone: BTreeSet<Place> = collected.gone().collect();
        let mut edit = Edit::default();
        add_segments(&collected.cold, &mut edit);
        let regroups = collected.splits() || fixed.groups.partition().sizing().merges();
        let splitting = collected.groups.iter().find(|own| own.splits());
        let waiting = splitting.or(collected.groups.first()).filter(|_| regroups);
        let still = waiting.is_some_and(|own| self.hold_flushes(own.group));
        let mut manifest = self.manifest.lock();
        let live = manifest.live();
        let written = self.regroup(fixed, &live.groups, collected, still, &mut edit)?;
        let emptied = emptied_files(live, &gone);
        edit.ledger.extend(emptied.iter().copied().map(LedgerEdit::Remove));
        let position = self.run_position(live, fixed.epoch);
        edit.index.add_run(position, writer.tables.iter().cloned());
        let of_victims = collected.groups.iter().flat_map(|own| live.groups.extents_of(own.group));
        let counted = of_victims.filter(|e| gone.contains(&e.place)).map(|e| e.live).sum();
        let left: u64 = collected.cold.iter().map(|new| new.live).sum();
        let survived = left + written.extents.iter().map(|extent| extent.live).sum::<u64>();
        let all = live.owned();
        edit.hidden = Some(hidden::after_collection(live.hidden, counted, survived, all));
        if planted(Bug::PunchBeforeEdit) {
            self.punch_now(&fixed.groups, &gone);
        }
        self.commit_edit(&mut manifest, &edit)?;
        for place in gone.iter().filter(|place| !emptied.contains(&place.file)) {
            fixed.as_of.state.segments.extent(*place)?.mark_obsolete();
        }
        let LiveFiles { version, groups, .. } = manifest.live();
        let dropped: Vec<_> = collected.gone().collect();
        self.state.swap(|state| {
            let segments = state.segments.joined(opened).with_extents(&[], &dropped);
            state.with_version(version.clone()).with_groups(segments, groups.clone())
        });
        let files: Vec<_> = emptied.iter().map(|file| (*file, FileKind::Group)).collect();
        self.retire_segments(&files);
        let ledger = manifest.live().ledger.clone();
        drop(manifest);
        self.survived(fixed, &collected.cold, &ledger);
        self.regrouped(&edit, collected.splits());
        if planted(Bug::PunchUnderReaders) {
            self.punch_now(&fixed.groups, &gone);
        }
        self.counters.collections.add(1);
        self.counters.collection_read.add(collected.bytes_read);
        self.counters.collection_written.add(written.bytes() + left + writer.bytes());
        Ok(())
    }

    /// Adds to a collection's edit that its groups become one with a neighbour, where both are
    /// small. A damaged group, which cannot be collected, stays alone with that.
    fn merge_small(
        &self,
        fixed: &Fixed,
        groups: &GroupTable,
        collected: &CollectedGroups<'_>,
        edit: &mut Edit,
    ) -> Result<()> {
        let sizes = self.options.groups.sizes();
        let mut after = sizing::after(groups, &edit.groups)?;
        let sound =
            |groups: &[GroupId; 2]| !groups.iter().any(|id| fixed.damaged.groups.contains(id));
        for own in &collected.groups {
            if let Some(groups) =
                after.partition().sizing().merged(sizes, &after, own.group).filter(sound)
            {
                let merge = GroupEdit::Merge { groups, into: after.next_id() };
                after.apply(&merge)?;
                edit.groups.push(merge);
            }
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
    fn punch_now(&self, groups: &GroupTable, gone: &BTreeSet<Place>) {
        for extent in groups.extents().filter(|extent| gone.contains(&extent.place)) {
            let Place { file, offset } = extent.place;
            let name = Name::numbered(FileKind::Group, file);
            self.punch(Hole { name, offset, len: extent.len() });
        }
    }
}

/// Collects one group after the other, in the order of their bounds, all announced to the device
/// first: HashKV's threads (section 3.8), without threads.
fn collect_each<'a>(
    fixed: &Fixed,
    groups: &[GroupId],
    mut collector: GroupCollector<'_, 'a>,
) -> Result<CollectedGroups<'a>> {
    let open = &fixed.as_of.state.segments;
    let handles = |extents: Vec<&Extent>| {
        let handles = extents.into_iter().map(|extent| open.extent(extent.place).cloned());
        handles.collect::<Result<Vec<_>>>()
    };
    let groups = groups.iter().map(|group| {
        let (extents, others) = parted(fixed, *group);
        Ok((*group, handles(extents)?, handles(others)?))
    });
    let groups = groups.collect::<Result<Vec<_>>>()?;
    groups.iter().flat_map(|(_, extents, _)| extents).for_each(|extent| extent.will_need());
    for (group, extents, others) in groups {
        let collected = collector.collect(group, &extents, &others);
        let damaged = |error: &Error| error.kind() == ErrorKind::Corruption;
        if collected.as_ref().is_err_and(damaged) {
            fixed.failed.lock().get_or_insert(group);
        }
        collected?;
    }
    collector.finish()
}

/// The extents of `group` that are collected now, and those that are left: where a full disk has no
/// room for all, the former are some with most dead bytes.
fn parted(fixed: &Fixed, group: GroupId) -> (Vec<&Extent>, Vec<&Extent>) {
    let mut extents: Vec<&Extent> = fixed.groups.extents_of(group).collect();
    let room = fixed.room.filter(|room| extents_rewritten_max(extents.iter().copied()) > *room / 2);
    let Some(room) = room else { return (extents, Vec::new()) };
    let asked = |extent: &Extent| fixed.forced.is_none_or(|upto| extent.place.file <= upto);
    // Stubs stay as long as what they hide; and what was just collected waits for its turn.
    let alive = |extent: &Extent| 10 * extents_alive_max([extent]) / extent.len().max(1);
    extents.sort_by_key(|e| (!asked(e), alive(e), e.survivors, e.place));
    let fits = |count: &usize| {
        let first = extents[..*count].iter().copied();
        // Its run, and the blocks of each file, are not counted.
        extents_rewritten_max(first) <= room / 2 && asked(extents[*count - 1])
    };
    let count = (2..extents.len()).take_while(fits).last().unwrap_or(1);
    let others = extents.split_off(count);
    (extents, others)
}

/// The groups that have what was written for `group`: itself if that is nothing.
fn homes_of(extents: &[Extent], group: GroupId) -> Vec<GroupId> {
    let mut homes: Vec<GroupId> = extents.iter().map(|extent| extent.group).collect();
    homes.dedup();
    if homes.is_empty() { vec![group] } else { homes }
}

/// Files of `gone` that hold no other extent.
fn emptied_files(live: &LiveFiles, gone: &BTreeSet<Place>) -> Vec<FileNumber> {
    let mut files: Vec<FileNumber> = gone.iter().map(|place| place.file).collect();
    files.sort_unstable();
    files.dedup();
    files.retain(|file| !live.groups.uses_file(*file, gone));
    files
}
