//! Tables up to their greatest load, and with hashes that are alike.

use std::cell::Cell;

use super::*;
use crate::testing::{Records, drawn};

/// A table and the hashes of its records.
struct World {
    table: HotTable,
    records: Records,
    asked: Cell<usize>,
    next: u32,
}

impl World {
    fn new(buckets: usize) -> Self {
        let (records, asked) = (Records::default(), Cell::new(0));
        Self { table: HotTable::new(buckets), records, asked, next: 0 }
    }

    /// Adds an entry, unless the table must grow for it.
    fn add(&mut self, hash: u64) -> bool {
        let slot = Records::slot(self.next);
        let hash_of = |slot| {
            self.asked.set(self.asked.get() + 1);
            self.records.hash_of(slot)
        };
        let plan = self.table.plan(hash, &hash_of);
        if self.table.must_grow(&plan) {
            return false;
        }
        self.table.put(plan, PackedEntry::new(tag(hash), slot, 7));
        self.records.add(slot, hash);
        self.next += 1;
        true
    }

    fn grow(&mut self) {
        self.table = self.table.grown(&|slot| self.records.hash_of(slot));
    }

    fn place(&self, slot: Slot) -> Option<TableWord> {
        self.table.find(self.records.hash_of(slot), |entry| entry.slot() == slot)
    }

    fn remove(&mut self, slot: Slot) {
        let place = self.place(slot).expect("the entry was there");
        self.table.remove(self.records.hash_of(slot), place);
        self.records.remove(slot);
    }

    /// Every record is found, and nothing else is in the table.
    #[track_caller]
    fn check(&self, slots: impl IntoIterator<Item = u32>) {
        let mut count = 0;
        for n in slots {
            assert!(self.place(Records::slot(n)).is_some(), "entry {n} is lost");
            count += 1;
        }
        assert_eq!((self.table.len(), self.table.places().count()), (count, count));
    }

    fn outside_of_buckets(&self) -> usize {
        self.table.places().filter(|place| !matches!(place, TableWord::Bucket(_))).count()
    }
}

/// Fills a table of `buckets` with drawn hashes until it must grow.
fn full(buckets: usize) -> World {
    let mut world = World::new(buckets);
    while world.add(drawn(1, u64::from(world.next))) {}
    world
}

fn bytes_an_entry(world: &World) -> f64 {
    world.table.memory() as f64 / world.table.len() as f64
}

/// Loads in percent, bytes and hashes an entry of small, usual and large tables. The index is 64
/// times as large.
#[test]
fn a_full_table_takes_at_most_ten_bytes_an_entry() {
    for (buckets, least_load) in [(64, 94.9), (4_096, 94.9), (250_000, 92.0)] {
        let mut world = full(buckets);
        let load = world.table.len() as f64 * 100.0 / (buckets * WAYS) as f64;
        let asked = world.asked.get() as f64 / world.table.len() as f64;
        let (before, outside) = (bytes_an_entry(&world), world.outside_of_buckets());
        world.grow();
        let after = bytes_an_entry(&world);
        println!(
            "{} places: load {load:.1}%, {outside} entries outside of buckets, {asked:.2} hashes \
             asked an entry; {before:.2} bytes an entry, {after:.2} when grown",
            buckets * WAYS
        );
        assert!(load > least_load, "{load:.1}%");
        assert!(before < 9.0 && after < 10.0, "{before:.2} bytes an entry, then {after:.2}");
        assert!(asked < 0.5, "an insert asks for {asked:.2} hashes");
        world.check(0..world.next);
    }
}

/// Why entries move: the chains have no room for all entries that would go there.
#[test]
fn without_moves_many_entries_find_no_place() {
    let (mut table, mut homeless) = (HotTable::new(25_000), 0);
    for n in 0..95_000 {
        let hash = drawn(1, n);
        match table.free_word(table.buckets_of(hash)) {
            Some(word) => {
                table.put(Insertion::Free(word), PackedEntry::new(tag(hash), Records::slot(0), 0))
            }
            None => homeless += 1,
        }
        if [70_000, 80_000, 90_000, 95_000].contains(&(n + 1)) {
            println!("load {}%: {homeless} of {} entries have no place", (n + 1) / 1_000, n + 1);
        }
    }
    assert!(homeless > 95_000 / 20);
}

