//! Chooses what is collected next: groups, or a log file or segment. Each choice is a pure function
//! of an immutable read state, except that it depends on the room for the output.
//!
//! Collections begin if values exceed the space goal, or if a caller has requested all files up to
//! a number. Where values lie in the log, the oldest file is collected first; among groups the
//! policy of the options chooses. With tagging there are segments of cold values beside the groups
//! (HashKV, section 3.4): the segment with the best ratio of freed to moved bytes is collected
//! first, unless a group has a better one. Segments count in the space goal. The paper sets no
//! limit for them; under options that follow it they are never collected for space.

use std::cell::LazyCell;
use std::collections::BTreeSet;

use cleavedb_base::planted::{Bug, planted};
use cleavedb_base::{FileNumber, Location};
use cleavedb_values::groups::Extent;
use cleavedb_values::groups::victim::{GroupCandidate, group_bytes};
use cleavedb_values::victim::{
    CostBenefit, SpaceGoal, emptiest_first, most_dead, oldest_first, out_of_reach,
};
use cleavedb_values::{GroupId, GroupTable, ValueFileMeta};

use crate::background::space::{budget, reserve};
use crate::engine::Engine;
use crate::engine::job_state::{Damaged, JobState, SHORT};
use crate::store::limit::{extents_rewritten_max, file_rewritten_max, planned, rewritten_max};
use crate::store::manifest::LiveFiles;
use crate::store::survivors::Survivors;

/// The target of a collection.
pub(crate) enum Victim {
    /// A log file or a segment. The index decides which of its records live.
    File(FileNumber, ValueFileMeta),
    /// All extents of some groups. Their records decide which of them live or, in a range of keys,
    /// the index.
    Groups(Vec<GroupId>),
}

impl Victim {
    /// Upper bound of the bytes that the collection writes.
    pub(crate) fn rewritten_max(&self, table: &GroupTable) -> u64 {
        match self {
            Self::File(_, facts) => file_rewritten_max(facts),
            Self::Groups(groups) => groups.iter().map(|id| rewritten_max(table, *id)).sum(),
        }
    }

    /// Bytes of the target.
    pub(crate) fn bytes(&self, table: &GroupTable) -> u64 {
        match self {
            Self::File(_, facts) => facts.len.unwrap_or_default(),
            Self::Groups(groups) => groups.iter().map(|id| group_bytes(table, *id)).sum(),
        }
    }
}

/// The space goal of the options.
pub(crate) fn space_goal(engine: &Engine, live: &LiveFiles) -> SpaceGoal {
    let (sizing, index) = (live.groups.partition().sizing(), live.version.largest_level_bytes());
    SpaceGoal {
        amplification: engine.options.space_amplification,
        floor: engine.options.tuning.space_floor,
        beside: sizing.counted_beside(&live.groups, index),
    }
}

/// The next target, if values exceed the space goal, or if a caller has requested all files up to a
/// number.
pub(crate) fn choose_target(engine: &Engine, live: &LiveFiles, jobs: &JobState) -> Option<Victim> {
    let over = is_over(engine, live, &jobs.damaged);
    let forced = jobs.forced.is_some() || !jobs.wanted.is_empty();
    let asked = jobs.split_waits.is_some() || forced;
    let groups = choose_groups(engine, live, jobs, over);
    let goes = |first: &GroupId| asked || !over || !cold_log_beats(engine, live, jobs, *first);
    if groups.first().is_some_and(goes) {
        return Some(Victim::Groups(groups));
    }
    let victim = choose_file(engine, live, jobs, over)?;
    Some(Victim::File(victim, live.value_files.get(victim)?.clone()))
}

