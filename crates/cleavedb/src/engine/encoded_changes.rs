//! The changes of a batch, encoded for its commit.

use std::sync::Arc;

use crate::engine::Engine;
use crate::engine::range_deletes::RangeDeletes;
use crate::operations::batch::Change;
use crate::operations::catalog::CatalogEntry;
use crate::operations::encoded_op::EncodedOp;
use crate::operations::ops::{ManyOps, Ops, Visit};

/// Most operations of a batch that are held encoded.
const FEW: usize = 1024;

/// Encodes `changes`, whose ranges are those of `ranges`, with the removals of these behind them,
/// and has `write` commit them.
pub(crate) fn encoded<'a, T>(
    engine: &Engine,
    changes: impl Iterator<Item = (Change<'a>, &'a Arc<CatalogEntry>)> + Clone,
    ranges: &RangeDeletes<'_>,
    write: impl FnOnce(Ops<'_>) -> T,
) -> T {
    let encode = |change: Change<'a>, keyspace: &CatalogEntry| match change {
        Change::One(op) => Some(EncodedOp::new(op, keyspace, &engine.time)),
        Change::Merge(key, stored) => Some(EncodedOp::of_merge(key, stored, keyspace.id)),
        Change::Range(..) => None,
    };
    let mut of_ranges = ranges.ops();
    let mut encode_first = |change: Change<'a>, keyspace: &CatalogEntry| {
        encode(change, keyspace).or_else(|| of_ranges.next())
    };
    if changes.clone().nth(FEW).is_none() {
        let ops = changes.filter_map(|(change, keyspace)| encode_first(change, keyspace));
        let ops: Vec<EncodedOp<'_>> = ops.chain(ranges.removals()).collect();
        return write(Ops::Few(&ops));
    }
    let (mut held, removals) = (Vec::new(), ranges.removals().collect::<Vec<_>>());
    let (mut count, mut len, mut deletes, mut separated, mut announced) = (0, 0, true, false, 0);
    let mut add = |op: &EncodedOp<'_>| {
        (count, len, announced) = (count + 1, len + op.len(), announced | op.announced());
        (deletes, separated) = (deletes && op.deletes, separated || op.is_separated());
    };
    for (at, (change, keyspace)) in changes.clone().enumerate() {
        let Some(op) = encode_first(change, keyspace) else { continue };
        add(&op);
        if !change.is_encoded_alike(keyspace) {
            held.push((at, op));
        }
    }
    removals.iter().for_each(add);
    let each = |visit: &mut Visit<'_>| {
        let mut held = held.iter().peekable();
        for (at, (change, keyspace)) in changes.clone().enumerate() {
            match held.next_if(|(place, _)| *place == at) {
                Some((_, op)) => visit(op)?,
                None => encode(change, keyspace).iter().try_for_each(&mut *visit)?,
            }
        }
        removals.iter().try_for_each(visit)
    };
    write(Ops::Many(&ManyOps { each: &each, count, len, deletes, separated, announced }))
}