/// Entries with one hash fill at most three buckets.
#[test]
fn equal_hashes_fill_buckets_then_chains_and_then_spill() {
    let mut world = World::new(10_000);
    let mut added = 0;
    while world.table.spilled.len() < 50 {
        assert!(world.add(77), "a table that is nearly empty grows after {added} entries");
        added += 1;
    }
    assert!(added <= (FUNCTIONS * WAYS + LINK_MAX + 50) as u32);
    world.check(0..added);
    assert_eq!(world.table.arena.len(), LINK_MAX);
    world.grow();
    world.check(0..added);
    for n in (0..added).rev() {
        world.remove(Records::slot(n));
        world.check(0..n);
    }
}

/// Numbers of the records in the chain of a hash.
fn chain(world: &World, hash: u64) -> Vec<u16> {
    let mut found = Vec::new();
    let mut link = world.table.first_link(world.table.buckets_of(hash)[0]);
    while link != 0 {
        let entry = world.table.entry(TableWord::Chained(link));
        found.push(entry.slot().record);
        link = entry.link();
    }
    found
}

/// A table in which five entries are chained to one bucket.
fn chained() -> World {
    let mut world = World::new(100);
    while world.table.arena.len() < 5 {
        assert!(world.add(5));
    }
    world
}

fn the_middle_of_a_chain_is_removed() {
    for at in 0..5 {
        let mut world = chained();
        let mut expected = chain(&world, 5);
        let gone = expected.remove(at);
        world.remove(Records::slot(u32::from(gone)));
        assert_eq!(chain(&world, 5), expected);
        world.check((0..world.next).filter(|n| *n != u32::from(gone)));
        // The place in the arena is used again.
        assert!(world.add(5));
        assert_eq!(world.table.arena.len(), 5);
        world.check((0..world.next).filter(|n| *n != u32::from(gone)));
    }
}

#[test]
fn a_chain_is_newest_first_and_whole_after_a_delete_in_it() {
    let world = chained();
    let newest = world.next as u16 - 1;
    assert_eq!(chain(&world, 5), [0, 1, 2, 3, 4].map(|older| newest - older));
    the_middle_of_a_chain_is_removed();
}

#[test]
fn a_chained_entry_takes_the_place_of_a_removed_one() {
    let mut world = chained();
    let in_buckets = world.next - 5;
    for n in 0..in_buckets {
        world.remove(Records::slot(n));
        world.check(n + 1..in_buckets + 5);
    }
    assert_eq!(world.outside_of_buckets(), 5 - WAYS, "one for each entry of the last bucket");
}

/// The chain of a bucket begins at its first word, which may be empty or may be used again.
#[test]
fn a_chain_survives_changes_of_the_first_entry_of_its_bucket() {
    let mut world = chained();
    let first = TableWord::Bucket(world.table.buckets_of(5)[0] * WAYS);
    let entry = world.table.entry(first);
    let slot = Slot { segment: 9, record: 9 };
    world.table.set(first, entry.with_slot(slot));
    world.records.remove(entry.slot());
    world.records.add(slot, 5);
    assert_eq!(chain(&world, 5).len(), 5);
    world.table.change(first, PackedEntry::hotter);
    assert_eq!(chain(&world, 5).len(), 5);
    let gone = u32::from(entry.slot().record);
    world.check((0..world.next).filter(|n| *n != gone).chain([9 << 16 | 9]));
}

/// Tables whose keys are removed and added again for ever do not collect overflow entries.
#[test]
fn overflow_does_not_pile_up_at_a_steady_load() {
    let mut world = World::new(2_000);
    for n in 0..7_200 {
        assert!(world.add(drawn(3, n)));
    }
    for n in 0..100_000 {
        world.remove(Records::slot(n));
        assert!(world.add(drawn(3, 7_200 + u64::from(n))));
    }
    let outside = world.outside_of_buckets();
    assert!(outside < 20, "{outside} entries are outside of buckets");
    world.check(world.next - 7_200..world.next);
}

fn a_grown_table_has_all_entries() {
    let mut world = chained();
    world.grow();
    world.check(0..world.next);
}

#[test]
fn growth_keeps_chained_entries() {
    a_grown_table_has_all_entries();
}

#[cfg(feature = "test-planted-bugs")]
mod planted {
    use cleavedb_base::planted::{Bug, must_notice};

    #[test]
    fn a_delete_that_breaks_a_chain() {
        must_notice(Bug::ChainBroken, super::the_middle_of_a_chain_is_removed);
    }

    #[test]
    fn a_growth_that_loses_overflow_entries() {
        must_notice(Bug::RehashLosesEntries, super::a_grown_table_has_all_entries);
    }
}
