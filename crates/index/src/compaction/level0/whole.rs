//! Level 0 as a whole: it takes runs as they come and is emptied when it is full. Small adjacent
//! runs merge, so that a look-up visits few of them.

use std::sync::Arc;

use super::{Component, Policy};
use crate::compaction::Compaction;
use crate::compaction::picker::Picker;
use crate::table_handle::TableHandle;

pub(super) struct Whole;

impl Policy for Whole {
    /// Runs without common keys gain nothing by a merge: they are read as one place already.
    fn merging(&self, picker: &Picker<'_>) -> Option<Compaction> {
        super::merge_runs(picker, picker.options.l0_bytes)
    }

    fn leaving<'a>(
        &self,
        picker: &'a Picker<'_>,
        candidates: &[&'a Arc<TableHandle>],
    ) -> Vec<Component<'a>> {
        super::components(candidates, picker.version.level(1).tables())
    }
}
