//! The order of places, edits, and the end of tables.

use std::sync::Arc;

use cleavedb_base::checksum::hash64;
use cleavedb_base::limits::SEQ_MAX;
use cleavedb_base::{EntryKind, FileNumber};
use cleavedb_storage::{FileKind, Name};
use proptest::prelude::{ProptestConfig, any, proptest};

use super::Version;
use crate::edit::{AddedTable, VersionEdit};
use crate::entry::EntryIter;
use crate::merge::MergeIter;
use crate::table::ReadMode;
use crate::table_set::TableSetIter;
use crate::testing::{Item, World, backwards, check_walk, forwards, items, position, sort};

fn run(world: &World, version: &Version, epoch: u64, order: u32, list: &[Item]) -> Version {
    let mut edit = VersionEdit::default();
    edit.add_run(position(epoch, order), [world.table(list)]);
    version.apply(&edit).unwrap()
}

fn level(level: u8, meta: crate::table_format::TableMeta) -> AddedTable {
    AddedTable { level, position: None, meta }
}

fn get(version: &Version, epoch: u64, key: &str, seq: u64) -> Option<u64> {
    let key = key.as_bytes();
    version.get_up_to(epoch, key, hash64(key, 0), seq).unwrap().map(|found| found.seq)
}

#[test]
fn level_0_is_ordered_by_position_and_the_first_hit_wins() {
    let world = World::new();
    let empty = Version::empty(Arc::clone(&world.store));
    let v = run(&world, &empty, 1, 0, &[Item::inline("k", 10, "flush 1")]);
    let v = run(&world, &v, 3, 0, &[Item::inline("k", 30, "flush 3"), Item::inline("l", 29, "")]);
    // A write-back run of epoch 1 arrives last, and belongs between the two.
    let back = [Item::inline("k", 10, "moved").repeated(), Item::inline("k", 5, "five")];
    let v = run(&world, &v, 1, 1, &back);
    let v = run(&world, &v, 2, 0, &[Item::delete("k", 20)]);
    let order: Vec<_> = v.runs().iter().map(|run| run.position).collect();
    assert_eq!(order, [position(3, 0), position(2, 0), position(1, 1), position(1, 0)]);
    assert_eq!(get(&v, u64::MAX, "k", SEQ_MAX), Some(30));
    assert_eq!(get(&v, 2, "k", SEQ_MAX), Some(20));
    assert_eq!(get(&v, u64::MAX, "k", 12), Some(10));
    assert_eq!(get(&v, u64::MAX, "k", 4), None);
    let hash = hash64(b"k", 0);
    assert_eq!(v.get(b"k", hash, 12).unwrap().unwrap().value, "moved");
    assert_eq!(v.get(b"k", hash, 25).unwrap().unwrap().kind, EntryKind::Delete);
    let versions = v.versions_of(u64::MAX, b"k", hash, SEQ_MAX).unwrap();
    let found: Vec<_> = versions.iter().map(|found| (found.seq, found.repeat)).collect();
    assert_eq!(found, [(30, false), (20, false), (10, true), (5, false)]);
    let versions = v.versions_of(0, b"k", hash, SEQ_MAX).unwrap();
    assert!(versions.is_empty(), "no run has epoch 0");
}

#[test]
fn an_edit_that_contradicts_the_version_is_refused() {
    let world = World::new();
    let empty = Version::empty(Arc::clone(&world.store));
    let a = world.table(&[Item::inline("a", 1, ""), Item::inline("m", 2, "")]);
    let b = world.table(&[Item::inline("m", 3, ""), Item::inline("z", 4, "")]);
    let both =
        VersionEdit { added: vec![level(1, a.clone()), level(1, b.clone())], removed: vec![] };
    assert!(empty.apply(&both).is_err(), "two tables of a level hold the key m");
    let apart = VersionEdit { added: vec![level(1, a.clone()), level(2, b)], removed: vec![] };
    let v = empty.apply(&apart).unwrap();
    let again = VersionEdit { added: vec![level(3, a)], removed: vec![] };
    assert!(v.apply(&again).is_err(), "the table is there already");
    let missing = VersionEdit { added: vec![], removed: vec![FileNumber(99)] };
    assert!(v.apply(&missing).is_err());
    assert_eq!(empty.apply(&v.export()).unwrap().export(), v.export());
}

