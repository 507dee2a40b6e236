//! Which reads charge a table, and where it goes after too many seeks.

use cleavedb_base::checksum::hash64;
use cleavedb_base::limits::SEQ_MAX;

use crate::compaction::leveled::pick;
use crate::compaction::{Compaction, CompactionOptions, Constraints, Level0};
use crate::edit::{AddedTable, VersionEdit};
use crate::testing::{Item, World, position};
use crate::version::Version;

/// Seeks that a small table may cost.
const ALLOWED: usize = 100;

/// Tables from the oldest to the youngest; for each its level, and its first and last key.
fn tree(world: &World, tables: &[(u8, &str, &str)]) -> Version {
    let mut edit = VersionEdit::default();
    for ((level, from, to), seq) in tables.iter().zip(1..) {
        let meta = world.table(&[Item::inline(from, seq, "v"), Item::inline(to, seq, "v")]);
        let position = (*level == 0).then(|| position(seq, 0));
        edit.added.push(AddedTable { level: *level, position, meta });
    }
    Version::empty(world.store.clone()).apply(&edit).unwrap()
}

/// Whether reading `key` used up the last seek of a table.
fn read(version: &Version, key: &str) -> bool {
    let key = key.as_bytes();
    version.get_charging(key, hash64(key, 0), SEQ_MAX).unwrap().1
}

/// Reads `key` until the charged table has used up its seeks.
fn spend(version: &Version, key: &str) {
    assert!((1..ALLOWED).all(|_| !read(version, key)), "spent too early");
    assert!(read(version, key), "the last seek is reported");
    assert!(!read(version, key), "and reported once");
}

fn picked(version: &Version, level0: Level0, constraints: &Constraints) -> Option<Compaction> {
    let options = CompactionOptions { level0, ..CompactionOptions::default() };
    pick(version, &options, constraints)
}

/// Level and first key of each input.
fn inputs(compaction: &Compaction) -> Vec<(u8, char)> {
    let all = compaction.inputs.iter();
    let name = |key: &[u8]| char::from(key[0]);
    all.flat_map(|input| {
        input.tables.iter().map(move |table| (input.level, name(&table.meta().smallest)))
    })
    .collect()
}

#[test]
fn only_a_read_that_looks_on_charges_and_only_the_first_table() {
    let world = World::new();
    let version = tree(&world, &[(2, "b", "m"), (1, "a", "f"), (1, "h", "z")]);
    for key in ["a", "f", "n", "zz"] {
        assert!((0..2 * ALLOWED).all(|_| !read(&version, key)), "{key} needs one table at most");
    }
    // Both tables span it; filters, which would rule it out, are not consulted.
    spend(&version, "c");
    let spent: Vec<_> = version.tables().map(|(_, table)| table.seeks().are_spent()).collect();
    assert_eq!(spent, [true, false, false]);
}

#[test]
fn a_table_below_level_0_goes_one_level_down_where_that_is_asked_for() {
    let world = World::new();
    let version = tree(&world, &[(3, "b", "m"), (2, "a", "f"), (2, "g", "z"), (1, "a", "c")]);
    assert!(picked(&version, Level0::HyperLevelDb, &Constraints::default()).is_none());
    spend(&version, "b");
    for other in [Level0::Whole, Level0::Partitions(4)] {
        assert!(picked(&version, other, &Constraints::default()).is_none(), "{other:?}");
    }
    let mut constraints = Constraints::default();
    let first = picked(&version, Level0::HyperLevelDb, &constraints).unwrap();
    assert_eq!((inputs(&first), first.level), (vec![(1, 'a'), (2, 'a')], 2));
    constraints.start(&first);
    assert!(picked(&version, Level0::HyperLevelDb, &constraints).is_none(), "it is busy");
}

#[test]
fn a_table_of_level_0_takes_along_what_is_joined_to_it() {
    let world = World::new();
    let tables = [(1, "c", "e"), (0, "d", "g"), (0, "w", "x"), (0, "f", "k"), (0, "h", "i")];
    let version = tree(&world, &tables);
    spend(&version, "hh");
    let pick = |constraints: &Constraints| picked(&version, Level0::HyperLevelDb, constraints);
    let all = pick(&Constraints::default()).unwrap();
    assert_eq!(inputs(&all), [(0, 'h'), (0, 'f'), (0, 'd'), (1, 'c')]);
    let held = Constraints { pinned_above: Some(4), ..Constraints::default() };
    assert!(pick(&held).is_none(), "a collection holds it in level 0");
    let mut busy = Constraints::default();
    busy.busy.extend(version.level(1).tables().iter().map(|table| (table.number(), 2)));
    assert!(
        pick(&busy).is_none(),
        "the older table that it must not overtake waits, so it waits too"
    );
}

#[test]
fn what_is_too_large_goes_first() {
    let world = World::new();
    let version = tree(&world, &[(3, "p", "q"), (2, "p", "z"), (1, "a", "m"), (0, "b", "d")]);
    spend(&version, "c");
    let small = CompactionOptions {
        level0: Level0::HyperLevelDb,
        l1_bytes: 10,
        level_ratio: 10,
        ..CompactionOptions::default()
    };
    let first = pick(&version, &small, &Constraints::default()).unwrap();
    assert_eq!(inputs(&first), [(1, 'a')], "level 1 is far beyond its size");
}

#[test]
fn a_table_that_moves_may_cost_as_many_seeks_in_its_new_place() {
    let world = World::new();
    let version = tree(&world, &[(3, "a", "z"), (1, "a", "f")]);
    spend(&version, "c");
    let moved = picked(&version, Level0::HyperLevelDb, &Constraints::default()).unwrap();
    assert!(moved.moves && moved.level == 2, "nothing lies in level 2");
    let (_, table) = version.tables().next().unwrap();
    let added = vec![AddedTable { level: 2, position: None, meta: table.meta().clone() }];
    let after = version.apply(&VersionEdit { added, removed: vec![table.number()] }).unwrap();
    assert!(picked(&after, Level0::HyperLevelDb, &Constraints::default()).is_none());
    spend(&after, "c");
    assert!(picked(&after, Level0::HyperLevelDb, &Constraints::default()).is_some());
}
