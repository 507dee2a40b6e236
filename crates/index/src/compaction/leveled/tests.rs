//! What the policy picks from versions whose tables are never opened.

use cleavedb_base::FileNumber;

use super::{pick, pick_full};
#[cfg(feature = "experiments")]
use crate::compaction::Level0;
use crate::compaction::{Compaction, CompactionOptions, Constraints};
use crate::edit::{AddedTable, VersionEdit};
use crate::table_format::TableMeta;
use crate::testing::{World, position};
use crate::version::Version;

const MIB: u64 = 1 << 20;

/// A version of tables that are never opened.
struct Picture {
    version: Version,
    next: u64,
}

impl Picture {
    fn new() -> Self {
        Self { version: Version::empty(World::new().store), next: 1 }
    }

    fn meta(&mut self, keys: (&str, &str), size: u64) -> TableMeta {
        self.next += 1;
        TableMeta {
            size,
            smallest: keys.0.as_bytes().into(),
            largest: keys.1.as_bytes().into(),
            entries: 2,
            min_seq: 1,
            max_seq: 1,
            ..TableMeta::empty(FileNumber(self.next))
        }
    }

    /// Adds a table; its number.
    fn run(&mut self, epoch: u64, keys: (&str, &str), size: u64) -> u64 {
        let meta = self.meta(keys, size);
        let mut edit = VersionEdit::default();
        edit.add_run(position(epoch, 0), [meta]);
        self.version = self.version.apply(&edit).unwrap();
        self.next
    }

    fn deep(&mut self, level: u8, keys: (&str, &str), size: u64) -> u64 {
        let meta = self.meta(keys, size);
        self.deep_meta(level, meta)
    }

    fn deep_meta(&mut self, level: u8, meta: TableMeta) -> u64 {
        let added = vec![AddedTable { level, position: None, meta }];
        self.version = self.version.apply(&VersionEdit { added, removed: vec![] }).unwrap();
        self.next
    }

    fn pick(&self, constraints: &Constraints) -> Option<Compaction> {
        pick(&self.version, &CompactionOptions::default(), constraints)
    }
}

fn numbers(compaction: &Compaction) -> Vec<u64> {
    compaction.tables().map(|table| table.number().0).collect()
}

#[test]
fn nothing_is_picked_while_every_level_fits() {
    let mut picture = Picture::new();
    assert!(picture.pick(&Constraints::default()).is_none());
    picture.run(1, ("a", "z"), MIB);
    picture.deep(1, ("a", "m"), 200 * MIB);
    picture.deep(2, ("a", "m"), 2000 * MIB);
    assert!(picture.pick(&Constraints::default()).is_none());
}

#[test]
fn small_adjacent_runs_merge_within_level_0() {
    let mut picture = Picture::new();
    let large = picture.run(1, ("a", "z"), 30 * MIB);
    let small: Vec<u64> = (2..6).map(|epoch| picture.run(epoch, ("a", "z"), 2 * MIB)).collect();
    let compaction = picture.pick(&Constraints::default()).unwrap();
    assert_eq!((compaction.level, compaction.position), (0, Some(position(5, 0))));
    let mut youngest_first = small.clone();
    youngest_first.reverse();
    assert_eq!(numbers(&compaction), youngest_first, "the large run is not merged again");
    assert!(!numbers(&compaction).contains(&large));
    let mut busy = Constraints::default();
    busy.start(&compaction);
    assert!(picture.pick(&busy).is_none());
    busy.end(&compaction);
    assert!(picture.pick(&busy).is_some());
}

#[test]
fn a_full_level_0_goes_into_level_1_with_all_that_overlaps() {
    let mut picture = Picture::new();
    let below = picture.deep(1, ("k", "p"), 10 * MIB);
    picture.deep(1, ("q", "z"), 10 * MIB);
    let old = picture.run(1, ("a", "f"), 30 * MIB);
    let young = picture.run(2, ("e", "m"), 30 * MIB);
    let other = picture.run(3, ("pp", "ppp"), 10 * MIB);
    // A table that shares no keys with others just moves.
    let first = picture.pick(&Constraints::default()).unwrap();
    assert!(first.moves && first.level == 1);
    assert_eq!(numbers(&first), [other]);
    let mut busy = Constraints::default();
    busy.start(&first);
    let second = picture.pick(&busy).unwrap();
    assert!(!second.moves && second.level == 1);
    assert_eq!(numbers(&second), [young, old, below]);
}

