//! Which records live as of the read point of a collection. The MemTables answer first, and then
//! the index or, in a hash group, the records of the group themselves. A collection of neighbouring
//! keys walks through the index in step with them, which is a merge-join.
//!
//! A value that has expired leaves the index when a compaction meets it. No record of that comes to
//! its hash group, so the index is asked about it.
//!
//! A range tombstone that deletes a key leaves no record in a hash group. While it is in the read
//! state it is applied to every answer; once it is forgotten, the index is asked about the records
//! of a hash group that are older.
//!
//! In a build with assertions, as all tests are, the index is also asked about every key of a hash
//! group, to find a group to which a flush has written no group tombstone for a death.

use std::cell::RefCell;
use std::sync::Arc;

use cleavedb_base::checksum::hash64;
use cleavedb_base::limits::SEQ_MAX;
use cleavedb_base::planted::{Bug, planted};
use cleavedb_base::record::RecordKind;
use cleavedb_base::{EntryKind, Result, SeqNo};
use cleavedb_index::{EntryIter, MergeIter, ReadMode};
use cleavedb_storage::FileKind;
use cleavedb_values::GroupTable;
use cleavedb_values::collect::Liveness;
use cleavedb_values::collect::record::{Content, ScannedRecord, Visible};

use crate::engine::expiry::is_past;
use crate::engine::read_points::ReadPoints;
use crate::settings::filter::JobFilter;
use crate::store::state::ReadState;

/// A read state, with the sequence numbers as of which a collection reads it.
pub(crate) struct ReadView {
    pub(crate) state: Arc<ReadState>,
    pub(crate) points: ReadPoints,
    /// Asked about values that are to be moved, if there is one.
    pub(crate) filter: Option<JobFilter>,
}

/// The rule that decides which records of the groups of `table` live.
pub(crate) fn of_groups<'a>(table: &GroupTable, read_view: &'a ReadView) -> Box<dyn Liveness + 'a> {
    match table.needs_stubs() {
        true => Box::new(ByRecords(read_view)),
        false => Box::new(MergeJoinLiveness::new(read_view)),
    }
}

/// Asks the MemTables, and then the records of a key instead of the tables: the group of the key
/// has all of them.
struct ByRecords<'a>(&'a ReadView);

impl Liveness for ByRecords<'_> {
    fn visible(&self, records: &[ScannedRecord<'_>], out: &mut Vec<Visible>) -> Result<()> {
        let key = records[0].key();
        self.0.ask_memtables(records, out)?;
        let gone = self.0.gone(records)?;
        out.extend(records.iter().filter_map(|record| {
            match gone.iter().find(|gone| gone.seq == record.seq) {
                None => record.as_visible(),
                Some(gone) => gone.counts_as(),
            }
        }));
        self.0.retain_seen(key, out);
        if cfg!(debug_assertions) {
            self.0.audit(records, out)?;
        }
        // Of a key without a visible version a tag stays, unless a range tombstone deleted it.
        if let Some(tag) = records.last().filter(|last| last.is_tag() && out.is_empty())
            && (gone.iter().any(|gone| gone.seq == tag.seq)
                || self.0.points.deleted.covers(key, tag.seq))
        {
            out.push(Visible {
                seq: tag.seq,
                content: Content::Delete,
                in_table: false,
                filtered: false,
            });
        }
        self.0.filter(records, out)
    }

    fn is_in_memory(&self, encoded_key: &[u8]) -> bool {
        self.0.is_in_memory(encoded_key)
    }
}

/// Looks every key up in the index, in any order.
pub(crate) struct ByLookUp<'a>(pub(crate) &'a ReadView);

impl Liveness for ByLookUp<'_> {
    fn visible(&self, records: &[ScannedRecord<'_>], out: &mut Vec<Visible>) -> Result<()> {
        self.0.ask_index(records, out)?;
        self.0.filter(records, out)
    }

    fn is_in_memory(&self, encoded_key: &[u8]) -> bool {
        self.0.is_in_memory(encoded_key)
    }
}

/// Walks through the index in step with the keys of a group. This is cheap if the keys ascend
/// without large gaps, as those of a range of keys do.
struct MergeJoinLiveness<'a> {
    read_view: &'a ReadView,
    walk: RefCell<IndexCursor>,
}

/// The position of a walk through the index.
struct IndexCursor {
    index: MergeIter,
    /// The last key that was asked for: a smaller key needs a seek, since the walk only goes
    /// forward.
    last: Vec<u8>,
}

/// Entries that the walk steps over before it seeks instead.
const STEPS_MAX: usize = 8;

impl<'a> MergeJoinLiveness<'a> {
    fn new(read_view: &'a ReadView) -> Self {
        let sources = read_view.state.version.iters(None, None, ReadMode::Ahead);
        let walk = IndexCursor { index: MergeIter::new(sources), last: Vec::new() };
        Self { read_view, walk: RefCell::new(walk) }
    }
}

