//! Leveled compaction: picks the tables to merge next, from the version and its constraints alone.
//!
//! `level0` picks the tables that leave level 0 and the merges within it. Each deeper level has a
//! size limit, ten times that of the level above; a level over its limit compacts its cheapest
//! tables: neighbours with the fewest overlapping bytes below, per byte of their own. When no level
//! is over its limit, tables with
//! many tombstones are compacted towards the entries that they hide, or rewritten (`tombstones`),
//! as are tables of which an eager range tombstone deletes a part (`hidden_tables`), and small
//! neighbours are merged (`packing`). Before all of this, tables leave that range tombstones hide
//! wholly.
//!
//! Why no entry sinks below an older one (invariant 1 of [`super`]): tables of a deeper level go
//! with all tables of the next level that share keys with them. The outputs of running compactions
//! are no tables yet: a table that overlaps their key range stays.

use std::sync::Arc;

use super::hidden_tables;
use super::level0;
use super::packing;
use super::picker::Picker;
#[cfg(feature = "experiments")]
use super::seeks;
use super::tombstones;

use super::types::{Compaction, CompactionInput, CompactionOptions, Constraints, key_range};

use crate::edit::LEVEL_MAX;

use crate::table_handle::TableHandle;

use crate::table_set::TableSet;

use crate::version::Version;

/// Most tables of a level that are compacted together: a pick tries each first table with each
/// number of tables, under the lock of the read state.
const NEIGHBOURS_MAX: usize = 16;

/// The most urgent compaction that is allowed, if any is due.
pub fn pick(
    version: &Version,
    options: &CompactionOptions,
    constraints: &Constraints,
) -> Option<Compaction> {
    let picker = &Picker { version, options, constraints };
    if let Some(compaction) = hidden_tables::leaving(picker) {
        return Some(compaction);
    }
    // Merging runs that are about to leave would only write their bytes once more.
    let merges_first = version.level_bytes(0) < options.l0_bytes;
    if merges_first && let Some(compaction) = level0::merge_level0(picker) {
        return Some(compaction);
    }
    let mut scores = vec![(level0::level0_fullness(picker), 0)];
    scores.extend((1..LEVEL_MAX).map(|level| {
        let bytes = version.level_bytes(level) as f64;
        (bytes / options.level_bytes(level) as f64, level)
    }));
    scores.retain(|(score, _)| *score >= 1.0);
    scores.sort_by(|a, b| b.0.total_cmp(&a.0));
    let urgent = scores.into_iter().find_map(|(_, level)| match level {
        0 => level0::level0_down(picker).or_else(|| level0::merge_stuck_level0(picker)),
        _ => level_down(picker, level),
    });
    let merged = || if merges_first { None } else { level0::merge_level0(picker) };
    #[cfg(feature = "experiments")]
    let merged = || merged().or_else(|| seeks::seeks_down(picker));
    let idle = || {
        tombstones::tombstones(picker)
            .or_else(|| hidden_tables::rewritten(picker))
            .or_else(|| packing::pack(picker))
    };
    urgent.or_else(merged).or_else(idle)
}

/// Everything from `lower` (inclusive) to `upper` (exclusive), merged into the deepest level that
/// has data. None if there is nothing to gain, or if an input is busy: try again when no compaction
/// runs.
pub fn pick_full(
    version: &Version,
    constraints: &Constraints,
    lower: Option<&[u8]>,
    upper: Option<&[u8]>,
) -> Option<Compaction> {
    let bottom = (1..=LEVEL_MAX).rev().find(|&level| !version.level(level).is_empty());
    let bottom = bottom.unwrap_or(1);
    let runs = || version.runs().iter().filter(|run| !constraints.is_pinned(run.position));
    let sets = || runs().map(|run| &run.set).chain((1..=bottom).map(|level| version.level(level)));
    let first = sets().flat_map(|set| set.within(lower, upper));
    let mut range = key_range(first.map(|table| table.meta()))?;
    // Tables at the edges reach further, and so may others that overlap them.
    loop {
        let touched = sets().flat_map(|set| set.overlapping(range.0, range.1));
        let wider = key_range(touched.map(|table| table.meta()))?;
        if wider == range {
            break;
        }
        range = wider;
    }
    let mut inputs = Vec::new();
    let mut add = |level, position, set: &TableSet| {
        let tables = set.overlapping(range.0, range.1).to_vec();
        if !tables.is_empty() {
            inputs.push(CompactionInput { level, position, tables });
        }
    };
    for run in runs() {
        add(0, Some(run.position), &run.set);
    }
    for level in 1..=bottom {
        add(level, None, version.level(level));
    }
    let tables = || inputs.iter().flat_map(|input| &input.tables);
    let clean = tables().all(|table| !constraints.may_be_dead_in(table.meta()));
    let single = inputs.len() == 1 && clean && !constraints.filters;
    let blocked = tables().any(|table| constraints.is_busy(table))
        || (0..=bottom).any(|level| constraints.is_written(level, range.0, range.1));
    if blocked || single && inputs[0].level == bottom {
        return None;
    }
    Some(Compaction::new(inputs, bottom, None, single))
}

