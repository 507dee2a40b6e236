//! Which files to collect next: a pure function of the table of value files.

use std::collections::BTreeSet;

use cleavedb_base::FileNumber;
use cleavedb_base::planted::{Bug, planted};
use cleavedb_storage::FileKind;
use cleavedb_storage::log::FileHeader;

use crate::value_files::{ValueFileMeta, ValueFiles};

/// How much space values may take.
#[derive(Clone, Copy, Debug)]
pub struct SpaceGoal {
    /// Bytes of files per live byte that are tolerated.
    pub amplification: f64,
    /// Dead bytes that are always tolerated.
    pub floor: u64,
    /// Live bytes beside the values, in the index, for which as many dead bytes of values are
    /// tolerated: so a value that is small enough to stay there does not make the store tighter.
    pub beside: u64,
}

/// Percentage of the tolerated garbage at which collection begins: it must be faster than the
/// writers, before they have to be slowed down.
const BEGIN_PERCENT: u64 = 85;

impl SpaceGoal {
    /// Bytes of files that are tolerated for this number of live bytes.
    pub fn allowed(&self, live: u64) -> u64 {
        let all = live.saturating_add(self.beside);
        let spare = ((all as f64 * self.amplification) as u64).saturating_sub(all);
        live.saturating_add(spare.max(self.floor))
    }

    /// Bytes of files above which collection begins.
    pub fn begin(&self, live: u64) -> u64 {
        live + self.allowed(live).saturating_sub(live) / 100 * BEGIN_PERCENT
    }
}

/// Bytes that a collection may reclaim, and those that it must move for that.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CostBenefit {
    /// Bytes to reclaim.
    pub reclaimed: u64,
    /// Live bytes to move.
    pub rewritten: u64,
}

/// Least percentage of a victim's bytes that must be reclaimable: below, a collection would copy
/// much for little, and with all victims like this it would copy without end.
const WINS_MIN_PERCENT: u128 = 3;

impl CostBenefit {
    /// Whether a collection may reclaim enough.
    pub fn is_worth_it(self) -> bool {
        let (reclaimed, all) =
            (u128::from(self.reclaimed), u128::from(self.reclaimed) + u128::from(self.rewritten));
        if planted(Bug::ByteIsWorthIt) {
            return reclaimed > 0 && reclaimed >= all / 100 * WINS_MIN_PERCENT;
        }
        reclaimed > 0 && reclaimed * 100 >= all * WINS_MIN_PERCENT
    }

    /// Whether this collection reclaims more for each byte that it moves.
    pub fn is_better_than(self, other: Self) -> bool {
        let product = |a: u64, b: u64| u128::from(a) * u128::from(b);
        product(self.reclaimed, other.rewritten) > product(other.reclaimed, self.rewritten)
    }
}

/// The segment of the cold log whose collection reclaims most per moved byte, the oldest of equals.
/// Its dead bytes are known, except for its share of the `unexposed` bytes of garbage that are
/// estimated among all `owned` bytes, which entries own.
pub fn most_dead(
    value_files: &ValueFiles,
    unexposed: u64,
    owned: u64,
    sound: impl Fn(FileNumber) -> bool,
) -> Option<(FileNumber, CostBenefit)> {
    let gain = |facts: &ValueFileMeta| {
        let len = facts.len?.saturating_sub(FileHeader::RECORD_LEN as u64);
        let share = u128::from(unexposed) * u128::from(facts.live) / u128::from(owned.max(1));
        let rewritten = facts.live.saturating_sub(share as u64).min(len);
        Some(CostBenefit { reclaimed: len - rewritten, rewritten })
    };
    value_files
        .segments()
        .filter(|(number, _)| sound(*number))
        .filter_map(|(number, facts)| Some((number, gain(facts)?)))
        .filter(|(_, gain)| gain.is_worth_it())
        .reduce(|best, other| if other.1.is_better_than(best.1) { other } else { best })
}

/// The paper's order (WiscKey, 3.3.2): from the tail of the log. Files are numbered in the order of
/// their creation and survivors get files of their own, so the lowest number is the tail.
///
/// `upto` is the first log file that replay still needs; logs from there on are not victims, nor
/// are files that are not `sound`.
pub fn oldest_first(
    value_files: &ValueFiles,
    upto: FileNumber,
    sound: impl Fn(FileNumber) -> bool,
) -> Option<FileNumber> {
    value_files.collectable(upto).map(|(number, ..)| number).find(|number| sound(*number))
}

/// The file with most known dead bytes among those of [`oldest_first`], for a full disk.
pub fn emptiest_first(
    value_files: &ValueFiles,
    upto: FileNumber,
    sound: impl Fn(FileNumber) -> bool,
) -> Option<FileNumber> {
    let files = value_files.collectable(upto).filter(|(number, ..)| sound(*number));
    let files = files.map(|(number, meta, len)| (len.saturating_sub(meta.live), number));
    files.reduce(|most, next| if next.0 > most.0 { next } else { most }).map(|(_, number)| number)
}

/// Bytes of the records of sealed files that no collection may read, and of the live ones among
/// them: logs from `upto` on, which replay still needs, and files that are not `sound`.
pub fn out_of_reach(
    value_files: &ValueFiles,
    upto: FileNumber,
    sound: impl Fn(FileNumber) -> bool,
) -> (u64, u64) {
    let reached: BTreeSet<FileNumber> =
        value_files.collectable(upto).map(|(number, ..)| number).filter(|n| sound(*n)).collect();
    let files = value_files.whole().filter(|(_, meta)| meta.kind != FileKind::Blob);
    let files = files.filter(|(number, _)| !reached.contains(number));
    files.fold((0, 0), |(bytes, live), (_, meta)| {
        let Some(len) = meta.len else { return (bytes, live) };
        let len = len.saturating_sub(FileHeader::RECORD_LEN as u64);
        (bytes + len, live + meta.live.min(len))
    })
}

