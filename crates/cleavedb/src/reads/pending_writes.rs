//! The writes of a transaction as entries of the index, so that its cursors see them.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use bytes::Bytes;
use cleavedb_base::key::KeptKey;
use cleavedb_base::{EntryKind, Expiry, Lasting, Result, SeqNo};
use cleavedb_index::{Entry, EntryIter};

use crate::reads::outside_ranges::Ranges;

/// A value that a transaction has put.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PendingPut {
    /// Until when the value is there.
    pub(crate) until: Expiry,
    /// The value, as an index entry holds it.
    stored: Bytes,
}

impl PendingPut {
    pub(crate) fn new(value: Lasting<&[u8]>) -> Self {
        Self { until: value.until, stored: value.stored().into_owned().into() }
    }

    fn kind(&self) -> EntryKind {
        EntryKind::Inline.until(self.until)
    }

    /// The value, to keep.
    pub(crate) fn value(&self) -> Bytes {
        self.stored.slice(self.stored.len() - self.bytes().len()..)
    }

    /// The value.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.stored[self.until.front_len()..]
    }
}

/// The writes of a transaction: values, or `None` for deletes, by tree key.
pub(crate) type Writes = BTreeMap<KeptKey, Option<PendingPut>>;

/// Ranges of tree keys that a transaction has deleted, each from its first key to its second,
/// excluded.
pub(crate) type Deleted = [(Vec<u8>, Vec<u8>)];

/// Writes of a transaction within a range: values, or `None` for deletes, by ascending tree key. As
/// entries they are versions of the transaction's snapshot, in front of those of the database.
#[derive(Clone)]
pub(crate) struct PendingWrites {
    writes: Arc<[(KeptKey, Option<PendingPut>)]>,
    seq: SeqNo,
    /// What it has deleted by ranges: that of the database is not seen, its own writes are.
    pub(crate) deleted: Ranges,
    /// The current one; as many as there are if there is none.
    at: usize,
}

impl PendingWrites {
    /// The `writes` from `lower` (inclusive) to `upper` (exclusive), as versions `seq`, after the
    /// ranges `deleted` were deleted.
    pub(crate) fn new(
        writes: &Writes,
        deleted: &Deleted,
        lower: &[u8],
        upper: &[u8],
        seq: SeqNo,
    ) -> Self {
        let range = (Bound::Included(lower), Bound::Excluded(upper));
        // A map has no ranges that end before they begin.
        let within = (lower < upper).then(|| writes.range::<[u8], _>(range));
        let writes: Arc<[_]> =
            within.into_iter().flatten().map(|(key, value)| (key.clone(), value.clone())).collect();
        Self { at: writes.len(), writes, seq, deleted: Ranges::of(deleted) }
    }

    /// Whether there are none.
    pub(crate) fn is_empty(&self) -> bool {
        self.writes.is_empty() && self.deleted.is_empty()
    }

    /// Number of writes whose entries are in front of (`key`, `seq`) in the order of the index.
    fn before(&self, key: &[u8], seq: SeqNo) -> usize {
        self.writes.partition_point(|(own, _)| (&own[..], seq) < (key, self.seq))
    }
}

impl EntryIter for PendingWrites {
    fn valid(&self) -> bool {
        self.at < self.writes.len()
    }

    fn entry(&self) -> Entry<'_> {
        let (key, value) = &self.writes[self.at];
        let kind = value.as_ref().map_or(EntryKind::Delete, PendingPut::kind);
        let value = value.as_ref().map_or(&[][..], |put| &put.stored);
        Entry { key, seq: self.seq, kind, repeat: false, value }
    }

    fn keep_value(&self) -> Bytes {
        self.writes[self.at].1.as_ref().map_or_else(Bytes::new, |put| put.stored.clone())
    }

    fn seek_first(&mut self) -> Result<()> {
        self.at = 0;
        Ok(())
    }

    fn seek_last(&mut self) -> Result<()> {
        self.at = self.writes.len().checked_sub(1).unwrap_or(self.writes.len());
        Ok(())
    }

    fn seek(&mut self, key: &[u8], seq: SeqNo) -> Result<()> {
        self.at = self.before(key, seq);
        Ok(())
    }

    fn seek_before(&mut self, key: &[u8], seq: SeqNo) -> Result<()> {
        self.at = self.before(key, seq).checked_sub(1).unwrap_or(self.writes.len());
        Ok(())
    }

    fn next(&mut self) -> Result<()> {
        self.at += 1;
        Ok(())
    }

    fn prev(&mut self) -> Result<()> {
        self.at = self.at.checked_sub(1).unwrap_or(self.writes.len());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_found_in_the_order_of_the_index() {
        let writes = ["b", "d"].map(|key| (KeptKey::from_slice(key.as_bytes()), None));
        let mut iter = PendingWrites::new(&BTreeMap::from(writes), &[], b"", b"z", 7);
        let mut found = |key: &[u8], seq, before| {
            let sought = if before { iter.seek_before(key, seq) } else { iter.seek(key, seq) };
            sought.unwrap();
            iter.valid().then(|| iter.entry().key.to_vec())
        };
        let (b, d) = (Some(b"b".to_vec()), Some(b"d".to_vec()));
        assert_eq!(found(b"b", 8, false), b, "newer versions come first");
        assert_eq!(found(b"b", 7, false), b);
        assert_eq!(found(b"b", 6, false), d);
        assert_eq!(found(b"d", 6, true), d);
        assert_eq!(found(b"d", 7, true), b);
        assert_eq!((found(b"b", 7, true), found(b"e", 1, false)), (None, None));
    }
}
