//! Version: an immutable state of the index, level 0 and six levels of tables.
//!
//! Level 0 is a list of runs, youngest first, ordered by explicit position, never by sequence
//! numbers. Deeper levels are one [`TableSet`] each. An edit makes a new version, which shares
//! everything unchanged with the old one; a reader keeps the version that it began with.
//!
//! Invariant: every version of a key in a younger place is newer than, or the same
//! as, every version in an older place. So the first hit at or below a snapshot, from the youngest
//! place to the oldest, is the newest visible version.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use cleavedb_base::planted::{Bug, planted};
use cleavedb_base::{Error, FileNumber, Result, SeqNo};
use cleavedb_storage::Reach;

use crate::buckets::{Bucket, layers};
use crate::edit::{AddedTable, LEVEL_MAX, RunPosition, VersionEdit};
use crate::entry::{EntryIter, IndexHit};
use crate::range_tombstones::Fragments;
use crate::table::{IndexSize, ReadMode};
use crate::table_format::TableMeta;
use crate::table_handle::{TableHandle, TableStore};
use crate::table_set::TableSet;

/// Most parts of a range between deleted ones that are looked at one by one for its size.
const GAPS_MAX: usize = 8;

/// Levels below level 0.
const DEEP_LEVELS: usize = LEVEL_MAX as usize;

/// One sorted run of level 0.
pub struct Run {
    /// The position of the run in level 0.
    pub position: RunPosition,
    /// The tables of the run.
    pub set: TableSet,
}

/// What an index holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Contents {
    /// Mean length of an entry, key and value together, in bytes; `None` without entries.
    pub entry_bytes: Option<u64>,
    /// Bytes of all tables.
    pub bytes: u64,
}

/// An immutable state of the index.
#[derive(Clone)]
pub struct Version {
    store: Arc<TableStore>,
    /// Level 0, youngest first.
    runs: Vec<Arc<Run>>,
    /// Level 0 by keys, ascending.
    buckets: Arc<[Bucket]>,
    /// Level 0 as few places as possible, youngest first.
    layers: Arc<[TableSet]>,
    /// Levels 1 through [`LEVEL_MAX`].
    levels: [Arc<TableSet>; DEEP_LEVELS],
    /// Whether any table has values that expire.
    expires: bool,
    contents: Contents,
}

impl Version {
    /// The version without tables.
    pub fn empty(store: Arc<TableStore>) -> Self {
        let (buckets, layers) = (Arc::default(), Arc::default());
        Self {
            store,
            runs: Vec::new(),
            buckets,
            layers,
            levels: Default::default(),
            expires: false,
            contents: Contents::default(),
        }
    }

    /// Level 0, youngest run first.
    pub fn runs(&self) -> &[Arc<Run>] {
        &self.runs
    }

    /// Level 0 by keys, ascending.
    pub fn buckets(&self) -> &[Bucket] {
        &self.buckets
    }

    /// The position above all runs of `epoch`, below those of later epochs: for a flush of a new
    /// epoch, or for the write-back of a collection that fixed its inputs at `epoch`. Orders may
    /// repeat once a run has left, so it must be computed when the run is installed.
    pub fn next_position(&self, epoch: u64) -> RunPosition {
        let same = self.runs.iter().map(|run| run.position).find(|p| p.epoch == epoch);
        RunPosition { epoch, order: same.map_or(0, |position| position.order + 1) }
    }

    /// Level `level`, 1 through [`LEVEL_MAX`].
    pub fn level(&self, level: u8) -> &TableSet {
        &self.levels[usize::from(level) - 1]
    }

    /// Size of level `level`, 0 through [`LEVEL_MAX`], in bytes.
    pub fn level_bytes(&self, level: u8) -> u64 {
        match level {
            0 => self.runs.iter().map(|run| run.set.bytes()).sum(),
            _ => self.level(level).bytes(),
        }
    }

    /// Size of the largest level below level 0, in bytes: about that of the index without what
    /// newer entries replace. It lags behind while a store grows, and never leads.
    pub fn largest_level_bytes(&self) -> u64 {
        self.levels.iter().map(|set| set.bytes()).max().unwrap_or_default()
    }

    /// What its tables hold.
    pub fn contents(&self) -> Contents {
        self.contents
    }

