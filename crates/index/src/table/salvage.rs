//! Salvage of a damaged table: the entries of every readable block.

use std::sync::Arc;

use cleavedb_base::{Error, Result};

use super::{ReadMode, Table, TableIter};
use crate::entry::Entry;

impl Table {
    /// Calls `visit` with every entry of every readable block, in order, and returns the errors of
    /// the others: a block is valid as a whole, or none of its entries counts.
    pub fn salvage(self: &Arc<Self>, visit: &mut dyn FnMut(&Entry<'_>)) -> Vec<Error> {
        let mut lost = Vec::new();
        let mut iter = self.iter(ReadMode::Ahead);
        for at in 0..self.index.len() {
            if let Err(error) = walk(&mut iter, at, visit) {
                lost.push(error.with("block", self.index.handle(at).offset));
                // A failed iterator repeats its error, so a new one is needed.
                iter = self.iter(ReadMode::Ahead);
            }
        }
        lost
    }
}

/// Visits the entries of block `at`.
fn walk(iter: &mut TableIter, at: usize, visit: &mut dyn FnMut(&Entry<'_>)) -> Result<()> {
    iter.enter(at)?;
    iter.data.seek_first()?;
    while iter.data.valid() {
        visit(&iter.data.entry());
        iter.data.next()?;
    }
    Ok(())
}
