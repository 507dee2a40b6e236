//! Which tables leave, or are rewritten, because of range tombstones, and that it ends.

use std::sync::Arc;

use cleavedb_base::sync::atomic::AtomicBool;

use crate::compaction::job::{CompactionJob, SubcompactionMode};
use crate::compaction::leveled::{pick, pick_full};
use crate::compaction::{Compaction, CompactionOptions, Constraints};
use crate::edit::{AddedTable, VersionEdit};
use crate::entry::EntryIter;
use crate::merge::MergeIter;
use crate::range_tombstones::{DeletedRanges, RangeTombstone};
use crate::table::ReadMode;
use crate::table_format::TableOptions;
use crate::testing::{Dropped, Item, World, forwards, position};
use crate::version::Version;

/// A version with one table for each list, of the level beside it.
fn version(world: &World, tables: &[(u8, Vec<Item>)]) -> Version {
    let added = tables.iter().zip(1..).map(|((level, items), epoch)| {
        let position = (*level == 0).then(|| position(epoch, 0));
        AddedTable { level: *level, position, meta: world.table(items) }
    });
    let edit = VersionEdit { added: added.collect(), removed: Vec::new() };
    Version::empty(Arc::clone(&world.store)).apply(&edit).unwrap()
}

/// What a pick must heed where keys from `begin` to `end` are deleted at 50, and each reader sees
/// everything up to `seen_by_all`.
fn deleted((begin, end): (&str, &str), eager: bool, seen_by_all: u64) -> Constraints {
    let (begin, end) = (begin.as_bytes().into(), end.as_bytes().into());
    let tombstone = RangeTombstone { id: 1, begin, end, seq: 50, eager };
    let deleted = DeletedRanges::default().with([tombstone], 0).fragments(90);
    Constraints { deleted, seen_by_all, ..Constraints::default() }
}

fn picked(version: &Version, constraints: &Constraints) -> Option<Compaction> {
    pick(version, &CompactionOptions::default(), constraints)
}

/// The version after `compaction`, and the pointers that it reported.
fn done(
    world: &World,
    version: &Version,
    compaction: Compaction,
    (constraints, snapshots): (&Constraints, &[u64]),
) -> (Version, Vec<Item>) {
    let (options, tables) = (CompactionOptions::default(), TableOptions::default());
    let job = CompactionJob::prepare(version, compaction, snapshots.to_vec(), &options, &tables);
    let job = job.without_deleted(constraints.deleted.clone());
    let mut job = job.at_earliest_time(constraints.earliest_time);
    let (mut dropped, go_on) = (Dropped::default(), AtomicBool::new(false));
    job.run(world, &mut dropped, SubcompactionMode::Never, &go_on).unwrap();
    (version.apply(&job.finish().0).unwrap(), dropped.0)
}

fn contents(version: &Version) -> Vec<Item> {
    let iters = version.iters(None, None, ReadMode::Ahead);
    forwards(&mut MergeIter::new(iters) as &mut dyn EntryIter)
}

fn is_open(version: &Version) -> bool {
    version.tables().any(|(_, table)| table.is_open())
}

#[test]
fn a_table_that_is_hidden_leaves_unread() {
    let world = World::new();
    let hidden = |level| (level, vec![Item::inline("b", 40, "v"), Item::delete("c", 41)]);
    for level in [0, 1, 6] {
        let version = version(&world, &[hidden(level), (level, vec![Item::inline("x", 3, "v")])]);
        let constraints = deleted(("a", "d"), false, 60);
        let compaction = picked(&version, &constraints).unwrap();
        assert!(compaction.drops && compaction.bytes_written_max() == 0 && !compaction.is_read());
        let (after, dropped) = done(&world, &version, compaction, (&constraints, &[]));
        assert!(dropped.is_empty() && !is_open(&version));
        assert_eq!(contents(&after), [Item::inline("x", 3, "v")]);
        assert!(picked(&after, &constraints).is_none());
    }
}

#[test]
fn of_a_table_that_leaves_each_pointer_is_reported() {
    let world = World::new();
    let list = vec![Item::pointer("b", 40, 1), Item::pointer("b", 30, 2), Item::inline("c", 9, "")];
    let version = version(&world, &[(3, list.clone())]);
    let constraints = deleted(("b", "d"), false, 50);
    let compaction = picked(&version, &constraints).unwrap();
    assert!(compaction.drops && compaction.is_read());
    let (after, dropped) = done(&world, &version, compaction, (&constraints, &[]));
    assert_eq!(dropped, list[..2]);
    assert_eq!(after.tables().count(), 0);
}

