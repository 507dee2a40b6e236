//! What is left of a damaged table: the entries of every block that can be read.

use std::sync::Arc;

use cleavedb_base::{Error, Result};

use super::{ReadMode, Table, TableIter};
use crate::entry::Entry;

impl Table {
    /// Calls `visit` with every entry of every block that can be read, in order, and returns what
    /// is wrong with the others: a block is whole, or none of its entries counts.
    pub fn salvage(self: &Arc<Self>, visit: &mut dyn FnMut(&Entry<'_>)) -> Vec<Error> {
        let mut lost = Vec::new();
        let mut iter = self.iter(ReadMode::Ahead);
        for at in 0..self.index.len() {
            if let Err(error) = walk(&mut iter, at, visit) {
                lost.push(error.with("block", self.index.handle(at).offset));
                // It repeats its error for ever.
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
