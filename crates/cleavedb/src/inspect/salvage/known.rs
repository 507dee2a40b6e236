//! The versions found of one key, and the choice of the valid one.

use cleavedb_base::record::RecordKind;
use cleavedb_base::{EntryKind, FileNumber, SeqNo};

use super::operands::FoundMerges;

/// Place of a record.
#[derive(Clone, Copy)]
pub(super) struct RecordPlace {
    pub(super) file: FileNumber,
    pub(super) offset: u64,
    pub(super) len: usize,
}

/// A record of a key.
#[derive(Clone, Copy)]
pub(super) struct FoundRecord {
    pub(super) seq: SeqNo,
    pub(super) kind: RecordKind,
    pub(super) place: RecordPlace,
    /// Whether it is in the part of the log behind all flushes, so that no table can know it.
    pub(super) young: bool,
}

/// The newest entry of a key in the tables.
#[derive(Clone, Copy)]
pub(super) struct Indexed {
    pub(super) seq: SeqNo,
    pub(super) kind: EntryKind,
    pub(super) table: FileNumber,
    /// Whether it has the value, or leads to it without a search: to a lone file.
    pub(super) leads: bool,
}

/// Everything found of a key.
#[derive(Default)]
pub(super) struct Known {
    /// The entry of a value or a delete.
    pub(super) entry: Option<Indexed>,
    pub(super) records: Vec<FoundRecord>,
    /// What merges have written above that.
    pub(super) merges: FoundMerges,
}

/// The result of salvage for a key.
pub(super) enum Verdict {
    /// No value: it was deleted.
    Gone,
    /// The value of a record; true if the key is uncertain.
    Record(RecordPlace, bool),
    /// The value in a table's entry, or in the lone file to which that points.
    Entry(FileNumber),
    /// The newest value of the key is missing.
    Lost,
}

impl Known {
    /// Adds a record; `trusted` says that tables know every record that is not young.
    pub(super) fn add(&mut self, found: FoundRecord, value: &[u8], trusted: bool) {
        if found.kind.as_entry().hides_older() {
            self.records.push(found);
        } else if found.young || !trusted {
            self.merges.add_of_record(found.seq, value);
        }
    }

    /// Sequence number of the newest version that was found, merges not counted.
    pub(super) fn newest(&self) -> SeqNo {
        let records = self.records.iter().map(|found| found.seq);
        records.chain(self.entry.map(|entry| entry.seq)).max().unwrap_or_default()
    }

    /// `trusted` says that tables know every record that is not young; `values_are_whole`, that no
    /// record is missing.
    pub(super) fn verdict(&self, trusted: bool, values_are_whole: bool) -> Verdict {
        let counts = |found: &&FoundRecord| found.young || !trusted;
        let newest = self.records.iter().filter(counts).max_by_key(|found| found.seq);
        // Tables do not know the newest version of a key with a marker, only that there is one.
        let is_marked = self.entry.is_some_and(|entry| entry.kind == EntryKind::Marker);
        let young = newest.is_some_and(|found| found.young);
        let entry_wins = is_marked && !young
            || self.entry.is_some_and(|entry| newest.is_none_or(|found| found.seq <= entry.seq));
        match (self.entry.filter(|_| entry_wins), newest) {
            (Some(Indexed { kind: EntryKind::Delete, .. }), _) => Verdict::Gone,
            (Some(Indexed { leads: true, table, .. }), _) => Verdict::Entry(table),
            (Some(Indexed { kind: EntryKind::Marker, seq, .. }), _) => {
                self.newest_from(seq, !values_are_whole)
            }
            (Some(Indexed { seq, .. }), _) => self.value_of(seq, false),
            (None, Some(found)) => match found.kind {
                RecordKind::Delete => Verdict::Gone,
                RecordKind::Tag => self.value_of(found.seq, !found.young),
                _ => Verdict::Record(found.place, !found.young),
            },
            (None, None) => Verdict::Gone,
        }
    }

    /// The newest value from version `seq` on, that of a key with a marker. Nothing tells whether a
    /// newer one is lost.
    fn newest_from(&self, seq: SeqNo, uncertain: bool) -> Verdict {
        let holds = |found: &&FoundRecord| found.seq >= seq && found.kind.is_separated();
        let newest = self.records.iter().filter(holds).max_by_key(|found| found.seq);
        newest.map_or(Verdict::Lost, |found| Verdict::Record(found.place, uncertain))
    }

    /// The value of version `seq`, wherever a collection has moved it.
    pub(super) fn value_of(&self, seq: SeqNo, uncertain: bool) -> Verdict {
        let holds = |found: &&FoundRecord| found.seq == seq && found.kind.is_separated();
        let found = self.records.iter().find(holds);
        found.map_or(Verdict::Lost, |found| Verdict::Record(found.place, uncertain))
    }
}
