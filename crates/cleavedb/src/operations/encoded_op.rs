//! EncodedOp: an operation as the commit path takes it, prepared by the thread of its caller.

use std::borrow::Cow;

use cleavedb_base::checksum::hash64;
use cleavedb_base::record::{Header, RecordKind};
use cleavedb_base::{EncodedKey, KeyspaceId, Lasting};

use crate::operations::batch::Op;
use crate::operations::catalog::CatalogEntry;
use crate::settings::time::Time;
use crate::store::expiry::Lifetimes;

/// An operation prepared outside of the append lock.
pub(crate) struct EncodedOp<'a> {
    pub(crate) header: Header,
    pub(crate) encoded_key: EncodedKey,
    pub(crate) hash: u64,
    pub(crate) key: &'a [u8],
    /// The value as it is stored.
    pub(crate) value: Cow<'a, [u8]>,
    /// Whether it makes other records dead, and adds next to nothing.
    pub(crate) deletes: bool,
    /// The tree keys from the first to the second, excluded, if it deletes a range.
    pub(crate) range: Option<(&'a [u8], &'a [u8])>,
}

impl<'a> EncodedOp<'a> {
    /// Decides whether the value leaves the index, by its length, and until when it is there, and
    /// computes the checksum.
    #[inline]
    pub(crate) fn new(op: Op<'a>, keyspace: &CatalogEntry, time: &Time) -> Self {
        let until = op.lifetime.end(keyspace.lifetime, time);
        // One branch, so that a plain put is built in its place.
        if !until.is_never() || !keyspace.stores_plainly() {
            let value = op.value.map(|value| Lasting { value, until });
            return Self::changed(op.key, value, keyspace, time);
        }
        Self::with_threshold(op, keyspace.id, keyspace.separated_from)
    }

    /// An operation whose value is not stored as it is: it does not stay, or is compressed. A put
    /// that is over already is a delete: so while a snapshot is held, nothing goes from it that was
    /// written after it.
    #[cold]
    fn changed(
        key: &'a [u8],
        value: Option<Lasting<&'a [u8]>>,
        keyspace: &CatalogEntry,
        time: &Time,
    ) -> Self {
        match value.filter(|value| value.is_there(|| time.millis())) {
            Some(value) => Self::compressing(key, value, keyspace),
            None => Self::with_threshold(Op::delete(key), keyspace.id, usize::MAX),
        }
    }

    /// A put of a value: compressed, if it leaves the index and the keyspace wants it.
    fn compressing(key: &'a [u8], value: Lasting<&'a [u8]>, keyspace: &CatalogEntry) -> Self {
        let kind = match value.value.len() >= keyspace.separated_from {
            true => RecordKind::Separated,
            false => RecordKind::Inline,
        };
        let kind = kind.until(value.until);
        let compressed =
            if kind.is_separated() { keyspace.compressor.compress(value) } else { None };
        if let Some(stored) = compressed {
            let plain = Self::of_kind(kind, keyspace.id, key, Cow::Borrowed(b""));
            let header = plain.header.of_compressed(key, &stored);
            return Self { header, value: Cow::Owned(stored), ..plain };
        }
        Self::of_kind(kind, keyspace.id, key, value.stored())
    }

    /// The record of a stored operand of a merge: it stays in the index, whatever its length.
    pub(crate) fn of_merge(key: &'a [u8], stored: &'a [u8], keyspace: KeyspaceId) -> Self {
        Self::of_kind(RecordKind::Operand, keyspace, key, Cow::Borrowed(stored))
    }

    /// A record of the system keyspace, whose values stay in the index; `deletes` says that it
    /// makes others dead.
    pub(crate) fn of_system(op: Op<'a>, deletes: bool) -> Self {
        Self { deletes, ..Self::with_threshold(op, KeyspaceId::SYSTEM, usize::MAX) }
    }

    /// The record of a delete of all tree keys from `begin` to `end`, excluded.
    pub(crate) fn of_range(op: Op<'a>, begin: &'a [u8], end: &'a [u8]) -> Self {
        Self { range: Some((begin, end)), ..Self::of_system(op, true) }
    }

    #[inline]
    fn with_threshold(op: Op<'a>, keyspace: KeyspaceId, separated_from: usize) -> Self {
        let kind = match op.value {
            None => RecordKind::Delete,
            Some(value) if value.len() >= separated_from => RecordKind::Separated,
            Some(_) => RecordKind::Inline,
        };
        Self::of_kind(kind, keyspace, op.key, Cow::Borrowed(op.value.unwrap_or_default()))
    }

    /// A record of this kind; `value` is what it stores.
    #[inline]
    pub(crate) fn of_kind(
        kind: RecordKind,
        keyspace: KeyspaceId,
        key: &'a [u8],
        value: Cow<'a, [u8]>,
    ) -> Self {
        let deletes = kind == RecordKind::Delete;
        let encoded_key = EncodedKey::new(keyspace, key);
        let hash = hash64(encoded_key.as_bytes(), 0);
        let header = Header::new(kind, keyspace, 0, key, &value);
        Self { header, encoded_key, hash, key, value, deletes, range: None }
    }

    #[inline]
    pub(crate) fn len(&self) -> u64 {
        self.header.record_len() as u64
    }

    /// What the MemTable is told before the commit, for [`Lifetimes::announce`].
    #[inline]
    pub(crate) fn announced(&self) -> u64 {
        Lifetimes::announced(self.header.kind, self.encoded_key.as_bytes())
    }

    /// Whether its value leaves the index.
    pub(crate) fn is_separated(&self) -> bool {
        self.header.kind.is_separated()
    }
}
