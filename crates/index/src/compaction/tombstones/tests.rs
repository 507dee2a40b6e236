//! Which tables are compacted for their tombstones, and that it ends.

use cleavedb_base::sync::atomic::AtomicBool;

use crate::compaction::job::{CompactionJob, SubcompactionMode};
use crate::compaction::leveled::pick;
use crate::compaction::{Compaction, CompactionOptions, Constraints};
use crate::edit::{AddedTable, LEVEL_MAX, VersionEdit};
use crate::table_format::TableOptions;
use crate::testing::{Dropped, Item, World, position};
use crate::version::Version;

/// A table of `level` with `count` entries from `first` on, of which `dead` are tombstones.
fn table(world: &World, level: u8, (first, count): (u32, u32), dead: u32, seq: u64) -> VersionEdit {
    let keys: Vec<String> = (first..first + count).map(|i| format!("{i:06}")).collect();
    let items: Vec<Item> = keys
        .iter()
        .zip(0..)
        .map(|(key, i)| if i < dead { Item::delete(key, seq) } else { Item::inline(key, seq, "v") })
        .collect();
    let position = (level == 0).then(|| position(seq, 0));
    let added = vec![AddedTable { level, position, meta: world.table(&items) }];
    VersionEdit { added, removed: Vec::new() }
}

fn version(world: &World, edits: &[VersionEdit]) -> Version {
    let empty = Version::empty(world.store.clone());
    edits.iter().fold(empty, |version, edit| version.apply(edit).unwrap())
}

fn picked(version: &Version, dead_bytes_read: u64, seen_by_all: u64) -> Option<Compaction> {
    let options = CompactionOptions { dead_bytes_read, ..CompactionOptions::default() };
    pick(version, &options, &Constraints { seen_by_all, ..Constraints::default() })
}

#[test]
fn a_table_of_tombstones_above_nothing_is_rewritten_once_everybody_sees_them() {
    let world = World::new();
    let version = version(&world, &[table(&world, LEVEL_MAX, (0, 300), 200, 7)]);
    assert!(picked(&version, 0, 6).is_none(), "a snapshot may need them");
    let compaction = picked(&version, 0, 7).unwrap();
    assert_eq!((compaction.level, compaction.moves), (LEVEL_MAX, false));
}

#[test]
fn a_few_tombstones_among_values_stay() {
    let world = World::new();
    let few = version(&world, &[table(&world, 3, (0, 1000), 200, 7)]);
    assert!(picked(&few, u64::MAX, 7).is_none());
    let many = version(&world, &[table(&world, 3, (0, 1000), 300, 7)]);
    assert!(picked(&many, 0, 7).is_none(), "no read has paid for them");
    assert!(picked(&many, u64::MAX, 7).is_some());
}

#[test]
fn tombstones_leave_level_0_towards_what_they_hide() {
    let world = World::new();
    let below = table(&world, 1, (0, 300), 0, 1);
    let few = version(&world, &[below.clone(), table(&world, 0, (0, 200), 200, 7)]);
    assert!(picked(&few, u64::MAX, 7).is_none());
    let many = version(&world, &[below, table(&world, 0, (0, 300), 300, 7)]);
    let compaction = picked(&many, 0, 7).unwrap();
    assert_eq!((compaction.level, compaction.tables().count()), (1, 2));
}

/// The rest of a long table was rewritten for each few hundred keys deleted from the front of a
/// queue.
#[test]
fn what_reads_pay_for_is_cut_into_short_tables_that_stay() {
    let world = World::new();
    let long = version(&world, &[table(&world, 1, (0, 40_000), 300, 7)]);
    let (_, placed) = long.tables().next().unwrap();
    let table_bytes = placed.meta().size;
    let options = |dead_bytes_read| CompactionOptions {
        dead_bytes_read,
        table_bytes,
        ..CompactionOptions::default()
    };
    let constraints = Constraints { seen_by_all: 7, ..Constraints::default() };
    for (read, count) in [(u64::MAX, 1), (1 << 40, 6)] {
        let options = options(read);
        let compaction = pick(&long, &options, &constraints).unwrap();
        let tables = TableOptions::default();
        let mut job = CompactionJob::prepare(&long, compaction, Vec::new(), &options, &tables);
        job.run(&world, &mut Dropped::default(), SubcompactionMode::Never, &AtomicBool::new(false))
            .unwrap();
        let after = long.apply(&job.finish().0).unwrap();
        assert_eq!(after.level(1).tables().len(), count, "{read} bytes paid for");
        assert!(pick(&after, &options, &constraints).is_none());
    }
}

/// Tombstones are short: with long values they overlapped more than twenty times their own bytes,
/// and the hidden entries stayed for ever.
#[test]
fn tombstones_go_down_to_long_values() {
    let world = World::new();
    let long = "v".repeat(2000);
    let values = |step: usize| {
        let keys = (0..600).map(|i| format!("{i:06}")).step_by(step);
        keys.map(|key| Item::inline(&key, 1, &long)).collect::<Vec<_>>()
    };
    let below = |level, step| {
        let meta = world.table(&values(step));
        VersionEdit { added: vec![AddedTable { level, position: None, meta }], removed: Vec::new() }
    };
    let dead = |level, dead| table(&world, level, (0, 300), dead, 7);
    for level in [0, 1] {
        let all = version(&world, &[below(level + 1, 1), dead(level, 300)]);
        assert!(picked(&all, 0, 7).is_some(), "half of all goes");
        let few = version(&world, &[below(level + 1, 1), dead(level, 20)]);
        assert!(picked(&few, 0, 7).is_none(), "a thirtieth goes");
    }
}
