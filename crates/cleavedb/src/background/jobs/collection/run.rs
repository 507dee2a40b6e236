//! How a collection runs: a file is collected by itself. Groups are divided into parts, which run
//! at the same time; in each part one group follows the other.

use cleavedb_base::sync::atomic::Ordering;
use cleavedb_base::sync::{Mutex, side_by_side};
use cleavedb_base::{Error, ErrorKind, FileNumber, Result};
use cleavedb_storage::mapped::{Arena, MappedVec, mapped_vec};
use cleavedb_values::collect::output::{CollectionOutput, RunEntry, in_index_order};
use cleavedb_values::collect::survivors::SurvivorWriter;
use cleavedb_values::collect::{Collector, Liveness, SealedFile};
use cleavedb_values::groups::{Extent, ExtentWriter};
use cleavedb_values::{GroupId, ValueFileMeta};

use crate::background::jobs::collection::plan::Collect;
use crate::background::jobs::liveness::{ByLookUp, of_groups};
use crate::background::jobs::new_files::NewFiles;
use crate::background::victims::{Victim, fits_whole};
use crate::settings::options::Background;
use crate::store::limit::extents_alive_max;

/// Parts of a collection: two, since its reads and its writes take about the same time.
pub(super) const PARTS: usize = 2;

/// Collects the target: survivors of groups go into `files`; those that leave their group, or have
/// none, go into `segments`.
pub(super) fn collect<'a>(
    job: &Collect<'_>,
    files: &NewFiles<'_>,
    segments: &NewFiles<'_>,
    arenas: &'a mut [Arena; PARTS],
) -> Result<(CollectionOutput, MappedVec<RunEntry<'a>>)> {
    match &job.target {
        Victim::File(number, facts) => {
            collect_file(job, *number, facts, files, segments, &arenas[0])
        }
        Victim::Groups(groups) => collect_parts(job, groups, files, segments, arenas),
    }
}

fn collect_file<'a>(
    job: &Collect<'_>,
    number: FileNumber,
    facts: &ValueFileMeta,
    files: &NewFiles<'_>,
    segments: &NewFiles<'_>,
    arena: &'a Arena,
) -> Result<(CollectionOutput, MappedVec<RunEntry<'a>>)> {
    let segment = job.read_view.state.segments.get(number).ok_or_else(|| {
        Error::corruption("the victim of a collection is not open").with("file", number)
    })?;
    let len = facts.len.unwrap_or_default();
    with_collector(job, &ByLookUp(&job.read_view), files, segments, arena, |collector| {
        collector.collect_file(SealedFile::new(segment.clone(), facts.base, len))
    })
}

/// Collects `groups` in parts at the same time, each into files of its own: while one part waits
/// for the device, another determines which records live (HashKV, section 3.3, retrieves segments
/// in parallel).
pub(super) fn collect_parts<'a>(
    job: &Collect<'_>,
    groups: &[GroupId],
    files: &NewFiles<'_>,
    segments: &NewFiles<'_>,
    arenas: &'a mut [Arena; PARTS],
) -> Result<(CollectionOutput, MappedVec<RunEntry<'a>>)> {
    let mut groups = groups.to_vec();
    groups.sort_unstable_by_key(|id| job.groups.group(*id).map(|group| &group.bound));
    let arenas = arenas.each_mut().map(|arena| Mutex::new(Some(arena)));
    let parts: Vec<_> = groups.chunks(groups.len().div_ceil(PARTS)).zip(&arenas).collect();
    let collect = |(groups, arena): (&[GroupId], &Mutex<Option<&'a mut Arena>>)| {
        let arena: &'a Arena = arena.lock().take().expect("each part has an arena of its own");
        let liveness = of_groups(&job.groups, &job.read_view);
        with_collector(job, &*liveness, files, segments, arena, |collector| {
            collect_each(job, groups, collector)
        })
    };
    // Without background threads, in which tests step through jobs, one thread does all parts.
    let done: Vec<Result<_>> = match job.engine.options.background {
        Background::Manual => parts.into_iter().map(collect).collect(),
        Background::Threads(_) => side_by_side(&parts, collect),
    };
    let (mut output, mut run) = (CollectionOutput::default(), mapped_vec());
    for part in done {
        let (of_part, run_of_part) = part?;
        output = output.joined(of_part);
        run.extend(run_of_part);
    }
    in_index_order(&mut run);
    Ok((output, run))
}

/// Collects one group after the other, in the order of their bounds. All their extents are
/// announced to the device first, which has the effect of HashKV's threads (section 3.8) without
/// threads.
fn collect_each(
    job: &Collect<'_>,
    groups: &[GroupId],
    collector: &mut Collector<'_, '_>,
) -> Result<()> {
    let open = &job.read_view.state.segments;
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

/// The extents of `group` to collect now, and those to leave: if a full disk has no room for all of
/// them, some with the largest share of dead bytes are collected.
fn parted<'j>(job: &'j Collect<'_>, group: GroupId) -> (Vec<&'j Extent>, Vec<&'j Extent>) {
    let mut extents: Vec<&Extent> = job.groups.extents_of(group).collect();
    let room = job.room.filter(|room| !fits_whole(extents.iter().copied(), *room));
    let Some(room) = room else { return (extents, Vec::new()) };
    let asked = |extent: &Extent| job.forced.is_none_or(|upto| extent.place.file <= upto);
    // Group tombstones must stay as long as the records that they hide, so they count as alive.
    // Among extents with equal shares those that a collection wrote come last.
    let alive = |extent: &Extent| 10 * extents_alive_max([extent]) / extent.len().max(1);
    extents.sort_by_key(|e| (!asked(e), alive(e), e.survivors, e.place));
    let fits = |count: &usize| {
        fits_whole(extents[..*count].iter().copied(), room) && asked(extents[*count - 1])
    };
    let count = (2..extents.len()).take_while(fits).last().unwrap_or(1);
    let others = extents.split_off(count);
    (extents, others)
}

/// Runs `collect` with a collector that asks `liveness`, and finishes the files that it wrote.
pub(super) fn with_collector<'a>(
    job: &Collect<'_>,
    liveness: &dyn Liveness,
    files: &NewFiles<'_>,
    segments: &NewFiles<'_>,
    arena: &'a Arena,
    collect: impl FnOnce(&mut Collector<'_, 'a>) -> Result<()>,
) -> Result<(CollectionOutput, MappedVec<RunEntry<'a>>)> {
    let (engine, table) = (job.engine, &*job.groups);
    let extents = ExtentWriter::new(files, engine.database_id, engine.options.tuning.segment_bytes)
        .of_survivors()
        .of_groups(table)
        .key_blocks_from(engine.options.tuning.groups.key_block_record_bytes)
        .keeping_keys(engine.group_filters.lock().are_used());
    let segment_bytes = engine.space().segment_bytes();
    let segments = SurvivorWriter::new(segments, engine.database_id, segment_bytes);
    let gives_up = engine.jobs.gives_up(job.bytes());
    let cancelled = || gives_up.load(Ordering::Acquire);
    let sizes = engine.options.tuning.groups.sizes();
    let mut collector =
        Collector::new(table, sizes, liveness, segments, extents, &cancelled, arena);
    collect(&mut collector)?;
    collector.finish()
}
