//! ReadPoints: what a job must keep for readers, and what it may drop because of range tombstones
//! or because it has expired.
//!
//! A job fixes both before it reads. The snapshots and the read point come from one moment, under
//! the lock of the snapshots. The tombstones come from the read state, which is loaded after it: a
//! commit adds a tombstone to the read state before it makes it visible, so all up to the read
//! point are there.
//!
//! A job may apply a tombstone only if the tombstone survives a loss of power: otherwise the edit
//! of the job could survive without it, and what it deletes would be gone although it is not
//! deleted. Each constructor says why its limit keeps that.

use cleavedb_base::SeqNo;
use cleavedb_base::planted::{Bug, planted};
use cleavedb_index::{Fragments, Retention};

use crate::engine::Engine;

/// The sequence numbers as of which a job reads, and the range tombstones that it applies.
pub(crate) struct ReadPoints {
    /// Live snapshots, ascending.
    pub(crate) snapshots: Vec<SeqNo>,
    /// What readers without a snapshot see, or as much of it as the job takes into account.
    pub(crate) read_point: SeqNo,
    pub(crate) deleted: Fragments,
    /// See [`Engine::earliest_time`].
    pub(crate) earliest_time: u64,
}

impl ReadPoints {
    /// For a compaction: the tombstones that are durable by now.
    pub(crate) fn of_compaction(engine: &Engine) -> Self {
        let durable = match planted(Bug::RangeDeleteNotDurable) {
            true => SeqNo::MAX,
            false => engine.commit.durable(),
        };
        Self::fix(engine, || engine.commit.visible(), durable)
    }

    /// For a flush of everything up to `last_seq`, all of which is visible: the tombstones up to
    /// there. Their records are ordinary writes, so they become durable with the run of the flush,
    /// by the same edit, or are in tables already.
    pub(crate) fn of_flush(engine: &Engine, last_seq: SeqNo) -> Self {
        Self::fix(engine, || engine.commit.visible(), last_seq)
    }

    /// For a collection as of `read_point`: the visible tombstones up to there. Either the read
    /// point is durable, or the collection syncs the log through it before its edit
    /// ([`crate::settings::options::LogPolicy::sync_before_drop`]).
    pub(crate) fn of_collection(engine: &Engine, read_point: impl Fn() -> SeqNo) -> Self {
        // What is durable may not be visible yet, and its tombstones not in the read state.
        Self::fix(engine, read_point, engine.commit.visible())
    }

    fn fix(engine: &Engine, read_point: impl Fn() -> SeqNo, deletes_upto: SeqNo) -> Self {
        // Before the snapshots: one that ends in between kept its values only too long.
        let earliest_time = engine.earliest_time();
        let (snapshots, read_point) = engine.snapshots.fix(read_point);
        let upto = read_point.min(deletes_upto);
        let deleted = engine.state.load().deleted.fragments(upto);
        Self { snapshots, read_point, deleted, earliest_time }
    }

    /// The rule that decides which versions stay.
    pub(crate) fn retention(&self) -> Retention<'_> {
        Retention::new(&self.snapshots, &self.deleted, self.earliest_time)
    }

    /// The greatest number that every reader sees.
    pub(crate) fn seen_by_all(&self) -> SeqNo {
        self.snapshots.first().copied().unwrap_or(self.read_point)
    }

    /// Of what the job writes, no range tombstone up to this number covers anything: it applies all
    /// of these, and no snapshot is older than one of them.
    pub(crate) fn uncovered_upto(&self) -> SeqNo {
        self.seen_by_all().min(self.deleted.upto())
    }
}
