//! What a batch holds: its operations one by one, what they take in the log, and those of another
//! batch behind them.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use cleavedb_base::codec::varint_len;
use cleavedb_base::limits::KEYSPACE_PREFIX_LEN;
use cleavedb_base::record::HEADER_LEN;
use cleavedb_base::{KeyspaceId, Result, StoredOperand};

use super::{BatchOp, BatchOpKind, WriteBatch, memory_of, room};
use crate::operations::catalog::{CatalogEntry, KeyspaceRef};
use crate::settings::time::Lifetime;

/// One operation of a batch, as [`WriteBatch::iter`] returns it. Later releases may have more.
///
/// The keyspace is `None` for the default one.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum BatchOperation<'a> {
    /// A put.
    Put {
        /// The keyspace of the key.
        keyspace: Option<KeyspaceRef>,
        /// The key.
        key: &'a [u8],
        /// The value.
        value: &'a [u8],
        /// When it expires.
        lifetime: PutLifetime,
    },
    /// A delete of one key.
    Delete {
        /// The keyspace of the key.
        keyspace: Option<KeyspaceRef>,
        /// The key.
        key: &'a [u8],
    },
    /// A merge.
    Merge {
        /// The keyspace of the key.
        keyspace: Option<KeyspaceRef>,
        /// The key.
        key: &'a [u8],
        /// The name of the operator.
        operator: &'a str,
        /// What it applies.
        operand: &'a [u8],
    },
    /// A delete of all keys of a range.
    DeleteRange {
        /// The keyspace of the range.
        keyspace: Option<KeyspaceRef>,
        /// The first key, itself deleted.
        from: &'a [u8],
        /// The end, not deleted; `None` for the end of the keyspace.
        to: Option<&'a [u8]>,
    },
}

/// When the value of a put in a batch expires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PutLifetime {
    /// As its keyspace says ([`crate::KeyspaceOptions::ttl`]).
    OfKeyspace,
    /// So long after the write of the batch.
    For(Duration),
    /// At this time.
    Until(SystemTime),
    /// Never, whatever the keyspace says.
    Forever,
}

impl PutLifetime {
    fn of(lifetime: Lifetime) -> Self {
        match lifetime {
            Lifetime::OfKeyspace => Self::OfKeyspace,
            Lifetime::For(time) => Self::For(time),
            Lifetime::Until(end) => end.time().map_or(Self::Forever, Self::Until),
        }
    }

    pub(super) fn into_lifetime(self) -> Lifetime {
        match self {
            Self::OfKeyspace => Lifetime::OfKeyspace,
            Self::For(time) => Lifetime::For(time),
            Self::Until(end) => Lifetime::until(Some(end)),
            Self::Forever => Lifetime::until(None),
        }
    }
}

/// Bytes in the log of a range delete besides its header and its ends: a key of 9 bytes, a byte
/// that says how eager it is, and the prefix of its keyspace at each end, which a batch has, too.
const RANGE_LEN: usize = 9 + 1;

impl WriteBatch {
    /// The operations, in the order in which they take effect. A delete of an empty range is none.
    ///
    /// ```
    /// use cleavedb::{BatchOperation, WriteBatch};
    ///
    /// let mut batch = WriteBatch::new();
    /// batch.put("left", "1")?.delete("right")?;
    /// let keys = batch.iter().filter_map(|operation| match operation {
    ///     BatchOperation::Put { key, .. } | BatchOperation::Delete { key, .. } => Some(key),
    ///     _ => None,
    /// });
    /// assert!(keys.eq([&b"left"[..], b"right"]));
    /// # Ok::<(), cleavedb::Error>(())
    /// ```
    pub fn iter(&self) -> impl Iterator<Item = BatchOperation<'_>> + Clone {
        self.parts().map(|(op, key, value)| {
            let keyspace = op.keyspace.map(|at| &self.keyspaces[at as usize]);
            let named = keyspace.filter(|entry| entry.id != KeyspaceId::DEFAULT);
            let keyspace = named.cloned().map(KeyspaceRef);
            match value {
                Some(stored) if op.kind == BatchOpKind::Merge => {
                    // The operand was encoded when it was added.
                    let stored = StoredOperand::decode(stored);
                    let stored = stored.unwrap_or(StoredOperand { operator: "", operand: &[] });
                    let StoredOperand { operator, operand } = stored;
                    BatchOperation::Merge { keyspace, key, operator, operand }
                }
                Some(end) if op.kind == BatchOpKind::Range => {
                    let (prefix, from) = key.split_at(KEYSPACE_PREFIX_LEN);
                    BatchOperation::DeleteRange { keyspace, from, to: end.strip_prefix(prefix) }
                }
                Some(value) => {
                    let lifetime = PutLifetime::of(op.lifetime);
                    BatchOperation::Put { keyspace, key, value, lifetime }
                }
                None => BatchOperation::Delete { keyspace, key },
            }
        })
    }

    /// The stored operations, each with its first part and, if it has one, its second.
    pub(super) fn parts(&self) -> impl Iterator<Item = (&BatchOp, &[u8], Option<&[u8]>)> + Clone {
        let starts = std::iter::once(0).chain(self.ops.iter().map(BatchOp::end));
        self.ops.iter().zip(starts).map(|(op, start)| {
            let value = op.value_end.map(|end| &self.bytes[op.key_end..end]);
            (op, &self.bytes[start..op.key_end], value)
        })
    }

    /// Bytes that its records take in the log: keys, values, and a header of 24 bytes each, and 8
    /// bytes for each value that expires, unless only its keyspace says so. A
    /// commit may add the end of a file, the gap of a sync, and records that tidy up behind
    /// earlier deletes of ranges. Goes through all operations.
    pub fn size_bytes(&self) -> u64 {
        let of_range = |(op, from, to): (&BatchOp, &[u8], Option<&[u8]>)| match to {
            Some(to) if op.kind == BatchOpKind::Range => {
                RANGE_LEN + varint_len(from.len() as u64) + varint_len(to.len() as u64)
            }
            _ => op.lifetime.front_len(),
        };
        let more: usize = self.parts().map(of_range).sum();
        (self.bytes.len() + HEADER_LEN * self.ops.len() + more) as u64
    }

    /// Adds the operations of `other` behind its own. Fails with
    /// [`ErrorKind::InvalidArgument`](crate::ErrorKind::InvalidArgument) if it would be full, as
    /// [`WriteBatch::put`] does; the batch is then unchanged.
    pub fn append(&mut self, other: &Self) -> Result<()> {
        let (start, count) = (self.bytes.len(), self.ops.len() + other.ops.len());
        room::check_len(start + other.bytes.len(), count)?;
        if let Some(room) = &mut self.room {
            let more = memory_of(other.changes(&room.default));
            room.take(more, count)?;
        }
        let places: Vec<u32> = other.keyspaces.iter().map(|it| self.place_of(it)).collect();
        self.bytes.extend_from_slice(&other.bytes);
        self.ops.extend(other.ops.iter().map(|op| BatchOp {
            key_end: start + op.key_end,
            value_end: op.value_end.map(|end| start + end),
            keyspace: op.keyspace.map(|at| places[at as usize]),
            ..*op
        }));
        Ok(())
    }

    /// The place of a keyspace in the list of the batch, which gets it if it does not have it.
    pub(super) fn place_of(&mut self, keyspace: &Arc<CatalogEntry>) -> u32 {
        let found = self.keyspaces.iter().position(|known| Arc::ptr_eq(known, keyspace));
        let at = found.unwrap_or_else(|| {
            self.keyspaces.push(keyspace.clone());
            self.keyspaces.len() - 1
        });
        at as u32
    }
}

