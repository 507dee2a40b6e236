//! Futile: what a compaction has won, and which tables need not be written again.
//!
//! A compaction that takes tables to a deeper level, or joins runs of level 0, is a step that
//! cannot be made again. One that writes tables in their level wins fewer tables, or fewer entries,
//! or has dropped values. If it has won nothing, its tables are marked with the reasons for which
//! it could have been made, and are not written again there for the same reasons: whatever
//! rule picks wrongly, its picks end, since each takes a table that is not marked.

use cleavedb_base::planted::{Bug, planted};
use cleavedb_base::{Expiry, FileNumber, SeqNo};

use super::picker::Picker;
use super::types::{Compaction, CompactionOptions, Constraints};

use crate::table_format::TableMeta;
use crate::table_handle::TableHandle;
use crate::version::Version;

/// A table was written without gain, with others or alone, and the reasons that held for it.
const MERGED: u8 = 1 << 7;
const REWRITTEN: u8 = 1 << 6;
const ALL_DEAD_GO: u8 = 1 << 0;
const MAY_BE_COVERED: u8 = 1 << 1;
const HALF_EXPIRED: u8 = 1 << 2;
const OVER_LONG_AGO: u8 = 1 << 3;
const SOME_EXPIRED: u8 = 1 << 4;

/// The reasons that hold to rewrite `table` in `level`.
fn reasons(picker: &Picker<'_>, level: u8, table: &TableHandle) -> u8 {
    let (constraints, meta) = (picker.constraints, table.meta());
    let holds = |reason, holds: bool| if holds { reason } else { 0 };
    let seen_by_all = meta.max_seq <= constraints.seen_by_all;
    holds(ALL_DEAD_GO, seen_by_all && !picker.hides(level, table))
        | holds(MAY_BE_COVERED, constraints.may_cover(meta))
        | holds(HALF_EXPIRED, meta.half_expired.is_over(constraints.earliest_time))
        | holds(OVER_LONG_AGO, meta.first_expiry.is_over(constraints.long_ago))
        | holds(SOME_EXPIRED, meta.first_expiry.is_over(constraints.earliest_time))
}

/// Whether `table` of `level` was rewritten without gain for each of the reasons that hold now.
pub(super) fn is_rewritten(picker: &Picker<'_>, level: u8, table: &TableHandle) -> bool {
    let why = table.futile();
    why & REWRITTEN != 0 && reasons(picker, level, table) & !why == 0
}

/// Whether `table` was merged with its neighbours without gain.
pub(super) fn is_merged(table: &TableHandle) -> bool {
    table.futile() & MERGED != 0
}

/// What is marked on the tables that `compaction`, picked from `version`, writes, should it win
/// nothing.
pub fn why(
    version: &Version,
    options: &CompactionOptions,
    constraints: &Constraints,
    compaction: &Compaction,
) -> u8 {
    let picker = &Picker { version, options, constraints };
    let merged = if compaction.is_in_place() { 0 } else { MERGED };
    let all = compaction.tables().map(|table| reasons(picker, compaction.level, table));
    // Of merged tables, the reasons that hold for each one have led to nothing.
    REWRITTEN | merged | all.reduce(|a, b| a & b).unwrap_or_default()
}

/// Marks the tables `written` of `version`, whose compaction has won nothing.
pub fn mark(version: &Version, written: &[FileNumber], why: u8) {
    let is = |number: FileNumber| written.contains(&number) && !planted(Bug::PacksWithoutGain);
    let tables = version.tables().filter(|(_, table)| is(table.number()));
    tables.for_each(|(_, table)| table.set_futile(why));
}

/// What the tables of one level hold, as far as a compaction can change it there.
#[derive(PartialEq)]
struct LevelContent {
    entries: u64,
    deletes: u64,
    pointer_bytes: u64,
    first_expiry: Option<Expiry>,
    uncovered_upto: Option<SeqNo>,
}

impl LevelContent {
    fn of<'a, I: Iterator<Item = &'a TableMeta>>(tables: impl Fn() -> I) -> Self {
        let sum = |of: fn(&TableMeta) -> u64| tables().map(of).sum();
        Self {
            entries: sum(|meta| meta.entries),
            deletes: sum(|meta| meta.deletes),
            pointer_bytes: sum(|meta| meta.pointer_bytes),
            first_expiry: tables().map(|meta| meta.first_expiry).min(),
            uncovered_upto: tables().map(|meta| meta.uncovered_upto).min(),
        }
    }
}

