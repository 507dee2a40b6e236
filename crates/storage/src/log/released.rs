//! Which part of the log nobody needs any more.
//!
//! MemTables are flushed in the order of their parts of the log, but readers let go of them in any
//! order: a part is needless once it was flushed and its last reader is gone, and the log is
//! needless up to the first part that is not.

use std::collections::BTreeMap;
use std::ops::Range;

/// Parts that were let go, and how far they are without a gap.
pub(super) struct ReleasedRanges {
    end: u64,
    /// Parts behind a gap, by their beginnings.
    apart: BTreeMap<u64, u64>,
}

impl ReleasedRanges {
    /// A log of which all below `position` is needless.
    pub(super) fn up_to(position: u64) -> Self {
        Self { end: position, apart: BTreeMap::new() }
    }

    /// Nobody needs the positions in `part` any more.
    pub(super) fn add(&mut self, part: Range<u64>) {
        self.apart.insert(part.start, part.end);
        while let Some(first) = self.apart.first_entry().filter(|first| *first.key() <= self.end) {
            self.end = self.end.max(first.remove());
        }
    }

    /// Every position below is needless.
    pub(super) fn end(&self) -> u64 {
        self.end
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_ends_at_the_first_part_that_is_needed() {
        let mut needless = ReleasedRanges::up_to(10);
        needless.add(20..30);
        needless.add(30..40);
        assert_eq!(needless.end(), 10);
        needless.add(10..20);
        assert_eq!(needless.end(), 40);
        needless.add(41..50);
        assert_eq!(needless.end(), 40);
    }
}
