//! Compaction of a range of keys on request: all of it becomes one level, and what no reader sees
//! leaves.
//!
//! It goes level by level. The tables of a level that meet the range go down with those of the next
//! level that they overlap, down to the deepest level that has keys of the range; there, those that
//! still have something dead are rewritten in their places. So it costs the tables that meet the
//! range on each level, those below them, and all of level 0 that shares keys with it. A merge of
//! all levels at once would have to take every table that tables at the edges overlap, and every
//! table that those overlap, which may be all.
//!
//! Why it ends: only tables with entries up to a sequence number count, which was fixed before.
//! Each step takes some down one level, or rewrites one that was not written on request before.

use std::collections::BTreeSet;
use std::sync::Arc;

use cleavedb_base::planted::{Bug, planted};
use cleavedb_base::{FileNumber, SeqNo};

use super::level0;
use super::picker::Picker;
use super::types::{Compaction, CompactionOptions, Constraints};

use crate::edit::LEVEL_MAX;
use crate::table_format::TableMeta;
use crate::table_handle::TableHandle;
use crate::version::Version;

/// What is to become one level.
pub struct RangeGoal<'a> {
    /// First key of the range.
    pub lower: &'a [u8],
    /// Key behind the range.
    pub upper: &'a [u8],
    /// Tables with newer entries only are left alone.
    pub upto: SeqNo,
    /// Tables that were written for this request.
    pub clean: &'a BTreeSet<FileNumber>,
}

/// The next step of a request.
pub enum RangeStep {
    /// A compaction to run.
    Compact(Compaction),
    /// A job under way reads or writes what the next step needs.
    Waits,
    /// A table that is damaged.
    Damaged(FileNumber),
    /// Nothing is left to do.
    Done,
}

impl RangeGoal<'_> {
    /// Whether a table that meets the range has entries that count.
    fn counts(&self, table: &TableHandle) -> bool {
        table.meta().min_seq <= self.upto
    }

    /// Whether a table on its last level may have something that no reader sees, or that a filter
    /// was not asked about.
    fn is_dirty(&self, meta: &TableMeta, constraints: &Constraints) -> bool {
        (constraints.filters || constraints.may_be_dead_in(meta))
            && !self.clean.contains(&meta.number)
            && !planted(Bug::DirtyTablesKept)
    }
}

/// The next step towards `goal`.
pub fn pick_range(
    version: &Version,
    options: &CompactionOptions,
    constraints: &Constraints,
    goal: &RangeGoal<'_>,
) -> RangeStep {
    if goal.lower >= goal.upper {
        return RangeStep::Done;
    }
    let picker = &Picker { version, options, constraints };
    let (lower, upper) = (Some(goal.lower), Some(goal.upper));
    let runs = || version.runs().iter().rev().flat_map(|run| run.set.within(lower, upper));
    let within = |level: u8| version.level(level).within(lower, upper);
    let mut all = runs().chain((1..=LEVEL_MAX).flat_map(within));
    if let Some(damaged) = all.find(|table| constraints.damaged.contains(&table.number())) {
        return RangeStep::Damaged(damaged.number());
    }
    let step = |picked: Option<Compaction>| picked.map_or(RangeStep::Waits, RangeStep::Compact);
    // The oldest run first: no younger one may leave before it.
    if let Some(table) = runs().find(|table| goal.counts(table)) {
        return step(level0::level0_table_down(picker, table));
    }
    let bottom = (1..=LEVEL_MAX).rev().find(|level| !within(*level).is_empty()).unwrap_or(1);
    for level in 1..bottom {
        let tables = within(level);
        if let Some(first) = tables.iter().position(|table| goal.counts(table)) {
            return step(picker.tables_down(level, together(picker, &tables[first..])));
        }
    }
    let mut last = within(bottom).iter();
    let dirty = last.find(|it| goal.counts(it) && goal.is_dirty(it.meta(), constraints));
    match dirty {
        Some(table) => step(picker.rewrite(bottom, table)),
        None => RangeStep::Done,
    }
}

/// The first of `tables`, and following ones up to the most that are compacted at once.
fn together<'t>(picker: &Picker<'_>, tables: &'t [Arc<TableHandle>]) -> &'t [Arc<TableHandle>] {
    let mut bytes = 0;
    let fits = |table: &&Arc<TableHandle>| {
        bytes += table.meta().size;
        bytes <= picker.options.compaction_bytes_max()
    };
    let count = tables.iter().take_while(fits).count();
    &tables[..count.max(1)]
}
