//! Which buckets leave, alone and in parallel, and which slices merge in a waiting bucket.

use crate::compaction::leveled::pick;
use crate::compaction::{Compaction, CompactionOptions, Constraints, Level0};
use crate::edit::{AddedTable, VersionEdit};
use crate::testing::{Item, World, position};
use crate::version::Version;

const BUCKETS: Level0 = Level0::Partitions(8);

/// A table takes about 400 bytes more than its values.
fn options(level0: Level0) -> CompactionOptions {
    CompactionOptions { level0, l0_bytes: 40_000, l0_merge_runs: 3, ..CompactionOptions::default() }
}

/// Level 0 from runs, oldest first, and level 1; for each table the first and the last key, and the
/// length of a value.
fn tree(world: &World, runs: &[&[(&str, &str, usize)]], level1: &[(&str, &str)]) -> Version {
    let mut seq = 0;
    let mut table = |(from, to, len): &(&str, &str, usize)| {
        seq += 1;
        let value = "x".repeat(*len);
        world.table(&[Item::inline(from, seq, &value), Item::inline(to, seq, "")])
    };
    let mut edit = VersionEdit::default();
    for (from, to) in level1 {
        let meta = table(&(*from, *to, 0));
        edit.added.push(AddedTable { level: 1, position: None, meta });
    }
    for (epoch, run) in runs.iter().enumerate() {
        edit.add_run(position(epoch as u64, 0), run.iter().map(&mut table));
    }
    Version::empty(world.store.clone()).apply(&edit).unwrap()
}

/// The first keys of the inputs, by level.
fn inputs(compaction: &Compaction) -> Vec<(u8, String)> {
    let name = |table: &crate::table_handle::TableHandle| {
        String::from_utf8(table.meta().smallest.to_vec()).unwrap()
    };
    let all = compaction.inputs.iter();
    all.flat_map(|input| input.tables.iter().map(|table| (input.level, name(table)))).collect()
}

fn named(list: &[(u8, &str)]) -> Vec<(u8, String)> {
    list.iter().map(|(level, name)| (*level, (*name).to_owned())).collect()
}

const LARGE: usize = 6000;

#[test]
fn full_buckets_leave_side_by_side_and_others_stay() {
    let world = World::new();
    let run: &[_] = &[("a", "b", LARGE), ("d", "e", 10), ("g", "h", LARGE)];
    let below = [("a0", "c"), ("d0", "f"), ("g0", "z")];
    let version = tree(&world, &[run, run], &below);
    let mut constraints = Constraints::default();
    let mut next = || {
        let compaction = pick(&version, &options(BUCKETS), &constraints)?;
        constraints.start(&compaction);
        assert!(compaction.level == 1 && !compaction.moves);
        Some(inputs(&compaction))
    };
    let (one, two) = (next().unwrap(), next().unwrap());
    let mut both = [one, two];
    both.sort();
    assert_eq!(both[0], named(&[(0, "a"), (0, "a"), (1, "a0")]));
    assert_eq!(both[1], named(&[(0, "g"), (0, "g"), (1, "g0")]));
    assert_eq!(next(), None, "the bucket of d is not full");
    let whole = pick(&version, &options(Level0::Whole), &Constraints::default());
    assert!(whole.is_none(), "level 0 as a whole is not full");
}

#[test]
fn a_table_that_joins_two_buckets_waits_for_the_one_that_is_busy() {
    let world = World::new();
    let old: &[_] = &[("a", "b", 2 * LARGE), ("d", "e", LARGE)];
    let before = tree(&world, &[old], &[("a0", "c"), ("d0", "f")]);
    let mut constraints = Constraints::default();
    let running = pick(&before, &options(BUCKETS), &constraints).unwrap();
    assert_eq!(inputs(&running), named(&[(0, "a"), (1, "a0")]));
    constraints.start(&running);
    let mut edit = VersionEdit::default();
    let wide = [Item::inline("b", 90, &"x".repeat(2 * LARGE)), Item::inline("d", 91, "")];
    edit.add_run(position(1, 0), [world.table(&wide)]);
    let after = before.apply(&edit).unwrap();
    assert_eq!(after.buckets().len(), 1);
    let next = pick(&after, &options(BUCKETS), &constraints).unwrap();
    assert_eq!(inputs(&next), named(&[(0, "d"), (1, "d0")]), "the older half may go");
    constraints.start(&next);
    assert!(pick(&after, &options(BUCKETS), &constraints).is_none(), "the younger table waits");
}

#[test]
fn small_slices_merge_inside_their_bucket_only() {
    let world = World::new();
    let runs: [&[_]; 3] =
        [&[("a", "b", 10), ("d", "e", 10)], &[("a", "b", 10)], &[("a", "b", 10), ("d", "e", 10)]];
    let version = tree(&world, &runs, &[]);
    let merge = pick(&version, &options(BUCKETS), &Constraints::default()).unwrap();
    assert_eq!(inputs(&merge), named(&[(0, "a"), (0, "a"), (0, "a")]));
    assert_eq!(merge.position, Some(position(2, 0)), "where the youngest stood");
}

#[test]
fn slices_of_a_bucket_that_fills_by_its_bytes_stay_apart() {
    let world = World::new();
    let runs: [&[_]; 3] = [&[("a", "b", 1000)], &[("a", "b", 1000)], &[("a", "b", 1000)]];
    let version = tree(&world, &runs, &[]);
    let crowded = CompactionOptions { l0_runs_max: 4, ..options(BUCKETS) };
    assert!(
        pick(&version, &crowded, &Constraints::default()).is_some(),
        "a fourth would be too many"
    );
    assert!(pick(&version, &options(BUCKETS), &Constraints::default()).is_none());
}