    /// All tables with their levels, youngest place first.
    pub fn tables(&self) -> impl Iterator<Item = (u8, &Arc<TableHandle>)> {
        let runs = self.runs.iter().flat_map(|run| run.set.tables()).map(|table| (0, table));
        let levels = self.levels.iter().zip(1..);
        runs.chain(
            levels.flat_map(|(set, level)| set.tables().iter().map(move |table| (level, table))),
        )
    }

    /// The sets of tables from the youngest to the oldest, without runs of later epochs than
    /// `epoch`.
    pub(crate) fn sorted_runs(&self, epoch: u64) -> impl Iterator<Item = &TableSet> {
        let all = self.runs.first().is_none_or(|run| run.position.epoch <= epoch);
        let (layers, runs) = if all { (&*self.layers, &[][..]) } else { (&[][..], &*self.runs) };
        let runs = runs.iter().filter(move |run| run.position.epoch <= epoch);
        let level0 = layers.iter().chain(runs.map(|run| &run.set));
        level0.chain(self.levels.iter().map(|set| &**set))
    }

    /// The newest entry of `key` at or below `snapshot`, a tombstone included; `hash` is
    /// `hash64(key, 0)`.
    #[inline]
    pub fn get(&self, key: &[u8], hash: u64, snapshot: SeqNo) -> Result<Option<IndexHit>> {
        self.get_up_to(u64::MAX, key, hash, snapshot)
    }

    /// As [`Version::get`], from within `reach`; fails with `ErrorKind::WouldWait` where that does
    /// not do.
    #[inline]
    pub fn get_within(
        &self,
        reach: Reach,
        key: &[u8],
        hash: u64,
        snapshot: SeqNo,
    ) -> Result<Option<IndexHit>> {
        self.search(reach, self.sorted_runs(u64::MAX), key, hash, snapshot, |_| {})
    }

