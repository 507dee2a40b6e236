//! A level without room to be compacted at once is compacted in pieces.

use super::*;
use crate::compaction::job::{CompactionJob, SubcompactionMode};
use crate::edit::{AddedTable, VersionEdit};
use crate::table_format::TableOptions;
use crate::testing::{Dropped, Item, World, position};
use cleavedb_base::sync::atomic::AtomicBool;

/// A table of keys `first`, `first + step` and so on, `count` of them.
fn table(world: &World, level: u8, (first, count, step): (u32, u32, u32), seq: u64) -> AddedTable {
    let key = |i: u32| format!("{:06}", first + i * step);
    let items: Vec<Item> = (0..count)
        .map(|i| match seq {
            1 => Item::inline(&key(i), seq, &"v".repeat(200)),
            _ => Item::delete(&key(i), seq),
        })
        .collect();
    let position = (level == 0).then(|| position(seq, 0));
    AddedTable { level, position, meta: world.table(&items) }
}

/// Compacts `version` in pieces of at most `room` bytes; returns it with the number of pieces.
fn in_pieces(world: &World, mut version: Version, room: u64) -> (Version, usize) {
    let options = CompactionOptions { table_bytes: 2 << 10, ..CompactionOptions::default() };
    let constraints = Constraints { seen_by_all: 9, ..Constraints::default() };
    for pieces in 0..200 {
        let piece = pick_piece(&version, &options, &constraints, room)
            .or_else(|| pick_cut(&version, &options, &constraints, room));
        let Some(piece) = piece else { return (version, pieces) };
        assert!(piece.bytes_written_max() <= room);
        let table_options = TableOptions { block_bytes: 150, ..TableOptions::default() };
        let mut job = CompactionJob::prepare(&version, piece, Vec::new(), &options, &table_options);
        job.run(world, &mut Dropped::default(), SubcompactionMode::Never, &AtomicBool::new(false))
            .unwrap();
        version = version.apply(&job.finish().0).unwrap();
    }
    panic!("it does not end")
}

/// Two runs of tombstones over all keys are joined with all of level 1, 160 KiB: there is room for
/// 40 KiB.
#[test]
fn tombstones_over_all_keys_go_down_in_pieces_once_they_are_cut() {
    let world = World::new();
    let below = (0..10).map(|i| table(&world, 1, (i * 80, 80, 1), 1));
    let above = [2, 3].map(|seq| table(&world, 0, (seq as u32 - 2, 400, 2), seq));
    let added = below.chain(above).collect();
    let version = Version::empty(world.store.clone());
    let version = version.apply(&VersionEdit { added, removed: Vec::new() }).unwrap();
    let whole: u64 = version.tables().map(|(_, table)| table.meta().size).sum();
    assert!(whole > 160 << 10, "{whole}");
    let (version, pieces) = in_pieces(&world, version, 40 << 10);
    assert_eq!(version.tables().count(), 0, "after {pieces} pieces");
}

/// Tombstones that overlap long tables of another run of level 0: the table that joins them was not
/// cut, since only the next level counted.
#[test]
fn tombstones_go_down_in_pieces_that_meet_much_of_level_0() {
    let world = World::new();
    let data = (0..10).map(|i| table(&world, 0, (i * 80, 80, 1), 1));
    let above = table(&world, 0, (0, 100, 8), 2);
    let added = data.chain([above]).collect();
    let version = Version::empty(world.store.clone());
    let version = version.apply(&VersionEdit { added, removed: Vec::new() }).unwrap();
    let (version, pieces) = in_pieces(&world, version, 40 << 10);
    let entries: u64 = version.tables().map(|(_, table)| table.meta().entries).sum();
    assert_eq!(entries, 700, "after {pieces} pieces");
}

/// A pick looked at all tables of level 0 for each of them.
#[test]
fn a_pick_among_many_tables_takes_no_time() {
    let world = World::new();
    let tables = |level, seq| {
        let world = &world;
        (0..1500).map(move |i| table(world, level, (i * 10, 2, 1), seq))
    };
    let added = tables(0, 2).chain(tables(1, 1)).collect();
    let version = Version::empty(world.store.clone());
    let version = version.apply(&VersionEdit { added, removed: Vec::new() }).unwrap();
    let options = CompactionOptions::default();
    let begin = std::time::Instant::now();
    assert!(pick_piece(&version, &options, &Constraints::default(), u64::MAX).is_some());
    assert!(begin.elapsed().as_millis() < 200, "{:?}", begin.elapsed());
}