#[test]
fn disjoint_parts_of_level_0_compact_at_the_same_time() {
    let mut picture = Picture::new();
    let ab = picture.deep(1, ("a", "b"), MIB);
    let yz = picture.deep(1, ("y", "z"), MIB);
    let low = picture.run(1, ("a", "c"), 40 * MIB);
    let high = picture.run(2, ("x", "z"), 30 * MIB);
    let blocked = picture.run(3, ("b", "y"), 20 * MIB);
    let mut constraints = Constraints { pinned_above: Some(2), ..Constraints::default() };
    let first = picture.pick(&constraints).unwrap();
    assert_eq!(numbers(&first), [low, ab]);
    constraints.start(&first);
    let second = picture.pick(&constraints).unwrap();
    assert_eq!(numbers(&second), [high, yz]);
    constraints.start(&second);
    constraints.pinned_above = None;
    // The table is above both running inputs: it must not overtake them.
    assert!(picture.pick(&constraints).is_none(), "table {blocked}");
}

#[test]
fn what_spans_a_gap_does_not_meet_what_moves_into_it() {
    let mut picture = Picture::new();
    let mover = picture.run(4, ("g", "g"), 70 * MIB);
    let mut constraints = Constraints::default();
    let first = picture.pick(&constraints).unwrap();
    assert_eq!((numbers(&first), first.level, first.moves), (vec![mover], 1, true));
    constraints.start(&first);
    // Older runs on both sides of it were merged meanwhile; the result spans it.
    let spans = picture.run(3, ("a", "m"), 70 * MIB);
    assert!(picture.pick(&constraints).is_none(), "both would hold the key g in level 1");
    assert!(pick_full(&picture.version, &constraints, None, None).is_none());
    constraints.end(&first);
    constraints.busy.insert(FileNumber(mover), 2);
    assert_eq!(
        numbers(&picture.pick(&constraints).unwrap()),
        [spans],
        "only the key range blocked it"
    );
}

#[test]
fn runs_above_a_collection_neither_leave_nor_join_older_ones() {
    let mut picture = Picture::new();
    for epoch in 1..=6 {
        picture.run(epoch, ("a", "z"), 12 * MIB);
    }
    let held = Constraints { pinned_above: Some(4), ..Constraints::default() };
    let compaction = picture.pick(&held).unwrap();
    assert_eq!(compaction.level, 1);
    let epochs: Vec<u64> =
        compaction.inputs.iter().map(|input| input.position.unwrap().epoch).collect();
    assert_eq!(epochs, [4, 3, 2, 1]);
    let all_held = Constraints { pinned_above: Some(0), ..Constraints::default() };
    let compaction = picture.pick(&all_held).unwrap();
    assert_eq!(compaction.level, 0, "they may merge among themselves");
    // Three on one side, three on the other: no four that may merge.
    let split = Constraints { pinned_above: Some(3), ..Constraints::default() };
    let compaction = picture.pick(&split).unwrap();
    assert!(compaction.inputs.iter().all(|input| input.position.unwrap().epoch <= 3));
}

#[test]
fn a_full_level_hands_on_its_cheapest_table() {
    let mut picture = Picture::new();
    let dear = picture.deep(1, ("a", "c"), 200 * MIB);
    let cheap = picture.deep(1, ("d", "f"), 200 * MIB);
    picture.deep(1, ("g", "i"), 200 * MIB);
    picture.deep(2, ("a", "b"), 200 * MIB);
    let below = picture.deep(2, ("e", "e"), 10 * MIB);
    picture.deep(2, ("h", "h"), 100 * MIB);
    let first = picture.pick(&Constraints::default()).unwrap();
    assert_eq!((numbers(&first), first.level), (vec![cheap, below], 2));
    let mut busy = Constraints::default();
    busy.start(&first);
    let second = picture.pick(&busy).unwrap();
    assert!(!numbers(&second).contains(&dear));
    busy.start(&second);
    assert!(picture.pick(&busy).is_none(), "the excess of the level is being compacted already");
}

#[test]
fn neighbours_go_together_as_far_as_the_level_is_too_large() {
    let mut picture = Picture::new();
    let keys = [("a", "c"), ("d", "f"), ("g", "i"), ("j", "l"), ("m", "o"), ("p", "r")];
    let upper: Vec<u64> = keys.iter().map(|keys| picture.deep(1, *keys, 60 * MIB)).collect();
    // The second and third share their overlap; so do the fourth and fifth, but theirs is larger.
    picture.deep(2, ("b", "b"), 100 * MIB);
    let shared = picture.deep(2, ("e", "h"), 30 * MIB);
    picture.deep(2, ("k", "n"), 50 * MIB);
    picture.deep(2, ("q", "q"), 100 * MIB);
    let first = picture.pick(&Constraints::default()).unwrap();
    assert_eq!(numbers(&first), [upper[1], upper[2], shared]);
    let narrow = CompactionOptions { table_bytes: 4 * MIB, ..CompactionOptions::default() };
    let alone = pick(&picture.version, &narrow, &Constraints::default()).unwrap();
    assert_eq!(alone.tables().count(), 2, "more than 100 MiB do not go together");
}

