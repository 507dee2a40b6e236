//! When to collect groups, and which next (HashKV, sections 3.2 and 3.3): pure functions.
//!
//! The space of a hash group is counted as in the paper: its first bytes are its *main segment*,
//! which is always counted; the rest is whole *log segments*, from a reserve that all groups share.
//! Collection is due when the reserve is used up.

use std::cmp::Reverse;
use std::collections::VecDeque;

use cleavedb_base::SeqNo;
use cleavedb_base::checksum::hash64;
use cleavedb_base::limits::BLOCK;

use super::liveness::reclaimable;
use super::table::{Group, GroupTable};
use crate::partition::GroupId;
use crate::victim::CostBenefit;

/// Lengths of segments, in bytes, and the reserve.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SegmentSizes {
    /// Length of a main segment.
    pub main: u64,
    /// Length of a log segment.
    pub log: u64,
    /// Size of the reserve for log segments, as a fraction of all main segments.
    pub reserved: f64,
}

impl SegmentSizes {
    /// Bytes of log segments for a group of `bytes`.
    pub fn log_bytes(&self, bytes: u64) -> u64 {
        bytes.saturating_sub(self.main).next_multiple_of(self.log.max(1))
    }

    /// Bytes of log segments in use, of all groups.
    pub fn used(&self, table: &GroupTable) -> u64 {
        table.groups().map(|(_, group)| self.log_bytes(group.bytes())).sum()
    }

    /// Bytes of the whole reserve.
    pub fn reserve(&self, table: &GroupTable) -> u64 {
        (table.groups().count() as f64 * self.main as f64 * self.reserved) as u64
    }
}

/// Number of short files of groups that is tolerated: a fixed one, plus the same for each main
/// segment's worth of bytes.
const FILES_MIN: u64 = 12;
const FILES_PER_SEGMENT: u64 = 4;

/// Divisor of a main segment, and of a MemTable: files below both quotients are short.
const SHORT_PART: u64 = 8;

/// Files of this length are short, however short MemTables are: what short sessions leave.
const SESSION_MAX: u64 = 128 << 10;

impl SegmentSizes {
    /// The `groups` with several extents, those with most first, if too many of the files with
    /// these `lengths` are short: each short session leaves one. It ends, since a collected group
    /// has one extent. Files of ordinary flushes do not count, however many there are: packing them
    /// would rewrite the store without need. A MemTable of `memtable` bytes is flushed to few
    /// files.
    pub fn crowded(
        &self,
        table: &GroupTable,
        lengths: impl Iterator<Item = u64>,
        groups: &[GroupId],
        memtable: u64,
    ) -> Vec<GroupId> {
        let worth = table.bytes().saturating_mul(FILES_PER_SEGMENT) / self.main.max(1);
        let flushed = (memtable / SHORT_PART).max(SESSION_MAX);
        let short_max = (self.main / SHORT_PART).min(flushed).max(2 * BLOCK as u64);
        let short = lengths.filter(|len| *len <= short_max).count() as u64;
        if short <= FILES_MIN + worth {
            return Vec::new();
        }
        let count = |group| table.group(group).map_or(0, |group| group.extents.len());
        let extents = groups.iter().map(|group| (count(*group), *group));
        let mut divided: Vec<(usize, GroupId)> = extents.filter(|(count, _)| *count > 1).collect();
        divided.sort_by_key(|(count, _)| Reverse(*count));
        divided.into_iter().map(|(_, group)| group).collect()
    }
}

/// Bytes of all extents of a group.
pub fn group_bytes(table: &GroupTable, group: GroupId) -> u64 {
    table.group(group).map_or(0, Group::bytes)
}

/// How victims are chosen among the groups.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum VictimPolicy {
    /// The group with the most writes since its last collection (the paper's default).
    #[default]
    Greedy,
    /// The group with the greatest age times garbage, per byte that is read and written.
    #[cfg(feature = "experiments")]
    CostBenefit,
    /// One of the given number of groups with the most writes, at random; 1 is
    /// [`VictimPolicy::Greedy`].
    #[cfg(feature = "experiments")]
    GreedyRandom(usize),
    /// Any group that was written.
    #[cfg(feature = "experiments")]
    Random,
}

