//! Open tables: filters and indexes in memory, within a bound.
//!
//! A table stays open after its first read, so that a look-up costs one block at most. If filters
//! and indexes of all open tables exceed their bound, or tables their number, a table that was not
//! read lately ([`Clock`]) is closed, and reopened by its next reader. Current readers keep it.

use std::ops::Deref;
use std::sync::{Arc, Weak};

use cleavedb_base::Result;
use cleavedb_base::clock::Clock;
use cleavedb_base::sync::real::{ArcSwapOption, AtomicBool, AtomicU64, Guard, Mutex, Ordering};

use crate::cache::{BlockCache, Pins};
use crate::table::Table;

/// The tables of one database that are open.
pub(crate) struct OpenTables {
    /// Says how many bytes their filters and indexes may take; a single table may exceed it.
    cache: Arc<BlockCache>,
    open: Mutex<Open>,
}

#[derive(Default)]
struct Open {
    seats: Clock<Arc<TableSeat>>,
    /// Number of the seat that was taken last.
    last: u64,
    /// Bytes of their filters and indexes.
    bytes: u64,
}

/// The slot of a table's handle for the table while it is open.
#[derive(Default)]
pub(crate) struct TableSeat {
    table: ArcSwapOption<Table>,
    /// The number of the table while the seat is taken, changed under the lock.
    number: AtomicU64,
    /// Whether it was read since the last look of the clock.
    used: AtomicBool,
}

/// A table in use by a reader: it stays open as long.
pub struct TableRef(Guard<Option<Arc<Table>>>);

impl Deref for TableRef {
    type Target = Arc<Table>;

    #[inline]
    fn deref(&self) -> &Arc<Table> {
        self.0.as_ref().expect("it is made of a table only")
    }
}

impl TableSeat {
    /// The table, if it is open.
    #[inline]
    pub(crate) fn table(&self) -> Option<TableRef> {
        let table = self.table.load();
        table.as_ref()?;
        // Stored only if it changes: a store would take the cache line from readers on other cores.
        if !self.used.load(Ordering::Relaxed) {
            self.used.store(true, Ordering::Relaxed);
        }
        Some(TableRef(table))
    }
}

impl Open {
    /// Takes tables out that were not read lately, until the others take at most `most` bytes and
    /// are at most `tables`, or one is left. They close when they are dropped, without the lock.
    fn close_beyond(&mut self, most: u64, tables: usize) -> Vec<Arc<Table>> {
        let mut closed = Vec::new();
        while (self.bytes > most || self.seats.len() > tables) && self.seats.len() > 1 {
            let oldest = self.seats.take(|seat| seat.used.swap(false, Ordering::Relaxed));
            let Some(table) = oldest.and_then(|seat| seat.table.swap(None)) else { break };
            self.bytes -= table.pinned();
            closed.push(table);
        }
        closed
    }
}

impl Pins for OpenTables {
    fn shrink_to(&self, most: u64) {
        let closed = self.open.lock().close_beyond(most, self.cache.tables_max());
        drop(closed);
    }
}

impl OpenTables {
    /// Tables whose blocks, filters and indexes lie in `cache`.
    pub(crate) fn new(cache: Arc<BlockCache>) -> Arc<Self> {
        let open = Mutex::default();
        let tables = Arc::new(Self { cache, open });
        let pins: Weak<dyn Pins> = Arc::<Self>::downgrade(&tables);
        tables.cache.pins(pins);
        tables
    }

    /// Opens a table in `seat`, and closes others until the bound holds.
    #[cold]
    pub(crate) fn open(
        &self,
        seat: &Arc<TableSeat>,
        open: impl FnOnce() -> Result<Table>,
    ) -> Result<TableRef> {
        let table = Arc::new(open()?);
        let mut all = self.open.lock();
        // Two threads may both open it: one table is kept.
        if let Some(table) = seat.table() {
            return Ok(table);
        }
        seat.table.store(Some(table.clone()));
        all.bytes += table.pinned();
        all.last += 1;
        seat.number.store(all.last, Ordering::Relaxed);
        let number = all.last;
        all.seats.insert(number, seat.clone());
        // The new one may be evicted too; the caller can still read it.
        let most = self.cache.pinned_max(all.bytes);
        let closed = all.close_beyond(most, self.cache.tables_max());
        drop(all);
        drop(closed);
        self.cache.shrink_others();
        Ok(TableRef(Guard::from_inner(Some(table))))
    }

