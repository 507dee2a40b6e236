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

use cleavedb_base::planted::{Bug, planted};
use cleavedb_base::sync::Mutex;
use cleavedb_base::{FileNumber, Location};
use cleavedb_values::groups::victim::{GroupCandidate, group_bytes};
use cleavedb_values::groups::{Extent, GroupFilters};
use cleavedb_values::victim::{
    CostBenefit, SpaceGoal, emptiest_first, most_dead, oldest_first, out_of_reach,
};
use cleavedb_values::{GroupId, GroupTable, ValueFileMeta};

use crate::engine::Engine;
use crate::engine::job_state::{Damaged, JobState, SHORT};
use crate::engine::space::{SpaceContext, rest};
use crate::operations::commit::Commit;
use crate::settings::options::Options;
use crate::store::limit::{extents_rewritten_max, file_rewritten_max, planned, rewritten_max};
use crate::store::manifest::LiveFiles;
use crate::store::snapshot::SnapshotList;
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

/// Divisor of the live bytes of a small store for the dead bytes that are always tolerated, and the
/// least number of these.
const FLOOR_PART: u64 = 4;
const FLOOR_MIN: u64 = 8 << 20;

/// The space goal of the options.
pub(crate) fn space_goal(options: &Options, live: &LiveFiles) -> SpaceGoal {
    let (sizing, index) = (live.groups.partition().sizing(), live.version.largest_level_bytes());
    SpaceGoal {
        amplification: options.space_amplification,
        floor: options.tuning.space_floor.min((live.estimated_live() / FLOOR_PART).max(FLOOR_MIN)),
        beside: sizing.counted_beside(&live.groups, index),
    }
}

/// The space goal while nothing is written.
fn at_rest(goal: SpaceGoal) -> SpaceGoal {
    let amplification = goal.amplification.min(rest::AMPLIFICATION);
    SpaceGoal { amplification, floor: goal.floor / rest::FLOOR_PART, ..goal }
}

/// What a choice depends on besides the calls and the agreements of jobs.
#[derive(Clone, Copy)]
pub(crate) struct Choice<'e> {
    pub(crate) space: SpaceContext<'e>,
    pub(crate) live: &'e LiveFiles,
    damaged: &'e Damaged,
    survivors: &'e Survivors,
    commit: &'e Commit,
    snapshots: &'e SnapshotList,
    group_filters: &'e Mutex<GroupFilters>,
}

impl<'e> Choice<'e> {
    pub(crate) fn of(
        engine: &'e Engine,
        live: &'e LiveFiles,
        damaged: &'e Damaged,
        survivors: &'e Survivors,
    ) -> Self {
        Self {
            space: engine.space(),
            live,
            damaged,
            survivors,
            commit: &engine.commit,
            snapshots: &engine.snapshots,
            group_filters: &engine.group_filters,
        }
    }

    /// The next target, if values exceed the space goal, or if a caller has requested all files up
    /// to a number.
    pub(crate) fn choose_target(&self, jobs: &JobState) -> Option<Victim> {
        let over = self.is_over();
        let forced = jobs.forced.is_some() || !jobs.wanted.is_empty();
        let asked = jobs.split_waits.is_some() || forced;
        let groups = self.choose_groups(jobs, over);
        let goes = |first: &GroupId| asked || !over || !self.cold_log_beats(*first);
        if groups.first().is_some_and(goes) {
            return Some(Victim::Groups(groups));
        }
        let victim = self.choose_file(jobs, over)?;
        Some(Victim::File(victim, self.live.value_files.get(victim)?.clone()))
    }

