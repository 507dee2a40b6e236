//! Picker: what all choices of the next compaction look at.

use std::sync::Arc;

use super::types::{Compaction, CompactionInput, CompactionOptions, Constraints, key_range};
use crate::edit::LEVEL_MAX;
use crate::table_handle::TableHandle;
use crate::version::Version;

pub(super) fn bytes_of(tables: &[Arc<TableHandle>]) -> u64 {
    tables.iter().map(|table| table.meta().size).sum()
}

/// The read state, the sizes to keep, and what must be left alone.
pub(super) struct Picker<'a> {
    pub(super) version: &'a Version,
    pub(super) options: &'a CompactionOptions,
    pub(super) constraints: &'a Constraints,
}

impl Picker<'_> {
    /// Whether `table`, which has no keys in common with `level`, should move there as it is. A
    /// table of tombstones with nothing below is rewritten instead: they go.
    pub(super) fn may_move(&self, table: &TableHandle, level: u8) -> bool {
        let mut deeper = (level + 1..=LEVEL_MAX).map(|deeper| self.below(deeper, table));
        let next = deeper.next().map_or(0, bytes_of);
        let hides = next > 0 || deeper.any(|tables| !tables.is_empty());
        (table.meta().tombstones == 0 || hides) && next <= self.options.overlap_bytes_max()
    }

    /// The tables of `level` that have keys in common with `table`.
    pub(super) fn below(&self, level: u8, table: &TableHandle) -> &[Arc<TableHandle>] {
        self.version.level(level).overlapping(&table.meta().smallest, &table.meta().largest)
    }

    /// The tables one level below `tables` of `level`, neighbours, that they have keys in common
    /// with, or that lie between them; none if a running compaction is in the way.
    pub(super) fn free_below(
        &self,
        level: u8,
        tables: &[Arc<TableHandle>],
    ) -> Option<&[Arc<TableHandle>]> {
        let (smallest, largest) = key_range(tables.iter().map(|table| table.meta()))?;
        let lower = self.version.level(level + 1).overlapping(smallest, largest);
        let blocked = tables.iter().chain(lower).any(|table| self.constraints.is_busy(table))
            || self.constraints.is_written(level + 1, smallest, largest);
        (!blocked).then_some(lower)
    }

    /// Hands `tables` of `level`, which are neighbours, on to the next level, if they may go.
    pub(super) fn tables_down(&self, level: u8, tables: &[Arc<TableHandle>]) -> Option<Compaction> {
        let lower = self.free_below(level, tables)?;
        let mut inputs = vec![CompactionInput { level, position: None, tables: tables.to_vec() }];
        if !lower.is_empty() {
            let (level, tables) = (level + 1, lower.to_vec());
            inputs.push(CompactionInput { level, position: None, tables });
        }
        let movable = |table: &Arc<TableHandle>| self.may_move(table, level + 1);
        let moves = lower.is_empty() && tables.iter().all(movable);
        Some(Compaction::new(inputs, level + 1, None, moves))
    }

    /// Whether levels deeper than `level` may have what the tombstones of `table` hide.
    pub(super) fn hides(&self, level: u8, table: &TableHandle) -> bool {
        (level + 1..=LEVEL_MAX).any(|deeper| !self.below(deeper, table).is_empty())
    }
}