/// A group as a policy sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupCandidate {
    /// The group.
    pub group: GroupId,
    /// Bytes of its extents.
    pub bytes: u64,
    /// Bytes that a collection may reclaim, by the rule of liveness.
    pub reclaimable: u64,
    /// Operations since its last collection.
    pub age: SeqNo,
}

impl GroupCandidate {
    /// All groups of `table`. `now` is the youngest operation; `unexposed` is the estimate of
    /// the bytes of garbage that the table does not know of, `false_stubs` that of group tombstones
    /// that hide nothing.
    pub fn all(
        table: &GroupTable,
        now: SeqNo,
        unexposed: u64,
        false_stubs: &dyn Fn(GroupId) -> f64,
    ) -> Vec<Self> {
        let of_group = |(group, reclaimable): (GroupId, u64)| {
            let bytes = group_bytes(table, group);
            let collected = table.group(group).map_or(0, |group| group.collected);
            let age = now.saturating_sub(collected);
            Self { group, bytes, reclaimable: reclaimable.min(bytes), age }
        };
        reclaimable(table, unexposed, false_stubs).into_iter().map(of_group).collect()
    }

    /// Whether a collection may reclaim enough.
    pub fn is_worth_it(&self) -> bool {
        self.gain().is_worth_it()
    }

    /// The bytes that a collection may reclaim, and those that it would move.
    pub fn gain(&self) -> CostBenefit {
        CostBenefit { reclaimed: self.reclaimable, rewritten: self.bytes - self.reclaimable }
    }

    #[cfg(feature = "experiments")]
    fn cost_benefit(&self) -> u64 {
        let alive = (self.bytes - self.reclaimable) as f64 / self.bytes.max(1) as f64;
        (self.age as f64 * (1.0 - alive) / (1.0 + alive) * 1024.0) as u64
    }
}

impl VictimPolicy {
    /// The groups to collect among `candidates` that are worth it, best first, together at most
    /// `room` bytes or one longer group; `seed` is for random choices. Groups that reclaim less
    /// than half as much per moved byte as the first one are left out.
    #[doc(hidden)]
    pub fn choose(
        self,
        mut candidates: Vec<GroupCandidate>,
        seed: u64,
        mut room: u64,
    ) -> Vec<GroupId> {
        candidates.retain(GroupCandidate::is_worth_it);
        let score = |candidate: &GroupCandidate| match self {
            #[cfg(feature = "experiments")]
            Self::CostBenefit => candidate.cost_benefit(),
            _ => candidate.reclaimable,
        };
        candidates.sort_by_key(|candidate| std::cmp::Reverse((score(candidate), candidate.group)));
        let twice = |gain: CostBenefit| CostBenefit { reclaimed: 2 * gain.reclaimed, ..gain };
        let mut candidates = VecDeque::from(candidates);
        let mut chosen: Vec<GroupCandidate> = Vec::new();
        loop {
            let among = match self {
                #[cfg(feature = "experiments")]
                Self::GreedyRandom(count) => count.clamp(1, candidates.len().max(1)),
                #[cfg(feature = "experiments")]
                Self::Random => candidates.len().max(1),
                _ => 1,
            };
            let draw = hash64(&seed.to_le_bytes(), chosen.len() as u64);
            let next = candidates.remove(draw as usize % among);
            let fits = |next: &GroupCandidate| match chosen.first() {
                Some(first) => {
                    next.bytes <= room && !first.gain().is_better_than(twice(next.gain()))
                }
                None => true,
            };
            let Some(next) = next.filter(fits) else { break };
            room = room.saturating_sub(next.bytes);
            chosen.push(next);
        }
        chosen.into_iter().map(|candidate| candidate.group).collect()
    }
}

#[cfg(test)]
mod tests {
    use cleavedb_base::FileNumber;

    use super::*;
    use crate::GroupEdit;
    use crate::groups::{Extent, Location};

