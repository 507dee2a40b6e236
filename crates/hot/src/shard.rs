//! One shard of the hot index: a table, its readers, and one writer at a time.
//!
//! The writer looks where an entry goes, or builds a larger table, while readers go on: meanwhile
//! only heat changes. Readers wait for the few stores of the change itself. Accesses that are
//! counted between the copy of an entry and the end of its old table are lost.

use cleavedb_base::sync::{Mutex, RwLock};

use crate::entry::PackedEntry;
use crate::slot::Slot;
use crate::table::{HotTable, TableWord, tag};

pub(crate) struct Shard {
    /// Held while the table is changed.
    writer: Mutex<()>,
    table: RwLock<HotTable>,
}

impl Shard {
    pub(crate) fn new(table: HotTable) -> Self {
        Self { writer: Mutex::new(()), table: RwLock::new(table) }
    }

    pub(crate) fn find(&self, hash: u64, is: impl Fn(Slot) -> bool) -> Option<Slot> {
        let table = self.table.read();
        let place = table.find(hash, |entry| is(entry.slot()))?;
        Some(table.entry(place).slot())
    }

    pub(crate) fn touch(&self, hash: u64, is: impl Fn(Slot) -> bool) -> Option<Slot> {
        let table = self.table.read();
        let place = table.find(hash, |entry| is(entry.slot()))?;
        table.change(place, PackedEntry::hotter);
        Some(table.entry(place).slot())
    }

    pub(crate) fn heat(&self, hash: u64, slot: Slot) -> Option<u8> {
        let table = self.table.read();
        let place = table.find(hash, |entry| entry.slot() == slot)?;
        Some(table.entry(place).heat())
    }

    pub(crate) fn insert(&self, hash: u64, slot: Slot, heat: u8, hash_of: &dyn Fn(Slot) -> u64) {
        let entry = PackedEntry::new(tag(hash), slot, heat);
        let _writer = self.writer.lock();
        let table = self.table.read();
        let plan = table.plan(hash, hash_of);
        if !table.must_grow(&plan) {
            drop(table);
            self.table.write().put(plan, entry);
            return;
        }
        let mut grown = table.grown(hash_of);
        drop(table);
        grown.put(grown.plan(hash, hash_of), entry);
        self.replace(grown);
    }

    /// Puts `table` in place of what the shard has.
    pub(crate) fn set(&self, table: HotTable) {
        let _writer = self.writer.lock();
        self.replace(table);
    }

    /// Readers do not wait until the memory of the old table is given back.
    fn replace(&self, table: HotTable) {
        let before = std::mem::replace(&mut *self.table.write(), table);
        drop(before);
    }

    pub(crate) fn move_to(&self, hash: u64, from: Slot, to: Slot) -> bool {
        self.edit(hash, from, |table, place| table.set(place, table.entry(place).with_slot(to)))
    }

    pub(crate) fn remove(&self, hash: u64, slot: Slot) -> bool {
        self.edit(hash, slot, |table, place| table.remove(hash, place))
    }

    /// Halves the heat of all entries. A table that is being built has no older heat: the writer's
    /// lock is held.
    pub(crate) fn halve(&self) {
        let _writer = self.writer.lock();
        let table = self.table.read();
        table.places().for_each(|place| table.change(place, PackedEntry::cooler));
    }

    pub(crate) fn len(&self) -> usize {
        self.table.read().len()
    }

    pub(crate) fn memory(&self) -> usize {
        self.table.read().memory()
    }

    /// Applies `edit` to the place of an entry; whether there is one.
    fn edit(&self, hash: u64, slot: Slot, edit: impl FnOnce(&mut HotTable, TableWord)) -> bool {
        let _writer = self.writer.lock();
        let found = self.table.read().find(hash, |entry| entry.slot() == slot);
        let Some(place) = found else { return false };
        edit(&mut self.table.write(), place);
        true
    }
}
