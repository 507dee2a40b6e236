//! What a compaction keeps, drops and reports, entry by entry.

use std::sync::Arc;
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

use cleavedb_base::record::FileIdentity;
use cleavedb_base::sync::atomic::{AtomicBool, Ordering};
use cleavedb_base::{Error, ErrorKind, FileNumber, Result};
use cleavedb_storage::File;

use super::{CompactionJob, CompactionStats, SubcompactionMode, TableFactory};
use crate::compaction::leveled::pick_full;
use crate::compaction::{Compaction, CompactionInput, CompactionOptions, Constraints};
use crate::edit::VersionEdit;
use crate::entry::EntryIter;
use crate::merge::MergeIter;
use crate::table::ReadMode;
use crate::table_format::TableOptions;
use crate::testing::{Dropped, Item, World, forwards, position, sort};
use crate::version::Version;

/// Makes one run of each list; the first is the youngest.
fn runs(world: &World, lists: &[Vec<Item>]) -> Version {
    let mut edit = VersionEdit::default();
    for (list, epoch) in lists.iter().rev().zip(1..) {
        let mut list = list.clone();
        sort(&mut list);
        edit.add_run(position(epoch, 0), [world.table(&list)]);
    }
    Version::empty(Arc::clone(&world.store)).apply(&edit).unwrap()
}

fn contents(version: &Version) -> Vec<Item> {
    let iters = version.iters(None, None, ReadMode::Ahead);
    forwards(&mut MergeIter::new(iters) as &mut dyn EntryIter)
}

struct Outcome {
    items: Vec<Item>,
    dropped: Vec<Item>,
    stats: CompactionStats,
    version: Version,
}

/// Runs the compaction as a whole and in halves, which must have the same result.
fn run(world: &World, version: &Version, compaction: Compaction, snapshots: &[u64]) -> Outcome {
    let run =
        |subcompactions| run_by(subcompactions, world, version, compaction.clone(), snapshots);
    let whole = run(SubcompactionMode::Never);
    for subcompactions in [SubcompactionMode::InTurn, SubcompactionMode::AtOnce] {
        let other = run(subcompactions);
        assert_eq!(
            (&other.items, &other.dropped),
            (&whole.items, &whole.dropped),
            "{subcompactions:?}"
        );
        let counts = |stats: CompactionStats| CompactionStats { output_bytes: 0, ..stats };
        assert_eq!(counts(other.stats), counts(whole.stats), "{subcompactions:?}");
    }
    whole
}

fn run_by(
    subcompactions: SubcompactionMode,
    world: &World,
    version: &Version,
    compaction: Compaction,
    snapshots: &[u64],
) -> Outcome {
    let options = CompactionOptions { table_bytes: 1 << 10, ..CompactionOptions::default() };
    let table_options = TableOptions { block_bytes: 200, ..TableOptions::default() };
    let mut job =
        CompactionJob::prepare(version, compaction, snapshots.to_vec(), &options, &table_options);
    let mut dropped = Dropped::default();
    job.run(world, &mut dropped, subcompactions, &AtomicBool::new(false)).unwrap();
    let (edit, stats) = job.finish();
    let version = version.apply(&edit).unwrap();
    Outcome { items: contents(&version), dropped: dropped.0, stats, version }
}

fn full(world: &World, lists: &[Vec<Item>], snapshots: &[u64]) -> Outcome {
    let version = runs(world, lists);
    let all = pick_full(&version, &Constraints::default(), None, None).unwrap();
    run(world, &version, Compaction { moves: false, ..all }, snapshots)
}

#[test]
fn each_snapshot_keeps_the_version_that_it_sees() {
    let versions: Vec<Item> = (1..=8).map(|seq| Item::pointer("k", seq * 10, seq)).collect();
    let kept = |snapshots: &[u64]| {
        let outcome = full(&World::new(), std::slice::from_ref(&versions), snapshots);
        assert_eq!(outcome.items.len() + outcome.dropped.len(), versions.len());
        outcome.items.iter().map(|item| item.seq).collect::<Vec<_>>()
    };
    assert_eq!(kept(&[]), [80]);
    assert_eq!(kept(&[45, 20]), [80, 40, 20]);
    assert_eq!(kept(&[5, 79, 80, 99]), [80, 70]);
}

