//! Entries of the index, and the interface to iterate over them.

use bytes::Bytes;
use cleavedb_base::{EntryKind, Result, SeqNo};

/// One version of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry<'a> {
    /// Tree key: keyspace prefix and user key.
    pub key: &'a [u8],
    /// Sequence number of the operation that made it.
    pub seq: SeqNo,
    /// Tombstone, inline value, or pointer.
    pub kind: EntryKind,
    /// Whether a write-back run repeated this entry only so that the run has all versions of its
    /// key. Dropping a repeat frees nothing in the value store: the original entry owns the record.
    pub repeat: bool,
    /// The inline value, the encoded pointer, or nothing.
    pub value: &'a [u8],
}

impl Entry<'_> {
    /// Order of the index: key ascending, then sequence number descending.
    #[inline]
    pub fn order(&self, key: &[u8], seq: SeqNo) -> std::cmp::Ordering {
        self.key.cmp(key).then(seq.cmp(&self.seq))
    }
}

/// Result of a look-up: one version of the key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexHit {
    /// Sequence number of the operation that made it.
    pub seq: SeqNo,
    /// Tombstone, inline value, or pointer.
    pub kind: EntryKind,
    /// See [`Entry::repeat`].
    pub repeat: bool,
    /// The inline value, the encoded pointer, or nothing; a slice of the block that holds it.
    pub value: Bytes,
}

/// Iterates over entries in index order, in both directions.
///
/// A new iterator is not valid until it is positioned. After an error the iterator is not valid,
/// and the error is returned by every further call: a failed read never looks like the end of the
/// data.
pub trait EntryIter: Send {
    /// Whether the iterator is on an entry.
    fn valid(&self) -> bool;
    /// The current entry; panics if not [`EntryIter::valid`].
    fn entry(&self) -> Entry<'_>;
    /// The current entry, if valid: one call where sources are compared.
    #[inline]
    fn peek(&self) -> Option<Entry<'_>> {
        self.valid().then(|| self.entry())
    }
    /// The value of the current entry, to keep: a slice of the cached block that holds it if there
    /// is one, else a copy.
    fn keep_value(&self) -> Bytes {
        Bytes::copy_from_slice(self.entry().value)
    }
    /// Moves to the first entry.
    fn seek_first(&mut self) -> Result<()>;
    /// Moves to the last entry.
    fn seek_last(&mut self) -> Result<()>;
    /// Moves to the first entry at or after (`key`, `seq`) in index order. `SEQ_MAX` is the first
    /// position of a key.
    fn seek(&mut self, key: &[u8], seq: SeqNo) -> Result<()>;
    /// Announces that a `seek` or `seek_before` to this position comes next, so that the reads of
    /// several sources run in parallel. A wrong announcement only costs speed.
    fn expect_seek(&mut self, _key: &[u8], _seq: SeqNo) {}
    /// Whether it *waits*: a seek found a position in front of the first entry that would have to
    /// be read. Until it arrives it is not valid, and [`EntryIter::peek`] returns a position that
    /// is not behind its next entry: enough to see that other sources come first.
    fn waits(&self) -> bool {
        false
    }
    /// Moves to the entry that it waits in front of.
    fn arrive(&mut self) -> Result<()> {
        Ok(())
    }
    /// Moves to the last entry before (`key`, `seq`) in index order.
    fn seek_before(&mut self, key: &[u8], seq: SeqNo) -> Result<()>;
    /// Moves to the next entry; panics if not valid.
    fn next(&mut self) -> Result<()>;
    /// Moves to the previous entry; panics if not valid.
    fn prev(&mut self) -> Result<()>;
}
