//! Leveled compaction: which tables to merge next, decided from the picture alone.
//!
//! Level 0 takes whole runs as they come. It is emptied into level 1 when it grows past its size
//! (or, at the latest, past a number of runs); before that, small adjacent runs merge among
//! themselves, so that a look-up meets few of them. Each deeper level has a size, ten times that of
//! the level above; a level that outgrew it hands on the table that costs least: the one with the
//! fewest overlapping bytes below, per byte of its own. When nothing is urgent, tables of mostly
//! tombstones go down to what they hide.
//!
//! Why no entry sinks below an older one (invariant 1 of [`super`]):
//!
//! * into level 1 goes a *component*: tables of level 0 and level 1 that are joined by common keys.
//!   A table of level 0 is left out, with all younger tables that have keys in common with it, if
//!   it is held or busy, so what goes has nothing older beside it in level 0 that stays;
//! * within level 0 only adjacent runs merge, and the result stands where the youngest stood;
//! * from a deeper level goes one table with all tables below that have keys in common with it.
//!
//! Why outputs meet no strangers (invariant 2): the key range of a component has no gaps; a table
//! of level 1 in that range has keys in common with one of its members and is a member itself. What
//! other compactions are about to write there is no table yet: no member reaches into it.

use std::sync::Arc;

use super::{Compaction, CompactionInput, CompactionOptions, Constraints, key_range};
use crate::edit::LEVEL_MAX;
use crate::table_handle::TableHandle;
use crate::table_set::TableSet;
use crate::version::{Run, Version};

/// What most needs to be compacted, if anything does and may.
pub fn pick(
    version: &Version,
    options: &CompactionOptions,
    constraints: &Constraints,
) -> Option<Compaction> {
    let picker = Picker { version, options, constraints };
    let l0_full = version.level_bytes(0) as f64 / options.l0_bytes as f64;
    let l0_crowded = version.runs().len() as f64 / options.l0_runs_max as f64;
    // Merging runs that are about to leave would write their bytes once more for nothing.
    if l0_full < 1.0
        && let Some(compaction) = picker.merge_runs()
    {
        return Some(compaction);
    }
    let mut scores = vec![(l0_full.max(l0_crowded), 0)];
    scores.extend((1..LEVEL_MAX).map(|level| {
        let bytes = version.level_bytes(level) as f64;
        (bytes / options.level_bytes(level) as f64, level)
    }));
    scores.retain(|(score, _)| *score >= 1.0);
    scores.sort_by(|a, b| b.0.total_cmp(&a.0));
    let urgent = scores.into_iter().find_map(|(_, level)| match level {
        0 => picker.level0_down(),
        _ => picker.level_down(level),
    });
    urgent.or_else(|| picker.merge_runs()).or_else(|| picker.tombstones_down())
}

/// Everything from `lower` (inclusive) to `upper` (exclusive), merged into the deepest level that
/// has data. None if nothing is to be gained, or if an input is busy: try again when nothing runs.
pub fn pick_full(
    version: &Version,
    constraints: &Constraints,
    lower: Option<&[u8]>,
    upper: Option<&[u8]>,
) -> Option<Compaction> {
    let bottom = (1..=LEVEL_MAX).rev().find(|&level| !version.level(level).is_empty());
    let bottom = bottom.unwrap_or(1);
    let runs = || version.runs().iter().filter(|run| !constraints.is_held(run.position));
    let sets = || runs().map(|run| &run.set).chain((1..=bottom).map(|level| version.level(level)));
    let first = sets().flat_map(|set| set.within(lower, upper));
    let mut range = key_range(first.map(|table| table.meta()))?;
    // Tables at the edges reach further, and so may others that overlap them.
    loop {
        let touched = sets().flat_map(|set| set.overlapping(range.0, range.1));
        let wider = key_range(touched.map(|table| table.meta()))?;
        if wider == range {
            break;
        }
        range = wider;
    }
    let mut inputs = Vec::new();
    let mut add = |level, position, set: &TableSet| {
        let tables = set.overlapping(range.0, range.1).to_vec();
        if !tables.is_empty() {
            inputs.push(CompactionInput { level, position, tables });
        }
    };
    for run in runs() {
        add(0, Some(run.position), &run.set);
    }
    for level in 1..=bottom {
        add(level, None, version.level(level));
    }
    let tables = || inputs.iter().flat_map(|input| &input.tables);
    let clean = tables().all(|table| table.meta().tombstones == 0 && table.meta().shadowed == 0);
    let single = inputs.len() == 1 && clean;
    let blocked = tables().any(|table| constraints.is_busy(table))
        || (0..=bottom).any(|level| constraints.is_written(level, range.0, range.1));
    if blocked || single && inputs[0].level == bottom {
        return None;
    }
    Some(Compaction::new(inputs, bottom, None, single))
}