#[test]
fn a_tombstone_goes_when_it_hides_nothing() {
    let world = World::new();
    let young = vec![Item::delete("a", 20), Item::delete("b", 21), Item::inline("c", 22, "")];
    let old = vec![Item::pointer("a", 10, 1), Item::inline("b", 11, "")];
    let outcome = full(&world, &[young.clone(), old.clone()], &[]);
    assert_eq!(outcome.items, [Item::inline("c", 22, "")]);
    assert_eq!(outcome.dropped, [Item::pointer("a", 10, 1)]);
    assert_eq!((outcome.stats.input_entries, outcome.stats.dropped), (5, 4));
    // A snapshot that sees an older version needs the tombstone above it.
    let outcome = full(&world, &[young.clone(), old.clone()], &[10]);
    let seqs: Vec<_> = outcome.items.iter().map(|item| item.seq).collect();
    assert_eq!(seqs, [20, 10, 22]);
    // So does an older version outside the inputs.
    let version = runs(&world, &[young, old.clone(), vec![Item::inline("zz", 1, "")]]);
    let first = &version.runs()[0];
    let input = CompactionInput {
        level: 0,
        position: Some(first.position),
        tables: first.set.tables().to_vec(),
    };
    let alone = Compaction::new(vec![input], 0, Some(first.position), false);
    let outcome = run(&world, &version, alone, &[]);
    assert_eq!(outcome.stats.dropped, 0);
}

#[test]
fn of_one_operation_the_youngest_entry_stays_and_inherits_the_record() {
    let original = vec![
        Item::pointer("a", 10, 1),
        Item::pointer("b", 11, 2),
        Item::inline("c", 12, "x"),
        Item::delete("d", 13),
    ];
    let mut back = original.clone();
    for item in &mut back {
        item.repeat = true;
    }
    back[1] = Item::pointer("b", 11, 777);
    let expected = vec![original[0].clone(), Item::pointer("b", 11, 777), original[2].clone()];
    let outcome = full(&World::new(), &[back.clone(), original.clone()], &[]);
    assert_eq!(outcome.items, expected);
    assert!(outcome.dropped.is_empty(), "nothing was freed");
    assert_eq!((outcome.stats.duplicates, outcome.stats.dropped), (4, 1));
    // The overwritten entry, the repeat that inherited and the moved pointer are reported once
    // each.
    let newer = vec![Item::inline("a", 20, ""), Item::inline("b", 21, "")];
    let outcome = full(&World::new(), &[newer, back, original.clone()], &[]);
    assert_eq!(outcome.dropped, [original[0].clone(), Item::pointer("b", 11, 777)]);
}

#[test]
fn a_repeat_alone_frees_nothing() {
    let lists = [vec![Item::inline("a", 20, "")], vec![Item::pointer("a", 10, 1).repeated()]];
    let outcome = full(&World::new(), &lists, &[]);
    assert!(outcome.dropped.is_empty() && outcome.items.len() == 1);
    let lists = [vec![Item::pointer("b", 10, 1).repeated()], vec![Item::inline("c", 9, "")]];
    let outcome = full(&World::new(), &lists, &[]);
    assert!(outcome.items[0].repeat, "only the original entry owns the record");
}

/// A repeat in the last place has no original: a compaction has dropped that alone.
#[test]
fn an_expired_repeat_goes_with_nothing_below_it() {
    let world = World::new();
    let repeat = Item::expiring_pointer("a", 10, 1, 5).repeated();
    let kept = |lists: &[Vec<Item>]| {
        let version = runs(&world, lists);
        let (position, tables) =
            (version.runs()[0].position, version.runs()[0].set.tables().to_vec());
        let input = CompactionInput { level: 0, position: Some(position), tables };
        let inputs = Compaction::new(vec![input], 0, Some(position), false);
        let options = CompactionOptions::default();
        let job =
            CompactionJob::prepare(&version, inputs, vec![], &options, &TableOptions::default());
        let (mut job, mut dropped) = (job.at_earliest_time(6), Dropped::default());
        job.run(&world, &mut dropped, SubcompactionMode::Never, &AtomicBool::new(false)).unwrap();
        assert!(dropped.0.is_empty(), "a repeat owns no record");
        contents(&version.apply(&job.finish().0).unwrap())
    };
    assert!(kept(&[vec![repeat.clone()]]).is_empty());
    let both = [vec![repeat.clone()], vec![Item::expiring_pointer("a", 10, 1, 5)]];
    assert_eq!(kept(&both).len(), 2, "the original is still to come");
}

#[test]
fn tables_end_between_keys_only() {
    let mut list = Vec::new();
    for key in 0..40 {
        for seq in 0..30 {
            let seq = key * 100 + seq + 1;
            list.push(Item::inline(&format!("key{key:02}"), seq, "some value of some length"));
        }
    }
    let snapshots: Vec<u64> = list.iter().map(|item| item.seq).collect();
    let outcome = full(&World::new(), &[list.clone()], &snapshots);
    sort(&mut list);
    assert_eq!(outcome.items, list);
    assert!(outcome.version.level(1).tables().len() >= 20);
    for table in outcome.version.level(1).tables() {
        table.table().unwrap().verify().unwrap();
    }
}

