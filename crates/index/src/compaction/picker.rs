//! Picker: what all choices of the next compaction look at.

use std::ops::RangeInclusive;
use std::sync::Arc;

use cleavedb_base::planted::{Bug, planted};

use super::{CompactionInput, CompactionOptions, Constraints, key_range};
use crate::edit::LEVEL_MAX;
use crate::table_handle::TableHandle;
use crate::version::Version;

pub(super) fn bytes_of(tables: &[Arc<TableHandle>]) -> u64 {
    tables.iter().map(|table| table.meta().size).sum()
}

/// The picture, the sizes to keep, and what must be left alone.
pub(super) struct Picker<'a> {
    pub(super) version: &'a Version,
    pub(super) options: &'a CompactionOptions,
    pub(super) constraints: &'a Constraints,
}

/// Tables that go down, and those of the levels below that go with them.
pub(super) struct Descent<'a> {
    /// The first level below them, and so on to the last one, where the outputs go.
    pub(super) lower: Vec<(u8, &'a [Arc<TableHandle>])>,
}

impl Descent<'_> {
    /// Where the outputs go.
    pub(super) fn level(&self) -> u8 {
        self.lower.last().expect("a descent has a target").0
    }

    /// Size of the tables that are met, in bytes.
    pub(super) fn bytes(&self) -> u64 {
        self.lower.iter().map(|(_, tables)| bytes_of(tables)).sum()
    }

    /// What is read beside the tables that go down.
    pub(super) fn inputs(&self) -> impl Iterator<Item = CompactionInput> {
        let met = self.lower.iter().filter(|(_, tables)| !tables.is_empty());
        met.map(|(level, tables)| CompactionInput {
            level: *level,
            position: None,
            tables: tables.to_vec(),
        })
    }
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

    /// What tables with keys in `range` meet on their way through `levels` into the last of them;
    /// none if a running compaction is in the way.
    ///
    /// What one level adds reaches further than what came from above, and meets more in the next.
    /// So each entry takes along whatever is older and above the target (invariant 1 of
    /// [`super`]), and what is left of the target has no keys in common with it (invariant 2).
    pub(super) fn descent<'a>(
        &'a self,
        levels: RangeInclusive<u8>,
        mut range: (&'a [u8], &'a [u8]),
    ) -> Option<Descent<'a>> {
        let mut lower = Vec::new();
        for level in levels {
            let met = self.version.level(level).overlapping(range.0, range.1);
            let blocked = self.constraints.is_written(level, range.0, range.1)
                || met.iter().any(|table| self.constraints.is_busy(table));
            if blocked {
                return None;
            }
            let reach = met.iter().map(|table| table.meta());
            if !planted(Bug::DescentStaysNarrow)
                && let Some((smallest, largest)) = key_range(reach)
            {
                range = (range.0.min(smallest), range.1.max(largest));
            }
            lower.push((level, met));
        }
        Some(Descent { lower })
    }
}