    /// Whether a table may hold `key`, according to the filters.
    pub fn may_contain(&self, key: &[u8], hash: u64) -> Result<bool> {
        for place in self.sorted_runs(u64::MAX) {
            if let Some(handle) = place.find(key)
                && handle.table()?.may_contain(hash)
            {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Whether a table that may hold `key` has values that expire.
    #[inline]
    pub fn may_expire(&self, key: &[u8]) -> bool {
        let expires = |table: &Arc<TableHandle>| table.meta().expires();
        self.expires && self.sorted_runs(u64::MAX).any(|place| place.find(key).is_some_and(expires))
    }

    /// Prefetches the block from which [`Version::get`] will most likely answer, so that several
    /// keys are fetched in parallel. Waits only for tables that are not open yet.
    pub fn expect(&self, key: &[u8], hash: u64, snapshot: SeqNo) {
        let tables = self.sorted_runs(u64::MAX).filter_map(|place| place.find(key)?.table().ok());
        let mut holding = tables.filter(|table| table.may_contain(hash));
        holding.next().into_iter().for_each(|table| table.expect(key, snapshot));
    }

    /// As [`Version::get`], without runs of later epochs than `epoch`.
    #[inline]
    pub fn get_up_to(
        &self,
        epoch: u64,
        key: &[u8],
        hash: u64,
        snapshot: SeqNo,
    ) -> Result<Option<IndexHit>> {
        self.search(Reach::Device, self.sorted_runs(epoch), key, hash, snapshot, |_| {})
    }

    /// As [`Version::get`]. If more than one table is looked at, a seek is charged to the first of
    /// them; also returns whether it was the last that this table may cost. As in LevelDB a table
    /// is looked at if its key range contains `key`, whatever its filter says.
    #[cfg(feature = "experiments")]
    pub fn get_charging(
        &self,
        key: &[u8],
        hash: u64,
        snapshot: SeqNo,
    ) -> Result<(Option<IndexHit>, bool)> {
        let (mut first, mut others) = (None, false);
        let looks = |table| match first {
            None => first = Some(table),
            Some(_) => others = true,
        };
        let places = self.sorted_runs(u64::MAX);
        let found = self.search(Reach::Device, places, key, hash, snapshot, looks)?;
        let charged = first.filter(|_| others);
        Ok((found, charged.is_some_and(|table: &TableHandle| table.seeks().charge())))
    }

    /// The first hit in `places`; `looks` is called with each table before it is read.
    #[inline]
    fn search<'a>(
        &self,
        reach: Reach,
        places: impl Iterator<Item = &'a TableSet>,
        key: &[u8],
        hash: u64,
        snapshot: SeqNo,
        mut looks: impl FnMut(&'a TableHandle),
    ) -> Result<Option<IndexHit>> {
        for place in places {
            if let Some(handle) = place.find(key) {
                looks(handle);
                let table = handle.table_within(reach)?;
                let found = table.get_within(reach, key, hash, snapshot)?;
                if found.is_some() {
                    return Ok(found);
                }
            }
        }
        Ok(None)
    }

    /// All entries of `key` at or below `snapshot`, newest first, without runs of later epochs than
    /// `epoch`. If two places hold the same operation, the younger one's entry is returned.
    pub fn versions_of(
        &self,
        epoch: u64,
        key: &[u8],
        hash: u64,
        snapshot: SeqNo,
    ) -> Result<Vec<IndexHit>> {
        let (mut all, mut place_versions) = (Vec::new(), Vec::new());
        for place in self.sorted_runs(epoch) {
            if let Some(handle) = place.find(key) {
                handle.table()?.versions(key, hash, snapshot, &mut place_versions)?;
                let oldest = all.last().map(|found: &IndexHit| found.seq);
                all.extend(
                    place_versions.drain(..).filter(|v| oldest.is_none_or(|seq| v.seq < seq)),
                );
            }
        }
        Ok(all)
    }

    /// About what tables hold of the keys from `lower` to `upper`, excluded, without what
    /// `tombstones` cover. Reads two blocks at most of each table at an end of the range, or of a
    /// part of it that is covered.
    pub fn size_within(
        &self,
        lower: &[u8],
        upper: &[u8],
        deleted: &Fragments,
    ) -> Result<IndexSize> {
        let mut sum = IndexSize::default();
        for place in self.sorted_runs(u64::MAX) {
            for table in place.within(Some(lower), Some(upper)) {
                let meta = table.meta();
                for (from, to) in deleted.gaps(lower, upper, meta.max_seq, GAPS_MAX) {
                    sum += match from <= &*meta.smallest && *meta.largest < *to {
                        true => IndexSize::of(meta),
                        false if to <= &*meta.smallest || *meta.largest < *from => continue,
                        false => table.table()?.size_within(from, to)?,
                    };
                }
            }
        }
        Ok(sum)
    }

    /// Iterators over the tables that may hold keys from `lower` (inclusive) to `upper`
    /// (exclusive), youngest place first. They may yield keys outside the bounds.
    pub fn iters(
        &self,
        lower: Option<&[u8]>,
        upper: Option<&[u8]>,
        mode: ReadMode,
    ) -> Vec<Box<dyn EntryIter>> {
        self.iters_up_to(u64::MAX, lower, upper, mode)
    }

    /// As [`Version::iters`], without runs of later epochs than `epoch`.
    pub fn iters_up_to(
        &self,
        epoch: u64,
        lower: Option<&[u8]>,
        upper: Option<&[u8]>,
        mode: ReadMode,
    ) -> Vec<Box<dyn EntryIter>> {
        let parts =
            self.sorted_runs(epoch).filter_map(|place| place.iter_within(lower, upper, mode));
        parts.map(|iter| Box::new(iter) as _).collect()
    }

    /// The version after `edit`. Fails if the edit removes a table that is not there, adds one that
    /// is already there, or puts tables with common keys into one level or run.
    pub fn apply(&self, edit: &VersionEdit) -> Result<Self> {
        let mut removed: HashMap<FileNumber, Option<Arc<TableHandle>>> =
            edit.removed.iter().map(|&number| (number, None)).collect();
        let mut present = HashSet::new();
        for (_, table) in self.tables() {
            match removed.get_mut(&table.number()) {
                Some(slot) => *slot = Some(Arc::clone(table)),
                None => {
                    present.insert(table.number());
                }
            }
        }
        if let Some((number, _)) = removed.iter().find(|(_, table)| table.is_none()) {
            let error = Error::corruption("version edit removes a table that is not there");
            return Err(error.with("table", number));
        }
        let mut added: BTreeMap<(u8, Option<RunPosition>), Vec<Arc<TableHandle>>> = BTreeMap::new();
        for AddedTable { level, position, meta } in &edit.added {
            if *level > LEVEL_MAX || position.is_some() != (*level == 0) {
                let error = Error::corruption("version edit adds a table without a place");
                return Err(error.with("table", meta.number).with("level", level));
            }
            if !present.insert(meta.number) {
                let error = Error::corruption("version edit adds a table that is there already");
                return Err(error.with("table", meta.number));
            }
            // A table that moves keeps its handle, and with it its open file and pinned memory.
            let moved = removed.get(&meta.number).cloned().flatten();
            let moved = moved.filter(|handle| handle.meta() == meta);
            let moved = moved.inspect(|handle| handle.enter_place());
            let handle = moved.unwrap_or_else(|| {
                Arc::new(TableHandle::new(meta.clone(), Arc::clone(&self.store)))
            });
            added.entry((*level, *position)).or_default().push(handle);
        }
        let gone: HashSet<FileNumber> = edit.removed.iter().copied().collect();
        self.rebuilt(&gone, added)
    }

    /// The version without the tables `gone` and with the tables `added`.
    fn rebuilt(
        &self,
        gone: &HashSet<FileNumber>,
        mut added: BTreeMap<(u8, Option<RunPosition>), Vec<Arc<TableHandle>>>,
    ) -> Result<Self> {
        let mut change = |set: &TableSet, level, position| -> Result<Option<TableSet>> {
            let new = added.remove(&(level, position)).unwrap_or_default();
            let stays = |table: &&Arc<TableHandle>| !gone.contains(&table.number());
            if new.is_empty() && set.tables().iter().all(|table| stays(&table)) {
                return Ok(None);
            }
            let kept = set.tables().iter().filter(stays).cloned();
            TableSet::new(kept.chain(new).collect()).map(Some)
        };
        let mut version = Self::empty(Arc::clone(&self.store));
        for run in &self.runs {
            let position = run.position;
            match change(&run.set, 0, Some(position))? {
                None => version.runs.push(Arc::clone(run)),
                Some(set) if set.is_empty() => {}
                Some(set) => version.runs.push(Arc::new(Run { position, set })),
            }
        }
        for (i, set) in self.levels.iter().enumerate() {
            version.levels[i] = match change(set, i as u8 + 1, None)? {
                None => Arc::clone(set),
                Some(set) => Arc::new(set),
            };
        }
        for ((_, position), tables) in added {
            let position = position.expect("every other level was visited");
            version.runs.push(Arc::new(Run { position, set: TableSet::new(tables)? }));
        }
        version.runs.sort_by_key(|run| std::cmp::Reverse(run.position));
        if planted(Bug::Level0BySeq) {
            let newest = |run: &Run| run.set.tables().iter().map(|t| t.meta().max_seq).max();
            version.runs.sort_by_key(|run| std::cmp::Reverse(newest(run)));
        }
        let runs = version.runs.iter().enumerate();
        let tables = runs.flat_map(|(number, run)| {
            run.set.tables().iter().map(move |table| (number, run.position, table))
        });
        version.buckets = Bucket::of(tables).into();
        version.layers = layers(&version.buckets)?.into();
        let expires = version.tables().any(|(_, table)| table.meta().expires());
        version.expires = expires;
        let sum = |of: fn(&TableMeta) -> u64| -> u64 {
            version.tables().map(|(_, table)| of(table.meta())).sum()
        };
        let (raw, entries) = (sum(|meta| meta.raw_bytes), sum(|meta| meta.entries));
        let bytes = sum(|meta| meta.size);
        version.contents = Contents { entry_bytes: u64::checked_div(raw, entries), bytes };
        Ok(version)
    }

    /// Retires the tables that `edit` removes from this version, once the edit is durable. Tables
    /// that it only moves are kept.
    pub fn retire(&self, edit: &VersionEdit) {
        let mut gone: HashSet<FileNumber> = edit.removed.iter().copied().collect();
        for added in &edit.added {
            gone.remove(&added.meta.number);
        }
        for (_, table) in self.tables().filter(|(_, table)| gone.contains(&table.number())) {
            table.retire();
        }
    }

    /// Opens the tables that `edit` added before their first read, as far as there is room
    /// ([`TableHandle::open_ahead`]).
    pub fn open_ahead(&self, edit: &VersionEdit) {
        let added: HashSet<FileNumber> = edit.added.iter().map(|table| table.meta.number).collect();
        for (_, table) in self.tables().filter(|(_, table)| added.contains(&table.number())) {
            table.open_ahead();
        }
    }

    /// The whole version as one edit on the empty version.
    pub fn export(&self) -> VersionEdit {
        let mut edit = VersionEdit::default();
        for run in &self.runs {
            edit.add_run(run.position, run.set.tables().iter().map(|table| table.meta().clone()));
        }
        for (level, table) in self.tables().filter(|(level, _)| *level > 0) {
            edit.added.push(AddedTable { level, position: None, meta: table.meta().clone() });
        }
        edit
    }
}

#[cfg(test)]
mod tests;
