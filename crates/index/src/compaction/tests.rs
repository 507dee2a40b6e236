//! Random histories of flushes, range tombstones, snapshots, collections and concurrent
//! compactions, compared with a model that keeps every operation.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;

use cleavedb_base::EntryKind;
use cleavedb_base::checksum::hash64;
use cleavedb_base::limits::SEQ_MAX;
use cleavedb_base::sync::atomic::AtomicBool;
use cleavedb_storage::{RemoveMode, Storage};
use proptest::prelude::{any, proptest};

use super::job::{CompactionJob, SubcompactionMode};
use super::leveled::{pick, pick_full};
use super::pieces::{pick_cut, pick_piece};
use super::{Compaction, CompactionOptions, Constraints, KeySample, Level0, table_ends};
use crate::edit::VersionEdit;
use crate::entry::EntryIter;
use crate::merge::MergeIter;
use crate::range_tombstones::{DeletedRanges, RangeTombstone};
use crate::table::ReadMode;
use crate::table_format::TableOptions;
use crate::testing::{Dropped, Item, World, forwards, sort};
use crate::version::Version;
use crate::visible::VisibleIter;

const KEYS: u64 = 24;

fn key(n: u64) -> String {
    format!("key{:02}", n % KEYS)
}

/// A running collection, between fixing its inputs and its write-back.
struct Collection {
    epoch: u64,
    run: Vec<Item>,
}

/// A reported drop: key, sequence number and pointer.
type Report = (Vec<u8>, u64, Vec<u8>);

struct History {
    world: World,
    version: Version,
    /// Every operation ever, with its current value: moved pointers are newer values.
    model: BTreeMap<(Vec<u8>, u64), Item>,
    last_seq: u64,
    epoch: u64,
    snapshots: Vec<u64>,
    constraints: Constraints,
    collection: Option<Collection>,
    collections: u64,
    jobs: Vec<CompactionJob>,
    reported: HashSet<Report>,
    deleted: DeletedRanges,
    options: CompactionOptions,
}

impl History {
    fn new(level0: Level0) -> Self {
        let world = World::new();
        Self {
            version: Version::empty(Arc::clone(&world.store)),
            world,
            model: BTreeMap::new(),
            last_seq: 0,
            epoch: 0,
            snapshots: Vec::new(),
            constraints: Constraints::default(),
            collection: None,
            collections: 0,
            jobs: Vec::new(),
            reported: HashSet::new(),
            deleted: DeletedRanges::default(),
            options: CompactionOptions {
                level0,
                l0_bytes: 3000,
                l0_runs_max: 6,
                l0_merge_runs: 3,
                l1_bytes: 4000,
                level_ratio: 3,
                table_bytes: 500,
                table_bytes_max: u64::MAX,
                dead_bytes_read: u64::MAX,
            },
        }
    }

    fn flush(&mut self, seed: u64) {
        let mut items = Vec::new();
        for i in 0..seed % 7 + 1 {
            self.last_seq += 1;
            let (name, seq) = (key(seed / 7 + i * i * 5), self.last_seq);
            items.push(match (seed / 64 + i) % 4 {
                0 => Item::delete(&name, seq),
                1 => Item::inline(&name, seq, &format!("value {seq}")),
                _ => Item::pointer(&name, seq, seq),
            });
        }
        for item in &items {
            self.model.insert((item.key.clone(), item.seq), item.clone());
        }
        sort(&mut items);
        self.epoch += 1;
        self.install(self.epoch, &items);
    }

    /// Deletes a range of keys.
    fn delete_range(&mut self, seed: u64) {
        self.last_seq += 1;
        let (begin, end) = (key(seed), key(seed / KEYS));
        self.deleted = self.deleted.with(
            [RangeTombstone {
                id: self.last_seq,
                begin: begin.into_bytes().into(),
                end: end.into_bytes().into(),
                seq: self.last_seq,
                eager: seed.is_multiple_of(2),
            }],
            0,
        );
    }

    /// Whether a range tombstone hides the version `seq` of `key` from a reader at `snapshot`.
    fn is_deleted(&self, key: &[u8], seq: u64, snapshot: u64) -> bool {
        self.deleted.fragments(snapshot).covers(key, seq)
    }

