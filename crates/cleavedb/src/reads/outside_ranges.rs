//! Entries of an iterator that lie outside of some ranges: what a transaction sees of the database
//! after it has deleted ranges.

use std::sync::Arc;

use bytes::Bytes;
use cleavedb_base::limits::SEQ_MAX;
use cleavedb_base::{Result, SeqNo};
use cleavedb_index::{Entry, EntryIter};

/// Ranges of tree keys, each from its first to the second, excluded; ascending, and disjoint.
#[derive(Clone, Default)]
pub(crate) struct Ranges(Arc<[(Vec<u8>, Vec<u8>)]>);

impl Ranges {
    /// The union of `ranges`.
    pub(crate) fn of(ranges: &[(Vec<u8>, Vec<u8>)]) -> Self {
        let mut sorted = ranges.to_vec();
        sorted.sort_unstable();
        let mut disjoint: Vec<(Vec<u8>, Vec<u8>)> = Vec::new();
        for (begin, end) in sorted {
            match disjoint.last_mut() {
                Some((_, last)) if begin <= *last => *last = end.max(std::mem::take(last)),
                _ => disjoint.push((begin, end)),
            }
        }
        Self(disjoint.into())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The range that has `key`.
    pub(crate) fn find(&self, key: &[u8]) -> Option<&(Vec<u8>, Vec<u8>)> {
        let at = self.0.partition_point(|(begin, _)| &begin[..] <= key).checked_sub(1)?;
        Some(&self.0[at]).filter(|(_, end)| key < &end[..])
    }
}

/// The entries of an iterator outside of some ranges.
pub(crate) struct OutsideRanges {
    pub(crate) inner: Box<dyn EntryIter>,
    pub(crate) ranges: Ranges,
}

impl OutsideRanges {
    /// Goes on to the first entry outside, forwards.
    fn leave_forward(&mut self) -> Result<()> {
        while self.inner.valid() {
            let Some((_, end)) = self.ranges.find(self.inner.entry().key) else { break };
            let end = end.clone();
            self.seek_now(&end, SEQ_MAX)?;
        }
        Ok(())
    }

    /// Moves to an entry whose block may have to be read first.
    fn seek_now(&mut self, key: &[u8], seq: SeqNo) -> Result<()> {
        self.inner.seek(key, seq)?;
        if self.inner.waits() { self.inner.arrive() } else { Ok(()) }
    }

    /// Goes on to the first entry outside, backwards.
    fn leave_backward(&mut self) -> Result<()> {
        while self.inner.valid() {
            let Some((begin, _)) = self.ranges.find(self.inner.entry().key) else { break };
            self.inner.seek_before(begin, SEQ_MAX)?;
        }
        Ok(())
    }
}

impl EntryIter for OutsideRanges {
    fn valid(&self) -> bool {
        self.inner.valid()
    }

    fn entry(&self) -> Entry<'_> {
        self.inner.entry()
    }

    fn keep_value(&self) -> Bytes {
        self.inner.keep_value()
    }

    fn seek_first(&mut self) -> Result<()> {
        self.inner.seek_first()?;
        self.leave_forward()
    }

    fn seek_last(&mut self) -> Result<()> {
        self.inner.seek_last()?;
        self.leave_backward()
    }

    fn seek(&mut self, key: &[u8], seq: SeqNo) -> Result<()> {
        self.seek_now(key, seq)?;
        self.leave_forward()
    }

    fn expect_seek(&mut self, key: &[u8], seq: SeqNo) {
        self.inner.expect_seek(key, seq);
    }

    fn seek_before(&mut self, key: &[u8], seq: SeqNo) -> Result<()> {
        self.inner.seek_before(key, seq)?;
        self.leave_backward()
    }

    fn next(&mut self) -> Result<()> {
        self.inner.next()?;
        self.leave_forward()
    }

    fn prev(&mut self) -> Result<()> {
        self.inner.prev()?;
        self.leave_backward()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_that_touch_are_one() {
        let range = |begin: &str, end: &str| (begin.as_bytes().to_vec(), end.as_bytes().to_vec());
        let all =
            [range("d", "f"), range("a", "c"), range("c", "d"), range("a", "b"), range("x", "y")];
        let ranges = Ranges::of(&all);
        assert_eq!(&ranges.0[..], [range("a", "f"), range("x", "y")]);
        assert!(ranges.find(b"a").is_some() && ranges.find(b"e").is_some());
        assert!(ranges.find(b"f").is_none() && ranges.find(b"A").is_none());
    }
}
