//! How a flush moves values into their groups.
//!
//! Values are in the log and in the MemTable when they are committed, whatever their size. The
//! flush appends those that are separated by size to their groups, all groups side by side, and the
//! run of level 0 holds pointers to them. Collection does not ask the index, so a group must hear
//! of all that ends the life of one of its records: where the filters say that a group may hold a
//! key, the key's deletes and inline values leave a *stub*, their own record, in the group.

use std::sync::Arc;

use cleavedb_base::checksum::hash64;
use cleavedb_base::key::split_tree_key;
use cleavedb_base::planted::{Bug, planted};
use cleavedb_base::record::{Header, RecordKind};
use cleavedb_base::{EntryKind, Error, GroupId, Result, SeqNo, ValuePointer};
use cleavedb_index::{Entry, Retention};
use cleavedb_values::groups::ExtentWriter;
use cleavedb_values::groups::writer::Written;
use cleavedb_values::{GroupTable, SegmentFactory};

use crate::engine::Engine;
use crate::options::Separation;
use crate::state::{MemSlot, ReadState};

/// Most files of one flush: each costs a sync.
const FILES_MAX: u64 = 8;

/// A record on its way into a group.
struct Item<'a> {
    group: GroupId,
    entry: Entry<'a>,
    kind: RecordKind,
}

/// What went into groups, and where: the pointers in index order.
#[derive(Default)]
pub(super) struct Grouped {
    pub(super) written: Written,
    pointers: Vec<ValuePointer>,
    taken: usize,
    separation: Option<Separation>,
}

impl Grouped {
    /// The pointer that takes the place of `entry`'s value, if the value went into a group. Entries
    /// come as they came when the groups were written.
    pub(super) fn pointer(&mut self, entry: &Entry<'_>) -> Option<ValuePointer> {
        let pointer = separates(self.separation?, entry).then(|| self.pointers[self.taken])?;
        self.taken += 1;
        Some(pointer)
    }
}

fn separates(separation: Separation, entry: &Entry<'_>) -> bool {
    entry.kind == EntryKind::Inline && separation.separates(entry.value.len())
}

/// Sorts the entries of a MemTable into groups, key by key.
struct Sorter<'a, 'e> {
    state: &'a ReadState,
    table: &'a GroupTable,
    separation: Separation,
    items: Vec<Item<'e>>,
    /// Versions of the present key that lie in no group.
    unseparated: Vec<Entry<'e>>,
    /// Whether a version of the present key goes into its group.
    separated: bool,
}

impl<'e> Sorter<'_, 'e> {
    fn add(&mut self, entry: Entry<'e>) -> Result<()> {
        if separates(self.separation, &entry) {
            let group = self.group_of(entry.key)?.0;
            self.items.push(Item { group, entry, kind: RecordKind::Separated });
            self.separated = true;
        } else {
            self.unseparated.push(entry);
        }
        Ok(())
    }

    fn group_of(&self, key: &[u8]) -> Result<(GroupId, u64)> {
        let hash = hash64(key, 0);
        let group = self.table.group_of(hash);
        let group = group.ok_or_else(|| Error::corruption("no group covers a key"))?;
        Ok((group, hash))
    }

    /// Leaves stubs for a key that is complete, if its group has, or may have, a record of it.
    fn end_key(&mut self) -> Result<()> {
        let separated = std::mem::take(&mut self.separated);
        let Some(first) = self.unseparated.first() else { return Ok(()) };
        let (group, hash) = self.group_of(first.key)?;
        if (separated || self.may_contain(group, hash)?) && !planted(Bug::StubForgotten) {
            let stubs = self.unseparated.drain(..).map(|entry| {
                let deletes = entry.kind == EntryKind::Delete;
                let kind = if deletes { RecordKind::Delete } else { RecordKind::Inline };
                Item { group, entry, kind }
            });
            self.items.extend(stubs);
        }
        self.unseparated.clear();
        Ok(())
    }

    fn may_contain(&self, group: GroupId, hash: u64) -> Result<bool> {
        for extent in self.table.extents_of(group) {
            if self.state.segments.extent(extent.place)?.may_contain(hash)? {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

impl Engine {
    /// Writes what a flush has to say to the groups.
    pub(super) fn write_groups(
        &self,
        slot: &MemSlot,
        snapshots: &[SeqNo],
        files: &dyn SegmentFactory,
    ) -> Result<Grouped> {
        let separation = self.options.separation_at_flush();
        if separation == Separation::Never {
            return Ok(Grouped::default());
        }
        let (state, table) = self.groups_now();
        let (items, unseparated) = (Vec::new(), Vec::new());
        let mut sorter = Sorter {
            state: &state,
            table: &table,
            separation,
            items,
            unseparated,
            separated: false,
        };
        let mut retention = Retention::new(snapshots);
        let mut last_key: Option<&[u8]> = None;
        slot.table.for_each_sorted(|entry| {
            if last_key != Some(entry.key) {
                sorter.end_key()?;
                retention.begin_key();
                last_key = Some(entry.key);
            }
            if retention.keep(entry.seq) { sorter.add(entry) } else { Ok(()) }
        })?;
        sorter.end_key()?;
        self.write_items(&sorter.items, separation, files)
    }

    /// Appends `items`, which are in index order, to their groups.
    fn write_items(
        &self,
        items: &[Item<'_>],
        separation: Separation,
        files: &dyn SegmentFactory,
    ) -> Result<Grouped> {
        let mut order: Vec<u32> = (0..items.len() as u32).collect();
        order.sort_by_key(|at| items[*at as usize].group);
        let file_len =
            self.options.segment_bytes.max(self.options.memtable_bytes as u64 / (FILES_MAX / 2));
        let mut writer = ExtentWriter::new(files, self.database_id, file_len, false);
        let mut places = vec![None; items.len()];
        for at in order {
            let Item { group, entry, kind } = &items[at as usize];
            let (keyspace, key) = split_tree_key(entry.key)
                .ok_or_else(|| Error::corruption("a tree key is too short"))?;
            let header = Header::new(*kind, keyspace, entry.seq, key, entry.value);
            let pointer = writer.append(*group, &header, key, entry.value)?;
            places[at as usize] = (*kind == RecordKind::Separated).then_some(pointer);
        }
        let written = writer.finish()?;
        let pointers = places.into_iter().flatten().collect();
        Ok(Grouped { written, pointers, taken: 0, separation: Some(separation) })
    }

    /// Picture and table of groups, which belong together.
    pub(super) fn groups_now(&self) -> (Arc<ReadState>, Arc<GroupTable>) {
        let manifest = self.manifest.lock();
        (self.state.load_full(), manifest.live().groups.clone())
    }
}