/// A compaction that is due and writes no more than `bytes_max`, for a caller with little time. If
/// the most urgent one is longer, runs of level 0 are merged, although they are about to leave.
pub fn pick_short(
    version: &Version,
    options: &CompactionOptions,
    constraints: &Constraints,
    bytes_max: u64,
) -> Option<Compaction> {
    let picked = pick(version, options, constraints)?;
    if picked.bytes_written_max() <= bytes_max {
        return Some(picked);
    }
    level0::merge_runs(&Picker { version, options, constraints }, bytes_max)
}

/// Compacts the cheapest neighbours of a level over its limit into the next level: no more than are
/// needed to get below the limit. Neighbours share overlapping tables at their edges, so together
/// they cost less.
fn level_down(picker: &Picker<'_>, level: u8) -> Option<Compaction> {
    let tables = picker.version.level(level).tables();
    // Tables already being compacted into a deeper level do not count.
    let leaving = tables.iter().filter(|table| picker.constraints.leaves(table, level));
    let leaving: u64 = leaving.map(|table| table.meta().size).sum();
    let bytes = picker.version.level_bytes(level).saturating_sub(leaving);
    let excess = bytes.saturating_sub(picker.options.level_bytes(level));
    if leaving > 0 && excess == 0 {
        return None;
    }
    let together = level0::policy(picker.options.level0).neighbours(picker.options);
    let enough = if together.only_excess { excess } else { u64::MAX };
    let mut cheapest: Option<(f64, &[Arc<TableHandle>])> = None;
    let mut below = picker.version.level(level + 1).tables();
    for start in 0..tables.len() {
        let smallest = &tables[start].meta().smallest;
        while below.first().is_some_and(|table| table.meta().largest < *smallest) {
            below = &below[1..];
        }
        let neighbours = &tables[start..tables.len().min(start + NEIGHBOURS_MAX)];
        let costs = costs_down(picker, level, neighbours, below, enough, together.bytes_max);
        for (cost, count) in costs {
            if cheapest.is_none_or(|(least, _)| cost < least) {
                cheapest = Some((cost, &neighbours[..count]));
            }
        }
    }
    picker.tables_down(level, cheapest?.1)
}

/// For 1, 2 and more of `tables` of `level`, until there are `enough` bytes of them, as far as they
/// may go together and have no more than `most` bytes with what they overlap: the overlapping bytes
/// in the next level, per byte of their own, and the number of tables. `below` are tables of the
/// next level, from the first on that `tables` may overlap. Sums are carried along, since this runs
/// under a lock.
fn costs_down<'a>(
    picker: &'a Picker<'_>,
    level: u8,
    tables: &'a [Arc<TableHandle>],
    mut below: &'a [Arc<TableHandle>],
    enough: u64,
    most: u64,
) -> impl Iterator<Item = (f64, usize)> + 'a {
    let (mut own, mut met) = (0, 0);
    let free = |table: &Arc<TableHandle>| !picker.constraints.is_busy(table);
    let smallest = tables.first().map_or(&[][..], |first| &first.meta().smallest);
    tables.iter().zip(1..).map_while(move |(table, count)| {
        let largest = &table.meta().largest;
        let done = count > 1 && own >= enough;
        own += table.meta().size;
        let mut may_go =
            !done && free(table) && !picker.constraints.is_written(level + 1, smallest, largest);
        while let Some((lower, rest)) = below.split_first()
            && lower.meta().smallest <= *largest
        {
            met += lower.meta().size;
            may_go &= free(lower);
            below = rest;
        }
        // Tables without overlap move unchanged one by one: together they would save nothing.
        let fits = count == 1 || met > 0 && own + met <= most;
        (may_go && fits).then_some((met as f64 / own as f64, count))
    })
}

#[cfg(test)]
mod tests;
