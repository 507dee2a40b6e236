//! How a collection changes the table of groups: groups split and merge.
//!
//! A group whose survivors outgrow its main segment splits in the collection's edit, unless a flush
//! has written to it meanwhile. In that case the survivors stay with the group, and the split is
//! tried once more before the next flush may begin: only for this one attempt does a flush wait. A
//! range of keys that has become small merges with a neighbour, unless a flush is under way.

use cleavedb_base::Result;
use cleavedb_base::planted::{Bug, planted};
use cleavedb_values::collect::output::CollectionOutput;
use cleavedb_values::groups::writer::Written;
use cleavedb_values::groups::{Extent, sizing};
use cleavedb_values::{GroupEdit, GroupId, GroupTable};

use crate::background::jobs::collection::plan::Collect;
use crate::engine::Engine;
use crate::engine::value_files::publish;
use crate::store::manifest::Edit;

/// If groups may split or merge, keeps flushes from beginning, so that no group is removed to which
/// a flush is about to write. Returns whether no flush is under way either.
pub(super) fn hold_flushes(job: &Collect<'_>, output: &CollectionOutput) -> bool {
    let regroups = output.splits() || job.groups.partition().sizing().merges();
    let splitting = output.groups.iter().find(|own| own.splits());
    let waiting = splitting.or(output.groups.first()).filter(|_| regroups);
    waiting.is_some_and(|own| {
        let mut jobs = job.engine.jobs.lock();
        // The groups of a load under way stay: it has written records of theirs.
        if jobs.load.is_some() && !planted(Bug::DividedUnderLoad) {
            return false;
        }
        jobs.split_waits = Some(own.group);
        job.engine.pacer.hurry_flush_under_way();
        !jobs.flushing || planted(Bug::SplitUnderFlush)
    })
}

/// Adds to `edit` the changes of a collection to `groups`; returns the written extents with the
/// groups that they belong to after the edit. `still` says that no flush is under way, and none can
/// begin.
pub(super) fn regroup(
    job: &Collect<'_>,
    groups: &GroupTable,
    output: &CollectionOutput,
    still: bool,
    edit: &mut Edit,
) -> Result<Written> {
    let files = output.written.files.clone();
    let mut written = Written { files, ..Written::default() };
    let mut next = groups.next_id();
    let mut homes = Vec::new();
    edit.groups.extend(output.gone().map(GroupEdit::Remove));
    for own in &output.groups {
        let added = groups.extents_of(own.group).any(|e| !own.gone.contains(&e.place));
        let extents = if own.splits() && still && !added {
            let (divided, split) = own.divided(&output.written, next);
            next.0 += own.parts();
            edit.groups.push(split);
            divided
        } else {
            own.undivided(&output.written)
        };
        homes.extend(homes_of(&extents, own.group));
        written.extents.extend(extents);
    }
    publish(&written, edit);
    let collected_at = |home| GroupEdit::Collected(home, job.read_view.points.read_point);
    edit.groups.extend(homes.into_iter().map(collected_at));
    if still && !output.splits() {
        merge_small(job, groups, output, edit)?;
    }
    Ok(written)
}

/// Adds to `edit` the merges of the collection's groups with a neighbour, if both are small. A
/// damaged group is not merged, since the merged group could not be collected either.
fn merge_small(
    job: &Collect<'_>,
    groups: &GroupTable,
    output: &CollectionOutput,
    edit: &mut Edit,
) -> Result<()> {
    let sizes = job.engine.options.tuning.groups.sizes();
    let mut after = sizing::after(groups, &edit.groups)?;
    let sound = |groups: &[GroupId; 2]| !groups.iter().any(|id| job.damaged.groups.contains(id));
    for own in &output.groups {
        let sizing = after.partition().sizing();
        if let Some(groups) = sizing.merged(sizes, &after, own.group).filter(sound) {
            let merge = GroupEdit::Merge { groups, into: after.next_id() };
            after.apply(&merge)?;
            edit.groups.push(merge);
        }
    }
    Ok(())
}

/// Counts the splits and merges of a collection's `edit`, and lets flushes begin again, unless a
/// split was prevented and is to be tried once more.
pub(super) fn regrouped(engine: &Engine, edit: &Edit, output: &CollectionOutput) {
    if output.groups.is_empty() {
        return;
    }
    let count = |of: fn(&GroupEdit) -> bool| edit.groups.iter().filter(|edit| of(edit)).count();
    let splits = count(|edit| matches!(edit, GroupEdit::Split { .. })) as u64;
    engine.counters.splits.add(splits);
    engine.counters.merges.add(count(|edit| matches!(edit, GroupEdit::Merge { .. })) as u64);
    if splits > 0 || !output.splits() {
        engine.jobs.lock().split_waits = None;
    }
}

/// The groups that hold the extents written for `group`; `group` itself if none were written.
fn homes_of(extents: &[Extent], group: GroupId) -> Vec<GroupId> {
    let mut homes: Vec<GroupId> = extents.iter().map(|extent| extent.group).collect();
    homes.dedup();
    if homes.is_empty() { vec![group] } else { homes }
}
