//! EncodedOp: an operation as the commit path takes it, prepared by the thread of its caller.

use std::borrow::Cow;

use cleavedb_base::checksum::hash64;
use cleavedb_base::record::{Header, RecordKind};
use cleavedb_base::{EncodedKey, Expiry, KeyspaceId};

use crate::operations::batch::Op;
use crate::operations::catalog::CatalogEntry;
use crate::settings::time::Time;
use crate::store::state::keyspace_bit;

/// An operation prepared outside of the append lock.
pub(crate) struct EncodedOp<'a> {
    pub(crate) header: Header,
    pub(crate) encoded_key: EncodedKey,
    pub(crate) hash: u64,
    pub(crate) key: &'a [u8],
    /// The value as it is stored: behind its expiry, if it has one.
    pub(crate) value: Cow<'a, [u8]>,
    /// Whether it makes other records dead, and adds next to nothing.
    pub(crate) deletes: bool,
    /// The tree keys from the first to the second, excluded, if it deletes a range.
    pub(crate) range: Option<(&'a [u8], &'a [u8])>,
}

impl<'a> EncodedOp<'a> {
    /// Decides whether the value leaves the index, by its length, and when it expires, and computes
    /// the checksum.
    #[inline]
    pub(crate) fn new(op: Op<'a>, keyspace: &CatalogEntry, time: &Time) -> Self {
        let expiry = op.lifetime.expiry(keyspace.ttl, time);
        // One branch, so that a plain put is built in its place.
        if !expiry.is_never() || keyspace.compressor.is_on() {
            return Self::changed(op, expiry, keyspace, time);
        }
        Self::with_threshold(op, keyspace.id, keyspace.separated_from)
    }

    /// An operation whose value is not stored as it is: it expires, or is compressed. A put that
    /// has expired already is a delete: so while a snapshot is held, nothing expires for it that
    /// was written after it.
    #[cold]
    fn changed(op: Op<'a>, expiry: Expiry, keyspace: &CatalogEntry, time: &Time) -> Self {
        let lives = |_: &&[u8]| expiry.is_never() || !expiry.is_over(time.millis());
        match op.value.filter(lives) {
            Some(value) if expiry.is_never() => Self::compressing(op, keyspace, value, b""),
            Some(value) => Self::compressing(op, keyspace, value, &expiry.encode()),
            None => Self::with_threshold(Op { value: None, ..op }, keyspace.id, usize::MAX),
        }
    }

    /// A put of a value behind its encoded expiry, if it has one: compressed, if it leaves the
    /// index and the keyspace wants it.
    fn compressing(op: Op<'a>, keyspace: &CatalogEntry, value: &'a [u8], expiry: &[u8]) -> Self {
        let kind = match value.len() >= keyspace.separated_from {
            true => RecordKind::Separated,
            false => RecordKind::Inline,
        };
        let kind = kind.expiring(!expiry.is_empty());
        let compressed =
            if kind.is_separated() { keyspace.compressor.compress(value, expiry) } else { None };
        if let Some(stored) = compressed {
            let plain = Self::of_kind(kind, keyspace.id, op.key, Cow::Borrowed(b""));
            let header = plain.header.of_compressed(op.key, &stored);
            return Self { header, value: Cow::Owned(stored), ..plain };
        }
        let stored = match expiry.is_empty() {
            true => Cow::Borrowed(value),
            false => Cow::Owned([expiry, value].concat()),
        };
        Self::of_kind(kind, keyspace.id, op.key, stored)
    }

    /// The record of a stored operand of a merge: it stays in the index, whatever its length.
    pub(crate) fn of_operand(key: &'a [u8], stored: &'a [u8], keyspace: KeyspaceId) -> Self {
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

    /// A record of this kind; `value` is what it stores, behind the expiry if it has one.
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

    /// The bit of its keyspace, if its value expires.
    #[inline]
    pub(crate) fn expiring(&self) -> u64 {
        if self.header.kind.expires() { keyspace_bit(self.encoded_key.as_bytes()) } else { 0 }
    }

    /// Whether its value leaves the index.
    pub(crate) fn is_separated(&self) -> bool {
        self.header.kind.is_separated()
    }
}