impl IndexCursor {
    /// Moves to the first entry at or after `key`.
    fn to(&mut self, key: &[u8]) -> Result<&mut MergeIter> {
        // The group of all short keys has keys between those of other groups, so the first key of
        // the next group may be below the last one.
        let goes_on = *self.last <= *key;
        self.last.clear();
        self.last.extend_from_slice(key);
        for _ in 0..if goes_on { STEPS_MAX } else { 0 } {
            match self.index.peek() {
                Some(entry) if entry.key < key => self.index.next()?,
                Some(_) => return Ok(&mut self.index),
                None => break,
            }
        }
        self.index.seek(key, SEQ_MAX)?;
        Ok(&mut self.index)
    }
}

impl Liveness for MergeJoinLiveness<'_> {
    fn visible(&self, records: &[ScannedRecord<'_>], out: &mut Vec<Visible>) -> Result<()> {
        self.read_view.ask_memtables(records, out)?;
        let key = records[0].key();
        let mut walk = self.walk.borrow_mut();
        let index = walk.to(key)?;
        let mut last_seq = SEQ_MAX;
        while let Some(entry) = index.peek().filter(|entry| entry.key == key) {
            // If one operation has an entry in two runs, the younger run's entry comes first.
            if entry.seq <= self.read_view.points.read_point && entry.seq < last_seq {
                last_seq = entry.seq;
                let content = Content::of(entry.kind, entry.value)?;
                out.push(Visible { seq: entry.seq, content, in_table: true, filtered: false });
            }
            index.next()?;
        }
        self.read_view.retain_seen(key, out);
        if cfg!(debug_assertions) {
            let mut known = Vec::new();
            self.read_view.ask_index(records, &mut known)?;
            assert_eq!(*out, known, "a walk and the index differ about {key:?}");
        }
        self.read_view.filter(records, out)
    }

    fn is_in_memory(&self, encoded_key: &[u8]) -> bool {
        self.read_view.is_in_memory(encoded_key)
    }
}

/// A version that a group has a record of and the index has no value of any more.
struct Gone {
    seq: SeqNo,
    /// Whether its value is over. Otherwise a range tombstone deleted it, with all older ones.
    over: bool,
    /// Whether the index has a tombstone in its place.
    in_table: bool,
}

impl Gone {
    /// What it counts as: one that is over still hides older ones.
    fn counts_as(&self) -> Option<Visible> {
        let &Self { seq, over, in_table } = self;
        over.then_some(Visible { seq, content: Content::Delete, in_table, filtered: false })
    }
}

impl ReadView {
    fn is_in_memory(&self, encoded_key: &[u8]) -> bool {
        let hash = hash64(encoded_key, 0);
        self.state.memtables.iter().any(|slot| slot.table.get(encoded_key, hash, SEQ_MAX).is_some())
    }

    fn ask_index(&self, records: &[ScannedRecord<'_>], out: &mut Vec<Visible>) -> Result<()> {
        self.ask_memtables(records, out)?;
        let key = records[0].key();
        let version = &self.state.version;
        let found = version.versions_of(u64::MAX, key, hash64(key, 0), self.points.read_point)?;
        for found in found {
            let content = Content::of(found.kind, &found.value)?;
            out.push(Visible { seq: found.seq, content, in_table: true, filtered: false });
        }
        self.retain_seen(key, out);
        Ok(())
    }

    /// Values, short ones too, and tags that the index does not have any more, among those that
    /// have expired, or that a range tombstone may have deleted that is forgotten since.
    fn gone(&self, records: &[ScannedRecord<'_>]) -> Result<Vec<Gone>> {
        let is_over = |record: &ScannedRecord<'_>| is_past(&record.value(), &self.points);
        let may_be_gone = |record: &&ScannedRecord<'_>| {
            let is_old = record.seq < self.state.deleted.forgotten_upto();
            // One that does not hide older versions may be in the index in a newer one.
            let is_whole = record.kind.as_entry().hides_older();
            (is_old || is_over(record)) && is_whole && record.kind != RecordKind::Delete
        };
        let mut asked = records.iter().filter(may_be_gone).peekable();
        if asked.peek().is_none() || planted(Bug::ForgottenRecordRevived) {
            return Ok(Vec::new());
        }
        let key = records[0].key();
        let (version, hash) = (&self.state.version, hash64(key, 0));
        let known = version.versions_of(u64::MAX, key, hash, self.points.read_point)?;
        let find = |record: &ScannedRecord<'_>| {
            let entry = known.iter().find(|entry| entry.seq == record.seq);
            let (in_table, over) = (entry.is_some(), is_over(record));
            let gone = entry.is_none_or(|entry| entry.kind == EntryKind::Delete);
            // A range tombstone is not forgotten while the index has anything that it covers: with
            // an older entry there, a newer one has taken this value up, by an operand.
            let is_taken_up = !in_table
                && !over
                && !planted(Bug::TakenUpIsGone)
                && known.iter().any(|entry| entry.seq < record.seq);
            (gone && !is_taken_up).then_some(Gone { seq: record.seq, over, in_table })
        };
        Ok(asked.filter_map(find).collect())
    }

