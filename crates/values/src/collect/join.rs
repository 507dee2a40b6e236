//! Join: finds the survivors among the scanned records, and the entries of the run for their keys.

use cleavedb_base::planted::{Bug, planted};
use cleavedb_base::{Error, Result};
use cleavedb_storage::mapped::{MappedVec, mapped_vec};

use super::output::RunEntry;
use super::record::{Content, ScannedRecord, Visible};
use super::{FOUND_CHECKED, Liveness, check_cancelled};

/// A record to be moved.
#[derive(Clone, Copy, Debug)]
pub(super) struct Survivor<'f, 'a> {
    /// The record.
    pub record: &'f ScannedRecord<'a>,
    /// Whether no other record of its key was found.
    pub alone: bool,
    /// The record's entry in the run, which gets its new place; group tombstones and tags have
    /// none.
    pub entry: Option<usize>,
    /// Whether its value has expired, so that a group tombstone takes its place.
    pub expired: bool,
}

/// Checks the liveness of every key found, in order; appends to the run and returns the survivors
/// in key order. A group tombstone survives while a record that it hides does, and so does, as a
/// group tombstone, a value that has expired. A tag survives until a newer version of its key is
/// known; it hides no record, and needs no entry in the run.
///
/// Records for which `stays` is true remain in place, dead or not, and are no survivors; but a
/// group tombstone that hides one of them survives.
pub(super) fn join<'f, 'a>(
    found: &'f mut [ScannedRecord<'a>],
    index: &dyn Liveness,
    stays: &dyn Fn(&ScannedRecord<'a>) -> bool,
    run: &mut MappedVec<RunEntry<'a>>,
    cancelled: &dyn Fn() -> bool,
) -> Result<MappedVec<Survivor<'f, 'a>>> {
    found.sort_unstable_by(|a, b| a.key().cmp(b.key()).then(b.seq.cmp(&a.seq)));
    let found: &'f [ScannedRecord<'a>] = found;
    let mut survivors = mapped_vec();
    let (mut visible, mut living) = (Vec::new(), Vec::new());
    for (i, records) in found.chunk_by(|a, b| a.key() == b.key()).enumerate() {
        if i.is_multiple_of(FOUND_CHECKED) {
            check_cancelled(cancelled)?;
        }
        let Some((last, newer)) = records.split_last() else { continue };
        if newer.iter().any(ScannedRecord::is_tag) {
            let error = Error::corruption("a tag lies above an older record of its key");
            return Err(error.with("file", last.pointer.file));
        }
        if records.iter().all(stays) {
            continue;
        }
        let survives =
            |record, entry| Survivor { record, alone: newer.is_empty(), entry, expired: false };
        visible.clear();
        index.visible(records, &mut visible)?;
        if visible.is_empty() && last.is_tag() && !stays(last) {
            survivors.push(survives(last, None));
        }
        living.clear();
        living.extend(visible.iter().map(|version| record_of(version, records)));
        let oldest = living.iter().flatten().next_back().map(|record| record.seq);
        let left = records.iter().rev().find(|record| stays(record));
        let oldest_left = left.map(|r| r.seq).filter(|_| !planted(Bug::StubForgetsTheRest));
        let below = oldest.into_iter().chain(oldest_left).min();
        let hides = |record: &&ScannedRecord<'a>| {
            !stays(record)
                && below.is_some_and(|below| below < record.seq)
                && counts_as_tombstone(record, &visible)
        };
        if !planted(Bug::StubDroppedEarly) {
            let as_tombstone = |record: &'f ScannedRecord<'a>| Survivor {
                expired: record.kind.is_separated(),
                ..survives(record, None)
            };
            survivors.extend(records.iter().filter(hides).map(as_tombstone));
        }
        let moves = |living: &Option<&'f ScannedRecord<'a>>| living.filter(|record| !stays(record));
        if !has_filtered(&visible) && !living.iter().any(|living| moves(living).is_some()) {
            continue;
        }
        end_with_oldest(&mut visible, &living);
        for (version, living) in visible.drain(..).zip(&living) {
            let moving = moves(living);
            let deletes = version.content == Content::Delete;
            let forgotten = planted(Bug::RunWithoutTombstones) && deletes
                || planted(Bug::RunWithoutRepeats) && moving.is_none();
            let entry = (version.in_table && !forgotten).then_some(run.len());
            survivors.extend(moving.map(|record| survives(record, entry)));
            run.extend(entry.map(|_| RunEntry {
                key: records[0].key(),
                seq: version.seq,
                repeat: moving.is_none() && !version.filtered && !planted(Bug::RunOwnsRepeats),
                content: version.content,
            }));
        }
    }
    Ok(survivors)
}

