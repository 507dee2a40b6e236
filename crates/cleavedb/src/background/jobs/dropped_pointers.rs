//! What a compaction finds out about values: which records lost their last pointer and, where
//! pointers are soft, the new places of records that collections have moved. It also asks the
//! filter of the user, if there is one, about values in the index.
//!
//! A soft pointer whose record a collection has moved is looked up in the key directories of the
//! survivors. If the compaction drops the pointer, the directory says in which extent the record
//! died, unless the collection had dropped it already. If the compaction keeps the pointer, it
//! writes the record's new place. Compactions meet keys in the order of the directories. A
//! directory that is damaged gives no answer: the pointer then stays stale, and a read of the value
//! returns the error.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use cleavedb_base::planted::{Bug, planted};
use cleavedb_base::{EntryRoom, ErrorKind, Expiry, Result, ValuePointer};
use cleavedb_index::Entry;
use cleavedb_index::compaction::job::ValueGcObserver;
use cleavedb_values::GroupTable;
use cleavedb_values::groups::{KeyDirectoryReader, Location};

use crate::engine::Engine;
use crate::settings::filter::{JobFilter, Replaced};
use crate::store::manifest::{Edit, LiveFiles};

/// Adds up, by file or extent, the bytes of records whose last pointer is dropped.
pub(crate) struct DroppedPointers<'a> {
    engine: &'a Engine,
    /// The groups when the job began: extents that are added later have no pointers in its inputs.
    groups: Arc<GroupTable>,
    died: BTreeMap<Location, u64>,
    /// Number of pointers that were rewritten to the new place of their record.
    refreshed: u64,
    maps: KeyDirectoryReader,
    /// Asked about values in the index, if there is one.
    filter: Option<JobFilter>,
}

impl ValueGcObserver for DroppedPointers<'_> {
    fn dropped(&mut self, entry: Entry<'_>) -> Result<()> {
        let (pointer, _) = ValuePointer::of_entry(entry.kind, entry.value)?;
        let place = match self.groups.extent_of(pointer) {
            Some(extent) => extent.place,
            None => match self.moved(&entry)? {
                Some((_, place)) if !planted(Bug::StaleDeathForgotten) => place,
                _ => Location::of_file(pointer.file),
            },
        };
        *self.died.entry(place).or_default() += u64::from(pointer.len);
        Ok(())
    }

    #[inline]
    fn refreshed<'r>(
        &mut self,
        entry: &Entry<'_>,
        room: &'r mut EntryRoom,
    ) -> Result<Option<&'r [u8]>> {
        let Some((pointer, _)) = self.moved(entry)? else { return Ok(None) };
        self.refreshed += 1;
        let (expiry, _) = Expiry::split(entry.kind.expires(), entry.value)?;
        let (_, len) = pointer.encode_entry(expiry, room);
        Ok(Some(&room[..len]))
    }

    #[inline]
    fn filtered(&mut self, entry: &Entry<'_>) -> Result<Option<Replaced>> {
        let Some(filter) = &self.filter else { return Ok(None) };
        let (expiry, value) = Expiry::split(entry.kind.expires(), entry.value)?;
        filter.replaced(entry.key, expiry, &|| Ok(Bytes::copy_from_slice(value)))
    }

    fn split(&self) -> Self {
        Self::new(self.engine, self.groups.clone(), self.filter.clone())
    }

    fn merge(&mut self, part: Self) {
        for (place, bytes) in part.died {
            *self.died.entry(place).or_default() += bytes;
        }
        self.refreshed += part.refreshed;
    }
}

impl<'a> DroppedPointers<'a> {
    pub(crate) fn new(
        engine: &'a Engine,
        groups: Arc<GroupTable>,
        filter: Option<JobFilter>,
    ) -> Self {
        let (died, maps) = (BTreeMap::new(), KeyDirectoryReader::default());
        Self { engine, groups, died, refreshed: 0, maps, filter }
    }

    /// The new place of an entry's record, and the extent that holds it. `None` if the entry's
    /// pointer is current, or if a collection has dropped the record.
    #[inline]
    fn moved(&mut self, entry: &Entry<'_>) -> Result<Option<(ValuePointer, Location)>> {
        if self.groups.relocation().writes_run() {
            return Ok(None);
        }
        let (pointer, _) = ValuePointer::of_entry(entry.kind, entry.value)?;
        let state = self.engine.state.load();
        if state.segments.is_there(pointer) {
            return Ok(None);
        }
        let found = state.find_moved(pointer, entry.key, entry.seq, &mut self.maps);
        let moved = match found {
            Err(error) if error.kind() == ErrorKind::Corruption => None,
            found => found?,
        };
        let place = |moved| Some((moved, state.groups.extent_of(moved)?.place));
        Ok(moved.and_then(place))
    }

    /// Number of pointers that were rewritten to the new place of their record.
    pub(crate) fn refreshed(&self) -> u64 {
        self.refreshed
    }

    /// Adds the dead bytes to the files and extents that still exist; returns their sum. A file or
    /// extent that is gone was collected: each of its records was moved, and belongs to its new
    /// pointer, or was dropped, and counted as dead before.
    pub(crate) fn add_to(&self, edit: &mut Edit, live: &LiveFiles) -> u64 {
        self.died.iter().map(|(place, bytes)| live.remove_live(*place, *bytes, edit)).sum()
    }
}