/// Each key with a tombstone, a moved pointer and versions for snapshots, in overlapping runs: the
/// keys beside the middle are among them.
#[test]
fn halves_come_to_the_same_as_the_whole() {
    let key = |at: u64| format!("key{at:03}");
    let young = (0..300).filter(|at| at % 3 == 0).map(|at| Item::delete(&key(at), 2_000 + at));
    let moved = (0..300).map(|at| Item::pointer(&key(at), 1_000 + at, 9_000 + at));
    let old = (0..300).flat_map(|at| {
        [Item::pointer(&key(at), 1_000 + at, at).repeated(), Item::pointer(&key(at), 1 + at, at)]
    });
    let lists = [young.collect(), moved.collect::<Vec<_>>(), old.collect()];
    let world = World::new();
    let version = runs(&world, &lists);
    let all = pick_full(&version, &Constraints::default(), None, None).unwrap();
    let options = CompactionOptions { table_bytes: 1 << 10, ..CompactionOptions::default() };
    let job = CompactionJob::prepare(&version, all, vec![], &options, &TableOptions::default());
    let middle = job.middle().unwrap().expect("the inputs are worth halves");
    assert!((key(100)..key(200)).contains(&String::from_utf8(middle).unwrap()));
    for snapshots in [vec![], vec![150], vec![1_150, 2_150]] {
        full(&world, &lists, &snapshots);
    }
}

/// A disk with room for the tables of one thread only.
struct FullForOthers<'a> {
    world: &'a World,
    own: ThreadId,
    failed: AtomicBool,
}

impl TableFactory for FullForOthers<'_> {
    fn create(&self, level: u8) -> Result<(FileNumber, Arc<dyn File>, FileIdentity)> {
        if thread::current().id() != self.own {
            self.failed.store(true, Ordering::Relaxed);
            return Err(Error::new(ErrorKind::NoSpace, "the disk is full"));
        }
        // Waits until the other half has reported its failure.
        let begin = Instant::now();
        while !self.failed.load(Ordering::Relaxed) {
            assert!(begin.elapsed() < Duration::from_secs(20), "there is no other half");
            thread::yield_now();
        }
        thread::sleep(Duration::from_millis(50));
        self.world.create(level)
    }
}

/// The front half stops because the back half failed: the reported reason is that of the back half.
#[test]
fn a_job_fails_for_the_reason_of_the_half_that_failed_first() {
    let world = World::new();
    let list = (0..300).map(|at| Item::inline(&format!("key{at:03}"), 1 + at, "some value"));
    let version = runs(&world, &[list.collect()]);
    let all = pick_full(&version, &Constraints::default(), None, None).unwrap();
    let options = CompactionOptions { table_bytes: 1 << 10, ..CompactionOptions::default() };
    let all = Compaction { moves: false, ..all };
    let mut job = CompactionJob::prepare(&version, all, vec![], &options, &TableOptions::default());
    let own = thread::current().id();
    let factory = FullForOthers { world: &world, own, failed: AtomicBool::new(false) };
    let go_on = AtomicBool::new(false);
    let error =
        job.run(&factory, &mut Dropped::default(), SubcompactionMode::AtOnce, &go_on).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NoSpace);
}

#[test]
fn a_cancelled_job_says_so_and_lists_its_files() {
    let world = World::new();
    let version = runs(&world, &[vec![Item::delete("a", 1)]]);
    let all = pick_full(&version, &Constraints::default(), None, None).unwrap();
    let options = CompactionOptions::default();
    let mut job = CompactionJob::prepare(&version, all, vec![], &options, &TableOptions::default());
    let error = job
        .run(&world, &mut Dropped::default(), SubcompactionMode::AtOnce, &AtomicBool::new(true))
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Closed);
    assert!(job.created().is_empty());
}

/// The run of a collection is added below runs that wait above it and may hold, for a snapshot that
/// is released by then, versions that their tombstones hide: without the tombstones these would
/// reappear.
#[test]
fn a_tombstone_above_a_running_collection_stays() {
    let world = World::new();
    let list = vec![Item::delete("a", 20), Item::inline("b", 21, "")];
    let version = runs(&world, std::slice::from_ref(&list));
    let kept = |with_pending_write_back: bool| {
        let all = pick_full(&version, &Constraints::default(), None, None).unwrap();
        let all = Compaction { moves: false, ..all };
        let options = (CompactionOptions::default(), TableOptions::default());
        let mut job = CompactionJob::prepare(&version, all, vec![], &options.0, &options.1);
        if with_pending_write_back {
            job = job.with_pending_write_back();
        }
        job.run(
            &world,
            &mut Dropped::default(),
            SubcompactionMode::AtOnce,
            &AtomicBool::new(false),
        )
        .unwrap();
        contents(&version.apply(&job.finish().0).unwrap())
    };
    assert_eq!(kept(true), list);
    assert_eq!(kept(false), [Item::inline("b", 21, "")]);
}
