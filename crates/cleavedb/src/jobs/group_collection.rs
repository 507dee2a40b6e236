//! How a collection of groups runs: in parts side by side, and a group after the other in each.

use cleavedb_base::sync::{Mutex, side_by_side};
use cleavedb_base::{Error, ErrorKind, Result};
use cleavedb_values::GroupId;
use cleavedb_values::collect::Collector;
use cleavedb_values::collect::found::Arena;
use cleavedb_values::collect::output::{CollectionOutput, RunEntry, in_index_order};
use cleavedb_values::groups::Extent;

use super::collection::Collect;
use super::liveness::of_groups;
use super::new_files::NewFiles;
use crate::limit::{extents_alive_max, extents_rewritten_max};
use crate::options::Background;

/// Parts of a collection: its reads and its writes take about the same time.
pub(super) const PARTS: usize = 2;

/// Collects `groups` in parts side by side, each into files of its own: while one waits for the
/// device the other finds out what lives (HashKV, section 3.3, retrieves segments in parallel).
pub(super) fn collect_parts<'a>(
    job: &Collect<'_>,
    groups: &[GroupId],
    files: (&NewFiles<'_>, &NewFiles<'_>),
    arenas: &'a mut [Arena; PARTS],
) -> Result<(CollectionOutput, Vec<RunEntry<'a>>)> {
    let mut groups = groups.to_vec();
    groups.sort_unstable_by_key(|id| job.groups.group(*id).map(|group| &group.bound));
    let arenas = arenas.each_mut().map(|arena| Mutex::new(Some(arena)));
    let parts: Vec<_> = groups.chunks(groups.len().div_ceil(PARTS)).zip(&arenas).collect();
    let collect = |(groups, arena): (&[GroupId], &Mutex<Option<&'a mut Arena>>)| {
        let arena: &'a Arena = arena.lock().take().expect("each part has an arena of its own");
        let liveness = of_groups(&job.groups, &job.as_of);
        job.with_collector(&*liveness, files, arena, |collector| {
            collect_each(job, groups, collector)
        })
    };
    // Where tests step through jobs, one thread does all.
    let done: Vec<Result<_>> = match job.engine.options.background {
        Background::Manual => parts.into_iter().map(collect).collect(),
        Background::Threads(_) => side_by_side(&parts, collect),
    };
    let (mut output, mut run) = (CollectionOutput::default(), Vec::new());
    for part in done {
        let (of_part, run_of_part) = part?;
        output = output.joined(of_part);
        run.extend(run_of_part);
    }
    in_index_order(&mut run);
    Ok((output, run))
}

/// Collects one group after the other, in the order of their bounds, all announced to the device
/// first: HashKV's threads (section 3.8), without threads.
fn collect_each(
    job: &Collect<'_>,
    groups: &[GroupId],
    collector: &mut Collector<'_, '_>,
) -> Result<()> {
    let open = &job.as_of.state.segments;
    let handles = |extents: Vec<&Extent>| {
        let handles = extents.into_iter().map(|extent| open.extent(extent.place).cloned());
        handles.collect::<Result<Vec<_>>>()
    };
    let groups = groups.iter().map(|group| {
        let (extents, others) = parted(job, *group);
        Ok((*group, handles(extents)?, handles(others)?))
    });
    let groups = groups.collect::<Result<Vec<_>>>()?;
    groups.iter().flat_map(|(_, extents, _)| extents).for_each(|extent| extent.will_need());
    for (group, extents, others) in groups {
        let collected = collector.collect_group(group, &extents, &others);
        let damaged = |error: &Error| error.kind() == ErrorKind::Corruption;
        if collected.as_ref().is_err_and(damaged) {
            job.failed.lock().get_or_insert(group);
        }
        collected?;
    }
    Ok(())
}

/// The extents of `group` that are collected now, and those that are left: where a full disk has no
/// room for all, the former are some with most dead bytes.
fn parted<'j>(job: &'j Collect<'_>, group: GroupId) -> (Vec<&'j Extent>, Vec<&'j Extent>) {
    let mut extents: Vec<&Extent> = job.groups.extents_of(group).collect();
    let room = job.room.filter(|room| extents_rewritten_max(extents.iter().copied()) > *room / 2);
    let Some(room) = room else { return (extents, Vec::new()) };
    let asked = |extent: &Extent| job.forced.is_none_or(|upto| extent.place.file <= upto);
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