    fn candidates() -> Vec<GroupCandidate> {
        let of = |group, reclaimable, age| GroupCandidate { group, bytes: 1000, reclaimable, age };
        let groups = [0, 1, 2, 3].map(GroupId);
        vec![
            of(groups[0], 300, 10),
            of(groups[1], 600, 10),
            of(groups[2], 290, 1000),
            of(groups[3], 0, 99_999),
        ]
    }

    #[cfg(feature = "experiments")]
    fn chosen(policy: VictimPolicy) -> std::collections::BTreeSet<GroupId> {
        (0..100).flat_map(|seed| policy.choose(candidates(), seed, 1000)).collect()
    }

    #[cfg(feature = "experiments")]
    #[test]
    fn each_policy_chooses_what_it_says_and_never_what_was_not_written() {
        let groups = [0, 1, 2, 3].map(GroupId);
        assert_eq!(chosen(VictimPolicy::Greedy), [groups[1]].into());
        assert_eq!(chosen(VictimPolicy::CostBenefit), [groups[2]].into());
        assert_eq!(chosen(VictimPolicy::GreedyRandom(1)), [groups[1]].into());
        assert_eq!(chosen(VictimPolicy::GreedyRandom(2)), [groups[0], groups[1]].into());
        assert_eq!(chosen(VictimPolicy::GreedyRandom(9)).len(), 3);
        assert_eq!(chosen(VictimPolicy::Random).len(), 3);
    }

    #[test]
    fn groups_that_win_about_as_much_are_collected_together() {
        let groups = [0, 1, 2, 3].map(GroupId);
        let chosen = |room| VictimPolicy::Greedy.choose(candidates(), 0, room);
        assert_eq!((chosen(0), chosen(2999)), (vec![groups[1]], vec![groups[1]]));
        assert_eq!(VictimPolicy::Greedy.choose(vec![candidates()[3]], 0, 1000), []);
        let of = |group, reclaimable| GroupCandidate { group, bytes: 1000, reclaimable, age: 10 };
        let alike = vec![of(groups[0], 300), of(groups[1], 290), of(groups[2], 280)];
        let chosen = |room| VictimPolicy::Greedy.choose(alike.clone(), 0, room);
        assert_eq!((chosen(1999), chosen(2000)), (vec![groups[0]], groups[..2].to_vec()));
        assert_eq!(chosen(9000), groups[..3]);
    }

    /// A store with files of ordinary length was rewritten as soon as there were four of them for
    /// each main segment.
    #[test]
    fn short_files_are_packed_and_only_they() {
        let mut table = GroupTable::default();
        let mut apply = |edit| table.apply(&edit).unwrap();
        apply(GroupEdit::Begin(GroupId(0), Vec::new(), 0));
        for file in 5..7 {
            let place = Location { file: FileNumber(file), offset: 0 };
            let extent =
                Extent { records: 1, records_len: 900, ..Extent::empty(GroupId(0), place) };
            apply(GroupEdit::Add(extent));
        }
        let segments = SegmentSizes { main: 1 << 20, log: 4096, reserved: 0.3 };
        let crowded = |count, len| {
            let lengths = std::iter::repeat_n(len, count);
            segments.crowded(&table, lengths, &[GroupId(0)], 1 << 20).len()
        };
        assert_eq!((crowded(12, 4096), crowded(13, 4096)), (0, 1));
        assert_eq!((crowded(100, 128 << 10), crowded(100, (128 << 10) + 1)), (1, 0));
        // However long groups are, a flush is as long as a MemTable.
        let segments = SegmentSizes { main: 16 << 20, ..segments };
        let lengths = |len| std::iter::repeat_n(len, 100);
        let long = |len| segments.crowded(&table, lengths(len), &[GroupId(0)], 2 << 20).len();
        assert_eq!((long(256 << 10), long((256 << 10) + 1)), (1, 0));
    }

    #[test]
    fn what_lies_beyond_the_main_segment_takes_whole_log_segments() {
        let segments = SegmentSizes { main: 1000, log: 100, reserved: 0.3 };
        assert_eq!([0, 1000, 1001, 1100].map(|bytes| segments.log_bytes(bytes)), [0, 0, 100, 100]);
    }
}
