//! What lives as of the read point of a collection: the MemTables say, and then the index or, in a
//! hash group, the records themselves. A collection of neighbouring keys walks through the index
//! along with them, which is a merge-join.
//!
//! A build with assertions, as all tests are, asks the index about every key of a group as well: a
//! group that was not told of a death must never go unnoticed.

use std::cell::RefCell;
use std::sync::Arc;

use cleavedb_base::checksum::hash64;
use cleavedb_base::limits::SEQ_MAX;
use cleavedb_base::{EntryKind, Result, SeqNo, ValuePointer};
use cleavedb_index::{EntryIter, MemHit, MergeIter, ReadMode, Retention};
use cleavedb_storage::FileKind;
use cleavedb_values::collect::{Found, Liveness, Visible};

use crate::state::ReadState;

/// A picture, and the read points at which it is asked.
pub(super) struct AsOf {
    pub(super) state: Arc<ReadState>,
    pub(super) snapshots: Vec<SeqNo>,
    pub(super) read_point: SeqNo,
    /// Whether the records of a key, which are all that its group has, answer for the tables.
    pub(super) records_know: bool,
}

impl Liveness for AsOf {
    fn visible(&self, records: &[Found], out: &mut Vec<Visible>) -> Result<()> {
        if !self.records_know {
            return self.ask_index(records, out);
        }
        self.ask_memtables(records, out);
        out.extend(records.iter().filter_map(Found::as_visible));
        self.retain_seen(out);
        if cfg!(debug_assertions) {
            self.audit(records, out)?;
        }
        Ok(())
    }

    fn is_in_memory(&self, tree_key: &[u8]) -> bool {
        let hash = hash64(tree_key, 0);
        self.state.memtables.iter().any(|slot| slot.table.get(tree_key, hash, SEQ_MAX).is_some())
    }
}

/// The index as of a read point, asked for keys that ascend without great gaps.
pub(super) struct Joined<'a> {
    as_of: &'a AsOf,
    index: RefCell<MergeIter>,
}

/// Entries that are stepped over before the walk seeks past them instead.
const STEPS_MAX: usize = 8;

impl<'a> Joined<'a> {
    pub(super) fn new(as_of: &'a AsOf) -> Self {
        let sources = as_of.state.version.iters(None, None, ReadMode::Ahead);
        Self { as_of, index: RefCell::new(MergeIter::new(sources)) }
    }

    /// Moves to the first entry at or after `key`.
    fn advance(index: &mut MergeIter, key: &[u8]) -> Result<()> {
        for _ in 0..STEPS_MAX {
            match index.peek() {
                Some(entry) if entry.key < key => index.next()?,
                Some(_) => return Ok(()),
                None => break,
            }
        }
        index.seek(key, SEQ_MAX)
    }
}

impl Liveness for Joined<'_> {
    fn visible(&self, records: &[Found], out: &mut Vec<Visible>) -> Result<()> {
        self.as_of.ask_memtables(records, out);
        let key = &records[0].key[..];
        let mut index = self.index.borrow_mut();
        Self::advance(&mut index, key)?;
        let mut last_seq = SEQ_MAX;
        while let Some(entry) = index.peek().filter(|entry| entry.key == key) {
            // Of the same operation in two places the younger one's entry comes first.
            if entry.seq <= self.as_of.read_point && entry.seq < last_seq {
                last_seq = entry.seq;
                let value = entry.value.to_vec();
                out.push(Visible { seq: entry.seq, kind: entry.kind, value, in_table: true });
            }
            index.next()?;
        }
        self.as_of.retain_seen(out);
        if cfg!(debug_assertions) {
            let mut known = Vec::new();
            self.as_of.ask_index(records, &mut known)?;
            assert_eq!(*out, known, "a walk and the index differ about {key:?}");
        }
        Ok(())
    }

    fn is_in_memory(&self, tree_key: &[u8]) -> bool {
        self.as_of.is_in_memory(tree_key)
    }
}

impl AsOf {
    fn ask_index(&self, records: &[Found], out: &mut Vec<Visible>) -> Result<()> {
        self.ask_memtables(records, out);
        let key = &records[0].key[..];
        let version = &self.state.version;
        let found = version.versions_of(u64::MAX, key, hash64(key, 0), self.read_point)?;
        out.extend(found.into_iter().map(|found| {
            let value = found.value.to_vec();
            Visible { seq: found.seq, kind: found.kind, value, in_table: true }
        }));
        self.retain_seen(out);
        Ok(())
    }

    fn ask_memtables(&self, records: &[Found], out: &mut Vec<Visible>) {
        let key = &records[0].key[..];
        let hash = hash64(key, 0);
        let mut hits: Vec<MemHit<'_>> = Vec::new();
        for slot in &self.state.memtables {
            slot.table.versions_of(key, hash, self.read_point, &mut hits);
        }
        out.extend(hits.iter().map(|hit| {
            let value = hit.value.to_vec();
            Visible { seq: hit.seq, kind: hit.kind, value, in_table: false }
        }));
    }

    /// Leaves what the present or a snapshot sees.
    fn retain_seen(&self, versions: &mut Vec<Visible>) {
        let mut retention = Retention::new(&self.snapshots);
        versions.retain(|version| retention.keep(version.seq));
    }

    /// What the group answered is what the index says, down to the oldest version that lives in the
    /// group: which of the older ones it was told of makes no difference.
    fn audit(&self, records: &[Found], answered: &[Visible]) -> Result<()> {
        let mut known = Vec::new();
        self.ask_index(records, &mut known)?;
        let lives = |version: &Visible| {
            version.kind == EntryKind::Pointer
                && records.iter().any(|record| record.as_visible().as_ref() == Some(version))
        };
        let above_dead = |versions: &[Visible]| {
            let oldest = versions.iter().rposition(lives);
            versions[..oldest.map_or(0, |at| at + 1)].to_vec()
        };
        if let Some(tag) = records.last().filter(|last| last.is_tag() && answered.is_empty()) {
            let newest = known.first().filter(|newest| newest.seq == tag.seq);
            let cold = newest.is_some_and(|newest| self.is_in_a_segment(newest));
            assert!(cold, "a tag and the index differ about {:?}", tag.key);
        }
        let (answered, known) = (above_dead(answered), above_dead(&known));
        assert_eq!(answered, known, "a group and the index differ about {:?}", records[0].key);
        Ok(())
    }

    fn is_in_a_segment(&self, version: &Visible) -> bool {
        let pointer = ValuePointer::decode(&version.value).ok();
        let segment = pointer.and_then(|pointer| self.state.segments.get(pointer.file));
        version.kind == EntryKind::Pointer
            && segment.is_some_and(|segment| segment.name().kind() == FileKind::Segment)
    }
}