    /// Whether another table may stay open without closing one. Its memory is not known before: the
    /// mean of the open tables is assumed.
    pub(crate) fn has_room(&self) -> bool {
        let open = self.open.lock();
        let mean = open.bytes / open.seats.len().max(1) as u64;
        let fits = open.bytes + mean <= self.cache.pinned_max(open.bytes);
        fits && open.seats.len() < self.cache.tables_max()
    }

    /// Closes the table in `seat` for good.
    pub(crate) fn close(&self, seat: &TableSeat) {
        if seat.table.load().is_none() {
            return;
        }
        let mut all = self.open.lock();
        let Some(table) = seat.table.swap(None) else { return };
        all.seats.remove(seat.number.load(Ordering::Relaxed));
        all.bytes -= table.pinned();
        drop(all);
    }
}

#[cfg(test)]
mod tests {
    use cleavedb_base::checksum::hash64;

    use super::*;
    use crate::table_handle::TableHandle;
    use crate::testing::{Item, PINNED_MAX, World};

    /// Sixty tables, of which only some may be open, and the items that are in each.
    fn closed_tables(world: &World) -> (Vec<Item>, Vec<Arc<TableHandle>>) {
        let item = |seq: u64| Item::inline(&format!("key{seq:02}"), seq, "value");
        let items: Vec<Item> = (1..40).map(item).collect();
        let handle = |_| Arc::new(TableHandle::new(world.table(&items), world.store.clone()));
        let handles = (0..60).map(handle).collect();
        (items, handles)
    }

    #[test]
    fn tables_beyond_the_bound_are_closed_and_opened_again() {
        let world = World::new();
        let (items, handles) = closed_tables(&world);
        let pinned = || world.store.cache().stats().pinned_bytes;
        let held = handles[0].table().unwrap();
        for round in 0..3 {
            for handle in &handles {
                for item in items.iter().step_by(1 + round) {
                    let entry = item.entry();
                    let table = handle.table().unwrap();
                    let found = table.get(entry.key, hash64(entry.key, 0), entry.seq).unwrap();
                    assert_eq!(found.unwrap().value, entry.value);
                }
                assert!(pinned() <= PINNED_MAX + held.pinned(), "{} bytes", pinned());
            }
        }
        let all = handles.len() as u64 * held.pinned();
        assert!(all > 2 * PINNED_MAX && pinned() > PINNED_MAX / 2, "{all} and {}", pinned());
        let entry = items[7].entry();
        assert!(held.get(entry.key, hash64(entry.key, 0), entry.seq).unwrap().is_some());
        drop((held, handles));
        assert_eq!(pinned(), 0, "what is closed for good is counted no more");
    }

    /// As `open_files` of LevelDB bounds them, for figures of papers.
    #[test]
    fn tables_beyond_a_number_are_closed_and_opened_again() {
        let world = World::over(BlockCache::new(4 << 20).opening(3));
        let (items, handles) = closed_tables(&world);
        let opened = || handles.iter().filter(|handle| handle.is_open()).count();
        handles.iter().for_each(|handle| handle.open_ahead());
        assert_eq!(opened(), 3, "none is opened ahead for which another is closed");
        for handle in handles.iter().chain(&handles) {
            let entry = items[7].entry();
            let table = handle.table().unwrap();
            let found = table.get(entry.key, hash64(entry.key, 0), entry.seq).unwrap();
            assert_eq!(found.unwrap().value, entry.value);
            assert!(opened() <= 3, "{} tables", opened());
        }
        assert_eq!(opened(), 3);
    }

    /// The first read of each new table waited for its filter and its index: forty of them in a row
    /// delayed a client by 50 ms.
    #[test]
    fn tables_are_opened_ahead_while_there_is_room() {
        let world = World::new();
        let (_, handles) = closed_tables(&world);
        let open = |handle: &Arc<TableHandle>| handle.is_open();
        handles[0].open_ahead();
        assert!(open(&handles[0]) && !open(&handles[1]), "it alone");
        handles.iter().for_each(|handle| handle.open_ahead());
        let opened = handles.iter().filter(|handle| open(handle)).count();
        assert!((2..60).contains(&opened), "{opened} tables");
        assert!(handles[..opened].iter().all(open), "none was closed for another");
        assert!(world.store.cache().stats().pinned_bytes <= PINNED_MAX);
    }
}
