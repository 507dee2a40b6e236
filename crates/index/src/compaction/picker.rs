//! Picker: the state that all picks of a compaction use.

use std::sync::Arc;

use super::types::{Compaction, CompactionInput, CompactionOptions, Constraints, key_range};
use crate::edit::LEVEL_MAX;
use crate::table_handle::TableHandle;
use crate::version::Version;

pub(super) fn bytes_of(tables: &[Arc<TableHandle>]) -> u64 {
    tables.iter().map(|table| table.meta().size).sum()
}

/// The version, the sizes to keep, and the constraints.
pub(super) struct Picker<'a> {
    pub(super) version: &'a Version,
    pub(super) options: &'a CompactionOptions,
    pub(super) constraints: &'a Constraints,
}

impl Picker<'_> {
    /// Whether `table`, which shares no keys with `level`, should move there unchanged. A table of
    /// tombstones with nothing below is rewritten instead, which drops them.
    pub(super) fn may_move(&self, table: &TableHandle, level: u8) -> bool {
        let mut deeper = (level + 1..=LEVEL_MAX).map(|deeper| self.below(deeper, table));
        let next = deeper.next().map_or(0, bytes_of);
        let hides = next > 0 || deeper.any(|tables| !tables.is_empty());
        (table.meta().deletes == 0 || hides) && next <= self.options.overlap_bytes_max()
    }

    /// The tables of `level` that share keys with `table`.
    pub(super) fn below(&self, level: u8, table: &TableHandle) -> &[Arc<TableHandle>] {
        self.version.level(level).overlapping(&table.meta().smallest, &table.meta().largest)
    }

    /// The tables one level below `tables` of `level`, neighbours, that share keys with them or lie
    /// between them; none if a running compaction uses one of them.
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

    /// Compacts `tables` of `level`, which are neighbours, into the next level, if allowed.
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

    /// Rewrites `table` of `level`, 1 or deeper, in its place, if allowed.
    pub(super) fn rewrite(&self, level: u8, table: &Arc<TableHandle>) -> Option<Compaction> {
        let meta = table.meta();
        let waits = self.constraints.is_busy(table)
            || self.constraints.is_written(level, &meta.smallest, &meta.largest);
        if waits {
            return None;
        }
        let tables = vec![Arc::clone(table)];
        let input = CompactionInput { level, position: None, tables };
        Some(Compaction::new(vec![input], level, None, false))
    }

    /// Whether levels deeper than `level` may have entries that the tombstones of `table` hide.
    pub(super) fn hides(&self, level: u8, table: &TableHandle) -> bool {
        (level + 1..=LEVEL_MAX).any(|deeper| !self.below(deeper, table).is_empty())
    }
}
