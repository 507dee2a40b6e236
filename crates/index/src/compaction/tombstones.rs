//! Tombstones: deleted keys give their space back although no level is full, and reads need not
//! step over them.
//!
//! A table with many goes down, towards what they hide; where nothing lies below it is rewritten in
//! its place, and they are gone. What that costs is bounded: by the size of the table and of what
//! it may hide, if it holds mostly tombstones or hides much of what is rewritten, or by what reads
//! have spent on dead entries
//! ([`CompactionOptions::dead_bytes_read`](super::CompactionOptions::dead_bytes_read)).
//!
//! What reads pay for is a queue, mostly, which soon leaves the next tombstones: then a table of
//! values becomes several short ones, so that no more is rewritten than what lies at the front.
//!
//! Why it ends: each step brings tombstones one level down or drops them. In its place a table is
//! rewritten only if everybody sees its youngest entry; then no tombstone stays.

use std::slice;

use std::sync::Arc;

use cleavedb_base::planted::{Bug, planted};

use super::level0;
use super::picker::{Picker, bytes_of};

use super::types::{Compaction, CompactionInput};

use crate::edit::LEVEL_MAX;

use crate::table_handle::TableHandle;

/// Tombstones in level 0, or in a table, that are few: a scan steps over them in no time.
const FEW: u64 = 256;

/// Of what is rewritten so much must come back, one part in so many, if reads do not pay for it.
const FREED_PART: u64 = 4;

/// Some tables, for whose tombstones others are rewritten.
#[derive(Default)]
struct Dead {
    tombstones: u64,
    entries: u64,
    size: u64,
}

impl Dead {
    fn of<'a>(tables: impl IntoIterator<Item = &'a Arc<TableHandle>>) -> Self {
        tables.into_iter().fold(Self::default(), |sum, table| {
            let meta = table.meta();
            Self {
                tombstones: sum.tombstones + meta.tombstones,
                entries: sum.entries + meta.entries,
                size: sum.size + meta.size,
            }
        })
    }

    fn are_mostly_dead(&self) -> bool {
        self.tombstones * 2 >= self.entries
    }
}

/// Hands on or rewrites a table with many tombstones, if one may go.
pub(super) fn tombstones(picker: &Picker<'_>) -> Option<Compaction> {
    if planted(Bug::TombstonesStay) {
        return None;
    }
    let deeper = (1..=LEVEL_MAX).flat_map(|level| {
        picker.version.level(level).tables().iter().map(move |table| (level, table))
    });
    let mut deeper = deeper.filter(|(_, table)| table.meta().tombstones > 0);
    let picked = tombstones_of_level0(picker).or_else(|| {
        deeper.find_map(|(level, table)| match picker.hides(level, table) {
            true => tombstones_down(picker, level, table),
            false => tombstones_in_place(picker, level, table),
        })
    });
    let reads_pay = (1..u64::MAX).contains(&picker.options.dead_bytes_read);
    picked.map(|compaction| Compaction { short: reads_pay, ..compaction })
}

/// Whether it is not too much to merge `own` tables with those that they have `met`, for the
/// sake of their tombstones, if these may hide entries.
fn is_worth(picker: &Picker<'_>, own: &Dead, met: &[Arc<TableHandle>]) -> bool {
    let (met, bytes) = (Dead::of(met), own.size + bytes_of(met));
    // The entries that are hidden are taken to be as long as the mean.
    let frees = bytes / (own.entries + met.entries).max(1) * own.tombstones;
    // A step must not cost far more than a full level's does, or than comes back.
    let cost_max = own.size.max(frees).saturating_mul(2 * picker.options.level_ratio);
    own.are_mostly_dead() && met.size <= cost_max
        || own.tombstones >= FEW && (is_paid(picker, bytes) || bytes <= frees * FREED_PART)
}

/// Whether reads have spent on dead entries what it costs to rewrite `bytes`.
fn is_paid(picker: &Picker<'_>, bytes: u64) -> bool {
    bytes <= picker.options.dead_bytes_read
}

/// Hands on the table of level 0 with most tombstones, if there are many in all.
fn tombstones_of_level0(picker: &Picker<'_>) -> Option<Compaction> {
    let runs = picker.version.runs().iter();
    let tables = || runs.clone().flat_map(|run| run.set.tables());
    let all: u64 = tables().map(|table| table.meta().tombstones).sum();
    let most = tables().max_by_key(|table| table.meta().tombstones)?;
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

/// Hands `table` of `level` on to the next level.
fn tombstones_down(picker: &Picker<'_>, level: u8, table: &Arc<TableHandle>) -> Option<Compaction> {
    if !is_worth(picker, &Dead::of([table]), picker.below(level + 1, table)) {
        return None;
    }
    picker.tables_down(level, slice::from_ref(table))
}

/// Rewrites `table` of `level`, below which nothing lies, if none of its tombstones stays then.
fn tombstones_in_place(
    picker: &Picker<'_>,
    level: u8,
    table: &Arc<TableHandle>,
) -> Option<Compaction> {
    let own = Dead::of([table]);
    let worth = own.are_mostly_dead() || own.tombstones >= FEW && is_paid(picker, own.size);
    if worth { in_place(picker, level, table) } else { None }
}

pub(super) fn in_place(
    picker: &Picker<'_>,
    level: u8,
    table: &Arc<TableHandle>,
) -> Option<Compaction> {
    let meta = table.meta();
    let waits = meta.max_seq > picker.constraints.seen_by_all
        || picker.constraints.is_busy(table)
        || picker.constraints.is_written(level, &meta.smallest, &meta.largest);
    if waits {
        return None;
    }
    let tables = vec![Arc::clone(table)];
    let input = CompactionInput { level, position: None, tables };
    Some(Compaction::new(vec![input], level, None, false))
}

#[cfg(test)]
mod tests;
