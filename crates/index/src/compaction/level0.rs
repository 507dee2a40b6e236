//! Level 0: what leaves it for level 1, and what merges within it before.
//!
//! [`Level0::Whole`] takes whole runs as they come and is emptied once it is full. Small adjacent
//! runs merge among themselves, so that a look-up meets few of them. [`Level0::Partitions`] treats
//! each bucket alone: it leaves when it has twice its share of the size, or too many slices, which
//! merge only where they threaten to become too many. When level 0 is full the largest bucket
//! leaves, so buckets that fill alike come to leave in turn, each twice as large as they are on
//! average: level 1 is rewritten half as often as if all left at once.
//!
//! Why no entry sinks below an older one (invariant 1 of [`super`]):
//!
//! * what goes into level 1 has nothing older beside it in level 0 that stays: a table of level 0
//!   is left out, with all younger tables that have keys in common with it, if it is held or busy;
//!   of what is left, tables that are joined by common keys go together, or the oldest alone;
//! * with them go all tables of level 1 that have keys in common with them. What lies above those
//!   tables only is younger, and stays above;
//! * within level 0 only runs that are adjacent merge, or slices that are adjacent in their bucket,
//!   and the result stands where the youngest stood.
//!
//! Why outputs meet no strangers (invariant 2): tables that are joined leave no gap between them,
//! so a table of level 1 in their range has keys in common with one of them and goes too; those of
//! level 1 that reach further have the keys there to themselves. A flush may join two buckets while
//! a compaction of one is running: the table that joins them is younger than what runs, so it
//! waits.

use std::collections::HashSet;
use std::sync::Arc;

use cleavedb_base::FileNumber;
use cleavedb_base::planted::{Bug, planted};

use super::picker::Picker;
use super::{Compaction, CompactionInput, Level0};
use crate::buckets::{Bucket, Slice};
use crate::table_handle::TableHandle;

/// Tables of level 0 that leave together, and the tables of level 1 that they meet.
#[derive(Default)]
struct Component<'a> {
    upper: Vec<&'a Arc<TableHandle>>,
    lower: Vec<&'a Arc<TableHandle>>,
}

impl Component<'_> {
    /// Bytes that leave level 0.
    fn bytes(&self) -> u64 {
        self.upper.iter().map(|table| table.meta().size).sum()
    }

    /// Bytes that a merge of all may write.
    fn merged_bytes(&self) -> u64 {
        self.bytes() + self.lower.iter().map(|table| table.meta().size).sum::<u64>()
    }

    fn tombstones(&self) -> u64 {
        self.upper.iter().map(|table| table.meta().tombstones).sum()
    }
}

