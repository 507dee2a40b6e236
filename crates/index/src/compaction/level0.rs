//! Level 0: what leaves it for the base level, and what merges within it before.
//!
//! [`Level0::Whole`] takes whole runs as they come and is emptied once it is full. Small adjacent
//! runs merge among themselves, so that a look-up meets few of them. [`Level0::Partitions`] treats
//! each bucket alone: it leaves when it has twice its share of the size, or too many slices, which
//! merge only where they threaten to become too many. When level 0 is full the largest bucket
//! leaves, so buckets that fill alike come to leave in turn, each twice as large as they are on
//! average: the base level is rewritten half as often as if all left at once.
//!
//! The base level is the first that may be as large as level 0
//! ([`super::CompactionOptions::base_level`]): level 1, unless somebody made that small. Levels above it are passed.
//!
//! Why no entry sinks below an older one (invariant 1 of [`super`]):
//!
//! * what goes down has nothing older beside it in level 0 that stays: a table of level 0 is left
//!   out, with all younger tables that have keys in common with it, if it is held or busy; of what
//!   is left, tables that are joined by common keys go together, or the oldest alone;
//! * with them go all tables of levels down to the base level that have keys in common with them, or
//!   with what they take along from above ([`Picker::descent`]). What lies above those tables only
//!   is younger, and stays above;
//! * within level 0 only runs that are adjacent merge, or slices that are adjacent in their bucket,
//!   and the result stands where the youngest stood.
//!
//! Why outputs meet no strangers (invariant 2): tables that are joined leave no gap between them,
//! so a table of the next level in their range has keys in common with one of them and goes too, and
//! leaves no gap either; those that reach further have the keys there to themselves. A flush may join two buckets while
//! a compaction of one is running: the table that joins them is younger than what runs, so it
//! waits.

use std::sync::Arc;

use cleavedb_base::planted::{Bug, planted};

use super::picker::{Descent, Picker};
use super::{Compaction, CompactionInput, Level0};
use crate::buckets::{Bucket, Slice};
use crate::table_handle::TableHandle;

/// Tables of level 0 that leave together, and the keys between which they and what they meet lie.
struct Component<'a> {
    upper: Vec<&'a Arc<TableHandle>>,
    hull: (&'a [u8], &'a [u8]),
}

