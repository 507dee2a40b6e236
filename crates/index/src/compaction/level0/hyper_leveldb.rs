//! Levels as HyperLevelDB keeps them, the baseline of OHDB (sections II and IV).
//!
//! When level 0 is full and level 1 is not, up to 32 of its oldest tables go down together, with
//! all tables of level 1 in their range of keys. A deeper level compacts those neighbours that
//! overlap the fewest bytes per byte of their own, however far it is beyond its size, as long as
//! they and what they overlap are shorter than 16 tables. Tables do not merge within a level, and
//! tables that cost reads many seeks are compacted too. The rules are those of `PickCompaction` in
//! `db/version_set.cc`, revision f379837; the sizes of levels are in
//! [`CompactionOptions::level_bytes`].

use std::sync::Arc;

use super::{Component, Neighbours, Policy, fullness_by};
use crate::compaction::picker::Picker;
use crate::compaction::types::key_range;
use crate::compaction::{Compaction, CompactionOptions};
use crate::table_handle::TableHandle;

/// Most tables that leave level 0 together.
const LEAVING_MAX: usize = 32;

/// Tables whose size a compaction of a deeper level does not reach.
const TOGETHER: u64 = 16;

pub(super) struct HyperLevelDb;

impl Policy for HyperLevelDb {
    /// Level 0 waits for a level 1 that is beyond its size: of two levels the fuller goes first.
    fn fullness(&self, picker: &Picker<'_>) -> f64 {
        let full = fullness_by(picker, picker.version.runs().len(), picker.options.l0_runs_max);
        let waits = picker.version.level_bytes(1) > picker.options.level_bytes(1);
        if waits { full.min(1.0) } else { full }
    }

    fn merging(&self, _picker: &Picker<'_>) -> Option<Compaction> {
        None
    }

    fn leaving<'a>(
        &self,
        picker: &'a Picker<'_>,
        candidates: &[&'a Arc<TableHandle>],
    ) -> Vec<Component<'a>> {
        let most = candidates.len().min(LEAVING_MAX);
        // With fewer tables the range may be free.
        let oldest = (1..=most).rev().find_map(|count| oldest(picker, &candidates[..count]));
        oldest.into_iter().collect()
    }

    fn packs(&self) -> bool {
        false
    }

    fn neighbours(&self, options: &CompactionOptions) -> Neighbours {
        let bytes_max = options.table_bytes.saturating_mul(TOGETHER).saturating_sub(1);
        Neighbours { bytes_max, only_excess: false }
    }

    fn compacts_on_seeks(&self) -> bool {
        true
    }
}

/// The tables `upper` of level 0, oldest first, and those of level 1 in their range of keys, if
/// these are free. An output may reach across gaps between `upper`, so what lies there goes too.
fn oldest<'a>(picker: &'a Picker<'_>, upper: &[&'a Arc<TableHandle>]) -> Option<Component<'a>> {
    let (smallest, largest) = key_range(upper.iter().map(|table| table.meta()))?;
    let lower = picker.version.level(1).overlapping(smallest, largest);
    let blocked = lower.iter().any(|table| picker.constraints.is_busy(table))
        || picker.constraints.is_written(1, smallest, largest);
    (!blocked).then(|| Component { upper: upper.to_vec(), lower: lower.iter().collect() })
}
