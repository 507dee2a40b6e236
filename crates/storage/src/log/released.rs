//! The ranges of the log that were released.
//!
//! MemTables are flushed in the order of their ranges of the log, but readers release them in any
//! order. A range is needless once it was flushed and its last reader is gone; the log is needless
//! up to the first range that is not.

use std::collections::BTreeMap;
use std::ops::Range;

/// Released ranges, and where the first gap between them begins.
pub(super) struct ReleasedRanges {
    end: u64,
    /// Ranges behind a gap, by their beginnings.
    apart: BTreeMap<u64, u64>,
}

impl ReleasedRanges {
    /// A log in which every position below `position` is released.
    pub(super) fn up_to(position: u64) -> Self {
        Self { end: position, apart: BTreeMap::new() }
    }

    /// Releases the positions in `part`.
    pub(super) fn add(&mut self, part: Range<u64>) {
        self.apart.insert(part.start, part.end);
        while let Some(first) = self.apart.first_entry().filter(|first| *first.key() <= self.end) {
            self.end = self.end.max(first.remove());
        }
    }

    /// Every position below is released.
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