    fn install(&mut self, epoch: u64, items: &[Item]) {
        let mut edit = VersionEdit::default();
        let mut sample = KeySample::default();
        let mut keys: Vec<&[u8]> = items.iter().map(|item| &item.key[..]).collect();
        keys.dedup();
        keys.iter().for_each(|key| sample.add(key, 40));
        let mut sample = || std::mem::take(&mut sample);
        let cuts = table_ends(&self.version, &self.options, &mut sample).keys;
        let part = |item: &Item| cuts.partition_point(|cut| **cut <= *item.key);
        let parts = items.chunk_by(|a, b| part(a) == part(b));
        let tables: Vec<_> = parts.map(|items| self.world.table(items)).collect();
        edit.add_run(self.version.next_position(epoch), tables);
        self.version = self.version.apply(&edit).unwrap();
    }

    /// The versions of `key` that the present and every snapshot see, newest first.
    fn visible(&self, key: &str) -> Vec<Item> {
        let key = key.as_bytes().to_vec();
        let range = (key.clone(), 0)..=(key, SEQ_MAX);
        let seen: BTreeSet<u64> = [&self.snapshots[..], &[self.last_seq]]
            .concat()
            .into_iter()
            .filter_map(|snapshot| {
                let versions = self.model.range(range.clone()).map(|((_, seq), _)| *seq);
                let newest = versions.filter(|seq| *seq <= snapshot).max();
                newest.filter(|seq| !self.is_deleted(&range.start().0, *seq, snapshot))
            })
            .collect();
        let versions = self.model.range(range).rev();
        versions.filter(|((_, seq), _)| seen.contains(seq)).map(|(_, item)| item.clone()).collect()
    }

    /// Fixes the inputs of a collection: all visible versions of each chosen key, of which it moves
    /// some pointers and repeats the rest.
    fn begin_collection(&mut self, seed: u64) {
        if self.collection.is_some() || self.epoch == 0 {
            return;
        }
        self.collections += 1;
        let mut run = Vec::new();
        for n in (0..KEYS).filter(|n| (seed >> (n % 16)) & 1 == 1) {
            let name = key(n);
            let visible = self.visible(&name);
            let found = self
                .version
                .versions_of(self.epoch, name.as_bytes(), hash64(name.as_bytes(), 0), SEQ_MAX)
                .unwrap();
            for item in visible {
                // A tombstone that hid nothing may be dropped already.
                let present = found.iter().any(|version| version.seq == item.seq);
                assert!(present || item.kind == EntryKind::Delete);
                if present
                    && item.kind == EntryKind::Pointer
                    && !(seed + item.seq).is_multiple_of(3)
                {
                    // No two collections write the same record.
                    let offset = item.seq + 1_000_000 * self.collections;
                    run.push(Item::pointer(&name, item.seq, offset));
                } else if present {
                    run.push(item.repeated());
                }
            }
        }
        sort(&mut run);
        if !run.is_empty() {
            self.constraints.pinned_above = Some(self.epoch);
            self.collection = Some(Collection { epoch: self.epoch, run });
        }
    }

    fn end_collection(&mut self) {
        let Some(Collection { epoch, run }) = self.collection.take() else { return };
        for item in run.iter().filter(|item| !item.repeat) {
            self.model.insert((item.key.clone(), item.seq), item.clone());
        }
        self.install(epoch, &run);
        self.constraints.pinned_above = None;
    }

    fn check_pick(&self, compaction: &Compaction) {
        for table in compaction.tables() {
            assert!(!self.constraints.busy.contains_key(&table.number()), "inputs are disjoint");
        }
        let Some(hold) = self.constraints.pinned_above else { return };
        let above = |input: &super::CompactionInput| {
            input.position.is_some_and(|position| position.epoch > hold)
        };
        let count = compaction.inputs.iter().filter(|input| above(input)).count();
        assert!(compaction.level == 0 || count == 0, "runs above the hold stay in level 0");
        assert!(count == 0 || count == compaction.inputs.len(), "no merge joins both sides");
    }

    /// Charges a table until its seeks are used up, where that causes its compaction.
    #[cfg(feature = "experiments")]
    fn spend_seeks(&self, seed: u64) {
        let count = self.version.tables().count().max(1);
        let table = self.version.tables().nth(seed as usize % count);
        if let Some((_, table)) = table.filter(|_| super::compacts_on_seeks(self.options.level0)) {
            (0..100).for_each(|_| _ = table.seeks().charge());
            assert!(table.seeks().are_spent());
        }
    }

    fn constraints(&self) -> Constraints {
        let seen_by_all = self.snapshots.iter().copied().min().unwrap_or(self.last_seq);
        let deleted = self.deleted.fragments(self.last_seq);
        Constraints { seen_by_all, deleted, ..self.constraints.clone() }
    }

