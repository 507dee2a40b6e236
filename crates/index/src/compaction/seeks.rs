//! Seeks: a table that costs reads too many fruitless seeks is compacted, as in LevelDB.
//!
//! A read that looks at more than one table charges the first of them with a seek
//! ([`Version::get_charging`](crate::Version::get_charging)). Once a table has cost as many seeks
//! as its compaction would, it is merged into the next level, so that reads no longer visit it on
//! their way to older tables. Reads thus cause writes, at unpredictable times: it is done only for
//! the baseline of OHDB ([`Level0::HyperLevelDb`](super::Level0::HyperLevelDb)).
//!
//! The charges are the only input of a pick that is not part of the version. They only
//! suggest a table: the inputs are chosen, and checked, as for any other compaction.

use std::slice;

use super::level0;
use super::types::Compaction;

use super::picker::Picker;

use crate::edit::LEVEL_MAX;

/// Compacts a table that has used up its seeks; the youngest one that is allowed.
pub(super) fn seeks_down(picker: &Picker<'_>) -> Option<Compaction> {
    if !level0::policy(picker.options.level0).compacts_on_seeks() {
        return None;
    }
    let tables = picker.version.tables().filter(|(level, _)| *level < LEVEL_MAX);
    let mut spent = tables.filter(|(_, table)| table.seeks().are_spent());
    spent.find_map(|(level, table)| match level {
        0 => level0::level0_table_down(picker, table),
        _ => picker.tables_down(level, slice::from_ref(table)),
    })
}

#[cfg(test)]
mod tests;
