//! Level 0 as in HyperLevelDB, the baseline of OHDB (sections II and IV): one table is compacted at
//! a time, the oldest first, tables do not merge within level 0, and tables that cost reads many
//! seeks are compacted too.

use std::sync::Arc;

use super::{Component, Policy};
use crate::compaction::Compaction;
use crate::compaction::picker::Picker;
use crate::table_handle::TableHandle;

pub(super) struct OneTable;

impl Policy for OneTable {
    fn merging(&self, _picker: &Picker<'_>) -> Option<Compaction> {
        None
    }

    fn leaving<'a>(
        &self,
        picker: &'a Picker<'_>,
        candidates: &[&'a Arc<TableHandle>],
    ) -> Vec<Component<'a>> {
        let oldest = candidates.first().map(|table| Component {
            lower: picker.below(1, table).iter().collect(),
            upper: vec![table],
        });
        oldest.into_iter().collect()
    }

    fn packs(&self) -> bool {
        false
    }

    fn neighbours_max(&self) -> usize {
        1
    }

    fn compacts_on_seeks(&self) -> bool {
        true
    }
}
