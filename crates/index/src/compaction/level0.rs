//! Level 0: which tables leave it for level 1, and which merge within it; each way to keep it has
//! its own file.
//!
//! Why no entry sinks below an older one (invariant 1 of [`super`]):
//!
//! * tables that go into level 1 have no older keys of theirs left behind in level 0: a table of
//!   level 0 that is held or busy is left out, with all younger tables that share keys with it; of
//!   the rest, tables that are joined by common keys go together, or the oldest ones;
//! * with them go all tables of level 1 that share keys with them. Other tables of level 0 above
//!   those tables are younger, and stay above;
//! * within level 0 only adjacent runs merge, or adjacent slices of a bucket, and the result takes
//!   the place of the youngest.
//!
//! Why outputs do not overlap untouched tables (invariant 2): with tables that are not joined goes
//! all of level 1 in their range. Joined tables leave no gap between them, so a table of level 1 in
//! their range shares keys with one of them and goes too; in the keys that such a table of level 1
//! reaches beyond them there is no other table of level 1. A flush may join two buckets while a
//! compaction of one is running: the table that joins them is younger than the running inputs, so
//! it waits.

mod split_keys;

mod whole;

mod partitioned;

#[cfg(feature = "experiments")]
mod hyper_leveldb;

use std::collections::HashSet;

use std::sync::Arc;

use cleavedb_base::FileNumber;

use cleavedb_base::planted::{Bug, planted};

use super::picker::Picker;

use super::types::{Compaction, CompactionInput, CompactionOptions, Level0};

use crate::buckets::RunSlice;

use crate::table_handle::TableHandle;

use crate::version::Version;

pub use split_keys::KeySample;

/// The policy for the way in which level 0 is kept.
pub(super) fn policy(level0: Level0) -> &'static dyn Policy {
    match level0 {
        Level0::Whole => &whole::Whole,
        Level0::Partitions(_) => &partitioned::Partitioned,
        #[cfg(feature = "experiments")]
        Level0::HyperLevelDb => &hyper_leveldb::HyperLevelDb,
    }
}

/// Whether reads count the seeks that a table costs them, to have it compacted.
#[cfg(feature = "experiments")]
pub fn compacts_on_seeks(level0: Level0) -> bool {
    policy(level0).compacts_on_seeks()
}

/// Where tables end in a run that is about to enter level 0 of `version`; `sample` returns the keys
/// to come, and is called only if they matter.
pub fn table_ends(
    version: &Version,
    options: &CompactionOptions,
    sample: &mut dyn FnMut() -> KeySample,
) -> TableEnds {
    policy(options.level0).table_ends(version, options, sample)
}

/// Where the tables of a run end.
pub struct TableEnds {
    /// Length at which a table ends, in bytes.
    pub bytes: u64,
    /// Keys before each of which a table ends, in ascending order.
    pub keys: Vec<Box<[u8]>>,
}

/// Which neighbouring tables of a deeper level are compacted together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Neighbours {
    /// Most bytes of several of them with what they overlap in the next level.
    pub(super) bytes_max: u64,
    /// Whether no more are taken than bring the level back to its size.
    pub(super) only_excess: bool,
}

/// A way to keep level 0.
pub(super) trait Policy: Sync {
    /// How full level 0 is: from 1 on, a compaction into level 1 is due.
    fn fullness(&self, picker: &Picker<'_>) -> f64 {
        fullness_by(picker, picker.version.runs().len(), picker.options.l0_runs_max)
    }

    /// A merge within level 0, of tables that will not leave it soon.
    fn merging(&self, picker: &Picker<'_>) -> Option<Compaction>;

    /// The tables among `candidates` that should leave level 0.
    fn leaving<'a>(
        &self,
        picker: &'a Picker<'_>,
        candidates: &[&'a Arc<TableHandle>],
    ) -> Vec<Component<'a>>;

    /// Whether small tables are merged to reduce their number.
    fn packs(&self) -> bool {
        true
    }

    /// Which neighbours of a deeper level are compacted together.
    fn neighbours(&self, options: &CompactionOptions) -> Neighbours {
        Neighbours { bytes_max: options.compaction_bytes_max(), only_excess: true }
    }

    /// See [`compacts_on_seeks`].
    #[cfg(feature = "experiments")]
    fn compacts_on_seeks(&self) -> bool {
        false
    }

    /// See [`table_ends`].
    fn table_ends(
        &self,
        _version: &Version,
        options: &CompactionOptions,
        _sample: &mut dyn FnMut() -> KeySample,
    ) -> TableEnds {
        TableEnds { bytes: options.table_end(), keys: Vec::new() }
    }

    /// Keys at which the outputs of a compaction from level 0 into level 1 are split.
    fn output_split_keys(&self, _version: &Version) -> Vec<Box<[u8]>> {
        Vec::new()
    }
}

/// Tables of level 0 that leave together, and the overlapping tables of level 1.
#[derive(Default)]
pub(super) struct Component<'a> {
    upper: Vec<&'a Arc<TableHandle>>,
    lower: Vec<&'a Arc<TableHandle>>,
}