#[test]
fn runs_without_common_keys_do_not_merge() {
    let world = World::new();
    let runs: [&[_]; 4] =
        [&[("a", "b", 10)], &[("c", "d", 10)], &[("e", "f", 10)], &[("g", "h", 10)]];
    let version = tree(&world, &runs, &[]);
    assert!(pick(&version, &options(Level0::Whole), &Constraints::default()).is_none());
}

#[test]
fn what_meets_nothing_moves_once_level_0_is_full() {
    let world = World::new();
    let runs: [&[_]; 4] = [
        &[("a", "b", LARGE)],
        &[("c", "d", LARGE), ("e", "f", LARGE)],
        &[("g", "h", LARGE)],
        &[("i", "j", 3 * LARGE)],
    ];
    let version = tree(&world, &runs, &[]);
    let moved = pick(&version, &options(BUCKETS), &Constraints::default()).unwrap();
    assert!(moved.moves);
    assert_eq!(inputs(&moved), named(&[(0, "i")]), "a bucket beyond its share goes first");
    let full = CompactionOptions { l0_bytes: 4 * LARGE as u64, ..options(Level0::Partitions(2)) };
    let small = tree(&world, &runs[..3], &[]);
    assert_eq!(inputs(&pick(&small, &full, &Constraints::default()).unwrap()).len(), 4);
}

/// The number of tables of level 0 that leave, and the first keys of those of level 1 that go with
/// them.
#[cfg(feature = "experiments")]
fn leaving(compaction: &Compaction) -> (usize, Vec<String>) {
    let all = inputs(compaction);
    let lower = all.iter().filter(|(level, _)| *level == 1).map(|(_, name)| name.clone());
    (all.iter().filter(|(level, _)| *level == 0).count(), lower.collect())
}

#[cfg(feature = "experiments")]
#[test]
fn hyperleveldb_takes_up_to_32_of_the_oldest_tables_and_all_below_in_their_range() {
    let world = World::new();
    let keys: Vec<_> = (0..40).map(|i| (format!("{i:02}"), format!("{i:02}5"))).collect();
    let runs: Vec<_> = keys.iter().map(|(from, to)| [(&**from, &**to, 10)]).collect();
    let runs: Vec<&[_]> = runs.iter().map(|run| &run[..]).collect();
    let options = options(Level0::HyperLevelDb);
    let none = Constraints::default();
    // Two of level 1 lie between tables of level 0, one of them behind the 32nd.
    let below = [("077", "078"), ("317", "318")];
    let version = tree(&world, &runs, &below);
    let first = pick(&version, &options, &none).unwrap();
    assert_eq!(leaving(&first), (32, vec!["077".to_owned()]));
    assert_eq!(first.inputs[31].position, Some(position(0, 0)), "the oldest is one of them");
    let few = tree(&world, &runs[..3], &[]);
    assert!(pick(&few, &options, &none).is_none(), "level 0 is not full");
    let full = CompactionOptions { l0_runs_max: 3, ..options };
    assert_eq!(leaving(&pick(&few, &full, &none).unwrap()).0, 3);
}

#[cfg(feature = "experiments")]
#[test]
fn hyperleveldb_takes_fewer_tables_where_the_range_of_all_is_not_free() {
    let world = World::new();
    let runs: [&[_]; 3] = [&[("a", "b", 10)], &[("c", "d", 10)], &[("g", "h", 10)]];
    let version = tree(&world, &runs, &[("e", "f")]);
    let options = CompactionOptions { l0_runs_max: 3, ..options(Level0::HyperLevelDb) };
    let mut busy = Constraints::default();
    busy.busy.extend(version.level(1).tables().iter().map(|table| (table.number(), 2)));
    assert_eq!(inputs(&pick(&version, &options, &busy).unwrap()), named(&[(0, "c"), (0, "a")]));
}

#[cfg(feature = "experiments")]
#[test]
fn in_hyperleveldb_level_0_waits_for_a_level_1_that_is_too_large() {
    let world = World::new();
    let run: &[_] = &[("a", "f", 10)];
    let version = tree(&world, &[run, run, run], &[("a0", "c")]);
    let at = |l1_bytes| {
        let options = options(Level0::HyperLevelDb);
        let options = CompactionOptions { l0_runs_max: 1, l1_bytes, ..options };
        inputs(&pick(&version, &options, &Constraints::default()).unwrap())
    };
    let len = version.level_bytes(1);
    assert_eq!(at(len - 1), named(&[(1, "a0")]), "level 0 is three times as full as it may be");
    assert_eq!(at(len)[..3], named(&[(0, "a"), (0, "a"), (0, "a")]));
}

#[test]
fn layers_are_as_many_as_the_deepest_bucket_has_slices() {
    let world = World::new();
    let runs: [&[_]; 4] =
        [&[("a", "b", 1), ("d", "e", 1)], &[("a", "b", 1)], &[("d", "e", 1)], &[("g", "h", 1)]];
    let version = tree(&world, &runs, &[]);
    assert_eq!((version.runs().len(), version.sorted_runs(u64::MAX).count()), (4, 2 + 6));
    assert_eq!(version.sorted_runs(1).count(), 2 + 6, "at an older epoch reads go by runs");
}