/// Older versions below a table of level 0 are hidden by its range tombstone, not only by it.
#[test]
fn all_hidden_tables_of_a_place_leave_at_once_and_others_after_them() {
    let world = World::new();
    let tables = [
        (2, vec![Item::inline("b", 1, "")]),
        (2, vec![Item::inline("c", 2, "")]),
        (2, vec![Item::inline("x", 3, "")]),
        (0, vec![Item::inline("b", 20, ""), Item::inline("c", 21, "")]),
    ];
    let mut version = version(&world, &tables);
    let constraints = deleted(("b", "d"), false, 50);
    for left in [3, 1] {
        let compaction = picked(&version, &constraints).unwrap();
        assert!(compaction.drops);
        version = done(&world, &version, compaction, (&constraints, &[])).0;
        assert_eq!(version.tables().count(), left);
    }
    assert!(picked(&version, &constraints).is_none());
}

#[test]
fn a_table_stays_that_a_reader_a_job_or_a_collection_needs() {
    let world = World::new();
    let version = version(&world, &[(0, vec![Item::inline("b", 40, "")])]);
    let constraints = deleted(("a", "d"), true, 60);
    assert!(picked(&version, &constraints).is_some());
    assert!(picked(&version, &deleted(("a", "d"), true, 49)).is_none(), "a snapshot is older");
    assert!(picked(&version, &deleted(("a", "b"), true, 60)).is_none(), "a gap");
    let busy = version.tables().map(|(_, table)| (table.number(), 1)).collect();
    assert!(picked(&version, &Constraints { busy, ..constraints.clone() }).is_none());
    let pinned = Constraints { pinned_above: Some(0), ..constraints.clone() };
    assert!(picked(&version, &pinned).is_none(), "a collection writes below it");
}

/// The rewritten table says that the tombstone was applied, so nothing more is due. In the place
/// below it is an older version of a deleted key: the point tombstone stays.
#[test]
fn a_part_of_a_table_is_deleted_in_its_place_once() {
    let world = World::new();
    let part = [
        Item::inline("a", 60, ""),
        Item::pointer("b", 40, 7),
        Item::delete("c", 55),
        Item::inline("d", 45, ""),
    ];
    let below = vec![Item::inline("c", 5, ""), Item::inline("d", 6, "")];
    let before = version(&world, &[(2, part.to_vec()), (4, below.clone())]);
    assert!(picked(&before, &deleted(("b", "c"), false, 60)).is_none(), "it is not eager");
    assert!(picked(&before, &deleted(("b", "c"), true, 49)).is_none(), "a snapshot is older");
    let constraints = deleted(("b", "c"), true, 60);
    let compaction = picked(&before, &constraints).unwrap();
    assert_eq!((compaction.level, compaction.drops, compaction.moves), (2, false, false));
    let (after, dropped) = done(&world, &before, compaction, (&constraints, &[]));
    assert_eq!(dropped, [Item::pointer("b", 40, 7)]);
    let expected = [&part[0], &part[2], &below[0], &part[3], &below[1]];
    assert!(contents(&after).iter().eq(expected));
    assert!(picked(&after, &constraints).is_none());
    let applied = |level| after.level(level).tables()[0].meta().uncovered_upto;
    assert_eq!((applied(2), applied(4)), (90, 0));
}

#[test]
fn what_a_snapshot_keeps_is_not_applied() {
    let world = World::new();
    let list =
        vec![Item::inline("b", 40, ""), Item::inline("b", 30, ""), Item::inline("x", 70, "")];
    let before = version(&world, &[(1, list.clone())]);
    let constraints = deleted(("a", "c"), true, 60);
    let compaction = picked(&before, &constraints).unwrap();
    let with = |snapshots: &[u64]| {
        let (after, _) = done(&world, &before, compaction.clone(), (&constraints, snapshots));
        (contents(&after), after.level(1).tables()[0].meta().uncovered_upto)
    };
    assert_eq!(with(&[]), (list[2..].to_vec(), 90));
    assert_eq!(with(&[35]), (list[1..].to_vec(), 35));
    assert_eq!(with(&[45]), (vec![list[0].clone(), list[2].clone()], 45));
    assert_eq!(with(&[52]), (list[2..].to_vec(), 52));
}

/// A table of level 0 goes down; one that only moves is rewritten there.
#[test]
fn a_part_of_level_0_is_deleted_on_its_way_down() {
    let world = World::new();
    let list = vec![Item::inline("a", 60, ""), Item::inline("b", 40, "")];
    let mut version = version(&world, &[(0, list.clone())]);
    let constraints = deleted(("b", "c"), true, 60);
    for moves in [true, false] {
        let compaction = picked(&version, &constraints).unwrap();
        assert_eq!((compaction.level, compaction.moves), (1, moves));
        version = done(&world, &version, compaction, (&constraints, &[])).0;
    }
    assert_eq!(contents(&version), list[..1]);
    assert!(picked(&version, &constraints).is_none());
}

