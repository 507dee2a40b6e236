//! What a compaction finds out about values: which records lost their last pointer. It also asks
//! the filter of the user, if there is one, about values in the index.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use cleavedb_base::{Lasting, Result, ValuePointer};
use cleavedb_index::Entry;
use cleavedb_index::compaction::job::ValueGcObserver;
use cleavedb_values::GroupTable;
use cleavedb_values::groups::Location;

use crate::settings::filter::{JobFilter, Replaced};
use crate::store::manifest::{Edit, LiveFiles};

/// Adds up, by file or extent, the bytes of records whose owner a compaction removes.
pub(crate) struct RemovedOwners {
    /// The groups when the job began: extents that are added later have no pointers in its inputs.
    groups: Arc<GroupTable>,
    died: BTreeMap<Location, u64>,
    /// Asked about values in the index, if there is one.
    filter: Option<JobFilter>,
}

impl ValueGcObserver for RemovedOwners {
    fn owner_removed(&mut self, entry: Entry<'_>) -> Result<()> {
        let pointer = ValuePointer::of_entry(entry.kind, entry.value)?.value;
        let place = match self.groups.extent_of(pointer) {
            Some(extent) => extent.place,
            None => Location::of_file(pointer.file),
        };
        *self.died.entry(place).or_default() += u64::from(pointer.len);
        Ok(())
    }

    #[inline]
    fn filtered(&mut self, entry: &Entry<'_>) -> Result<Option<Replaced>> {
        let Some(filter) = &self.filter else { return Ok(None) };
        let Lasting { value, until } = entry.kind.split(entry.value)?;
        filter.replaced(entry.key, until, &|| Ok(Bytes::copy_from_slice(value)))
    }

    fn split(&self) -> Self {
        Self::new(self.groups.clone(), self.filter.clone())
    }

    fn merge(&mut self, part: Self) {
        for (place, bytes) in part.died {
            *self.died.entry(place).or_default() += bytes;
        }
    }
}

impl RemovedOwners {
    pub(crate) fn new(groups: Arc<GroupTable>, filter: Option<JobFilter>) -> Self {
        Self { groups, died: BTreeMap::new(), filter }
    }

    /// Adds the dead bytes to the files and extents that still exist; returns their sum. A file or
    /// extent that is gone was collected: each of its records was moved, and belongs to its new
    /// pointer, or was dropped, and counted as dead before.
    pub(crate) fn add_to(&self, edit: &mut Edit, live: &LiveFiles) -> u64 {
        self.died.iter().map(|(place, bytes)| live.remove_live(*place, *bytes, edit)).sum()
    }
}
