//! What is collected next: groups, or a log file or segment. Pure choices from an immutable
//! picture, but for the room that there is.
//!
//! Space is counted against a goal, or somebody asked for all files up to a number. Where values
//! lie in the log the oldest file goes first; among groups the policy of the options chooses. With
//! tagging there are segments of cold values beside the groups (HashKV, section 3.4): the one that
//! gives back most for what it moves goes first, and a group goes before it if it gives back more.
//! Their bytes count in the space goal. The paper left them without a limit; then they are never
//! collected for space.

use std::collections::BTreeSet;

use cleavedb_base::FileNumber;
use cleavedb_base::planted::{Bug, planted};
use cleavedb_storage::FileKind;
use cleavedb_values::groups::victim::{Candidate, group_bytes};
use cleavedb_values::victim::{
    Gain, SpaceGoal, emptiest_first, most_dead, oldest_first, out_of_reach,
};
use cleavedb_values::{FileFacts, GroupId, GroupTable};

use crate::engine::Engine;
use crate::jobs::{Damaged, JobState, SHORT};
use crate::limit::{file_rewritten_max, planned, rewritten_max};
use crate::manifest::LiveFiles;
use crate::vain::Survivors;

/// What is collected.
pub(super) enum Target {
    /// A log file or a segment: the index knows what lives in it.
    File(FileNumber, FileFacts),
    /// All of some groups: their records know what lives, or their ranges of the index.
    Groups(Vec<GroupId>),
}

impl Target {
    /// Bytes of what is collected.
    pub(super) fn bytes(&self, table: &GroupTable) -> u64 {
        match self {
            Self::File(_, facts) => facts.len.unwrap_or_default(),
            Self::Groups(groups) => groups.iter().map(|id| group_bytes(table, *id)).sum(),
        }
    }
}

impl Engine {
    /// What space is tolerated.
    pub(crate) fn space_goal(&self) -> SpaceGoal {
        SpaceGoal {
            amplification: self.options.space_amplification,
            floor: self.options.space_floor,
        }
    }

    /// What to collect, if something should be: space is beyond the goal, or somebody asked for all
    /// files up to a number.
    pub(super) fn choose_target(&self, live: &LiveFiles, jobs: &JobState) -> Option<Target> {
        let over = self.is_over(live, &jobs.damaged);
        let asked = jobs.split_waits.is_some() || jobs.forced.is_some();
        let groups = self.choose_groups(live, jobs, over);
        let goes = |first: &GroupId| asked || !over || !self.cold_log_beats(live, jobs, *first);
        if groups.first().is_some_and(goes) {
            return Some(Target::Groups(groups));
        }
        let victim = self.choose_file(live, jobs, over)?;
        Some(Target::File(victim, live.ledger.get(victim)?.clone()))
    }

    /// The groups to collect, if some should be: space is `over` the goal, the reserve for log
    /// segments is used up, somebody asked for all files up to a number, or there are very many
    /// short ones; the best first. As many as fit a main segment together, since each collection
    /// costs syncs, an edit and a run.
    fn choose_groups(&self, live: &LiveFiles, jobs: &JobState, over: bool) -> Vec<GroupId> {
        let groups = &live.groups;
        if let Some(group) = jobs.split_waits {
            return vec![group];
        }
        let sound = || groups.groups().filter(|(id, _)| !jobs.damaged.groups.contains(id));
        let old = |group, upto| groups.extents_of(group).any(|e| e.place.file <= upto);
        let forced = jobs
            .forced
            .into_iter()
            .flat_map(|upto| sound().map(|(id, _)| id).filter(move |id| old(*id, upto)));
        // What a full disk has no room for together goes one by one.
        let alone = jobs.collect_alone || self.full.is_short();
        let room = if alone { 0 } else { self.options.groups.main_segment_bytes };
        let forced = first_that_fit(groups, forced, room);
        // A group that is collected in pieces does not split.
        if !forced.is_empty() || self.full.is_short() && !over {
            return forced;
        }
        let segments = self.options.groups.segments();
        let sizing = groups.partition().sizing();
        let shared = sizing.shared_segments(&segments, groups);
        let chosen = if over || shared.is_some_and(|(used, all)| used >= all) {
            let candidates = self.candidates(live, &jobs.damaged.groups);
            self.options.groups.victim.choose(candidates, self.counters.collections.get(), room)
        } else {
            let sound: Vec<GroupId> = sound().map(|(id, _)| id).collect();
            sizing.outgrown(&segments, groups, &sound).into_iter().collect()
        };
        // Where space is limited it is what counts.
        if !chosen.is_empty() || self.limit.is_some() {
            return chosen;
        }
        let sound: Vec<GroupId> = sound().map(|(id, _)| id).collect();
        let of_groups = live.ledger.iter().filter(|(_, facts)| facts.kind == FileKind::Group);
        let lengths = of_groups.filter_map(|(_, facts)| facts.len);
        let crowded = segments.crowded(groups, lengths, &sound);
        first_that_fit(groups, crowded.into_iter(), room.min(SHORT))
    }

    /// The groups that can be collected: all but the `damaged` ones, and those that there is no
    /// room for.
    fn candidates(&self, live: &LiveFiles, damaged: &BTreeSet<GroupId>) -> Vec<Candidate> {
        let mut candidates = Candidate::all(&live.groups, self.commit.visible(), live.hidden);
        candidates.retain(|candidate| !damaged.contains(&candidate.group));
        if let Some(limit) = &self.limit {
            let worth = |candidates: &[Candidate]| candidates.iter().any(Candidate::is_worth_it);
            let (room, wanted) = (self.room(), worth(&candidates));
            let len = |candidate: &Candidate| rewritten_max(&live.groups, candidate.group);
            candidates.retain(|candidate| planned(len(candidate)) <= room);
            if wanted && !worth(&candidates) {
                limit.starve();
            }
        }
        candidates
    }

