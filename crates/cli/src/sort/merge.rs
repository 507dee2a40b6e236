//! Merges runs: of items with the same key that of the youngest run wins.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::SortedItem;
use super::run::RunReader;
use crate::failure::Result;

/// Runs that are being merged.
pub(super) struct Merge {
    /// Oldest first.
    runs: Vec<RunReader>,
    /// The next key of each run that has one; of equal keys that of the youngest run comes first.
    next: BinaryHeap<Reverse<(Vec<u8>, Reverse<usize>)>>,
    /// The rest of the next item of each run.
    rest: Vec<(Vec<u8>, Option<u64>)>,
}

impl Merge {
    /// Of `runs`, the oldest first.
    pub(super) fn new(runs: Vec<RunReader>) -> Result<Self> {
        let rest = vec![Default::default(); runs.len()];
        let mut merge = Self { runs, next: BinaryHeap::new(), rest };
        (0..merge.runs.len()).try_for_each(|at| merge.advance(at))?;
        Ok(merge)
    }

    fn advance(&mut self, at: usize) -> Result<()> {
        if let Some(SortedItem { key, value, expires }) = self.runs[at].next()? {
            self.rest[at] = (value, expires);
            self.next.push(Reverse((key, Reverse(at))));
        }
        Ok(())
    }

    /// The next item; `None` at the end.
    pub(super) fn next(&mut self) -> Result<Option<SortedItem>> {
        let Some(Reverse((key, Reverse(at)))) = self.next.pop() else { return Ok(None) };
        let (value, expires) = std::mem::take(&mut self.rest[at]);
        self.advance(at)?;
        while let Some(Reverse((same, Reverse(older)))) = self.next.peek()
            && *same == key
        {
            let older = *older;
            self.next.pop();
            self.advance(older)?;
        }
        Ok(Some(SortedItem { key, value, expires }))
    }
}
