//! Buckets: level 0 by keys instead of by age.
//!
//! Tables of level 0 that are joined by common keys, directly or through others, are a *bucket*.
//! Two buckets have no common keys, so each can be compacted by itself. Buckets are not stored:
//! every version computes them from the key ranges of its tables. Flushes keep buckets apart, or
//! let them merge ([`crate::compaction::table_ends`]).
//!
//! The tables that a run has in a bucket are a *slice*. The youngest slices of all buckets together
//! form one sorted place, the next ones another: a look-up visits as many *layers* as the deepest
//! bucket has slices, however many runs there are. Inside a bucket the order of layers is the order
//! of positions, so the order of the search holds (invariant 6).

use std::sync::Arc;

use cleavedb_base::Result;

use crate::edit::RunPosition;
use crate::table_handle::TableHandle;
use crate::table_set::TableSet;

/// The tables of one run in one bucket.
#[derive(Clone)]
pub struct RunSlice {
    /// Position of the run in level 0.
    pub position: RunPosition,
    /// The tables, in key order.
    pub tables: Vec<Arc<TableHandle>>,
}

impl RunSlice {
    /// Size of the tables, in bytes.
    pub fn bytes(&self) -> u64 {
        self.tables.iter().map(|table| table.meta().size).sum()
    }
}

/// Tables of level 0 that are joined by common keys.
#[derive(Clone)]
pub struct Bucket {
    /// By run, in the order of the runs; none is empty.
    pub slices: Vec<RunSlice>,
    /// Smallest key of its tables.
    pub smallest: Box<[u8]>,
    /// Largest key of its tables.
    pub largest: Box<[u8]>,
}

impl Bucket {
    /// Size of its tables, in bytes.
    pub fn bytes(&self) -> u64 {
        self.slices.iter().map(RunSlice::bytes).sum()
    }

    /// All tables, slice by slice.
    pub fn tables(&self) -> impl Iterator<Item = &Arc<TableHandle>> {
        self.slices.iter().flat_map(|slice| &slice.tables)
    }

    /// The buckets of tables, in key order. Each table comes with the number and the position of
    /// its run; slices stand in the order of the numbers.
    pub fn of<'a>(
        tables: impl Iterator<Item = (usize, RunPosition, &'a Arc<TableHandle>)>,
    ) -> Vec<Self> {
        let mut tables: Vec<_> = tables.collect();
        tables.sort_by(|a, b| a.2.meta().smallest.cmp(&b.2.meta().smallest));
        let mut buckets = Vec::new();
        let mut rest = &tables[..];
        while let Some(((_, _, first), _)) = rest.split_first() {
            let mut largest = &first.meta().largest;
            let len = rest
                .iter()
                .position(|(_, _, table)| {
                    let apart = table.meta().smallest > *largest;
                    largest = largest.max(&table.meta().largest);
                    apart
                })
                .unwrap_or(rest.len());
            let (members, others) = rest.split_at(len);
            buckets.push(Self::joining(members));
            rest = others;
        }
        buckets
    }

    fn joining(members: &[(usize, RunPosition, &Arc<TableHandle>)]) -> Self {
        let largest = members.iter().map(|(_, _, table)| &table.meta().largest).max();
        let mut by_run = members.to_vec();
        by_run.sort_by_key(|(run, _, _)| *run);
        let slices = by_run.chunk_by(|a, b| a.0 == b.0).map(|slice| RunSlice {
            position: slice[0].1,
            tables: slice.iter().map(|(_, _, table)| Arc::clone(table)).collect(),
        });
        Self {
            slices: slices.collect(),
            smallest: members[0].2.meta().smallest.clone(),
            largest: largest.expect("a bucket has tables").clone(),
        }
    }
}

/// The layers of `buckets`, youngest first.
pub(crate) fn layers(buckets: &[Bucket]) -> Result<Vec<TableSet>> {
    let depth = buckets.iter().map(|bucket| bucket.slices.len()).max().unwrap_or_default();
    (0..depth)
        .map(|at| {
            let slices = buckets.iter().filter_map(|bucket| bucket.slices.get(at));
            TableSet::new(slices.flat_map(|slice| slice.tables.iter().cloned()).collect())
        })
        .collect()
}
