//! What a cursor reads: the database as of one moment.

use std::sync::Arc;

use bytes::Bytes;
use cleavedb_base::checksum::hash64;
use cleavedb_base::planted::{Bug, planted};
use cleavedb_base::{Error, ErrorKind, Result, SeqNo, ValuePointer};
use cleavedb_index::{EntryIter, MergeIter, ReadMode, VisibleIter};
use cleavedb_storage::Reach;
use cleavedb_storage::process::Own;
use cleavedb_values::Chunk;

use crate::engine::Engine;
use crate::operations::bounds::Bounds;
use crate::operations::direction::Direction;
use crate::operations::fronts::DEAD_MIN;
use crate::reads::outside_ranges::OutsideRanges;
use crate::reads::pending_writes::PendingWrites;
use crate::reads::read;
use crate::reads::search::ReadFor;
use crate::store::snapshot::{HeldSnapshot, ReadPoint};
use crate::store::state::ReadState;

/// What a cursor reads: the database as of one moment.
pub(super) struct Moment {
    /// Keeps the directory locked until the cursor is dropped.
    pub(super) engine: Own<Arc<Engine>>,
    pub(super) state: Own<Arc<ReadState>>,
    pub(super) at: ReadPoint,
    /// How far a step or a value is fetched.
    pub(super) reach: Reach,
    /// Keeps the versions that the cursor sees from being dropped.
    pub(super) held: Option<Arc<HeldSnapshot>>,
    /// Writes of a transaction, which come before what is stored.
    pub(super) pending: Option<PendingWrites>,
}

impl Moment {
    /// An iterator over the entries within `bounds`, between the fronts of the range if they are
    /// known. A transaction's own writes may lie in front.
    pub(super) fn open(&self, bounds: &Bounds) -> VisibleIter {
        let Bounds { lower, upper, .. } = bounds;
        let fronts = Some(&self.engine.commit.fronts).filter(|_| self.pending.is_none());
        let narrowed = fronts.map(|fronts| fronts.narrowed(bounds, self.at.seq));
        let [first, last] = narrowed.unwrap_or_default();
        let (lower, upper) = (first.as_ref().unwrap_or(lower), last.as_ref().unwrap_or(upper));
        let mut sources: Vec<Box<dyn EntryIter>> = Vec::new();
        for slot in &self.state.memtables {
            sources.extend(slot.table.iters());
        }
        let mode = ReadMode::of_caller(self.reach);
        sources.extend(self.state.version.iters(Some(lower), Some(upper), mode));
        if let Some(pending) = &self.pending {
            if !pending.deleted.is_empty() {
                let outside = |inner| -> Box<dyn EntryIter> {
                    Box::new(OutsideRanges { inner, ranges: pending.deleted.clone() })
                };
                sources = sources.into_iter().map(outside).collect();
            }
            // Of equal versions the first source has the one that counts.
            sources.insert(0, Box::new(pending.clone()));
        }
        let merged = MergeIter::new(sources);
        let iter = VisibleIter::new(merged, self.at.seq, Some(lower.clone()), Some(upper.clone()));
        let iter = iter.at_time(self.at.time);
        match planted(Bug::RangeDeleteUnread) {
            true => iter,
            false => iter.without_deleted(self.state.deleted.fragments(self.at.seq)),
        }
    }

    /// Moves an iterator that was opened for `bounds` to its first key in a direction, from which
    /// the front of the range is learnt.
    pub(super) fn seek_end(
        &self,
        iter: &mut VisibleIter,
        bounds: &Bounds,
        to: Direction,
    ) -> Result<()> {
        match to {
            Direction::Forward => iter.seek_first(),
            Direction::Backward => iter.seek_last(),
        }?;
        if self.pending.is_none() && !iter.depends_on_time() {
            let (commit, found) = (&self.engine.commit, iter.valid().then(|| iter.key()));
            let is_watched = commit.fronts.found(bounds, to, found, self.at.seq);
            // Where a reader follows, what becomes visible is not noted.
            let begins = !is_watched && iter.dead() >= DEAD_MIN;
            if begins && self.engine.gate.check_writable().is_ok() {
                commit.watch_front(bounds, to);
            }
        }
        Ok(())
    }

    /// The value of a version, if the record cache has it. A cursor neither fills the cache nor
    /// keeps anything in it: it would evict what is read again and again.
    #[inline]
    pub(super) fn cached(&self, encoded_key: &[u8], seq: SeqNo) -> Option<Bytes> {
        self.engine.records.as_ref()?.peek(encoded_key, hash64(encoded_key, 0), seq)
    }

    /// Where the newest version of a key with a marker lies, if the read state has it.
    pub(super) fn find_apart(&self, encoded_key: &[u8]) -> Option<ValuePointer> {
        let found = self.engine.find_apart(encoded_key);
        found.filter(|pointer| self.state.segments.is_there(*pointer))
    }

    /// The value of a key that merges have changed: a look-up applies them.
    pub(super) fn merged_value(&self, encoded_key: &[u8]) -> Result<Bytes> {
        self.look_up(encoded_key, "a key that merges have changed has no value")
    }

    /// The value that a look-up finds; `lost` says what is wrong if there is none. From memory
    /// alone there is no look-up.
    fn look_up(&self, encoded_key: &[u8], lost: &str) -> Result<Bytes> {
        if self.reach == Reach::Memory {
            return Err(Error::new(ErrorKind::WouldWait, "a value of a range wants a look-up"));
        }
        let found = read::get_encoded(&self.engine, encoded_key, Some(self.at), ReadFor::Engine)?;
        found.map(|found| found.value).ok_or_else(|| Error::corruption(lost))
    }

    /// The value of a key with a marker: its newest version, if the cursor sees that, or else the
    /// one that a look-up finds, since the key was written or moved after the cursor began.
    pub(super) fn value_apart(
        &self,
        encoded_key: &[u8],
        pointer: Option<ValuePointer>,
        chunk: Option<&Chunk>,
    ) -> Result<Bytes> {
        if let Some(pointer) = pointer
            && let Some((seq, value)) =
                self.state.segments.read_version(self.reach, chunk, pointer, encoded_key)?
            && seq <= self.at.seq
        {
            return Ok(value);
        }
        self.look_up(encoded_key, "a key that the index knows as hot has no value")
    }
}