#[cfg(feature = "experiments")]
#[test]
fn in_hyperleveldb_neighbours_go_together_as_far_as_that_is_cheaper() {
    let mut picture = Picture::new();
    let keys = [("a", "c"), ("d", "f"), ("g", "i"), ("j", "l"), ("m", "o"), ("p", "r")];
    keys.iter().for_each(|keys| _ = picture.deep(1, *keys, 60 * MIB));
    picture.deep(2, ("b", "q"), 100 * MIB);
    let count = |level0, table_bytes| {
        let options = CompactionOptions { level0, table_bytes, ..CompactionOptions::default() };
        pick(&picture.version, &options, &Constraints::default()).unwrap().tables().count() - 1
    };
    let usual = CompactionOptions::default().table_bytes;
    assert_eq!(count(Level0::Whole, usual), 2, "level 1 is too large by less than two tables");
    assert_eq!(count(Level0::HyperLevelDb, usual), 6);
    assert_eq!(count(Level0::HyperLevelDb, 20 * MIB), 3, "less than 16 tables with their overlap");
    assert_eq!(count(Level0::HyperLevelDb, 25 * MIB), 4, "400 MiB would be all of 16 tables");
}

#[cfg(feature = "experiments")]
#[test]
fn levels_of_hyperleveldb_grow_by_four_and_then_by_eight() {
    let level0 = Level0::HyperLevelDb;
    let there = CompactionOptions { level0, l1_bytes: 128 * MIB, ..CompactionOptions::default() };
    let mib: Vec<u64> = (1..=4).map(|level| there.level_bytes(level) / MIB).collect();
    assert_eq!(mib, [128, 512, 4096, 32_768]);
    let own = CompactionOptions::default();
    assert_eq!(own.level_bytes(3), 100 * own.l1_bytes);
}

#[test]
fn a_table_without_overlap_moves_unless_its_tombstones_could_go() {
    let mut picture = Picture::new();
    let mut meta = picture.meta(("a", "c"), 300 * MIB);
    meta.deletes = 1;
    picture.deep_meta(1, meta);
    assert!(!picture.pick(&Constraints::default()).unwrap().moves, "no entries below: rewrite");
    picture.deep(3, ("b", "b"), MIB);
    assert!(picture.pick(&Constraints::default()).unwrap().moves, "they may still hide entries");
}

#[test]
fn tombstones_go_down_to_what_they_hide_and_no_further() {
    let mut picture = Picture::new();
    let mut meta = picture.meta(("a", "c"), MIB);
    meta.deletes = 1;
    let young = picture.deep_meta(1, meta);
    assert!(picture.pick(&Constraints::default()).is_none(), "they hide no entries");
    let old = picture.deep(2, ("b", "b"), MIB);
    let compaction = picture.pick(&Constraints::default()).unwrap();
    assert_eq!((numbers(&compaction), compaction.level), (vec![young, old], 2));
}

#[test]
fn a_full_compaction_takes_everything_once() {
    let mut picture = Picture::new();
    assert!(pick_full(&picture.version, &Constraints::default(), None, None).is_none());
    let far = picture.deep(2, ("y", "z"), MIB);
    let bottom = picture.deep(2, ("c", "f"), MIB);
    let middle = picture.deep(1, ("e", "g"), MIB);
    let run = picture.run(1, ("a", "d"), MIB);
    let all = pick_full(&picture.version, &Constraints::default(), None, None).unwrap();
    assert_eq!((numbers(&all), all.level), (vec![run, middle, bottom, far], 2));
    // The range extends from table to table as long as they share keys.
    let version = &picture.version;
    let part = pick_full(version, &Constraints::default(), Some(b"a"), Some(b"b")).unwrap();
    assert_eq!(numbers(&part), [run, middle, bottom]);
    let none = pick_full(version, &Constraints::default(), Some(b"y"), None);
    assert!(none.is_none(), "the bottom level alone is clean");
    let mut busy = Constraints::default();
    busy.busy.insert(FileNumber(bottom), 3);
    assert!(pick_full(version, &busy, None, None).is_none());
}
