//! How a flush moves values into their groups.
//!
//! Values are in the log and in the MemTable when they are committed, whatever their size. The
//! flush appends those that are separated by size to their groups, all groups side by side, and the
//! run of level 0 holds pointers to them.
//!
//! Collection of a hash group does not ask the index, so the group must hear of all that ends the
//! life of one of its records: where the filters say that a group may hold a key, the key's deletes
//! and inline values leave a *stub*, their own record, in the group. A range of keys is collected
//! with the index, and needs none.

use std::collections::HashMap;
use std::sync::Arc;

use cleavedb_base::checksum::hash64;
use cleavedb_base::key::split_tree_key;
use cleavedb_base::planted::{Bug, planted};
use cleavedb_base::record::{HEADER_LEN, Header, RecordKind};
use cleavedb_base::{EntryKind, Error, ErrorKind, GroupId, Result, SeqNo, ValuePointer};
use cleavedb_index::{Entry, Retention};
use cleavedb_values::groups::writer::Written;
use cleavedb_values::groups::{ExtentWriter, growth};
use cleavedb_values::{GroupEdit, GroupTable, SegmentFactory};

use crate::engine::Engine;
use crate::options::Separation;
use crate::state::{MemSlot, ReadState};

/// Most files of one flush: each costs a sync.
const FILES_MAX: u64 = 8;

/// A record on its way into a group.
struct Item<'a> {
    entry: Entry<'a>,
    kind: RecordKind,
}

impl Item<'_> {
    fn len(&self) -> u64 {
        (HEADER_LEN + self.entry.key.len() + self.entry.value.len()) as u64
    }
}

/// What went into groups, and where: the pointers in index order.
#[derive(Default)]
pub(super) struct Grouped {
    pub(super) written: Written,
    /// Groups that the flush begins.
    pub(super) begins: Vec<GroupEdit>,
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
            self.items.push(Item { entry, kind: RecordKind::Separated });
            self.separated = true;
        } else if self.leaves_stubs() {
            self.unseparated.push(entry);
        }
        Ok(())
    }

    /// Whether groups are collected without the index, so that they must be told of deaths.
    fn leaves_stubs(&self) -> bool {
        !self.table.partitioner().keeps_order()
    }

    /// Leaves stubs for a key that is complete, if its group has, or may have, a record of it.
    fn end_key(&mut self) -> Result<()> {
        let separated = std::mem::take(&mut self.separated);
        let Some(first) = self.unseparated.first() else { return Ok(()) };
        if (separated || self.may_contain(first.key)?) && !planted(Bug::StubForgotten) {
            let stubs = self.unseparated.drain(..).map(|entry| {
                let deletes = entry.kind == EntryKind::Delete;
                let kind = if deletes { RecordKind::Delete } else { RecordKind::Inline };
                Item { entry, kind }
            });
            self.items.extend(stubs);
        }
        self.unseparated.clear();
        Ok(())
    }

    fn may_contain(&self, key: &[u8]) -> Result<bool> {
        let hash = hash64(key, 0);
        for extent in self.table.extents_of(group_of(self.table, key)?) {
            match self.state.segments.extent(extent.place)?.may_contain(hash) {
                Ok(false) => {}
                // A filter that is damaged knows nothing: at worst a stub is written for nothing.
                Err(error) if error.kind() != ErrorKind::Corruption => return Err(error),
                _ => return Ok(true),
            }
        }
        Ok(false)
    }
}

fn group_of(table: &GroupTable, key: &[u8]) -> Result<GroupId> {
    table.group_of(key).ok_or_else(|| Error::corruption("no group covers a key"))
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
        self.write_items(&table, &sorter.items, separation, files)
    }

    /// Appends `items`, which are in index order, to their groups, one group after the other in the
    /// order of their tokens: where groups are ranges of keys, the files are in key order.
    fn write_items(
        &self,
        table: &GroupTable,
        items: &[Item<'_>],
        separation: Separation,
        files: &dyn SegmentFactory,
    ) -> Result<Grouped> {
        let growth = self.options.groups.growth();
        let begins = growth.begins(table, items, |item| (item.entry.key, item.len()));
        let table = growth::after(table, &begins)?;
        let ranks: HashMap<GroupId, usize> =
            table.groups().enumerate().map(|(rank, (id, _))| (id, rank)).collect();
        let groups = items.iter().map(|item| group_of(&table, item.entry.key));
        let groups = groups.collect::<Result<Vec<GroupId>>>()?;
        let mut order: Vec<u32> = (0..items.len() as u32).collect();
        order.sort_by_key(|at| ranks[&groups[*at as usize]]);
        let file_len =
            self.options.segment_bytes.max(self.options.memtable_bytes as u64 / (FILES_MAX / 2));
        let mut writer = ExtentWriter::new(files, self.database_id, file_len)
            .with_filters(!table.partitioner().keeps_order());
        let mut places = vec![None; items.len()];
        for at in order.into_iter().map(|at| at as usize) {
            let Item { entry, kind } = &items[at];
            let (keyspace, key) = split_tree_key(entry.key)
                .ok_or_else(|| Error::corruption("a tree key is too short"))?;
            let header = Header::new(*kind, keyspace, entry.seq, key, entry.value);
            let pointer = writer.append(groups[at], &header, key, entry.value)?;
            places[at] = (*kind == RecordKind::Separated).then_some(pointer);
        }
        let written = writer.finish()?;
        let pointers = places.into_iter().flatten().collect();
        Ok(Grouped { written, begins, pointers, taken: 0, separation: Some(separation) })
    }

    /// Picture and table of groups, which belong together.
    pub(super) fn groups_now(&self) -> (Arc<ReadState>, Arc<GroupTable>) {
        let manifest = self.manifest.lock();
        (self.state.load_full(), manifest.live().groups.clone())
    }
}