#[cfg(test)]
mod tests {
    use cleavedb_base::KeyspaceId;

    use super::*;
    use crate::operations::catalog::Catalog;
    use crate::settings::keyspace_options::KeyspaceOptions;
    use crate::settings::merge::Operand;
    use crate::settings::options::Options;

    /// Each operation in words.
    fn words(batch: &WriteBatch) -> Vec<String> {
        let name = |keyspace: Option<KeyspaceRef>| match keyspace {
            Some(keyspace) => keyspace.name().to_owned(),
            None => "-".to_owned(),
        };
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        let of = |operation: BatchOperation<'_>| match operation {
            BatchOperation::Put { keyspace, key, value, lifetime } => {
                let ends = if lifetime == PutLifetime::OfKeyspace { "" } else { "!" };
                format!("{} {}={}{ends}", name(keyspace), text(key), text(value))
            }
            BatchOperation::Merge { keyspace, key, operator, operand } => {
                format!("{} {} {operator} {}", name(keyspace), text(key), text(operand))
            }
            BatchOperation::Delete { keyspace, key } => format!("{} {}", name(keyspace), text(key)),
            BatchOperation::DeleteRange { keyspace, from, to } => {
                format!("{} {}..{}", name(keyspace), text(from), to.map(text).unwrap_or_default())
            }
        };
        batch.iter().map(of).collect()
    }

    #[test]
    fn appended_batches_are_read_in_order_with_their_keyspaces() {
        let catalog = Catalog::new(&Options::default());
        let keyspace = |id, name| {
            KeyspaceRef(Arc::new(catalog.entry(KeyspaceId(id), name, KeyspaceOptions::default())))
        };
        let (one, two) = (keyspace(1, "one"), keyspace(2, "two"));
        let default = KeyspaceRef(catalog.default.clone());
        let mut first = WriteBatch::new();
        first.put("a", "1").unwrap().delete_range("b"..).unwrap();
        first.keyspace(&one).put("", "").unwrap().delete_range(.."c").unwrap();
        let mut second = WriteBatch::new();
        second.keyspace(&two).delete("x").unwrap();
        second.keyspace(&default).put_with_ttl("d", "2", Duration::from_secs(1)).unwrap();
        second.merge("m", &Operand::add(5)).unwrap();
        second.keyspace(&one).delete_range(..="e").unwrap().delete_range("z".."z").unwrap();
        assert_eq!(words(&first), ["- a=1", "- b..", "one =", "one ..c"]);
        assert_eq!(words(&second), ["two x", "- d=2!", "- m add 5", "one ..e\0"]);
        let (both, sizes) = ([words(&first), words(&second)].concat(), second.size_bytes());
        let mut all = first.clone();
        all.append(&second).unwrap();
        all.append(&WriteBatch::new()).unwrap();
        assert_eq!((words(&all), all.len()), (both, 8));
        assert_eq!(all.size_bytes(), first.size_bytes() + sizes);
        all.clear();
        assert!(all.is_empty() && all.iter().next().is_none() && all.size_bytes() == 0);
    }
}