    /// The groups to collect, the best first, if values are `over` the space goal, the segments
    /// shared by groups are used up, a caller has requested all files up to a number, or there are
    /// very many short groups. As many are chosen as fit a main segment together, since each
    /// collection costs syncs, an edit and a run.
    fn choose_groups(&self, jobs: &JobState, over: bool) -> Vec<GroupId> {
        let Self { live, space, .. } = *self;
        let options = space.options;
        let groups = &live.groups;
        if let Some(group) = jobs.split_waits {
            return vec![group];
        }
        let sound = || {
            let of_table = groups.groups().map(|(id, _)| id);
            of_table.filter(|id| !self.damaged.groups.contains(id)).collect::<Vec<GroupId>>()
        };
        let may_win = LazyCell::new(|| self.may_win_group());
        let is_asked = |place: &Location| {
            jobs.forced.is_some_and(|upto| place.file <= upto)
                || jobs.wanted.extents.contains(place)
        };
        let is_forced = |id: &GroupId| groups.extents_of(*id).any(|extent| is_asked(&extent.place));
        let is_any = jobs.forced.is_some() || !jobs.wanted.extents.is_empty();
        let forced = is_any.then(sound).into_iter().flatten().filter(is_forced);
        // A full disk may have no room for several groups, so they are collected one by one.
        let alone = jobs.collect_alone || space.full.is_short();
        let room = if alone { 0 } else { options.tuning.groups.main_segment_bytes };
        let forced = first_that_fit(groups, forced, room);
        // On a full disk no group is collected only to split it: in pieces, it could not.
        if !forced.is_empty() || space.full.is_short() && !over {
            return forced;
        }
        let segments = options.tuning.groups.segments();
        let sizing = groups.partition().sizing();
        let shared = sizing.shared_segments(&segments, groups);
        let mut sound = sound();
        sound.retain(|id| may_win(*id));
        // Without need of space groups are collected as a whole, and never fill a disk. A space
        // limit has plans for that.
        let room_on_disk = LazyCell::new(|| space.room_on_disk());
        let fits = |id: &GroupId| {
            space.limit.is_some() || fits_whole(groups.extents_of(*id), *room_on_disk)
        };
        let chosen = if over || shared.is_some_and(|(used, all)| used >= all) {
            let mut candidates = self.candidates();
            candidates.retain(|candidate| may_win(candidate.group));
            let policy = options.tuning.groups.experiments().victim;
            policy.choose(candidates, space.counters.collections.get(), room)
        } else {
            let sizes = options.tuning.groups.sizes();
            sizing.outgrown(sizes, groups, &sound).into_iter().filter(fits).collect()
        };
        // Below a space limit only space is a reason to collect.
        if !chosen.is_empty() || space.limit.is_some() {
            return chosen;
        }
        let lengths = live.value_files.group_files().filter_map(|(_, meta)| meta.len);
        let crowded = segments.crowded(groups, lengths, &sound, options.memtable() as u64);
        first_that_fit(groups, crowded.into_iter().filter(fits), room.min(SHORT))
    }

    /// The groups that can be collected: those that are not `damaged`, and for which there is room.
    fn candidates(&self) -> Vec<GroupCandidate> {
        let live = self.live;
        let now = self.commit.visible();
        let filters = self.group_filters.lock();
        let false_stubs = |group| filters.false_stubs(group);
        let mut candidates = GroupCandidate::all(&live.groups, now, live.unexposed, &false_stubs);
        drop(filters);
        candidates.retain(|candidate| !self.damaged.groups.contains(&candidate.group));
        if let Some(limit) = self.space.limit {
            let worth =
                |candidates: &[GroupCandidate]| candidates.iter().any(GroupCandidate::is_worth_it);
            let (room, wanted) = (self.space.room_below_limit(), worth(&candidates));
            let len = |candidate: &GroupCandidate| rewritten_max(&live.groups, candidate.group);
            candidates.retain(|candidate| planned(len(candidate)) <= room);
            if wanted && !worth(&candidates) {
                limit.block_jobs();
            }
        }
        candidates
    }

    /// Whether values take enough space for collections to begin.
    pub(crate) fn is_over(&self) -> bool {
        let live = self.live;
        let counted = self.counted_bytes();
        let goal = space_goal(self.space.options, live);
        let goal = if self.space.rests() { at_rest(goal) } else { goal };
        let over = counted > goal.begin(live.estimated_live());
        (over || self.space.needs_garbage(live, counted)) && !self.space.reclaims_nothing(counted)
    }

    /// Bytes of values that count for the space goal. Bytes that no collection can free are left
    /// out: dead records in damaged places or in log files that replay still needs.
    pub(crate) fn counted_bytes(&self) -> u64 {
        let live = self.live;
        let limited = live.groups.is_empty()
            || self.space.options.tuning.groups.experiments().cold_log_counts;
        let in_cold_log = if limited { 0 } else { live.value_files.segment_bytes() };
        let counted = live.value_bytes() - in_cold_log;
        if planted(Bug::GarbageOfNobodyCounts) {
            return counted;
        }
        let sound = |number| !self.damaged.files.contains(&number) || !limited;
        let in_files = out_of_reach(&live.value_files, live.head_file(), sound);
        let places = self.damaged.groups.iter().flat_map(|id| live.groups.extents_of(*id));
        let (bytes, alive) =
            places.fold(in_files, |(bytes, alive), e| (bytes + e.len(), alive + e.live));
        let unexposed =
            u128::from(live.unexposed) * u128::from(alive) / u128::from(live.owned().max(1));
        counted.saturating_sub(bytes.saturating_sub(alive) + unexposed as u64)
    }