#[test]
fn the_file_of_a_retired_table_goes_with_its_last_reader() {
    let world = World::new();
    let empty = Version::empty(Arc::clone(&world.store));
    let (a, b) =
        (world.table(&[Item::inline("a", 1, "")]), world.table(&[Item::inline("b", 2, "")]));
    let name = Name::numbered(FileKind::Table, b.number);
    let added = vec![level(1, a.clone()), level(1, b.clone())];
    let v1 = empty.apply(&VersionEdit { added, removed: vec![] }).unwrap();
    assert_eq!(get(&v1, 0, "a", 9), Some(1));
    assert_eq!(get(&v1, 0, "b", 9), Some(2));
    let pinned = world.store.cache().stats().pinned_bytes;
    // The edit moves `a` and drops `b`.
    let edit = VersionEdit { removed: vec![a.number, b.number], added: vec![level(2, a)] };
    let v2 = v1.apply(&edit).unwrap();
    v1.retire(&edit);
    let reader = v1.clone();
    drop(v1);
    assert_eq!(world.obsolete_files.take_name(), None);
    assert_eq!(get(&reader, 0, "b", 9), Some(2));
    drop(reader);
    assert_eq!(world.obsolete_files.take_name(), Some(name));
    assert_eq!(get(&v2, 0, "a", 9), Some(1));
    let now = world.store.cache().stats().pinned_bytes;
    assert!(0 < now && now < pinned, "the table that moved stays open, the other unpins");
    drop(v2);
    assert_eq!(
        world.obsolete_files.take_name(),
        None,
        "a table that was not retired keeps its file"
    );
    assert_eq!(world.store.cache().stats().pinned_bytes, 0);
}

#[test]
fn a_seek_reads_no_table_that_begins_behind_what_is_wanted() {
    let world = World::new();
    let (a, z) = (Item::inline("a", 2, "near"), Item::inline("z", 1, "far"));
    let added = vec![
        level(1, world.table(std::slice::from_ref(&a))),
        level(2, world.table(std::slice::from_ref(&z))),
    ];
    let empty = Version::empty(Arc::clone(&world.store));
    let version = empty.apply(&VersionEdit { added, removed: vec![] }).unwrap();
    let mut merged = MergeIter::new(version.iters(None, None, ReadMode::Cached));
    let read = || world.store.cache().stats().misses;
    merged.seek(b"a", SEQ_MAX).unwrap();
    assert_eq!((Item::of(merged.entry()), read()), (a, 1));
    merged.next().unwrap();
    assert_eq!((Item::of(merged.entry()), read()), (z.clone(), 2));
    merged.next().unwrap();
    assert!(!merged.valid());
    merged.seek(b"b", SEQ_MAX).unwrap();
    assert_eq!(Item::of(merged.entry()), z, "the first winner waits");
}

#[test]
fn a_file_that_is_another_table_is_corruption() {
    let world = World::new();
    let empty = Version::empty(Arc::clone(&world.store));
    let mut meta = world.table(&[Item::inline("a", 1, "")]);
    meta.entries += 1;
    let v = empty.apply(&VersionEdit { added: vec![level(1, meta)], removed: vec![] }).unwrap();
    assert!(v.get(b"a", hash64(b"a", 0), 9).is_err());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn tables_without_common_keys_read_as_one(
        list in items(150),
        cuts in proptest::collection::vec(any::<u16>(), 0..6),
        steps in proptest::collection::vec(any::<(u8, u16)>(), 0..60),
    ) {
        let world = World::new();
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| usize::from(*cut) % list.len()).collect();
        // A cut falls in front of a key's first version.
        cuts.retain(|&i| i > 0 && list[i - 1].key != list[i].key);
        cuts.extend([0, list.len()]);
        cuts.sort_unstable();
        cuts.dedup();
        let parts = || cuts.windows(2).map(|cut| world.table(&list[cut[0]..cut[1]]));
        let mut edit = VersionEdit::default();
        edit.add_run(position(1, 0), parts());
        let empty = Version::empty(Arc::clone(&world.store));
        let version = empty.apply(&edit).unwrap();
        // In places with gaps, iterators wait before tables that they may not need.
        let added = parts().enumerate().map(|(i, meta)| level(1 + i as u8 % 3, meta)).collect();
        let spread = empty.apply(&VersionEdit { added, removed: vec![] }).unwrap();
        let mut merged = MergeIter::new(spread.iters(None, None, ReadMode::Cached));
        check_walk(&mut merged, &list, &steps);
        let tables = version.runs()[0].set.tables().to_vec();
        for mode in [ReadMode::Cached, ReadMode::Ahead] {
            let mut iter = TableSetIter::new(tables.clone(), mode);
            assert_eq!(forwards(&mut iter), list);
            assert_eq!(backwards(&mut iter), list);
            check_walk(&mut iter, &list, &steps);
        }
        // A part is enough for a range, and the bounds are inclusive and exclusive.
        let (lower, upper) = (&list[list.len() / 3].key, &list[list.len() * 2 / 3].key);
        let inside = |item: &&Item| *lower <= item.key && item.key < *upper;
        let expected: Vec<Item> = list.iter().filter(inside).cloned().collect();
        let iters = version.iters(Some(lower), Some(upper), ReadMode::Cached);
        let mut merged = MergeIter::new(iters);
        let mut found = forwards(&mut merged as &mut dyn EntryIter);
        found.retain(|item| inside(&item));
        sort(&mut found);
        assert_eq!(found, expected);
    }
}