    fn pick(&self) -> Option<Compaction> {
        pick(&self.version, &self.options, &self.constraints())
    }

    /// A step of at most `most` bytes, or a table to be cut to make one possible.
    fn pick_piece(&self, most: u64) -> Option<Compaction> {
        let constraints = self.constraints();
        let options = CompactionOptions { table_bytes: 100, ..self.options.clone() };
        pick_piece(&self.version, &options, &constraints, most)
            .inspect(|piece| assert!(piece.bytes_written_max() <= most))
            .or_else(|| pick_cut(&self.version, &options, &constraints, u64::MAX))
    }

    fn pick_full(&self, lower: Option<u64>, upper: Option<u64>) -> Option<Compaction> {
        let bytes = |n: u64| key(n).into_bytes();
        let (lower, upper) = (lower.map(bytes), upper.map(bytes));
        pick_full(&self.version, &self.constraints(), lower.as_deref(), upper.as_deref())
    }

    fn begin_compaction(&mut self, picked: Option<Compaction>) -> bool {
        let Some(compaction) = picked else { return false };
        self.check_pick(&compaction);
        self.constraints.start(&compaction);
        let table_options = TableOptions { block_bytes: 150, ..TableOptions::default() };
        let (snapshots, options) = (self.snapshots.clone(), &self.options);
        let job =
            CompactionJob::prepare(&self.version, compaction, snapshots, options, &table_options);
        self.jobs.push(job.without_deleted(self.deleted.fragments(self.last_seq)));
        true
    }

    fn end_compaction(&mut self, seed: u64) {
        if self.jobs.is_empty() {
            return;
        }
        let mut job = self.jobs.swap_remove(seed as usize % self.jobs.len());
        let mut dropped = Dropped::default();
        job.run(&self.world, &mut dropped, SubcompactionMode::InTurn, &AtomicBool::new(false))
            .unwrap();
        self.constraints.end(job.compaction());
        let (edit, _) = job.finish();
        let next = self.version.apply(&edit).unwrap();
        self.version.retire(&edit);
        self.version = next;
        for item in dropped.0 {
            let name = String::from_utf8(item.key.clone()).unwrap();
            assert!(item.kind == EntryKind::Pointer && !item.repeat);
            assert!(!self.visible(&name).contains(&item), "{item:?} is visible, but was dropped");
            let report = (item.key, item.seq, item.value);
            assert!(self.reported.insert(report.clone()), "{report:?} was dropped twice");
        }
    }

    fn step(&mut self, op: u8, seed: u64) {
        match op % 13 {
            0..=4 => self.flush(seed),
            6 if seed.is_multiple_of(4) => {
                let bound = |part: u64| (!part.is_multiple_of(4)).then_some(part / 4);
                let _ = self.begin_compaction(self.pick_full(bound(seed / 4), bound(seed / 400)));
            }
            5 | 6 if seed.is_multiple_of(5) => {
                let _ = self.begin_compaction(self.pick_piece(seed % 2000));
            }
            5 | 6 => {
                #[cfg(feature = "experiments")]
                self.spend_seeks(seed);
                let _ = self.begin_compaction(self.pick());
            }
            7 => self.end_compaction(seed),
            8 => self.snapshots.push(self.last_seq),
            9 if !self.snapshots.is_empty() => {
                self.snapshots.swap_remove(seed as usize % self.snapshots.len());
            }
            10 => self.begin_collection(seed),
            11 => self.end_collection(),
            12 => self.delete_range(seed),
            _ => {}
        }
    }

