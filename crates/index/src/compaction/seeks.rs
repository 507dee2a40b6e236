//! Seeks: a table that reads look at in vain goes one level down, as in LevelDB.
//!
//! A read that looks at more than one table charges the first of them with a seek
//! ([`Version::get_charging`](crate::Version::get_charging)). Once a table has cost so many that
//! compacting it would have been cheaper, it is merged into the next level, where it is no longer a
//! place of its own on the way to what lies below. Reads cause writes by this, at times that nobody
//! foresees: it is done only where the baseline of OHDB is to be had
//! ([`Level0::OneTable`](super::Level0::OneTable)).
//!
//! The charges are the only thing that a pick looks at and that is no part of the version. They say
//! what would be good, never what is allowed: what goes, and with which others, is decided as for
//! any other reason.

use std::slice;

use super::level0;
use super::types::Compaction;

use super::picker::Picker;

use crate::edit::LEVEL_MAX;

/// Hands on a table that has cost all seeks that it may; the youngest one that may go.
pub(super) fn seeks_down(picker: &Picker<'_>) -> Option<Compaction> {
    if !level0::policy(picker.options.level0).compacts_on_seeks() {
        return None;
    }
    let tables = picker.version.tables().filter(|(level, _)| *level < LEVEL_MAX);
    let mut spent = tables.filter(|(_, table)| table.seeks_are_spent());
    spent.find_map(|(level, table)| match level {
        0 => level0::level0_table_down(picker, table),
        _ => picker.tables_down(level, slice::from_ref(table)),
    })
}

#[cfg(test)]
mod tests;
