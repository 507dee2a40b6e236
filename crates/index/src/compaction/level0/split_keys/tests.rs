//! Where runs are cut: by size, between buckets, and never into tiny parts.

use std::sync::Arc;

use proptest::prelude::{ProptestConfig, any, proptest};

use cleavedb_base::FileNumber;

use super::*;
use crate::compaction::{Level0, table_ends};
use crate::edit::{AddedTable, VersionEdit};
use crate::testing::{Item, World, position};

fn options(partitions: usize) -> CompactionOptions {
    CompactionOptions {
        level0: Level0::Partitions(partitions),
        // Less than 300 bytes are not worth a file.
        table_bytes: 9600,
        ..CompactionOptions::default()
    }
}

/// A world with level 0 and level 1; epochs count flushes.
struct Tree {
    world: World,
    version: Version,
    epoch: u64,
}

impl Tree {
    /// Level 1 holds one table that reaches from `smallest` to `largest`.
    fn above(smallest: &str, largest: &str) -> Self {
        let world = World::new();
        let list = [Item::inline(smallest, 1, ""), Item::inline(largest, 2, "")];
        let added = vec![AddedTable { level: 1, position: None, meta: world.table(&list) }];
        let empty = Version::empty(Arc::clone(&world.store));
        let version = empty.apply(&VersionEdit { added, removed: vec![] }).unwrap();
        Self { world, version, epoch: 0 }
    }

    fn split_keys(&self, partitions: usize, keys: &[String]) -> Vec<String> {
        let mut sample = KeySample::default();
        keys.iter().for_each(|key| sample.add(key.as_bytes(), 100));
        let split_keys = split_keys(&self.version, &options(partitions), &sample);
        split_keys.into_iter().map(|cut| String::from_utf8(cut.into()).unwrap()).collect()
    }

    /// Adds a run of `keys`, cut; returns the number of keys of each table.
    fn flush(&mut self, partitions: usize, keys: &[String]) -> Vec<usize> {
        let split_keys = self.split_keys(partitions, keys);
        let part = |key: &String| split_keys.iter().filter(|cut| *cut <= key).count();
        let parts: Vec<&[String]> = keys.chunk_by(|a, b| part(a) == part(b)).collect();
        self.epoch += 1;
        let tables = parts.iter().map(|keys| {
            let items = keys.iter().map(|key| Item::inline(key, 10 + self.epoch, ""));
            self.world.table(&items.collect::<Vec<_>>())
        });
        let mut edit = VersionEdit::default();
        edit.add_run(position(self.epoch, 0), tables);
        self.version = self.version.apply(&edit).unwrap();
        parts.iter().map(|keys| keys.len()).collect()
    }
}

fn keys(numbers: impl Iterator<Item = u64>) -> Vec<String> {
    numbers.map(|n| format!("key{n:06}")).collect()
}

#[test]
fn parts_are_of_like_size_however_keys_are_spread() {
    let long = "a prefix that all keys have in common, longer than the rest of them";
    let skewed = (0..900).map(|n| n * 2).chain((0..100).map(|n| 100_000 + n * 5000));
    for list in [
        keys((0..1000).map(|n| n * 999)),
        keys(skewed),
        keys(0..1000).iter().map(|key| format!("{long}/{key}")).collect(),
    ] {
        let mut tree = Tree::above("", "z");
        assert_eq!(tree.flush(10, &list), [100; 10]);
    }
}

#[test]
fn buckets_stay_apart_from_flush_to_flush() {
    let mut tree = Tree::above("", "z");
    for shift in 0..5 {
        let sizes = tree.flush(10, &keys((0..1000).map(|n| n * 900 + shift * 7)));
        assert!(sizes.len() == 10 && sizes.iter().all(|n| n.abs_diff(100) <= 2), "{sizes:?}");
        assert_eq!(tree.version.buckets().len(), 10);
    }
    let slices = tree.version.buckets().iter().map(|bucket| bucket.slices.len());
    assert!(slices.eq([5; 10]));
}

/// A new store has nothing below its first run, which is not cut.
#[test]
fn runs_above_one_that_is_not_cut_are_buckets_without_it() {
    let mut tree = Tree::above("", "z");
    let list = |shift: u64| keys((0..1000).map(move |n| n * 900 + shift * 7));
    assert_eq!(tree.flush(1, &list(0)), [1000]);
    let removed: Vec<FileNumber> =
        tree.version.runs()[0].set.tables().iter().map(|table| table.number()).collect();
    for shift in 1..4 {
        let sizes = tree.flush(10, &list(shift));
        assert!(sizes.len() == 10 && sizes.iter().all(|n| n.abs_diff(100) <= 2), "{sizes:?}");
        assert_eq!(tree.version.buckets().len(), 1);
    }
    let version = tree.version.apply(&VersionEdit { added: vec![], removed }).unwrap();
    assert!(version.buckets().iter().map(|bucket| bucket.slices.len()).eq([3; 10]));
}

#[test]
fn bounds_follow_keys_that_move() {
    let mut tree = Tree::above("", "z");
    tree.flush(4, &keys((0..400).map(|n| n * 100)));
    // All keys are behind the last bucket now: it keeps its keys, the others are spread.
    let sizes = tree.flush(4, &keys((0..400).map(|n| 50_000 + n * 100)));
    assert_eq!(sizes, [100; 4]);
    assert_eq!(tree.version.buckets().len(), 8);
}