    /// Asks the filter about the value of the only record of a key, if that is the newest version.
    /// Older records would need a group tombstone.
    #[inline]
    fn filter(&self, records: &[ScannedRecord<'_>], visible: &mut [Visible]) -> Result<()> {
        let (Some(filter), [record]) = (&self.filter, records) else { return Ok(()) };
        let Some(newest) = visible.first_mut().filter(|newest| newest.in_table) else {
            return Ok(());
        };
        let Content::Pointer(pointer) = newest.content else { return Ok(()) };
        if pointer.value != record.pointer {
            return Ok(());
        }
        let read = || self.state.segments.read(record.pointer, record.key(), record.seq);
        if let Some((kind, value)) = filter.replaced(record.key(), pointer.until, &read)? {
            newest.content = Content::of(kind, &value)?;
            newest.filtered = true;
        }
        Ok(())
    }

    fn ask_memtables(&self, records: &[ScannedRecord<'_>], out: &mut Vec<Visible>) -> Result<()> {
        let key = records[0].key();
        let hash = hash64(key, 0);
        for slot in &self.state.memtables {
            for hit in slot.table.versions(key, hash, self.points.read_point) {
                let content = Content::of(hit.kind, hit.value)?;
                out.push(Visible { seq: hit.seq, content, in_table: false, filtered: false });
            }
        }
        Ok(())
    }

    /// Retains the versions that the present or a snapshot sees, and a marker that is the newest
    /// entry of its key in the tables: the flush of a newer version may write no entry, so that the
    /// marker must stay in a younger place than what the collection writes. If a range tombstone
    /// covers the marker, a newer version has a newer one.
    fn retain_seen(&self, key: &[u8], versions: &mut Vec<Visible>) {
        let mut retention = self.points.retention();
        retention.begin_key(key);
        let newest = versions.iter().find(|version| version.in_table).map(|version| version.seq);
        versions.retain(|version| {
            let marks = version.content == Content::Marker
                && Some(version.seq) == newest
                && !self.points.deleted.covers(key, version.seq);
            retention.keep(version.seq, version.content.kind())
                || marks && !planted(Bug::MarkerBelowCollected)
        });
    }

    /// Asserts that the group's answer is the index's, down to the oldest version that lives in the
    /// group. Older versions may differ: some of them have no group tombstone.
    fn audit(&self, records: &[ScannedRecord<'_>], answered: &[Visible]) -> Result<()> {
        let mut known = Vec::new();
        self.ask_index(records, &mut known)?;
        let lives = |version: &Visible| {
            matches!(version.content, Content::Pointer(..))
                && records.iter().any(|record| record.as_visible().as_ref() == Some(version))
        };
        let above_dead = |versions: &[Visible]| {
            let oldest = versions.iter().rposition(lives);
            versions[..oldest.map_or(0, |at| at + 1)].to_vec()
        };
        let is_deleted = |tag: &ScannedRecord<'_>| {
            let is_forgotten = tag.seq < self.state.deleted.forgotten_upto() && known.is_empty();
            is_forgotten || self.points.deleted.covers(tag.key(), tag.seq)
        };
        let tag = records.last().filter(|last| last.is_tag() && answered.is_empty());
        if let Some(tag) = tag.filter(|tag| !is_deleted(tag)) {
            let newest = known.first().filter(|newest| newest.seq == tag.seq);
            let cold = newest.is_some_and(|newest| self.is_in_a_segment(newest));
            assert!(cold, "a tag and the index differ about {:?}", tag.key());
        }
        let of_group: Vec<_> = records.iter().map(|record| (record.kind, record.seq)).collect();
        let of_index: Vec<_> = known.iter().map(|it| (it.content.kind(), it.seq)).collect();
        let (mut answered, mut known) = (above_dead(answered), above_dead(&known));
        // Jobs combine operands in the index, and apply them to short values, and to none where the
        // value below has expired: its entry may be there still, and no reader sees it.
        if answered.iter().any(|version| !version.content.kind().hides_older()) {
            let is_over = |version: &Visible| match version.content {
                Content::Pointer(pointer) => !pointer.is_there(|| self.points.earliest_time),
                _ => false,
            };
            let lives = |version: &Visible| lives(version) && !is_over(version);
            [&mut answered, &mut known].into_iter().for_each(|all| all.retain(lives));
        }
        assert_eq!(
            answered,
            known,
            "a group has {of_group:?} of {:?}, the index {of_index:?}",
            records[0].key()
        );
        Ok(())
    }

    fn is_in_a_segment(&self, version: &Visible) -> bool {
        let Content::Pointer(pointer) = version.content else { return false };
        let segment = self.state.segments.get(pointer.value.file);
        segment.is_some_and(|segment| segment.name().kind() == FileKind::Segment)
    }
}