/// Whether `compaction` has won something, if it has written `outputs`.
pub(super) fn has_won(compaction: &Compaction, outputs: &[TableMeta]) -> bool {
    let [input] = &compaction.inputs[..] else { return true };
    let Compaction { level, moves, drops, .. } = *compaction;
    if input.level != level || moves || drops {
        return true;
    }
    // One long table may be cut.
    let fewer = match input.tables.len() {
        1 => outputs.len() != 1,
        before => outputs.len() < before,
    };
    let before = || compaction.tables().map(|table| table.meta());
    fewer || LevelContent::of(before) != LevelContent::of(|| outputs.iter())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compaction::leveled::pick;
    use crate::edit::{AddedTable, LEVEL_MAX, VersionEdit};
    use crate::testing::{Item, World};

    fn marked(version: &Version, tables: &[FileNumber], options: &CompactionOptions) -> Compaction {
        let constraints = Constraints { seen_by_all: 9, ..Constraints::default() };
        let picked = pick(version, options, &constraints).unwrap();
        mark(version, tables, why(version, options, &constraints, &picked));
        picked
    }

    fn picked(version: &Version, constraints: &Constraints) -> Option<Compaction> {
        pick(version, &CompactionOptions::default(), constraints)
    }

    fn version(world: &World, level: u8, tables: &[Vec<Item>]) -> Version {
        let table =
            |items: &Vec<Item>| AddedTable { level, position: None, meta: world.table(items) };
        let edit = VersionEdit { added: tables.iter().map(table).collect(), removed: Vec::new() };
        Version::empty(world.store.clone()).apply(&edit).unwrap()
    }

    fn numbers(version: &Version) -> Vec<FileNumber> {
        version.tables().map(|(_, table)| table.number()).collect()
    }

    #[test]
    fn what_was_packed_without_gain_is_packed_only_with_others() {
        let (world, options) = (World::new(), CompactionOptions::default());
        let one = |i: u64| vec![Item::inline(&format!("{i:02}"), i + 1, "value")];
        let version = version(&world, 3, &(0..9).map(one).collect::<Vec<_>>());
        let (all, none) = (numbers(&version), Constraints::default());
        assert_eq!(marked(&version, &all[..8], &options).tables().count(), 8);
        let others = picked(&version, &none).unwrap();
        assert_eq!(others.tables().last().unwrap().number(), all[8]);
        marked(&version, &all, &options);
        assert!(picked(&version, &none).is_none());
    }

    #[test]
    fn what_was_rewritten_without_gain_waits_for_another_reason() {
        let (world, options) = (World::new(), CompactionOptions::default());
        let dead: Vec<Item> = (0..300).map(|i| Item::delete(&format!("{i:03}"), 9)).collect();
        let soon: Vec<Item> =
            (300..400).map(|i| Item::expiring(&format!("{i:03}"), 8, "v", 50)).collect();
        let version = version(&world, LEVEL_MAX, &[[dead, soon].concat()]);
        let seen = Constraints { seen_by_all: 9, ..Constraints::default() };
        marked(&version, &numbers(&version), &options);
        assert!(picked(&version, &seen).is_none());
        let later = Constraints { long_ago: 60, earliest_time: 60, ..seen };
        assert!(picked(&version, &later).is_some(), "values have expired since");
    }

    #[test]
    fn a_table_in_another_place_is_not_marked() {
        let (world, options) = (World::new(), CompactionOptions::default());
        let dead: Vec<Item> = (0..300).map(|i| Item::delete(&format!("{i:03}"), 9)).collect();
        let version = version(&world, 3, &[dead]);
        let table = marked(&version, &numbers(&version), &options).tables().next().unwrap().clone();
        let added = vec![AddedTable { level: 4, position: None, meta: table.meta().clone() }];
        let moved = version.apply(&VersionEdit { added, removed: vec![table.number()] }).unwrap();
        let seen = Constraints { seen_by_all: 9, ..Constraints::default() };
        assert!(picked(&moved, &seen).is_some());
    }
}
