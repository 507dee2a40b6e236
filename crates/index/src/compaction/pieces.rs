//! Pieces: compaction on a disk that has no room for all outputs at once.
//!
//! A piece is a short enough compaction into the next level, or rewrite of a table of the deepest
//! level, or of one with keys that range tombstones cover, that may free space; those with most
//! tombstones come first. Where none is short enough, a table with too much overlap is cut: it is
//! rewritten in its place as several tables, which end where the tables that they will overlap
//! begin, so that each overlaps little. Runs of level 0 are cut at the same keys; otherwise they
//! would stay joined.
//!
//! Why it ends: a piece brings entries one level down, drops all dead entries of a table, or
//! applies range tombstones to it; and a table is cut only into shorter ones.

use std::slice;

use std::sync::Arc;

use super::futile;
use super::level0;
use super::picker::{Picker, bytes_of};
use super::tombstones;

use super::types::{Compaction, CompactionInput, CompactionOptions, Constraints};

use crate::edit::{LEVEL_MAX, RunPosition};

use crate::table_handle::TableHandle;

use crate::version::Version;

/// A step towards [`super::leveled::pick_full`] that writes no more than `bytes_max`.
pub fn pick_piece(
    version: &Version,
    options: &CompactionOptions,
    constraints: &Constraints,
    bytes_max: u64,
) -> Option<Compaction> {
    piece(&Picker { version, options, constraints }, bytes_max)
}

/// A table of at most `bytes_max` bytes to be cut, so that it can be compacted in pieces.
pub fn pick_cut(
    version: &Version,
    options: &CompactionOptions,
    constraints: &Constraints,
    bytes_max: u64,
) -> Option<Compaction> {
    cut(&Picker { version, options, constraints }, bytes_max)
}

/// Tables that the parts of a cut table will overlap, in the order of their largest keys: those of
/// the next level, and for a run of level 0 those of all runs.
pub(super) fn met(version: &Version, compaction: &Compaction) -> Vec<Arc<TableHandle>> {
    let (smallest, largest) = compaction.key_range();
    let runs = version.runs().iter().filter(|_| compaction.level == 0);
    let beside = runs.flat_map(|run| run.set.overlapping(smallest, largest));
    let below = (compaction.level < LEVEL_MAX)
        .then(|| version.level(compaction.level + 1).overlapping(smallest, largest));
    let mut met: Vec<_> = beside.chain(below.into_iter().flatten()).cloned().collect();
    met.sort_by(|a, b| a.meta().largest.cmp(&b.meta().largest));
    met
}

/// Keys before which the parts end: the beginnings of the tables that they will overlap.
pub(super) fn split_keys(met: &[Arc<TableHandle>]) -> Vec<Box<[u8]>> {
    let mut split_keys: Vec<Box<[u8]>> =
        met.iter().map(|table| table.meta().smallest.clone()).collect();
    split_keys.sort_unstable();
    split_keys.dedup();
    split_keys
}

fn piece(picker: &Picker<'_>, bytes_max: u64) -> Option<Compaction> {
    let bottom = (1..=LEVEL_MAX).rev().find(|level| !picker.version.level(*level).is_empty());
    let deeper = (1..=bottom.unwrap_or(0)).flat_map(|level| {
        let tables = picker.version.level(level).tables().iter();
        tables.filter_map(move |table| match Some(level) == bottom {
            true => clean(picker, level, table),
            false if picker.constraints.may_cover(table.meta()) => {
                let vain = futile::is_rewritten(picker, level, table);
                if vain { None } else { picker.rewrite(level, table) }
            }
            false => picker.tables_down(level, slice::from_ref(table)),
        })
    });
    let frees = |piece: &Compaction| {
        let hides = |input: &CompactionInput| {
            input.tables.iter().any(|table| picker.hides(input.level, table))
        };
        !piece.moves || piece.inputs.iter().any(hides)
    };
    let fits = |piece: &Compaction| piece.bytes_written_max() <= bytes_max && frees(piece);
    let deletes =
        |piece: &Compaction| -> u64 { piece.tables().map(|table| table.meta().deletes).sum() };
    level0::level0_piece(picker, bytes_max)
        .into_iter()
        .chain(deeper.filter(fits))
        .max_by_key(deletes)
}

/// Drops dead entries from `table` of the deepest level, if it has any.
fn clean(picker: &Picker<'_>, level: u8, table: &Arc<TableHandle>) -> Option<Compaction> {
    let meta = table.meta();
    let dead = meta.deletes + meta.shadowed > 0 || picker.constraints.may_cover(meta);
    if dead { tombstones::in_place(picker, level, table) } else { None }
}

fn cut(picker: &Picker<'_>, bytes_max: u64) -> Option<Compaction> {
    let runs =
        picker.version.runs().iter().filter(|run| !picker.constraints.is_pinned(run.position));
    let young = runs
        .flat_map(|run| run.set.tables().iter().map(move |table| (0, Some(run.position), table)));
    let deeper = (1..LEVEL_MAX).flat_map(|level| {
        picker.version.level(level).tables().iter().map(move |table| (level, None, table))
    });
    let tables = young.chain(deeper);
    let is_long = |(level, _, table): &(u8, Option<RunPosition>, &Arc<TableHandle>)| {
        let meta = table.meta();
        let runs = picker.version.runs().iter().filter(|_| *level == 0);
        let beside = runs.map(|run| bytes_of(run.set.overlapping(&meta.smallest, &meta.largest)));
        let met = beside.sum::<u64>() + bytes_of(picker.below(level + 1, table));
        let long = meta.size >= 2 * picker.options.table_end()
            || met > 2 * picker.options.overlap_bytes_max();
        long && meta.size <= bytes_max
            && !futile::is_rewritten(picker, *level, table)
            && meta.smallest != meta.largest
            && !picker.constraints.is_busy(table)
            && !picker.constraints.is_written(*level, &meta.smallest, &meta.largest)
    };
    // Short tables are cut where these begin, so these are cut first.
    let longest = tables.filter(is_long).max_by_key(|(_, _, table)| table.meta().size);
    let (level, position, table) = longest?;
    let input = CompactionInput { level, position, tables: vec![table.clone()] };
    Some(Compaction::new(vec![input], level, position, false))
}

#[cfg(test)]
mod tests;
