//! The cold log: segments with values of hash groups that were not updated (HashKV, section 3.4).
//!
//! It is collected as the log of `wisckey` is, with the index, but the segment that gives back most
//! for what it moves goes first; and a group goes before it if it gives back more. Its bytes count
//! in the space goal. The paper left it without a limit: then it is never collected for space.

use std::sync::Arc;

use cleavedb_base::planted::{Bug, planted};
use cleavedb_base::{FileNumber, Result};
use cleavedb_storage::FileKind;
use cleavedb_storage::segment::Segment;
use cleavedb_values::groups::victim::Candidate;
use cleavedb_values::survivors::NewSegment;
use cleavedb_values::victim::{Gain, emptiest_first, most_dead, oldest_first, out_of_reach};
use cleavedb_values::{GroupId, LedgerEdit};

use crate::engine::Engine;
use crate::jobs::{Damaged, JobState};
use crate::limit::{file_rewritten_max, planned};
use crate::manifest::{Edit, LiveFiles};
use crate::vain::Survivors;

impl Engine {
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
    pub(super) fn choose_file(
        &self,
        live: &LiveFiles,
        jobs: &JobState,
        over: bool,
    ) -> Option<FileNumber> {
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
    pub(super) fn cold_log_beats(&self, live: &LiveFiles, jobs: &JobState, group: GroupId) -> bool {
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

    /// Opens segments of survivors.
    pub(super) fn open_segments(&self, segments: &[NewSegment]) -> Result<Vec<Arc<Segment>>> {
        let open = |new: &NewSegment| self.open_segment(FileKind::Segment, new.name.number(), None);
        segments.iter().map(open).collect()
    }
}

/// Adds segments of survivors to an edit.
pub(super) fn add_segments(segments: &[NewSegment], edit: &mut Edit) {
    for new in segments {
        let number = new.name.number();
        edit.ledger.push(LedgerEdit::Add(number, FileKind::Segment));
        edit.ledger.push(LedgerEdit::Seal(number, 0, new.len));
        if !planted(Bug::ColdNotBorn) {
            edit.ledger.push(LedgerEdit::Born(number, new.live));
        }
    }
}