/// The groups to collect, the best first, if values are `over` the space goal, the segments shared
/// by groups are used up, a caller has requested all files up to a number, or there are very many
/// short groups. As many are chosen as fit a main segment together, since each collection costs
/// syncs, an edit and a run.
pub(crate) fn choose_groups(
    engine: &Engine,
    live: &LiveFiles,
    jobs: &JobState,
    over: bool,
) -> Vec<GroupId> {
    let groups = &live.groups;
    if let Some(group) = jobs.split_waits {
        return vec![group];
    }
    let sound = || {
        let of_table = groups.groups().map(|(id, _)| id);
        of_table.filter(|id| !jobs.damaged.groups.contains(id)).collect::<Vec<GroupId>>()
    };
    let may_win = LazyCell::new(|| may_win_group(engine, live, &jobs.survivors));
    let is_asked = |place: &Location| {
        jobs.forced.is_some_and(|upto| place.file <= upto) || jobs.wanted.extents.contains(place)
    };
    let is_forced = |id: &GroupId| groups.extents_of(*id).any(|extent| is_asked(&extent.place));
    let is_any = jobs.forced.is_some() || !jobs.wanted.extents.is_empty();
    let forced = is_any.then(sound).into_iter().flatten().filter(is_forced);
    // A full disk may have no room for several groups, so they are collected one by one.
    let alone = jobs.collect_alone || engine.full.is_short();
    let room = if alone { 0 } else { engine.options.tuning.groups.main_segment_bytes };
    let forced = first_that_fit(groups, forced, room);
    // On a full disk no group is collected only to split it: in pieces, it could not.
    if !forced.is_empty() || engine.full.is_short() && !over {
        return forced;
    }
    let segments = engine.options.tuning.groups.segments();
    let sizing = groups.partition().sizing();
    let shared = sizing.shared_segments(&segments, groups);
    let mut sound = sound();
    sound.retain(|id| may_win(*id));
    // Without need of space groups are collected as a whole, and never fill a disk. A space limit
    // has plans for that.
    let room_on_disk = LazyCell::new(|| reserve::room_on_disk(engine));
    let fits =
        |id: &GroupId| engine.limit.is_some() || fits_whole(groups.extents_of(*id), *room_on_disk);
    let chosen = if over || shared.is_some_and(|(used, all)| used >= all) {
        let mut candidates = candidates(engine, live, &jobs.damaged.groups);
        candidates.retain(|candidate| may_win(candidate.group));
        let policy = engine.options.tuning.groups.experiments().victim;
        policy.choose(candidates, engine.counters.collections.get(), room)
    } else {
        sizing.outgrown(&segments, groups, &sound).into_iter().filter(fits).collect()
    };
    // Below a space limit only space is a reason to collect.
    if !chosen.is_empty() || engine.limit.is_some() {
        return chosen;
    }
    let lengths = live.value_files.group_files().filter_map(|(_, meta)| meta.len);
    let crowded = segments.crowded(groups, lengths, &sound, engine.options.memtable() as u64);
    first_that_fit(groups, crowded.into_iter().filter(fits), room.min(SHORT))
}

/// Whether extents can be collected at once where there is this much room. The estimate leaves out
/// the run of new pointers and the last block of each file, so only half of the room is used.
pub(crate) fn fits_whole<'e>(extents: impl Iterator<Item = &'e Extent>, room: u64) -> bool {
    extents_rewritten_max(extents) <= room / 2
}

/// The groups that can be collected: those that are not `damaged`, and for which there is room.
pub(crate) fn candidates(
    engine: &Engine,
    live: &LiveFiles,
    damaged: &BTreeSet<GroupId>,
) -> Vec<GroupCandidate> {
    let now = engine.commit.visible();
    let filters = engine.group_filters.lock();
    let false_stubs = |group| filters.false_stubs(group);
    let mut candidates = GroupCandidate::all(&live.groups, now, live.unexposed, &false_stubs);
    drop(filters);
    candidates.retain(|candidate| !damaged.contains(&candidate.group));
    if let Some(limit) = &engine.limit {
        let worth =
            |candidates: &[GroupCandidate]| candidates.iter().any(GroupCandidate::is_worth_it);
        let (room, wanted) = (budget::room(engine), worth(&candidates));
        let len = |candidate: &GroupCandidate| rewritten_max(&live.groups, candidate.group);
        candidates.retain(|candidate| planned(len(candidate)) <= room);
        if wanted && !worth(&candidates) {
            limit.block_jobs();
        }
    }
    candidates
}

/// Whether values take enough space for collections to begin.
pub(crate) fn is_over(engine: &Engine, live: &LiveFiles, damaged: &Damaged) -> bool {
    let counted = counted_bytes(engine, live, damaged);
    let over = counted > space_goal(engine, live).begin(live.estimated_live());
    (over || budget::is_short(engine, live, counted)) && !budget::reclaims_nothing(engine, counted)
}

/// Bytes of values that count for the space goal. Bytes that no collection can free are left out:
/// dead records in damaged places or in log files that replay still needs.
pub(crate) fn counted_bytes(engine: &Engine, live: &LiveFiles, damaged: &Damaged) -> u64 {
    let limited =
        live.groups.is_empty() || engine.options.tuning.groups.experiments().cold_log_counts;
    let apart = if limited { 0 } else { live.value_files.segment_bytes() };
    let counted = live.value_bytes() - apart;
    if planted(Bug::GarbageOfNobodyCounts) {
        return counted;
    }
    let sound = |number| !damaged.files.contains(&number) || !limited;
    let in_files = out_of_reach(&live.value_files, live.head_file(), sound);
    let places = damaged.groups.iter().flat_map(|id| live.groups.extents_of(*id));
    let (bytes, alive) =
        places.fold(in_files, |(bytes, alive), e| (bytes + e.len(), alive + e.live));
    let unexposed =
        u128::from(live.unexposed) * u128::from(alive) / u128::from(live.owned().max(1));
    counted.saturating_sub(bytes.saturating_sub(alive) + unexposed as u64)
}

