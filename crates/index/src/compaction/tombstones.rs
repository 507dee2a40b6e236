//! Tombstones: deleted keys give their space back although no level is full, and reads need not
//! step over them.
//!
//! A table with many goes down, towards what they hide; where nothing lies below it is rewritten in
//! its place, and they are gone. What that costs is bounded: by the size of the table, if it holds
//! mostly tombstones, or by what reads have spent on dead entries
//! ([`CompactionOptions::dead_bytes_read`](super::CompactionOptions::dead_bytes_read)).
//!
//! Why it ends: each step brings tombstones one level down or drops them. In its place a table is
//! rewritten only if everybody sees its youngest entry; then no tombstone stays.

use std::slice;
use std::sync::Arc;

use cleavedb_base::planted::{Bug, planted};

use super::picker::{Picker, bytes_of};
use super::{Compaction, CompactionInput};
use crate::edit::LEVEL_MAX;
use crate::table_handle::TableHandle;

/// Tombstones in level 0, or in a table, that are few: a scan steps over them in no time.
const FEW: u64 = 256;

impl Picker<'_> {
    /// Hands on or rewrites a table with many tombstones, if one may go.
    pub(super) fn tombstones(&self) -> Option<Compaction> {
        if planted(Bug::TombstonesStay) {
            return None;
        }
        let deeper = (1..=LEVEL_MAX).flat_map(|level| {
            self.version.level(level).tables().iter().map(move |table| (level, table))
        });
        let mut deeper = deeper.filter(|(_, table)| table.meta().tombstones > 0);
        self.tombstones_of_level0().or_else(|| {
            deeper.find_map(|(level, table)| match self.hides(level, table) {
                true => self.tombstones_down(level, table),
                false => self.tombstones_in_place(level, table),
            })
        })
    }

    /// Whether levels deeper than `level` may have what the tombstones of `table` hide.
    pub(super) fn hides(&self, level: u8, table: &TableHandle) -> bool {
        (level + 1..=LEVEL_MAX).any(|deeper| !self.below(deeper, table).is_empty())
    }

    /// Whether to rewrite `bytes` is not too much for the tombstones of `table`.
    fn is_worth(&self, table: &TableHandle, bytes: u64) -> bool {
        let meta = table.meta();
        // A step must not cost far more than a full level's does.
        let cost_max = meta.size.saturating_mul(2 * self.options.level_ratio);
        let mostly = meta.tombstones * 2 >= meta.entries && bytes <= cost_max;
        mostly || meta.tombstones >= FEW && bytes <= self.options.dead_bytes_read
    }

    /// Hands on the table of level 0 with most tombstones, if there are many in all.
    fn tombstones_of_level0(&self) -> Option<Compaction> {
        let runs = self.version.runs().iter();
        let tables = || runs.clone().flat_map(|run| run.set.tables());
        let all: u64 = tables().map(|table| table.meta().tombstones).sum();
        let most = tables().max_by_key(|table| table.meta().tombstones)?;
        if all < FEW {
            return None;
        }
        let compaction = self.level0_table_down(most)?;
        let of_level0 = |table: &&Arc<TableHandle>| {
            compaction.inputs.iter().any(|input| {
                input.level == 0 && input.tables.iter().any(|other| Arc::ptr_eq(other, table))
            })
        };
        let leaving: Vec<_> = compaction.tables().filter(of_level0).collect();
        let own: u64 = leaving.iter().map(|table| table.meta().size).sum();
        let entries: u64 = leaving.iter().map(|table| table.meta().entries).sum();
        let bytes = compaction.bytes_written_max();
        let cost_max = own.saturating_mul(2 * self.options.level_ratio);
        let worth = all * 2 >= entries && bytes <= cost_max;
        (worth || bytes <= self.options.dead_bytes_read).then_some(compaction)
    }

    /// Hands `table` of `level` on to the next level.
    fn tombstones_down(&self, level: u8, table: &Arc<TableHandle>) -> Option<Compaction> {
        let met = bytes_of(self.below(level + 1, table));
        if !self.is_worth(table, met) {
            return None;
        }
        self.tables_down(level, slice::from_ref(table))
    }

    /// Rewrites `table` of `level`, below which nothing lies, if none of its tombstones stays then.
    fn tombstones_in_place(&self, level: u8, table: &Arc<TableHandle>) -> Option<Compaction> {
        let meta = table.meta();
        if !self.is_worth(table, meta.size) {
            return None;
        }
        self.in_place(level, table)
    }

    pub(super) fn in_place(&self, level: u8, table: &Arc<TableHandle>) -> Option<Compaction> {
        let meta = table.meta();
        let waits = meta.max_seq > self.constraints.seen_by_all
            || self.constraints.is_busy(table)
            || self.constraints.is_written(level, &meta.smallest, &meta.largest);
        if waits {
            return None;
        }
        let tables = vec![Arc::clone(table)];
        let input = CompactionInput { level, position: None, tables };
        Some(Compaction::new(vec![input], level, None, false))
    }
}

#[cfg(test)]
mod tests;
