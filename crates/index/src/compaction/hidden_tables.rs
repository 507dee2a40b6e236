//! Hidden tables: range tombstones free the space of what they delete, although no level is full.
//!
//! A table that range tombstones hide wholly from every reader leaves, in any place. Nothing else
//! comes to light: a version that an entry of the table hides has the same key and is older, so the
//! tombstone that covers the entry covers it, too. If the table has no pointers it is not even
//! read; otherwise its entries are, since each pointer that goes must be reported, but no value is.
//!
//! A table of which an eager range tombstone may delete a part is rewritten in its place, or taken
//! down from level 0. So is one with enough values that have expired, or with some for whose
//! stepping over reads have paid. There may be older places below it, so its point tombstones may
//! stay.
//!
//! Why it ends: a tombstone counts only if every reader sees it, and what is written for it says
//! that it was applied ([`TableMeta::uncovered_upto`]). Values count as expired only if they
//! are for every reader, and become tombstones then. A table of level 0 that only moves does so
//! once.

use std::sync::Arc;

use super::futile;
use super::level0;
use super::picker::Picker;
use super::tombstones;
use super::types::{Compaction, CompactionInput};

use crate::edit::{LEVEL_MAX, RunPosition};
use crate::table_format::TableMeta;
use crate::table_handle::TableHandle;
use crate::table_set::TableSet;

/// Removes tables of one place that range tombstones hide wholly, unless a running compaction reads
/// them. A run above a running collection stays, as all merges leave it there.
pub(super) fn leaving(picker: &Picker<'_>) -> Option<Compaction> {
    if picker.constraints.deleted.is_empty() {
        return None;
    }
    let runs = picker.version.runs().iter();
    let runs = runs.filter(|run| !picker.constraints.is_pinned(run.position));
    let runs = runs.map(|run| (0, Some(run.position), &run.set));
    let levels = (1..=LEVEL_MAX).map(|level| (level, None, picker.version.level(level)));
    runs.chain(levels)
        .find_map(|(level, position, set)| leaving_place(picker, level, position, set))
}

/// Removes hidden tables of one place: as many as may be read in one compaction.
fn leaving_place(
    picker: &Picker<'_>,
    level: u8,
    position: Option<RunPosition>,
    set: &TableSet,
) -> Option<Compaction> {
    let mut read = 0;
    let goes = |table: &&Arc<TableHandle>| {
        let meta = table.meta();
        let goes = is_hidden(picker, meta) && !picker.constraints.is_busy(table);
        if goes && meta.pointer_bytes > 0 {
            read += meta.size;
        }
        goes && (read <= picker.options.compaction_bytes_max() || read == meta.size)
    };
    let tables: Vec<_> = set.tables().iter().filter(goes).cloned().collect();
    if tables.is_empty() {
        return None;
    }
    let input = CompactionInput { level, position, tables };
    let compaction = Compaction::new(vec![input], level, position, false);
    Some(Compaction { drops: true, ..compaction })
}

/// Whether no reader sees anything of the table `meta`.
fn is_hidden(picker: &Picker<'_>, meta: &TableMeta) -> bool {
    let (deleted, seen_by_all) = (&picker.constraints.deleted, picker.constraints.seen_by_all);
    deleted.hides_all(&meta.smallest, &meta.largest, meta.max_seq, seen_by_all)
}

/// Rewrites a table of which an eager range tombstone may delete a part, or whose values have
/// expired, if one is allowed.
pub(super) fn rewritten(picker: &Picker<'_>) -> Option<Compaction> {
    let constraints = picker.constraints;
    let is_due = |meta: &TableMeta| {
        constraints.has_expired(meta)
            || !constraints.deleted.is_empty() && constraints.may_cover_eagerly(meta)
    };
    let reads_pay = tombstones::reads_pay(picker);
    let rewrite = |is_due: &dyn Fn(&TableMeta) -> bool| {
        let mut tables = picker.version.tables().filter(|(_, table)| is_due(table.meta()));
        tables.find_map(|(level, table)| match level {
            0 => level0::level0_table_down(picker, table),
            _ if futile::is_rewritten(picker, level, table) => None,
            _ => picker.rewrite(level, table),
        })
    };
    let is_paid = |meta: &TableMeta, least: u64| {
        meta.expired(constraints.earliest_time) >= least && tombstones::is_paid(picker, meta.size)
    };
    rewrite(&is_due)
        .or_else(|| rewrite(&|meta| is_paid(meta, tombstones::FEW)))
        // Reads do not tell which table has made them pay.
        .or_else(|| rewrite(&|meta| reads_pay && is_paid(meta, 1)))
}

#[cfg(test)]
mod tests;