impl Component<'_> {
    /// Bytes that leave level 0.
    fn bytes(&self) -> u64 {
        self.upper.iter().map(|table| table.meta().size).sum()
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
            Level0::Whole => {
                let slice = |run: &Arc<crate::version::Run>| Slice {
                    position: run.position,
                    tables: run.set.tables().to_vec(),
                };
                let slices: Vec<Slice> = self.version.runs().iter().map(slice).collect();
                self.merge_slices(&slices, self.options.l0_bytes)
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

    /// Moves what can move from level 0 to the base level, or else merges the largest component.
    pub(super) fn level0_down(&self) -> Option<Compaction> {
        let candidates = self.level0_candidates();
        let components = match self.options.level0 {
            Level0::Whole => self.components(&candidates, self.options.base_level()),
            Level0::Partitions(_) => self.due_components(&candidates),
            Level0::OneTable => self.components(candidates.get(..1).unwrap_or_default(), 1),
        };
        let descents = components.into_iter().filter_map(|part| {
            let descent = self.descent(1..=self.options.base_level(), part.hull)?;
            Some((part, descent))
        });
        let (movable, rest): (Vec<_>, Vec<_>) = descents.partition(|(part, descent)| {
            descent.bytes() == 0
                && part.upper.len() == 1
                && self.may_move(part.upper[0], descent.level())
        });
        if let Some((_, descent)) = movable.first() {
            let upper: Vec<_> = movable.iter().flat_map(|(part, _)| &part.upper).copied().collect();
            return Some(self.level0_compaction(&upper, descent, true));
        }
        let (part, descent) = rest.into_iter().max_by_key(|(part, _)| part.bytes())?;
        Some(self.level0_compaction(&part.upper, &descent, false))
    }

    /// What may leave of the buckets that should; of all, if level 0 as a whole is too full.
    fn due_components<'a>(&'a self, candidates: &[&'a Arc<TableHandle>]) -> Vec<Component<'a>> {
        let buckets = self.version.buckets();
        let due = |part: &Component<'_>| {
            let at = buckets.partition_point(|bucket| &*bucket.largest < part.hull.0);
            buckets.get(at).is_some_and(|bucket| self.bucket_fullness(bucket) >= 1.0)
        };
        let mut parts = self.components(candidates, 0);
        if self.level0_fullness_as_one() < 1.0 || parts.iter().any(due) {
            parts.retain(due);
        }
        parts
    }

    /// The tables of level 0 that may leave it now.
    fn level0_candidates(&self) -> Vec<&Arc<TableHandle>> {
        let base = self.options.base_level();
        let mut candidates = Vec::new();
        let mut blocked: Vec<&Arc<TableHandle>> = Vec::new();
        for run in self.version.runs().iter().rev() {
            let held = self.constraints.is_held(run.position);
            // Tables of one run have no common keys: only those of older runs block.
            let older = blocked.len();
            for table in run.set.tables() {
                let meta = table.meta();
                let (smallest, largest) = (&*meta.smallest, &*meta.largest);
                let stays = held
                    || self.constraints.is_busy(table)
                    || self.descent(1..=base, (smallest, largest)).is_none()
                    || (!planted(Bug::YoungerLeavesFirst)
                        && blocked[..older].iter().any(|b| b.meta().overlaps(smallest, largest)));
                if stays { blocked.push(table) } else { candidates.push(table) }
            }
        }
        candidates
    }

    /// Groups `candidates` of level 0 that are joined by common keys, with each other or with tables
    /// of levels 1 to `depth` that they meet.
    fn components<'a>(
        &'a self,
        candidates: &[&'a Arc<TableHandle>],
        depth: u8,
    ) -> Vec<Component<'a>> {
        let range = |table: &'a Arc<TableHandle>| -> (&'a [u8], &'a [u8]) {
            (&table.meta().smallest, &table.meta().largest)
        };
        let mut hulls = joined(candidates.iter().map(|table| range(table)).collect());
        for level in 1..=depth {
            let level = self.version.level(level);
            let met = hulls.iter().flat_map(|hull| level.overlapping(hull.0, hull.1)).map(range);
            let met: Vec<_> = met.collect();
            hulls.extend(met);
            hulls = joined(hulls);
        }
        let mut parts: Vec<_> =
            hulls.into_iter().map(|hull| Component { upper: Vec::new(), hull }).collect();
        for table in candidates {
            let at = parts.partition_point(|part| part.hull.1 < range(table).0);
            parts[at].upper.push(table);
        }
        parts
    }

    fn level0_compaction(
        &self,
        upper: &[&Arc<TableHandle>],
        descent: &Descent<'_>,
        moves: bool,
    ) -> Compaction {
        let chosen = |table: &&Arc<TableHandle>| upper.iter().any(|t| Arc::ptr_eq(t, table));
        let runs = self.version.runs().iter().map(|run| CompactionInput {
            level: 0,
            position: Some(run.position),
            tables: run.set.tables().iter().filter(chosen).cloned().collect(),
        });
        let runs = runs.filter(|input| !input.tables.is_empty());
        Compaction::new(runs.chain(descent.inputs()).collect(), descent.level(), None, moves)
    }
}

/// Joins ranges of keys that have a key in common; what is left stands in order, apart.
fn joined<'a>(mut ranges: Vec<(&'a [u8], &'a [u8])>) -> Vec<(&'a [u8], &'a [u8])> {
    ranges.sort_unstable();
    ranges.dedup_by(|next, range| {
        let joins = next.0 <= range.1;
        range.1 = if joins { range.1.max(next.1) } else { range.1 };
        joins
    });
    ranges
}

#[cfg(test)]
mod tests;