#[test]
fn nothing_is_cut_where_nothing_is_below_or_level_0_is_whole() {
    let mut tree = Tree::above("", "key000000");
    let list = keys((1..1001).map(|n| n * 9));
    assert_eq!(tree.flush(10, &list), [1000], "behind all data");
    let tree = Tree::above("", "z");
    let mut sample = KeySample::default();
    list.iter().for_each(|key| sample.add(key.as_bytes(), 100));
    let whole: &[Level0] = &[
        Level0::Whole,
        #[cfg(feature = "experiments")]
        Level0::HyperLevelDb,
    ];
    for &level0 in whole {
        let options = CompactionOptions { level0, ..options(10) };
        let mut unasked = || -> KeySample { panic!("the keys do not matter") };
        assert!(table_ends(&tree.version, &options, &mut unasked).keys.is_empty());
    }
    assert!(split_keys(&tree.version, &options(10), &KeySample::default()).is_empty());
}

#[test]
fn a_bucket_that_gets_little_joins_its_neighbour() {
    let mut tree = Tree::above("", "z");
    tree.flush(4, &keys((0..400).map(|n| n * 100)));
    // The first bucket gets two keys; the others a little more than before.
    let list = (0..2).map(|n| n * 900).chain((0..320).map(|n| 10_001 + n * 90));
    assert_eq!(tree.flush(4, &keys(list)).len(), 3);
    assert_eq!(tree.version.buckets().len(), 3);
}

#[test]
fn a_few_stray_keys_do_not_drag_a_large_part_across_buckets() {
    let mut tree = Tree::above("", "z");
    tree.flush(4, &keys((0..400).map(|n| n * 100)));
    // Almost all keys are in the last bucket; six keys are worth a table.
    let list = || (0..6).map(|n| n * 3000).chain((0..380).map(|n| 31_000 + n * 20));
    assert_eq!(tree.flush(4, &keys(list())), [6, 380]);
    assert_eq!(tree.version.buckets().len(), 3, "strays join the two that they meet");
    let one_stray = [0].into_iter().chain((0..380).map(|n| 31_000 + n * 20));
    assert_eq!(tree.flush(4, &keys(one_stray)).len(), 1, "one key is not worth a file");
}

#[test]
fn cuts_fall_on_bounds_of_level_1_if_they_are_near() {
    let world = World::new();
    let bounds = ["key000000", "key260000", "key490000", "key760000"];
    let tables = bounds.iter().enumerate().map(|(i, key)| {
        let end = bounds.get(i + 1).map_or("key999999".to_owned(), |next| format!("{key}{next}"));
        world.table(&[Item::inline(key, 1, ""), Item::inline(&end, 2, "")])
    });
    let added = tables.map(|meta| AddedTable { level: 1, position: None, meta }).collect();
    let empty = Version::empty(Arc::clone(&world.store));
    let version = empty.apply(&VersionEdit { added, removed: vec![] }).unwrap();
    let tree = Tree { world, version, epoch: 0 };
    let list = keys((0..1000).map(|n| n * 1000));
    assert_eq!(tree.split_keys(4, &list), &bounds[1..]);
    assert_eq!(tree.split_keys(2, &list), &bounds[2..3]);
}

#[test]
fn a_sample_of_many_keys_stays_small_and_knows_where_they_are() {
    let mut sample = KeySample::default();
    for n in 0..100_000u32 {
        sample.add(&n.to_be_bytes(), 10);
    }
    assert!((SAMPLES_MAX / 2..=SAMPLES_MAX).contains(&sample.keys.len()));
    for n in [0u32, 1, 777, 50_000, 99_999] {
        let before = sample.before(&n.to_be_bytes());
        assert!(before.abs_diff(u64::from(n) * 10) <= 1_000_000 / 2000, "{n}: {before}");
    }
    assert_eq!(sample.before(&[255]), 1_000_000);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn parts_are_few_and_worth_a_file(
        flushes in proptest::collection::vec((any::<u16>(), 1..6u64, 1..300u64), 1..6),
    ) {
        let mut tree = Tree::above("", "z");
        for (start, step, count) in flushes {
            let list = keys((0..count).map(|n| u64::from(start) + n * step * step));
            let split_keys = tree.split_keys(4, &list);
            assert!(split_keys.is_sorted_by(|a, b| a < b), "{split_keys:?}");
            let sizes = tree.flush(4, &list);
            assert!(sizes.len() <= 9, "{sizes:?}");
            let crumbs = sizes.iter().filter(|n| **n < 3).count();
            assert!(crumbs == 0 || sizes.len() == 1, "{sizes:?}");
            assert_eq!(sizes.iter().sum::<usize>(), list.len());
            let buckets = tree.version.buckets();
            assert!(buckets.windows(2).all(|pair| pair[0].largest < pair[1].smallest));
            let tables: usize = buckets.iter().map(|bucket| bucket.tables().count()).sum();
            assert_eq!(tables, tree.version.tables().filter(|(level, _)| *level == 0).count());
        }
    }
}