    /// Compares every read with the model.
    fn check(&self) {
        for snapshot in [&self.snapshots[..], &[self.last_seq]].concat() {
            let mut visible = Vec::new();
            for n in 0..KEYS {
                let name = key(n);
                let range = (name.clone().into_bytes(), 0)..=(name.clone().into_bytes(), snapshot);
                let expected = self.model.range(range).next_back().map(|(_, item)| item);
                let deleted = |seq| self.is_deleted(name.as_bytes(), seq, snapshot);
                let expected = expected.filter(|item| item.kind != EntryKind::Delete);
                let expected = expected.filter(|item| !deleted(item.seq));
                let hash = hash64(name.as_bytes(), 0);
                let found = self.version.get(name.as_bytes(), hash, snapshot).unwrap();
                let found = found.filter(|found| found.kind != EntryKind::Delete);
                let found = found.filter(|found| !deleted(found.seq));
                assert_eq!(found.as_ref().map(|f| f.seq), expected.map(|item| item.seq));
                assert_eq!(found.map(|f| f.value.to_vec()), expected.map(|i| i.value.clone()));
                visible.extend(expected.cloned());
            }
            let merged = MergeIter::new(self.version.iters(None, None, ReadMode::Cached));
            let mut iter = VisibleIter::new(merged, snapshot, None, None);
            iter.seek_last().unwrap();
            let mut visible = visible.iter().rev();
            while iter.valid() {
                if !self.is_deleted(iter.key(), iter.seq(), snapshot) {
                    let expected = visible.next().map(|item| (&item.key[..], &item.value[..]));
                    assert_eq!(Some((iter.key(), iter.value())), expected);
                }
                iter.prev().unwrap();
            }
            assert!(visible.next().is_none());
        }
    }

    /// Ends all running jobs, releases all snapshots and compacts everything into one level.
    fn settle(&mut self) {
        self.end_collection();
        while !self.jobs.is_empty() {
            self.end_compaction(0);
        }
        self.snapshots.clear();
        while self.begin_compaction(self.pick()) {
            self.end_compaction(0);
            self.check();
        }
        if self.begin_compaction(self.pick_full(None, None)) {
            self.end_compaction(0);
        }
        self.check();
    }
}

const LEVEL0: &[Level0] = &[
    Level0::Whole,
    Level0::Partitions(3),
    Level0::Partitions(8),
    #[cfg(feature = "experiments")]
    Level0::HyperLevelDb,
];

fn run_history(level0: Level0, steps: impl IntoIterator<Item = (u8, u16)>) -> History {
    let mut history = History::new(level0);
    for (i, (op, seed)) in steps.into_iter().enumerate() {
        history.step(op, u64::from(seed));
        if i % 8 == 0 {
            history.check();
        }
    }
    history.settle();
    history
}

proptest! {
    #[test]
    fn compaction_keeps_exactly_what_somebody_sees(
        level0 in 0..LEVEL0.len(),
        steps in proptest::collection::vec((any::<u8>(), any::<u16>()), 1..160),
    ) {
        let history = run_history(LEVEL0[level0], steps);

        let iters = history.version.iters(None, None, ReadMode::Ahead);
        let left = forwards(&mut MergeIter::new(iters) as &mut dyn EntryIter);
        let seen: Vec<Item> = (0..KEYS)
            .flat_map(|n| history.visible(&key(n)))
            .filter(|item| item.kind != EntryKind::Delete)
            .collect();
        if history.version.runs().is_empty() {
            assert_eq!(left, seen, "one version of each live key is left, and owns its record");
        }
        for item in history.model.values().filter(|item| item.kind == EntryKind::Pointer) {
            let report = (item.key.clone(), item.seq, item.value.clone());
            let alive = left.contains(item);
            assert!(alive != history.reported.contains(&report), "{item:?}");
        }
        // No files are left but those of the version.
        while let Some(name) = history.world.obsolete_files.take_name() {
            history.world.sim.remove(&name, RemoveMode::Immediate).unwrap();
        }
        let files = history.world.sim.list().unwrap().len();
        assert_eq!(files, history.version.tables().count());
    }
}

/// Mistakes that show only in parallel compactions, which the tests of the engine lack.
#[cfg(feature = "test-planted-bugs")]
mod planted {
    use std::panic::catch_unwind;

    use cleavedb_base::planted::{Bug, plant};
    use cleavedb_storage_sim::sim::Rng;

    use super::{Level0, run_history};

    fn history(seed: u64) {
        let mut rng = Rng::new(seed);
        let steps: Vec<_> =
            (0..150).map(|_| (rng.below(256) as u8, rng.below(1 << 16) as u16)).collect();
        run_history(Level0::Partitions(3), steps);
    }

    fn caught(bug: Bug) {
        plant(Some(bug));
        let found = (0..300).find(|&seed| catch_unwind(|| history(seed)).is_err());
        plant(None);
        history(found.unwrap_or_else(|| panic!("nothing notices {bug:?}")));
    }

    #[test]
    fn a_table_that_leaves_before_an_older_one() {
        caught(Bug::YoungerLeavesFirst);
    }

    #[test]
    fn a_bucket_that_forgets_its_older_runs() {
        caught(Bug::BucketForgetsOlderRuns);
    }
}