/// The value file to collect, if values are `over` the space goal, or if a caller has requested all
/// files up to a number.
pub(crate) fn choose_file(
    engine: &Engine,
    live: &LiveFiles,
    jobs: &JobState,
    over: bool,
) -> Option<FileNumber> {
    let is_full = engine.full.is_short();
    let room = if is_full { reserve::room_on_disk(engine) } else { budget::room(engine) };
    let fits = |number| {
        live.value_files.get(number).is_some_and(|facts| planned(file_rewritten_max(facts)) <= room)
    };
    let find = |good: &dyn Fn(FileNumber) -> bool| {
        let good = |number| !jobs.damaged.files.contains(&number) && good(number);
        match is_full {
            true => emptiest_first(&live.value_files, live.head_file(), good),
            false => oldest_first(&live.value_files, live.head_file(), good),
        }
    };
    // A file that does not fit is still chosen as a last resort: planning or writing its collection
    // then fails with an error, which waiting writers get too.
    let asked = |number| {
        jobs.forced.is_some_and(|upto| number <= upto) || jobs.wanted.files.contains(&number)
    };
    let forced = find(&|number| asked(number) && fits(number)).or_else(|| find(&asked));
    if forced.is_some() {
        return forced;
    }
    if !over {
        return None;
    }
    if !live.groups.is_empty() {
        return coldest(engine, live, &jobs.damaged, &jobs.survivors).map(|(number, _)| number);
    }
    let may_win = may_win(engine, live, &jobs.survivors);
    find(&|number| fits(number) && may_win(number)).or_else(|| find(&may_win))
}

/// Returns a test of whether a collection of a file may free space.
pub(crate) fn may_win(
    engine: &Engine,
    live: &LiveFiles,
    survivors: &Survivors,
) -> impl Fn(FileNumber) -> bool {
    let (snapshots, _) = engine.snapshots.fix(|| engine.commit.visible());
    move |number| {
        let facts = live.value_files.get(number);
        facts.is_some_and(|facts| survivors.may_win(number, facts, live.epoch, &snapshots))
    }
}

/// As [`may_win`], of a group.
fn may_win_group(
    engine: &Engine,
    live: &LiveFiles,
    survivors: &Survivors,
) -> impl Fn(GroupId) -> bool {
    let (snapshots, _) = engine.snapshots.fix(|| engine.commit.visible());
    let of = |group| group_bytes(&live.groups, group);
    move |group| survivors.may_win_group(group, of(group), live.epoch, &snapshots)
}

/// The segment of the cold log to collect for space, and how much that may free.
pub(crate) fn coldest(
    engine: &Engine,
    live: &LiveFiles,
    damaged: &Damaged,
    survivors: &Survivors,
) -> Option<(FileNumber, CostBenefit)> {
    let may_win = may_win(engine, live, survivors);
    let sound = |number| !damaged.files.contains(&number) && may_win(number);
    let counts = engine.options.tuning.groups.experiments().cold_log_counts;
    counts.then(|| most_dead(&live.value_files, live.unexposed, live.owned(), sound)).flatten()
}

/// Whether collecting the cold log frees more per moved byte than collecting `group`.
pub(crate) fn cold_log_beats(
    engine: &Engine,
    live: &LiveFiles,
    jobs: &JobState,
    group: GroupId,
) -> bool {
    let Some((_, cold)) = coldest(engine, live, &jobs.damaged, &jobs.survivors) else {
        return false;
    };
    let candidates = candidates(engine, live, &jobs.damaged.groups);
    let candidate = candidates.iter().find(|candidate| candidate.group == group);
    cold.is_better_than(candidate.map_or(CostBenefit::default(), GroupCandidate::gain))
}

/// Whether a collection could free space: of a value file, of a group, or of the cold log.
pub(crate) fn can_shrink(
    engine: &Engine,
    live: &LiveFiles,
    damaged: &Damaged,
    survivors: &Survivors,
) -> bool {
    if planted(Bug::GarbageOfNobodyCounts) {
        return true;
    }
    if live.groups.is_empty() {
        let may_win = may_win(engine, live, survivors);
        let sound = |number| !damaged.files.contains(&number) && may_win(number);
        return oldest_first(&live.value_files, live.head_file(), sound).is_some();
    }
    let groups = candidates(engine, live, &damaged.groups);
    let may_win = may_win_group(engine, live, survivors);
    let wins = |candidate: &GroupCandidate| candidate.is_worth_it() && may_win(candidate.group);
    groups.iter().any(wins) || coldest(engine, live, damaged, survivors).is_some()
}

/// The first of `chosen`, and the following ones as long as their sum is at most `room` bytes.
pub(crate) fn first_that_fit(
    groups: &GroupTable,
    chosen: impl Iterator<Item = GroupId>,
    room: u64,
) -> Vec<GroupId> {
    let sums = chosen.scan(0, |sum, id| {
        *sum += group_bytes(groups, id);
        Some((*sum, id))
    });
    let fit = sums.enumerate().take_while(|(at, (sum, _))| *at == 0 || *sum <= room);
    fit.map(|(_, (_, id))| id).collect()
}