impl Component<'_> {
    /// Bytes that leave level 0.
    fn bytes(&self) -> u64 {
        self.upper.iter().map(|table| table.meta().size).sum()
    }

    /// Bytes that a merge of all tables may write.
    fn merged_bytes(&self) -> u64 {
        self.bytes() + self.lower.iter().map(|table| table.meta().size).sum::<u64>()
    }

    fn deletes(&self) -> u64 {
        self.upper.iter().map(|table| table.meta().deletes).sum()
    }
}

/// How full level 0 is: from 1 on, a compaction into level 1 is due.
pub(super) fn level0_fullness(picker: &Picker<'_>) -> f64 {
    policy(picker.options.level0).fullness(picker)
}

/// How full level 0 is by its bytes, and by the number of its runs or tables, of which `count_max`
/// are tolerated.
fn fullness_by(picker: &Picker<'_>, count: usize, count_max: usize) -> f64 {
    let full = picker.version.level_bytes(0) as f64 / picker.options.l0_bytes as f64;
    full.max(count as f64 / count_max as f64)
}

/// Merges small runs of level 0, or small slices of a bucket that is not about to leave.
pub(super) fn merge_level0(picker: &Picker<'_>) -> Option<Compaction> {
    policy(picker.options.level0).merging(picker)
}

/// Merges slices of any size in a full level 0 that damaged tables block. Merged, level 0 holds
/// hardly any key twice, so the tables of a long run that do not overlap damaged ones can be
/// compacted one by one.
pub(super) fn merge_stuck_level0(picker: &Picker<'_>) -> Option<Compaction> {
    let stuck = !picker.constraints.damaged.is_empty() && !planted(Bug::DamageFillsLevel0);
    if stuck { merge_runs(picker, u64::MAX) } else { None }
}

/// Merges runs of level 0, whether or not they are about to leave, of at most `bytes_max`.
pub(super) fn merge_runs(picker: &Picker<'_>, bytes_max: u64) -> Option<Compaction> {
    let merges = policy(picker.options.level0).packs();
    let mut buckets = picker.version.buckets().iter().filter(|_| merges);
    buckets.find_map(|bucket| merge_slices(picker, &bucket.slices, bytes_max))
}

/// Merges adjacent slices, from the youngest on, as long as the next one is no larger than the ones
/// before it together. So a byte is merged a logarithmic number of times before it leaves.
fn merge_slices(picker: &Picker<'_>, slices: &[RunSlice], bytes_max: u64) -> Option<Compaction> {
    let window = (0..slices.len()).find_map(|start| {
        let len = window_len(picker, &slices[start..], bytes_max);
        (len >= picker.options.l0_merge_runs.max(2)).then(|| &slices[start..start + len])
    })?;
    let inputs = window.iter().map(|slice| CompactionInput {
        level: 0,
        position: Some(slice.position),
        tables: slice.tables.clone(),
    });
    Some(Compaction::new(inputs.collect(), 0, Some(window[0].position), false))
}

/// The number of `slices`, from the first on, that may merge.
fn window_len(picker: &Picker<'_>, slices: &[RunSlice], bytes_max: u64) -> usize {
    let mut bytes = 0;
    let fits = |slice: &&RunSlice| {
        let held = picker.constraints.is_pinned(slice.position);
        let joins = held == picker.constraints.is_pinned(slices[0].position)
            && !slice.tables.iter().any(|table| picker.constraints.is_busy(table))
            && (bytes == 0 || slice.bytes() <= bytes)
            && bytes + slice.bytes() <= bytes_max;
        bytes += slice.bytes();
        joins
    };
    slices.iter().take_while(fits).count()
}

/// Moves a component of level 0 to level 1 unchanged if one can, or else merges the largest one.
pub(super) fn level0_down(picker: &Picker<'_>) -> Option<Compaction> {
    let candidates = level0_candidates(picker);
    let components = policy(picker.options.level0).leaving(picker, &candidates);
    let (movable, rest): (Vec<_>, Vec<_>) =
        components.into_iter().partition(|part| component_moves(picker, part));
    if !movable.is_empty() {
        let upper = movable.iter().flat_map(|part| part.upper.iter().copied()).collect();
        return Some(level0_compaction(picker, Component { upper, lower: Vec::new() }, true));
    }
    let largest = rest.into_iter().max_by_key(Component::bytes)?;
    Some(level0_compaction(picker, largest, false))
}