/// Files without live records, which can be removed without reading them. See [`oldest_first`] for
/// `upto`; a blob may belong to an entry that is not in a table yet.
pub fn dead_files(value_files: &ValueFiles, upto: FileNumber) -> Vec<FileNumber> {
    let collectable = value_files.collectable(upto).map(|(number, meta, _)| (number, meta));
    let all = collectable.chain(value_files.blobs());
    all.filter(|(_, meta)| meta.live == 0).map(|(number, _)| number).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value_files::ValueFileEdit;

    #[test]
    fn the_oldest_sealed_file_below_the_replay_head_is_the_victim() {
        let mut value_files = ValueFiles::default();
        for number in [2, 5, 7] {
            value_files.apply(&ValueFileEdit::Add(FileNumber(number), FileKind::Log)).unwrap();
        }
        assert_eq!(oldest_first(&value_files, FileNumber(9), |_| true), None, "nothing is sealed");
        value_files.apply(&ValueFileEdit::Seal(FileNumber(5), 0, 10)).unwrap();
        assert_eq!(oldest_first(&value_files, FileNumber(9), |_| true), Some(FileNumber(5)));
        assert_eq!(oldest_first(&value_files, FileNumber(5), |_| true), None, "replay needs it");
        assert_eq!(dead_files(&value_files, FileNumber(9)), [FileNumber(5)]);
        value_files.apply(&ValueFileEdit::Seal(FileNumber(7), 10, 20)).unwrap();
        assert_eq!(emptiest_first(&value_files, FileNumber(9), |_| true), Some(FileNumber(7)));
        value_files.apply(&ValueFileEdit::LiveAdded(FileNumber(7), 15)).unwrap();
        assert_eq!(emptiest_first(&value_files, FileNumber(9), |_| true), Some(FileNumber(5)));
    }

    #[test]
    fn the_segment_that_wins_most_for_what_it_moves_is_the_victim() {
        let mut value_files = ValueFiles::default();
        for (number, live) in [(2, 950), (5, 400), (7, 400), (8, 0)] {
            let number = FileNumber(number);
            let kind = if live == 0 { FileKind::Log } else { FileKind::Segment };
            let len = 1000 + FileHeader::RECORD_LEN as u64;
            for edit in [
                ValueFileEdit::Add(number, kind),
                ValueFileEdit::Seal(number, 0, len),
                ValueFileEdit::LiveAdded(number, live),
            ] {
                value_files.apply(&edit).unwrap();
            }
        }
        let among = |numbers: &[u64], unexposed| {
            let sound = |number: FileNumber| numbers.contains(&number.0);
            most_dead(&value_files, unexposed, 1750, sound)
                .map(|(number, gain)| (number.0, gain.reclaimed))
        };
        assert_eq!(among(&[2, 5, 7, 8], 0), Some((5, 600)), "the oldest of equals, and no log");
        assert_eq!(
            among(&[2, 7], 175),
            Some((7, 640)),
            "a tenth of the live bytes is unexposed garbage"
        );
        assert_eq!(among(&[2], 0), Some((2, 50)));
        value_files.apply(&ValueFileEdit::LiveAdded(FileNumber(2), 30)).unwrap();
        assert_eq!(most_dead(&value_files, 0, 1780, |n| n.0 == 2), None, "2% is too little");
    }

    #[test]
    fn a_gain_is_worth_what_it_wins_for_a_byte_moved() {
        let gain = |reclaimed, rewritten| CostBenefit { reclaimed, rewritten };
        assert!(
            gain(10, 20).is_better_than(gain(100, 300))
                && !gain(10, 20).is_better_than(gain(20, 40))
        );
        assert!(gain(1, 0).is_better_than(gain(u64::MAX, 1)), "nothing to move");
        assert_eq!(
            [gain(0, 0), gain(3, 97), gain(2, 98)].map(CostBenefit::is_worth_it),
            [false, true, false]
        );
    }

    /// The percentage was computed of whole hundreds of bytes: in a short file each byte was worth
    /// a collection, which left a file just as short.
    #[test]
    fn a_byte_of_a_short_file_is_not_worth_a_collection() {
        let gain = |reclaimed, rewritten| CostBenefit { reclaimed, rewritten };
        assert_eq!(
            [gain(1, 98), gain(5, 194), gain(2, 64), gain(u64::MAX, u64::MAX)]
                .map(CostBenefit::is_worth_it),
            [false, false, true, true]
        );
    }

    #[test]
    fn the_goal_has_a_floor() {
        let goal = SpaceGoal { amplification: 1.3, floor: 100, beside: 0 };
        assert_eq!((goal.allowed(10), goal.begin(10)), (110, 95));
        assert_eq!(goal.allowed(1_000), 1_300);
        let endless = SpaceGoal { floor: u64::MAX, ..goal };
        assert!(endless.allowed(10) == u64::MAX && endless.begin(10) > u64::MAX / 2);
    }

    /// A value that stayed in the tree took its share of the spare space along: with half of the
    /// bytes in the index a store had half the spare space.
    #[test]
    fn the_spare_space_does_not_depend_on_where_values_lie() {
        let goal = |beside| SpaceGoal { amplification: 1.25, floor: 100, beside };
        let spare = |live: u64, beside| goal(beside).allowed(live) - live;
        assert_eq!([spare(8000, 0), spare(4000, 4000), spare(0, 8000)], [2000; 3]);
        assert_eq!((spare(40, 40), goal(4000).begin(4000)), (100, 4000 + 2000 / 100 * 85));
    }
}
