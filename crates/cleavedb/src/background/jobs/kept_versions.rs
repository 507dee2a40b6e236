//! The versions of a MemTable that a flush keeps: those that the present or a snapshot can see.
//!
//! A flush passes over them twice. It decides where each of them goes and moves values there, and
//! then writes the run, which says where they are. Both passes meet the same versions in the same
//! order.

use cleavedb_base::Result;
use cleavedb_base::sync::atomic::Ordering;
use cleavedb_index::{Entry, FoldedVersions, Retention};

use crate::engine::Engine;
use crate::engine::read_points::ReadPoints;
use crate::store::state::MemSlot;

/// The versions that the flush of a MemTable keeps.
pub(super) struct KeptVersions<'a> {
    slot: &'a MemSlot,
    pub(super) points: &'a ReadPoints,
    /// What becomes of those that do not hide older ones.
    folded: FoldedVersions<'a>,
}

/// What a flush does with the versions that it keeps.
pub(super) trait FlushPass<'e> {
    /// Begins a key whose youngest version is `youngest`; the flush may keep only older ones.
    fn begin_key(&mut self, _youngest: &Entry<'e>) {}

    /// Meets the next version of the key, from the newest to the oldest.
    fn keep(&mut self, entry: Entry<'e>) -> Result<()>;

    /// Ends a key that has this number of versions in the MemTable, kept or not.
    fn end_key(&mut self, _versions: u64, _retention: &mut Retention<'_>) -> Result<()> {
        Ok(())
    }
}

impl<'a> KeptVersions<'a> {
    /// For a MemTable in which nothing is inserted any more.
    pub(super) fn new(engine: &Engine, slot: &'a MemSlot, points: &'a ReadPoints) -> Self {
        if !slot.needs_older.load(Ordering::Acquire) {
            return Self { slot, points, folded: FoldedVersions::default() };
        }
        let rule = &*engine.merges.rule;
        let folded = FoldedVersions::of(&slot.table, &mut points.retention(), rule);
        folded.long().for_each(|key| engine.merges.long_chains.add(key));
        Self { slot, points, folded }
    }

    /// Takes `pass` over all keys, in the order of the index.
    pub(super) fn visit<'e>(&'e self, pass: &mut impl FlushPass<'e>) -> Result<()> {
        let mut retention = self.points.retention();
        let (mut last_key, mut versions) = (None, 0);
        self.slot.table.for_each_sorted(|entry| {
            let entry = retention.unexpired(entry);
            if last_key != Some(entry.key) {
                if last_key.replace(entry.key).is_some() {
                    pass.end_key(versions, &mut retention)?;
                }
                versions = 0;
                retention.begin_key(entry.key);
                pass.begin_key(&entry);
            }
            versions += 1;
            self.folded.kept(entry, &mut retention).map_or(Ok(()), |entry| pass.keep(entry))
        })?;
        match last_key {
            Some(_) => pass.end_key(versions, &mut retention),
            None => Ok(()),
        }
    }
}
