//! Tombstones: deleted keys free their space although no level is full, and reads need not skip
//! them.
//!
//! A table with many tombstones is compacted towards the entries that they hide; where nothing lies
//! below it is rewritten in its place, which drops them. The cost is bounded: by the size of the
//! table and of the entries it may hide, if it holds mostly tombstones or hides a large part of
//! the rewritten bytes, or by the bytes that reads have spent on dead entries
//! ([`CompactionOptions::dead_bytes_read`](super::CompactionOptions::dead_bytes_read)).
//!
//! Tables that reads pay for mostly belong to a queue, which will soon leave more tombstones: then
//! a table of values becomes several short ones, so that only the front of the queue is rewritten.
//!
//! Why it ends: each step brings tombstones one level down or drops them. A table is rewritten in
//! its place only if every reader sees its youngest entry; then no tombstone stays.

use std::slice;

use std::sync::Arc;

use cleavedb_base::planted::{Bug, planted};

use super::futile;
use super::level0;
use super::picker::{Picker, bytes_of};

use super::types::Compaction;

use crate::edit::LEVEL_MAX;

use crate::table_handle::TableHandle;

/// Number of tombstones in level 0, or in a table, that a scan skips in negligible time.
pub(super) const FEW: u64 = 256;

/// One part in this number of the rewritten bytes must be freed, if reads do not pay for them.
const FREED_PART: u64 = 4;

/// Dead entries of some tables, for which others are rewritten.
#[derive(Default)]
struct Dead {
    deletes: u64,
    entries: u64,
    size: u64,
}

impl Dead {
    fn of<'a>(tables: impl IntoIterator<Item = &'a Arc<TableHandle>>) -> Self {
        tables.into_iter().fold(Self::default(), |sum, table| {
            let meta = table.meta();
            Self {
                deletes: sum.deletes + meta.deletes,
                entries: sum.entries + meta.entries,
                size: sum.size + meta.size,
            }
        })
    }

    fn are_mostly_dead(&self) -> bool {
        self.deletes * 2 >= self.entries
    }
}

/// Compacts or rewrites a table with many tombstones, if one is allowed.
pub(super) fn tombstones(picker: &Picker<'_>) -> Option<Compaction> {
    if planted(Bug::TombstonesStay) {
        return None;
    }
    let deeper = (1..=LEVEL_MAX).flat_map(|level| {
        picker.version.level(level).tables().iter().map(move |table| (level, table))
    });
    let mut deeper = deeper.filter(|(_, table)| table.meta().deletes > 0);
    let picked = tombstones_of_level0(picker).or_else(|| {
        deeper.find_map(|(level, table)| match picker.hides(level, table) {
            true => tombstones_down(picker, level, table),
            false => tombstones_in_place(picker, level, table),
        })
    });
    picked.map(|compaction| Compaction { short: reads_pay(picker), ..compaction })
}

/// Whether reads have met dead entries that are not paid for, and no caller wants all of them gone.
pub(super) fn reads_pay(picker: &Picker<'_>) -> bool {
    (1..u64::MAX).contains(&picker.options.dead_bytes_read)
}

/// Whether merging `own` tables with the overlapping tables `met` is worth its cost, to drop their
/// tombstones, if these may hide entries.
fn is_worth(picker: &Picker<'_>, own: &Dead, met: &[Arc<TableHandle>]) -> bool {
    let (met, bytes) = (Dead::of(met), own.size + bytes_of(met));
    // Hidden entries are assumed to have the mean length.
    let frees = bytes / (own.entries + met.entries).max(1) * own.deletes;
    // A step must not cost much more than a step of a full level, or than it frees.
    let cost_max = own.size.max(frees).saturating_mul(2 * picker.options.level_ratio);
    own.are_mostly_dead() && met.size <= cost_max
        || own.deletes >= FEW && (is_paid(picker, bytes) || bytes <= frees * FREED_PART)
}

/// Whether reads have spent as much on dead entries as rewriting `bytes` costs.
pub(super) fn is_paid(picker: &Picker<'_>, bytes: u64) -> bool {
    bytes <= picker.options.dead_bytes_read
}

/// Compacts the table of level 0 with most tombstones, if level 0 has many in all.
fn tombstones_of_level0(picker: &Picker<'_>) -> Option<Compaction> {
    let runs = picker.version.runs().iter();
    let tables = || runs.clone().flat_map(|run| run.set.tables());
    let all: u64 = tables().map(|table| table.meta().deletes).sum();
    let most = tables().max_by_key(|table| table.meta().deletes)?;
    if all < FEW {
        return None;
    }
    let compaction = level0::level0_table_down(picker, most)?;
    let of_level0 = |table: &&Arc<TableHandle>| {
        compaction.inputs.iter().any(|input| {
            input.level == 0 && input.tables.iter().any(|other| Arc::ptr_eq(other, table))
        })
    };
    let leaving = Dead::of(compaction.tables().filter(of_level0));
    let met = compaction.inputs.iter().find(|input| input.level > 0);
    let goes = is_paid(picker, compaction.bytes_written_max())
        || is_worth(picker, &leaving, met.map_or(&[], |input| &input.tables));
    goes.then_some(compaction)
}

/// Compacts `table` of `level` into the next level.
fn tombstones_down(picker: &Picker<'_>, level: u8, table: &Arc<TableHandle>) -> Option<Compaction> {
    if !is_worth(picker, &Dead::of([table]), picker.below(level + 1, table)) {
        return None;
    }
    picker.tables_down(level, slice::from_ref(table))
}

/// Rewrites `table` of `level`, with nothing below it, if that drops all of its tombstones.
fn tombstones_in_place(
    picker: &Picker<'_>,
    level: u8,
    table: &Arc<TableHandle>,
) -> Option<Compaction> {
    let own = Dead::of([table]);
    let worth = own.are_mostly_dead() || own.deletes >= FEW && is_paid(picker, own.size);
    if worth { in_place(picker, level, table) } else { None }
}

pub(super) fn in_place(
    picker: &Picker<'_>,
    level: u8,
    table: &Arc<TableHandle>,
) -> Option<Compaction> {
    let waits = table.meta().max_seq > picker.constraints.seen_by_all
        || futile::is_rewritten(picker, level, table);
    if waits { None } else { picker.rewrite(level, table) }
}

#[cfg(test)]
mod tests;