    /// Whether space is beyond what begins collections.
    pub(super) fn is_over(&self, live: &LiveFiles, damaged: &Damaged) -> bool {
        let counted = self.counted_bytes(live, damaged);
        let over = counted > self.space_goal().begin(live.estimated_live());
        (over || self.is_short(live, counted)) && !self.collects_in_vain(counted)
    }

    /// Bytes of values that the space goal counts: no collection can win what maps take, nor what
    /// is dead where none may go, in a damaged place or in a log that replay still needs.
    pub(crate) fn counted_bytes(&self, live: &LiveFiles, damaged: &Damaged) -> u64 {
        let limited = live.groups.is_empty() || self.options.groups.cold_log_counts;
        let apart = if limited { 0 } else { live.ledger.segments() };
        let counted = live.value_bytes() - apart - live.groups.map_bytes();
        if planted(Bug::GarbageOfNobodyCounts) {
            return counted;
        }
        let sound = |number| !damaged.files.contains(&number) || !limited;
        let in_files = out_of_reach(&live.ledger, live.head_file(), sound);
        let places = live.groups.extents().filter(|e| damaged.groups.contains(&e.group));
        let (bytes, alive) =
            places.fold(in_files, |(bytes, alive), e| (bytes + e.map_from(), alive + e.live));
        let hidden = u128::from(live.hidden) * u128::from(alive) / u128::from(live.owned().max(1));
        counted.saturating_sub(bytes.saturating_sub(alive) + hidden as u64)
    }

    /// The value file to collect, if one should be: space is `over` the goal, or somebody asked for
    /// all files up to a number.
    fn choose_file(&self, live: &LiveFiles, jobs: &JobState, over: bool) -> Option<FileNumber> {
        let is_full = self.full.is_short();
        let room = if is_full { self.room_on_disk() } else { self.room() };
        let fits = |number| {
            live.ledger.get(number).is_some_and(|facts| planned(file_rewritten_max(facts)) <= room)
        };
        let find = |good: &dyn Fn(FileNumber) -> bool| {
            let good = |number| !jobs.damaged.files.contains(&number) && good(number);
            match is_full {
                true => emptiest_first(&live.ledger, live.head_file(), good),
                false => oldest_first(&live.ledger, live.head_file(), good),
            }
        };
        // One that does not fit is told so when it is planned or written, and writers with it.
        let asked = |number| jobs.forced.is_some_and(|upto| number <= upto);
        let forced = find(&|number| asked(number) && fits(number)).or_else(|| find(&asked));
        if forced.is_some() {
            return forced;
        }
        if !over {
            return None;
        }
        if !live.groups.is_empty() {
            return self.coldest(live, &jobs.damaged, &jobs.survivors).map(|(number, _)| number);
        }
        let may_win = self.may_win(live, &jobs.survivors);
        find(&|number| fits(number) && may_win(number)).or_else(|| find(&may_win))
    }

    /// Says of a file whether a collection may win anything in it.
    fn may_win(&self, live: &LiveFiles, survivors: &Survivors) -> impl Fn(FileNumber) -> bool {
        let (snapshots, _) = self.snapshots.fix(|| self.commit.visible());
        move |number| {
            let facts = live.ledger.get(number);
            facts.is_some_and(|facts| survivors.may_win(number, facts, (live.epoch, &snapshots)))
        }
    }

    /// The segment of the cold log to collect for the sake of space, and what that may win.
    fn coldest(
        &self,
        live: &LiveFiles,
        damaged: &Damaged,
        survivors: &Survivors,
    ) -> Option<(FileNumber, Gain)> {
        let may_win = self.may_win(live, survivors);
        let sound = |number| !damaged.files.contains(&number) && may_win(number);
        let counts = self.options.groups.cold_log_counts;
        counts.then(|| most_dead(&live.ledger, live.hidden, live.owned(), sound)).flatten()
    }

    /// Whether the cold log gives back more than `group` for each byte that is moved.
    fn cold_log_beats(&self, live: &LiveFiles, jobs: &JobState, group: GroupId) -> bool {
        let Some((_, cold)) = self.coldest(live, &jobs.damaged, &jobs.survivors) else {
            return false;
        };
        let candidates = self.candidates(live, &jobs.damaged.groups);
        let candidate = candidates.iter().find(|candidate| candidate.group == group);
        cold.beats(candidate.map_or(Gain::default(), Candidate::gain))
    }

    /// Whether a collection could win space: in a value file, or in a group or the cold log.
    pub(super) fn can_shrink(
        &self,
        live: &LiveFiles,
        damaged: &Damaged,
        survivors: &Survivors,
    ) -> bool {
        if planted(Bug::GarbageOfNobodyCounts) {
            return true;
        }
        if live.groups.is_empty() {
            let may_win = self.may_win(live, survivors);
            let sound = |number| !damaged.files.contains(&number) && may_win(number);
            return oldest_first(&live.ledger, live.head_file(), sound).is_some();
        }
        let groups = self.candidates(live, &damaged.groups);
        groups.iter().any(Candidate::is_worth_it)
            || self.coldest(live, damaged, survivors).is_some()
    }
}

/// The first of `chosen`, and those after it that have at most `room` bytes together with it.
fn first_that_fit(
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