    /// The value file to collect, if values are `over` the space goal, or if a caller has requested
    /// all files up to a number.
    fn choose_file(&self, jobs: &JobState, over: bool) -> Option<FileNumber> {
        let live = self.live;
        let is_full = self.space.full.is_short();
        let room = if is_full { self.space.room_on_disk() } else { self.space.room_below_limit() };
        let fits = |number| {
            live.value_files
                .get(number)
                .is_some_and(|facts| planned(file_rewritten_max(facts)) <= room)
        };
        let find = |good: &dyn Fn(FileNumber) -> bool| {
            let good = |number| !self.damaged.files.contains(&number) && good(number);
            match is_full {
                true => emptiest_first(&live.value_files, live.head_file(), good),
                false => oldest_first(&live.value_files, live.head_file(), good),
            }
        };
        // A file that does not fit is still chosen as a last resort: planning or writing its
        // collection then fails with an error, which waiting writers get too.
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
            return self.coldest().map(|(number, _)| number);
        }
        let may_win = self.may_win();
        find(&|number| fits(number) && may_win(number)).or_else(|| find(&may_win))
    }

    /// Returns a test of whether a collection of a file may free space.
    fn may_win(&self) -> impl Fn(FileNumber) -> bool {
        let (snapshots, _) = self.snapshots.fix(|| self.commit.visible());
        move |number| {
            let facts = self.live.value_files.get(number);
            facts.is_some_and(|facts| {
                self.survivors.may_win(number, facts, self.live.epoch, &snapshots)
            })
        }
    }

    /// As [`may_win`], of a group.
    fn may_win_group(&self) -> impl Fn(GroupId) -> bool {
        let (snapshots, _) = self.snapshots.fix(|| self.commit.visible());
        let of = |group| group_bytes(&self.live.groups, group);
        move |group| self.survivors.may_win_group(group, of(group), self.live.epoch, &snapshots)
    }

    /// The segment of the cold log to collect for space, and how much that may free.
    fn coldest(&self) -> Option<(FileNumber, CostBenefit)> {
        let live = self.live;
        let may_win = self.may_win();
        let sound = |number| !self.damaged.files.contains(&number) && may_win(number);
        let counts = self.space.options.tuning.groups.experiments().cold_log_counts;
        counts.then(|| most_dead(&live.value_files, live.unexposed, live.owned(), sound)).flatten()
    }

    /// Whether collecting the cold log frees more per moved byte than collecting `group`.
    fn cold_log_beats(&self, group: GroupId) -> bool {
        let Some((_, cold)) = self.coldest() else {
            return false;
        };
        let candidates = self.candidates();
        let candidate = candidates.iter().find(|candidate| candidate.group == group);
        cold.is_better_than(candidate.map_or(CostBenefit::default(), GroupCandidate::gain))
    }

    /// Whether a collection could free space: of a value file, of a group, or of the cold log.
    pub(crate) fn can_shrink(&self) -> bool {
        let live = self.live;
        if planted(Bug::GarbageOfNobodyCounts) {
            return true;
        }
        if live.groups.is_empty() {
            let may_win = self.may_win();
            let sound = |number| !self.damaged.files.contains(&number) && may_win(number);
            return oldest_first(&live.value_files, live.head_file(), sound).is_some();
        }
        let groups = self.candidates();
        let may_win = self.may_win_group();
        let wins = |candidate: &GroupCandidate| candidate.is_worth_it() && may_win(candidate.group);
        groups.iter().any(wins) || self.coldest().is_some()
    }
}

/// Whether extents can be collected at once where there is this much room. The estimate leaves out
/// the run of new pointers and the last block of each file, so only half of the room is used.
pub(crate) fn fits_whole<'e>(extents: impl Iterator<Item = &'e Extent>, room: u64) -> bool {
    extents_rewritten_max(extents) <= room / 2
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
