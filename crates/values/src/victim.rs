//! Which files to collect next: a pure choice from the ledger.

use cleavedb_base::FileNumber;
use cleavedb_storage::FileKind;

use crate::ledger::Ledger;

/// How much space values may take.
#[derive(Clone, Copy, Debug)]
pub struct SpaceGoal {
    /// Bytes of files per live byte that are tolerated.
    pub amplification: f64,
    /// Dead bytes that are always tolerated.
    pub floor: u64,
}

/// Part of the tolerated garbage that may gather before collection begins, in percent: it must win
/// the race against writers before they have to be slowed down.
const BEGIN_PERCENT: u64 = 85;

impl SpaceGoal {
    /// Bytes of files that are tolerated for this many live bytes.
    pub fn allowed(&self, live: u64) -> u64 {
        ((live as f64 * self.amplification) as u64).max(live + self.floor)
    }

    /// Bytes of files above which collection begins.
    pub fn begin(&self, live: u64) -> u64 {
        live + (self.allowed(live) - live) / 100 * BEGIN_PERCENT
    }
}

/// The paper's order (WiscKey, 3.3.2): from the tail of the log. Files are numbered in the order in
/// which they were begun and survivors get files of their own, so the lowest number is the tail.
///
/// `upto` is the first log file that replay would still need; logs from there on are no victims,
/// nor are files that are not `sound`.
pub fn oldest_first(
    ledger: &Ledger,
    upto: FileNumber,
    sound: impl Fn(FileNumber) -> bool,
) -> Option<FileNumber> {
    ledger
        .iter()
        .find(|(number, facts)| {
            facts.len.is_some() && is_collectable(facts.kind, *number, upto) && sound(*number)
        })
        .map(|(number, _)| number)
}

/// Whether a file is collected or dropped as one; group files are not, their extents are.
fn is_collectable(kind: FileKind, number: FileNumber, upto: FileNumber) -> bool {
    match kind {
        FileKind::Log => number < upto,
        kind => kind == FileKind::Segment,
    }
}

/// Files that hold nothing alive and can go without being read. See [`oldest_first`] for `upto`.
pub fn dead_files(ledger: &Ledger, upto: FileNumber) -> Vec<FileNumber> {
    ledger
        .iter()
        .filter(|(number, facts)| {
            facts.live == 0 && facts.len.is_some() && is_collectable(facts.kind, *number, upto)
        })
        .map(|(number, _)| number)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ledger::LedgerEdit;

    #[test]
    fn the_oldest_sealed_file_below_the_replay_head_is_the_victim() {
        let mut ledger = Ledger::default();
        for number in [2, 5, 7] {
            ledger.apply(&LedgerEdit::Add(FileNumber(number), FileKind::Log)).unwrap();
        }
        assert_eq!(oldest_first(&ledger, FileNumber(9), |_| true), None, "nothing is sealed");
        ledger.apply(&LedgerEdit::Seal(FileNumber(5), 0, 10)).unwrap();
        assert_eq!(oldest_first(&ledger, FileNumber(9), |_| true), Some(FileNumber(5)));
        assert_eq!(oldest_first(&ledger, FileNumber(5), |_| true), None, "replay needs it");
        assert_eq!(dead_files(&ledger, FileNumber(9)), [FileNumber(5)]);
    }

    #[test]
    fn the_goal_has_a_floor() {
        let goal = SpaceGoal { amplification: 1.3, floor: 100 };
        assert_eq!((goal.allowed(10), goal.begin(10)), (110, 95));
        assert_eq!(goal.allowed(1_000), 1_300);
    }
}