/// A full compaction rewrites a single level without dead entries only if a range tombstone was
/// not applied to it.
#[test]
fn a_full_compaction_applies_range_tombstones() {
    let world = World::new();
    let list = vec![Item::inline("a", 60, ""), Item::inline("b", 40, "")];
    let before = version(&world, &[(3, list)]);
    assert!(pick_full(&before, &Constraints::default(), None, None).is_none());
    let constraints = deleted(("b", "c"), false, 60);
    let compaction = pick_full(&before, &constraints, None, None).unwrap();
    let (after, _) = done(&world, &before, compaction, (&constraints, &[]));
    assert_eq!(contents(&after), [Item::inline("a", 60, "")]);
    assert!(pick_full(&after, &constraints, None, None).is_none());
}

/// A table is due when half of its entries have expired, or one did long ago.
#[test]
fn a_table_whose_values_have_expired_is_rewritten_once() {
    let world = World::new();
    let items = vec![
        Item::expiring("a", 3, "v", 100),
        Item::expiring_pointer("b", 4, 9, 200),
        Item::inline("c", 5, "v"),
        Item::expiring_pointer("d", 6, 8, 300),
        // The entry owns no record, and nothing below it does.
        Item::expiring_pointer("e", 7, 7, 50).repeated(),
    ];
    let at =
        |now: u64, long_ago| Constraints { earliest_time: now, long_ago, ..Constraints::default() };
    for level in [1, 6] {
        let first = version(&world, &[(level, items.clone())]);
        assert!(picked(&first, &at(99, 0)).is_none());
        assert!(picked(&first, &at(299, 99)).is_none(), "two of five have expired");
        for (now, long_ago) in [(300, 99), (150, 100)] {
            let constraints = at(now, long_ago);
            let compaction = picked(&first, &constraints).unwrap();
            let (after, dropped) = done(&world, &first, compaction, (&constraints, &[]));
            let expired = |item: &&Item| !item.kind.split(&item.value).unwrap().is_there(|| now);
            let owns = |item: &&Item| item.kind.is_pointer() && !item.repeat;
            let gone = items.iter().filter(expired).filter(owns);
            assert!(dropped.iter().eq(gone), "each pointer is reported");
            let left: Vec<Item> = items.iter().filter(|item| !expired(item)).cloned().collect();
            assert_eq!(contents(&after), left);
            assert!(picked(&after, &constraints).is_none());
            let all = |version: &Version| pick_full(version, &constraints, None, None);
            assert!(all(&first).is_some() && all(&after).is_none(), "a caller asks for all");
        }
    }
}

#[test]
fn a_value_that_has_expired_goes_on_hiding_older_ones() {
    let world = World::new();
    let young = vec![Item::expiring("a", 9, "v", 100), Item::expiring("b", 8, "v", 100)];
    let first = version(&world, &[(1, young), (6, vec![Item::inline("a", 3, "old")])]);
    let constraints = Constraints { earliest_time: 100, seen_by_all: 50, ..Constraints::default() };
    let compaction = picked(&first, &constraints).unwrap();
    let (after, _) = done(&world, &first, compaction, (&constraints, &[]));
    assert_eq!(contents(&after), [Item::delete("a", 9), Item::inline("a", 3, "old")]);
}

/// Reads that step over what has expired pay for its removal, as they do for tombstones: a caller
/// that wants all of it gone only if it is much.
#[test]
fn reads_pay_for_values_that_have_expired() {
    let world = World::new();
    let many = |expire: usize| -> Vec<Item> {
        let name = |at: usize| format!("{at:04}");
        let item = |at: usize| match at < expire {
            true => Item::expiring(&name(at), 3, "v", 100 + at as u64),
            false => Item::inline(&name(at), 3, "v"),
        };
        (0..1000).map(item).collect()
    };
    let at = |now| Constraints { earliest_time: now, ..Constraints::default() };
    let paid = |version: &Version, constraints: &Constraints, dead_bytes_read| {
        let options = CompactionOptions { dead_bytes_read, ..CompactionOptions::default() };
        pick(version, &options, constraints)
    };
    for level in [1, 6] {
        let (few, most) =
            (version(&world, &[(level, many(9))]), version(&world, &[(level, many(990))]));
        for first in [&few, &most] {
            assert!(paid(first, &at(99), 1 << 20).is_none());
            assert!(paid(first, &at(108), 100).is_none(), "it costs more than that");
            let compaction = paid(first, &at(108), 1 << 20).unwrap();
            let (after, _) = done(&world, first, compaction, (&at(108), &[]));
            assert_eq!(contents(&after).len(), 991);
            assert!(paid(&after, &at(108), 1 << 20).is_none());
            assert!(paid(first, &at(108), u64::MAX).is_none(), "few are no work for a caller");
        }
        assert!(paid(&few, &at(u64::MAX - 1), u64::MAX).is_none());
        assert!(paid(&most, &at(100 + 300), u64::MAX).is_some(), "three in ten of the table");
    }
}