fn bytes_of(tables: &[Arc<TableHandle>]) -> u64 {
    tables.iter().map(|table| table.meta().size).sum()
}

struct Picker<'a> {
    version: &'a Version,
    options: &'a CompactionOptions,
    constraints: &'a Constraints,
}

/// Tables of levels 0 and 1 that are joined by common keys.
#[derive(Default)]
struct Component<'a> {
    upper: Vec<&'a Arc<TableHandle>>,
    lower: Vec<&'a Arc<TableHandle>>,
}

impl Picker<'_> {
    /// Merges small runs of level 0: adjacent ones, from the youngest on, as long as the next run
    /// is no larger than those before it together. So a byte is merged a logarithmic number of
    /// times before it leaves.
    fn merge_runs(&self) -> Option<Compaction> {
        let runs = self.version.runs();
        let window = (0..runs.len()).find_map(|start| {
            let len = self.window_len(&runs[start..]);
            (len >= self.options.l0_merge_runs.max(2)).then(|| &runs[start..start + len])
        })?;
        let inputs = window.iter().map(|run| CompactionInput {
            level: 0,
            position: Some(run.position),
            tables: run.set.tables().to_vec(),
        });
        Some(Compaction::new(inputs.collect(), 0, Some(window[0].position), false))
    }

    /// How many of `runs`, from the first on, may merge.
    fn window_len(&self, runs: &[Arc<Run>]) -> usize {
        let mut bytes = 0;
        let fits = |run: &&Arc<Run>| {
            let held = self.constraints.is_held(run.position);
            let joins = held == self.constraints.is_held(runs[0].position)
                && !run.set.tables().iter().any(|table| self.constraints.is_busy(table))
                && (bytes == 0 || run.set.bytes() <= bytes)
                && bytes + run.set.bytes() <= self.options.l0_bytes;
            bytes += run.set.bytes();
            joins
        };
        runs.iter().take_while(fits).count()
    }

    /// Moves what can move from level 0 to level 1, or else merges the largest component.
    fn level0_down(&self) -> Option<Compaction> {
        let candidates = self.level0_candidates();
        let components = self.components(&candidates);
        let (movable, rest): (Vec<_>, Vec<_>) = components.into_iter().partition(|part| {
            part.lower.is_empty() && part.upper.len() == 1 && self.may_move(part.upper[0], 1)
        });
        if !movable.is_empty() {
            let upper = movable.iter().flat_map(|part| part.upper.iter().copied()).collect();
            return Some(self.level0_compaction(Component { upper, lower: Vec::new() }, true));
        }
        let bytes = |part: &Component<'_>| -> u64 {
            part.upper.iter().map(|table| table.meta().size).sum()
        };
        let largest = rest.into_iter().max_by_key(bytes)?;
        Some(self.level0_compaction(largest, false))
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
                    || blocked[..older].iter().any(|b| b.meta().overlaps(smallest, largest));
                if stays { blocked.push(table) } else { candidates.push(table) }
            }
        }
        candidates
    }

    /// Joins `candidates` of level 0 and the tables of level 1 below them by common keys.
    fn components<'a>(&'a self, candidates: &[&'a Arc<TableHandle>]) -> Vec<Component<'a>> {
        let mut members: Vec<(&Arc<TableHandle>, bool)> =
            candidates.iter().map(|table| (*table, true)).collect();
        let touched = |table: &&Arc<TableHandle>| {
            let meta = table.meta();
            candidates.iter().any(|c| c.meta().overlaps(&meta.smallest, &meta.largest))
        };
        let lower = self.version.level(1).tables().iter().filter(touched);
        members.extend(lower.map(|table| (table, false)));
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
        components
    }

    fn level0_compaction(&self, part: Component<'_>, moves: bool) -> Compaction {
        let chosen = |table: &&Arc<TableHandle>| part.upper.iter().any(|t| Arc::ptr_eq(t, table));
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

    /// Whether `table`, which has no keys in common with `level`, should move there as it is. A
    /// table of tombstones with nothing below is rewritten instead: they go.
    fn may_move(&self, table: &TableHandle, level: u8) -> bool {
        let mut deeper = (level + 1..=LEVEL_MAX).map(|deeper| self.below(deeper, table));
        let next = deeper.next().map_or(0, bytes_of);
        let hides = next > 0 || deeper.any(|tables| !tables.is_empty());
        (table.meta().tombstones == 0 || hides) && next <= self.options.overlap_bytes_max()
    }

    /// Hands the cheapest table of `level` on to the next level.
    fn level_down(&self, level: u8) -> Option<Compaction> {
        let tables = self.version.level(level).tables().iter();
        let candidates = tables.filter_map(|table| {
            let lower = self.free_below(level, table)?;
            Some((bytes_of(lower) as f64 / table.meta().size as f64, table))
        });
        let (_, table) = candidates.min_by(|a, b| a.0.total_cmp(&b.0))?;
        self.table_down(level, table)
    }

    /// Hands on a table that holds mostly tombstones, towards what they hide: deleted keys give
    /// their space back although no level is full. Ends where nothing is left below the table, and
    /// waits while the step would cost far more than a full level's does.
    fn tombstones_down(&self) -> Option<Compaction> {
        (1..LEVEL_MAX).find_map(|level| {
            let hides = |table: &&Arc<TableHandle>| {
                let meta = table.meta();
                let cost_max = meta.size.saturating_mul(2 * self.options.level_ratio);
                meta.tombstones * 2 >= meta.entries
                    && bytes_of(self.below(level + 1, table)) <= cost_max
                    && (level + 1..=LEVEL_MAX).any(|deeper| !self.below(deeper, table).is_empty())
            };
            let tables = self.version.level(level).tables().iter();
            tables.filter(hides).find_map(|table| self.table_down(level, table))
        })
    }

    /// Hands `table` of `level` on to the next level, if it may go.
    fn table_down(&self, level: u8, table: &Arc<TableHandle>) -> Option<Compaction> {
        let lower = self.free_below(level, table)?;
        let tables = vec![Arc::clone(table)];
        let mut inputs = vec![CompactionInput { level, position: None, tables }];
        if !lower.is_empty() {
            let (level, tables) = (level + 1, lower.to_vec());
            inputs.push(CompactionInput { level, position: None, tables });
        }
        let moves = lower.is_empty() && self.may_move(table, level + 1);
        Some(Compaction::new(inputs, level + 1, None, moves))
    }

    /// The tables of `level` that have keys in common with `table`.
    fn below(&self, level: u8, table: &TableHandle) -> &[Arc<TableHandle>] {
        self.version.level(level).overlapping(&table.meta().smallest, &table.meta().largest)
    }

    /// The tables one level below `table` of `level` that it has keys in common with; none if a
    /// running compaction is in the way.
    fn free_below(&self, level: u8, table: &TableHandle) -> Option<&[Arc<TableHandle>]> {
        let (meta, constraints) = (table.meta(), self.constraints);
        let lower = self.below(level + 1, table);
        let blocked = constraints.is_busy(table)
            || lower.iter().any(|lower| constraints.is_busy(lower))
            || constraints.is_written(level + 1, &meta.smallest, &meta.largest);
        (!blocked).then_some(lower)
    }
}

#[cfg(test)]
mod tests;