impl Picker<'_> {
    /// How full level 0 is: from 1 on, something should leave it.
    pub(super) fn level0_fullness(&self) -> f64 {
        let whole = self.level0_fullness_as_one();
        match self.options.level0 {
            Level0::Whole | Level0::OneTable => whole,
            Level0::Partitions(_) => {
                let buckets = self.version.buckets().iter();
                buckets.map(|bucket| self.bucket_fullness(bucket)).fold(whole, f64::max)
            }
        }
    }

    /// As [`Picker::level0_fullness`], without regard to buckets.
    fn level0_fullness_as_one(&self) -> f64 {
        let (version, options) = (self.version, self.options);
        // A cut run counts for each of its tables: so many are tolerated in every partition.
        let (count, count_max) = match options.level0 {
            Level0::Whole | Level0::OneTable => (version.runs().len(), options.l0_runs_max),
            Level0::Partitions(partitions) => {
                let tables = version.runs().iter().map(|run| run.set.tables().len());
                (tables.sum(), partitions * options.l0_runs_max)
            }
        };
        let full = version.level_bytes(0) as f64 / options.l0_bytes as f64;
        full.max(count as f64 / count_max as f64)
    }

    fn bucket_fullness(&self, bucket: &Bucket) -> f64 {
        let (bytes, slices) = self.bucket_fullnesses(bucket);
        bytes.max(slices)
    }

    /// By its bytes, and by its slices.
    fn bucket_fullnesses(&self, bucket: &Bucket) -> (f64, f64) {
        let bytes = bucket.bytes() as f64 / self.options.bucket_bytes() as f64;
        (bytes, bucket.slices.len() as f64 / self.options.l0_runs_max as f64)
    }

    /// Merges small runs of level 0, or small slices of a bucket that is not about to leave.
    pub(super) fn merge_level0(&self) -> Option<Compaction> {
        match self.options.level0 {
            Level0::OneTable => None,
            // Runs without common keys gain nothing by a merge: they read as one place already.
            Level0::Whole => {
                let buckets = self.version.buckets().iter();
                buckets.map(|b| &b.slices).find_map(|s| self.merge_slices(s, self.options.l0_bytes))
            }
            Level0::Partitions(_) => {
                let buckets = self.version.buckets().iter();
                // One that fills by bytes will leave before merging has paid.
                let bytes_max = self.options.bucket_bytes() / 2;
                let crowded = buckets.filter(|bucket| {
                    let (bytes, slices) = self.bucket_fullnesses(bucket);
                    bytes < slices && slices < 1.0
                });
                crowded.map(|bucket| &bucket.slices).find_map(|s| self.merge_slices(s, bytes_max))
            }
        }
    }

    /// Merges slices of a level 0 that is full and that nothing may leave, since damaged tables are
    /// in the way, whatever their size: level 0 comes to hold no key much more than once, and the
    /// tables of a long run that are over no damage leave it by themselves.
    pub(super) fn merge_stuck_level0(&self) -> Option<Compaction> {
        let stuck = !self.constraints.damaged.is_empty() && !planted(Bug::DamageFillsLevel0);
        if stuck { self.merge_runs(u64::MAX) } else { None }
    }

    /// Merges runs of level 0, whether or not they are about to leave, to `bytes_max` at most.
    pub(super) fn merge_runs(&self, bytes_max: u64) -> Option<Compaction> {
        let merges = self.options.level0 != Level0::OneTable;
        let mut buckets = self.version.buckets().iter().filter(|_| merges);
        buckets.find_map(|bucket| self.merge_slices(&bucket.slices, bytes_max))
    }

    /// Merges adjacent slices, from the youngest on, as long as the next one is no larger than
    /// those before it together. So a byte is merged a logarithmic number of times before it
    /// leaves.
    fn merge_slices(&self, slices: &[Slice], bytes_max: u64) -> Option<Compaction> {
        let window = (0..slices.len()).find_map(|start| {
            let len = self.window_len(&slices[start..], bytes_max);
            (len >= self.options.l0_merge_runs.max(2)).then(|| &slices[start..start + len])
        })?;
        let inputs = window.iter().map(|slice| CompactionInput {
            level: 0,
            position: Some(slice.position),
            tables: slice.tables.clone(),
        });
        Some(Compaction::new(inputs.collect(), 0, Some(window[0].position), false))
    }

    /// How many of `slices`, from the first on, may merge.
    fn window_len(&self, slices: &[Slice], bytes_max: u64) -> usize {
        let mut bytes = 0;
        let fits = |slice: &&Slice| {
            let held = self.constraints.is_held(slice.position);
            let joins = held == self.constraints.is_held(slices[0].position)
                && !slice.tables.iter().any(|table| self.constraints.is_busy(table))
                && (bytes == 0 || slice.bytes() <= bytes)
                && bytes + slice.bytes() <= bytes_max;
            bytes += slice.bytes();
            joins
        };
        slices.iter().take_while(fits).count()
    }

    /// Moves what can move from level 0 to level 1, or else merges the largest component.
    pub(super) fn level0_down(&self) -> Option<Compaction> {
        let candidates = self.level0_candidates();
        let level1 = self.version.level(1);
        let components = match self.options.level0 {
            Level0::Whole => Self::components(&candidates, level1.tables()),
            Level0::Partitions(_) => self.due_components(&candidates),
            Level0::OneTable => {
                let oldest = candidates.first().map(|table| Component {
                    lower: self.below(1, table).iter().collect(),
                    upper: vec![table],
                });
                oldest.into_iter().collect()
            }
        };
        let (movable, rest): (Vec<_>, Vec<_>) =
            components.into_iter().partition(|part| self.component_moves(part));
        if !movable.is_empty() {
            let upper = movable.iter().flat_map(|part| part.upper.iter().copied()).collect();
            return Some(self.level0_compaction(Component { upper, lower: Vec::new() }, true));
        }
        let largest = rest.into_iter().max_by_key(Component::bytes)?;
        Some(self.level0_compaction(largest, false))
    }

    /// Hands `table` on to level 1, if it may go, with all that is joined to it by common keys.
    pub(super) fn level0_table_down(&self, table: &Arc<TableHandle>) -> Option<Compaction> {
        let candidates = self.level0_candidates();
        let joined = |part: &Component<'_>| part.upper.iter().any(|t| Arc::ptr_eq(t, table));
        let parts = Self::components(&candidates, self.version.level(1).tables());
        let part = parts.into_iter().find(joined)?;
        let moves = self.component_moves(&part);
        Some(self.level0_compaction(part, moves))
    }

    /// The step down with most tombstones that writes no more than `bytes_max`, and may free
    /// something.
    pub(super) fn level0_piece(&self, bytes_max: u64) -> Option<Compaction> {
        let candidates = self.level0_candidates();
        let parts = Self::components(&candidates, self.version.level(1).tables()).into_iter();
        let fits = |part: &Component<'_>| match self.component_moves(part) {
            true => self.hides(0, part.upper[0]),
            false => part.merged_bytes() <= bytes_max,
        };
        let most = parts.filter(fits).max_by_key(Component::tombstones)?;
        let moves = self.component_moves(&most);
        Some(self.level0_compaction(most, moves))
    }

    /// Whether `part` is one table that may go to level 1 as it is.
    fn component_moves(&self, part: &Component<'_>) -> bool {
        part.lower.is_empty() && part.upper.len() == 1 && self.may_move(part.upper[0], 1)
    }

    /// What may leave of the buckets that should; of all, if level 0 as a whole is too full.
    fn due_components<'a>(&'a self, candidates: &[&'a Arc<TableHandle>]) -> Vec<Component<'a>> {
        let buckets = self.version.buckets();
        let due = |part: &Component<'_>| {
            let smallest = &part.upper[0].meta().smallest;
            let at = buckets.partition_point(|bucket| bucket.largest < *smallest);
            buckets.get(at).is_some_and(|bucket| self.bucket_fullness(bucket) >= 1.0)
        };
        let mut parts = Self::components(candidates, &[]);
        if self.level0_fullness_as_one() < 1.0 || parts.iter().any(due) {
            parts.retain(due);
        }
        for part in &mut parts {
            let largest = part.upper.iter().map(|table| &table.meta().largest).max();
            let smallest = &part.upper[0].meta().smallest;
            let below = largest.map(|largest| self.version.level(1).overlapping(smallest, largest));
            part.lower = below.into_iter().flatten().collect();
        }
        parts
    }

    /// The tables of level 0 that may leave it now.
    fn level0_candidates(&self) -> Vec<&Arc<TableHandle>> {
        let mut candidates = Vec::new();
        let mut blocked: Vec<&Arc<TableHandle>> = Vec::new();
        for run in self.version.runs().iter().rev() {
            let held = self.constraints.is_held(run.position);
            // Tables of one run have no common keys: only those of older runs block.
            let older = blocked.len();
            for table in run.set.tables() {
                let meta = table.meta();
                let (smallest, largest) = (&*meta.smallest, &*meta.largest);
                let below = self.version.level(1).overlapping(smallest, largest);
                let stays = held
                    || self.constraints.is_busy(table)
                    || self.constraints.is_written(1, smallest, largest)
                    || below.iter().any(|lower| self.constraints.is_busy(lower))
                    || (!planted(Bug::YoungerLeavesFirst)
                        && blocked[..older].iter().any(|b| b.meta().overlaps(smallest, largest)));
                if stays { blocked.push(table) } else { candidates.push(table) }
            }
        }
        candidates
    }

    /// Joins `candidates` of level 0, and `below` them tables of level 1, by common keys.
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
        // Tables of level 1 have no common keys: beside one of level 0 there are only those that it
        // meets.
        components.retain(|part| !part.upper.is_empty());
        components
    }

    fn level0_compaction(&self, part: Component<'_>, moves: bool) -> Compaction {
        let upper: HashSet<FileNumber> = part.upper.iter().map(|table| table.number()).collect();
        let chosen = |table: &&Arc<TableHandle>| upper.contains(&table.number());
        let runs = self.version.runs().iter().map(|run| CompactionInput {
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
}

#[cfg(test)]
mod tests;