/// Whether a filter has put a content in the place of another.
fn has_filtered(visible: &[Visible]) -> bool {
    visible.iter().any(|version| version.filtered) && !planted(Bug::FilteredEntryForgotten)
}

/// Leaves out the versions that are older than all that live or were filtered: they are found below
/// the run. Repeated in it, an operand could lie above nothing that it changes.
fn end_with_oldest(visible: &mut Vec<Visible>, living: &[Option<&ScannedRecord<'_>>]) {
    let counts = |at: &usize| living[*at].is_some() || visible[*at].filtered;
    let oldest = (0..living.len()).rev().find(counts);
    visible.truncate(oldest.map_or(0, |at| at + 1));
}

/// Whether a record is a visible group tombstone, or that of a visible version that has expired.
fn counts_as_tombstone(record: &ScannedRecord<'_>, visible: &[Visible]) -> bool {
    let counts = |version: &&Visible| {
        record.is_tombstone() || record.kind.expires() && version.content == Content::Delete
    };
    visible.iter().filter(counts).any(|version| version.seq == record.seq)
}

/// The record that holds the value of a visible version, and so is live.
fn record_of<'f, 'a>(
    version: &Visible,
    records: &'f [ScannedRecord<'a>],
) -> Option<&'f ScannedRecord<'a>> {
    let Content::Pointer(pointer) = version.content else { return None };
    records.iter().find(|record| record.seq == version.seq && record.pointer == pointer.value)
}

#[cfg(test)]
mod tests {
    use cleavedb_base::record::{Header, Record, RecordKind};
    use cleavedb_base::{FileNumber, KeyspaceId, ValuePointer};

    use cleavedb_storage::mapped::Arena;

    use super::*;

    /// Every record of a value or an operand is visible.
    struct All;

    impl Liveness for All {
        fn visible(&self, records: &[ScannedRecord<'_>], out: &mut Vec<Visible>) -> Result<()> {
            out.extend(records.iter().filter_map(ScannedRecord::as_visible));
            Ok(())
        }

        fn is_in_memory(&self, _: &[u8]) -> bool {
            false
        }
    }

    /// A hash group may know of an operand and not of the short value below it, if its filter was
    /// wrong: repeated above a run that has both in one, the operand would hide the value.
    #[test]
    fn a_run_ends_with_the_oldest_record_that_lives() {
        let arena = Arena::new();
        let record = |kind, seq: u64| {
            let header = Header::new(kind, KeyspaceId(0), seq, b"key", b"value");
            let record = Record { header, key: b"key", value: b"value" };
            let pointer = ValuePointer { file: FileNumber(9), offset: seq * 100, len: 32 };
            ScannedRecord::new(&record, pointer, &arena).unwrap()
        };
        let mut found =
            [(RecordKind::Operand, 7), (RecordKind::Separated, 8), (RecordKind::Operand, 9)]
                .map(|(kind, seq)| record(kind, seq));
        let mut run = mapped_vec();
        let survivors = join(&mut found, &All, &|_| false, &mut run, &|| false).unwrap();
        let moved: Vec<_> = survivors.iter().map(|it| it.record.seq).collect();
        assert_eq!(moved, [9, 8], "the older operand says nothing about what lives");
        let repeated: Vec<_> = run.iter().map(|entry| (entry.seq, entry.repeat)).collect();
        assert_eq!(repeated, [(9, true), (8, false)]);
    }
}