/// Compacts `table` into level 1, if allowed, with all tables joined to it by common keys.
pub(super) fn level0_table_down(
    picker: &Picker<'_>,
    table: &Arc<TableHandle>,
) -> Option<Compaction> {
    let candidates = level0_candidates(picker);
    let joined = |part: &Component<'_>| part.upper.iter().any(|t| Arc::ptr_eq(t, table));
    let parts = components(&candidates, picker.version.level(1).tables());
    let part = parts.into_iter().find(joined)?;
    let moves = component_moves(picker, &part);
    Some(level0_compaction(picker, part, moves))
}

/// The compaction into level 1 with most tombstones that writes no more than `bytes_max`, and may
/// free space.
pub(super) fn level0_piece(picker: &Picker<'_>, bytes_max: u64) -> Option<Compaction> {
    let candidates = level0_candidates(picker);
    let parts = components(&candidates, picker.version.level(1).tables()).into_iter();
    let fits = |part: &Component<'_>| match component_moves(picker, part) {
        true => picker.hides(0, part.upper[0]),
        false => part.merged_bytes() <= bytes_max,
    };
    let most = parts.filter(fits).max_by_key(Component::deletes)?;
    let moves = component_moves(picker, &most);
    Some(level0_compaction(picker, most, moves))
}

/// Whether `part` is one table that may move to level 1 unchanged.
fn component_moves(picker: &Picker<'_>, part: &Component<'_>) -> bool {
    part.lower.is_empty() && part.upper.len() == 1 && picker.may_move(part.upper[0], 1)
}

/// The tables of level 0 that may leave it now.
fn level0_candidates<'p>(picker: &'p Picker<'_>) -> Vec<&'p Arc<TableHandle>> {
    let mut candidates = Vec::new();
    let mut blocked: Vec<&Arc<TableHandle>> = Vec::new();
    for run in picker.version.runs().iter().rev() {
        let held = picker.constraints.is_pinned(run.position);
        // Tables of one run share no keys: only those of older runs block.
        let older = blocked.len();
        for table in run.set.tables() {
            let meta = table.meta();
            let (smallest, largest) = (&*meta.smallest, &*meta.largest);
            let below = picker.version.level(1).overlapping(smallest, largest);
            let stays = held
                || picker.constraints.is_busy(table)
                || picker.constraints.is_written(1, smallest, largest)
                || below.iter().any(|lower| picker.constraints.is_busy(lower))
                || (!planted(Bug::YoungerLeavesFirst)
                    && blocked[..older].iter().any(|b| b.meta().overlaps(smallest, largest)));
            if stays { blocked.push(table) } else { candidates.push(table) }
        }
    }
    candidates
}

/// Groups `candidates` of level 0, and `below` them tables of level 1, by common keys.
fn components<'a>(
    candidates: &[&'a Arc<TableHandle>],
    below: &'a [Arc<TableHandle>],
) -> Vec<Component<'a>> {
    let lower = below.iter().map(|table| (table, false));
    let mut members: Vec<(&Arc<TableHandle>, bool)> =
        candidates.iter().map(|table| (*table, true)).chain(lower).collect();
    members.sort_by(|(a, _), (b, _)| a.meta().smallest.cmp(&b.meta().smallest));
    let mut components: Vec<Component<'a>> = Vec::new();
    let mut end: Option<&[u8]> = None;
    for (table, upper) in members {
        let meta = table.meta();
        if end.is_none_or(|end| end < &*meta.smallest) {
            components.push(Component::default());
        }
        end = end.max(Some(&*meta.largest));
        let part = components.last_mut().expect("one was pushed for the first member");
        if upper { part.upper.push(table) } else { part.lower.push(table) }
    }
    // Tables of level 1 share no keys, so a component without a table of level 0 is a single table
    // that none of them overlaps: it is dropped.
    components.retain(|part| !part.upper.is_empty());
    components
}

fn level0_compaction(picker: &Picker<'_>, part: Component<'_>, moves: bool) -> Compaction {
    let upper: HashSet<FileNumber> = part.upper.iter().map(|table| table.number()).collect();
    let chosen = |table: &&Arc<TableHandle>| upper.contains(&table.number());
    let runs = picker.version.runs().iter().map(|run| CompactionInput {
        level: 0,
        position: Some(run.position),
        tables: run.set.tables().iter().filter(chosen).cloned().collect(),
    });
    let mut inputs: Vec<_> = runs.filter(|input| !input.tables.is_empty()).collect();
    if !part.lower.is_empty() {
        let tables = part.lower.into_iter().cloned().collect();
        inputs.push(CompactionInput { level: 1, position: None, tables });
    }
    Compaction::new(inputs, 1, None, moves)
}

#[cfg(test)]
mod tests;
