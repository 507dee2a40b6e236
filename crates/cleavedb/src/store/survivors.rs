//! What collections have written, kept so that no collection is made that cannot free space.
//!
//! A file that a collection wrote holds only records that the present or a snapshot could see then.
//! Until a flush adds newer versions, a snapshot ends or the index drops an entry, another
//! collection would write the same bytes to another file, again and again for as long as the
//! estimate says that there is garbage. The same holds for a group whose collection won nothing.

use std::collections::BTreeMap;

use cleavedb_base::planted::{Bug, planted};
use cleavedb_base::{FileNumber, SeqNo};
use cleavedb_values::{GroupId, ValueFileMeta, ValueFiles};

/// The circumstances in which a file was written: unless they have changed, it is not collected
/// again.
#[derive(Clone, Debug)]
struct Circumstances {
    /// Epoch of the youngest flush when the collection began.
    epoch: u64,
    snapshots: Vec<SeqNo>,
    live: u64,
}

impl Circumstances {
    /// Whether what holds now, with `live` bytes, differs in a way that may let a record go.
    fn has_changed(&self, live: u64, epoch: u64, snapshots: &[SeqNo]) -> bool {
        self.epoch != epoch
            || self.live != live
            || self.snapshots.iter().any(|held| !snapshots.contains(held))
    }
}

/// The files that collections wrote, and groups that were collected without gain.
#[derive(Clone, Debug, Default)]
pub(crate) struct Survivors {
    files: BTreeMap<FileNumber, Circumstances>,
    /// By group: its bytes instead of the live ones.
    groups: BTreeMap<GroupId, Circumstances>,
}

/// The part of the ascending `snapshots` that may hold records which a collection as of
/// `read_point` would drop. Younger snapshots see the same records as the present does, so the end
/// of a reader of the present is no reason to collect again.
pub(crate) fn older(snapshots: &[SeqNo], read_point: SeqNo) -> &[SeqNo] {
    &snapshots[..snapshots.partition_point(|seq| *seq < read_point)]
}

impl Survivors {
    /// Records that a collection that began after the flush of `epoch` has written `files`, each
    /// with its live bytes. `snapshots` are those that are [`older`] than its read point.
    pub(crate) fn written(
        &mut self,
        files: impl IntoIterator<Item = (FileNumber, u64)>,
        epoch: u64,
        snapshots: &[SeqNo],
        value_files: &ValueFiles,
    ) {
        self.files.retain(|number, _| value_files.get(*number).is_some());
        let written = |live| Circumstances { epoch, snapshots: snapshots.to_vec(), live };
        self.files.extend(files.into_iter().map(|(number, live)| (number, written(live))));
    }

    /// Whether a collection of file `number` may free space, given its current `facts`, the `epoch`
    /// of the youngest flush and the live `snapshots`.
    pub(crate) fn may_win(
        &self,
        number: FileNumber,
        facts: &ValueFileMeta,
        epoch: u64,
        snapshots: &[SeqNo],
    ) -> bool {
        let written = self.files.get(&number).filter(|_| !planted(Bug::CollectsInVain));
        written.is_none_or(|written| written.has_changed(facts.live, epoch, snapshots))
    }

    /// Records that a collection, as in [`Survivors::written`], of these groups, each with its
    /// bytes after it, has won nothing.
    pub(crate) fn collected_without_gain(
        &mut self,
        groups: impl IntoIterator<Item = (GroupId, u64)>,
        epoch: u64,
        snapshots: &[SeqNo],
    ) {
        let written = |live| Circumstances { epoch, snapshots: snapshots.to_vec(), live };
        self.groups.retain(|_, written| written.epoch == epoch);
        self.groups.extend(groups.into_iter().map(|(group, bytes)| (group, written(bytes))));
    }

    /// Whether a collection of `group`, of `bytes` now, may win something.
    pub(crate) fn may_win_group(
        &self,
        group: GroupId,
        bytes: u64,
        epoch: u64,
        snapshots: &[SeqNo],
    ) -> bool {
        let written = self.groups.get(&group).filter(|_| !planted(Bug::CollectsInVain));
        written.is_none_or(|written| written.has_changed(bytes, epoch, snapshots))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cleavedb_storage::FileKind;
    use cleavedb_values::ValueFileEdit;

    fn survivors_wait() {
        let mut value_files = ValueFiles::default();
        let number = FileNumber(5);
        for edit in [
            ValueFileEdit::Add(number, FileKind::Segment),
            ValueFileEdit::Seal(number, 0, 1000),
            ValueFileEdit::LiveAdded(number, 900),
        ] {
            value_files.apply(&edit).unwrap();
        }
        let facts = |value_files: &ValueFiles| value_files.get(number).unwrap().clone();
        let mut survivors = Survivors::default();
        assert!(survivors.may_win(number, &facts(&value_files), 3, &[]), "a log file");
        survivors.written([(number, 900)], 3, &[7, 9], &value_files);
        let may_win = |value_files: &ValueFiles, epoch, snapshots: &[SeqNo]| {
            survivors.may_win(number, &facts(value_files), epoch, snapshots)
        };
        assert!(!may_win(&value_files, 3, &[7, 9]) && !may_win(&value_files, 3, &[7, 9, 12]));
        assert!(may_win(&value_files, 4, &[7, 9]) && may_win(&value_files, 3, &[9]));
        value_files.apply(&ValueFileEdit::LiveRemoved(number, 1)).unwrap();
        assert!(may_win(&value_files, 3, &[7, 9]));
    }

    /// A regression: readers that began and ended made writers wait for space that no collection
    /// could free.
    #[test]
    fn a_reader_of_the_present_holds_nothing() {
        assert_eq!(older(&[3, 7, 9, 12], 9), [3, 7]);
        assert_eq!(older(&[9], 9), Vec::<SeqNo>::new());
    }

    #[test]
    fn survivors_wait_for_a_flush_the_end_of_a_snapshot_or_a_death() {
        survivors_wait();
    }

    #[cfg(feature = "test-planted-bugs")]
    #[test]
    fn planted_survivors_that_are_collected_again() {
        cleavedb_base::planted::must_notice(Bug::CollectsInVain, survivors_wait);
    }
}
