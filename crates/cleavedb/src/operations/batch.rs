//! A batch of operations that are applied atomically.

mod room;
mod operands;
mod reading;
mod expiring;
mod parts;

use std::sync::Arc;

use cleavedb_base::limits::{KEY_LEN_MAX, KEYSPACE_PREFIX_LEN, VALUE_LEN_MAX};
use cleavedb_base::{Error, ErrorKind, KeyspaceId, Result};
use cleavedb_index::memtable::entry_memory;

pub use self::reading::{BatchOperation, PutLifetime};
use self::room::BatchRoom;
pub(crate) use self::room::{check_memory, memory_of};
use crate::control::debug::debug;
use crate::operations::bounds::{Bounds, KeyRange};
use crate::operations::catalog::{CatalogEntry, KeyspaceRef};
use crate::settings::time::Lifetime;

/// Memory of an operation that is held encoded for the commit, besides its key and its value, in
/// bytes.
const HELD_MEMORY: usize = 256;

/// Length of a pointer to a separated value in an entry, in bytes, under any usual number of files.
const POINTER_LEN: usize = 12;

/// One operation, borrowed from its batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Op<'a> {
    pub(crate) key: &'a [u8],
    /// The value, or `None` for a delete.
    pub(crate) value: Option<&'a [u8]>,
    pub(crate) lifetime: Lifetime,
}

impl<'a> Op<'a> {
    /// A put whose value lives as long as its keyspace says.
    #[inline]
    pub(crate) fn put(key: &'a [u8], value: &'a [u8]) -> Self {
        Self { key, value: Some(value), lifetime: Lifetime::OfKeyspace }
    }

    /// A put whose value has this lifetime.
    pub(crate) fn put_living(key: &'a [u8], value: &'a [u8], lifetime: Lifetime) -> Self {
        Self { lifetime, ..Self::put(key, value) }
    }

    /// A delete.
    #[inline]
    pub(crate) fn delete(key: &'a [u8]) -> Self {
        Self { key, value: None, lifetime: Lifetime::OfKeyspace }
    }
}

/// What one operation of a batch does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change<'a> {
    /// Writes or deletes a key.
    One(Op<'a>),
    /// Deletes all tree keys from the first to the second, excluded.
    Range(&'a [u8], &'a [u8]),
    /// Merges into a key what the second one, a stored operand, says.
    Merge(&'a [u8], &'a [u8]),
}

impl Change<'_> {
    /// Bytes of keys and value.
    pub(crate) fn len(&self) -> u64 {
        match self {
            Self::One(op) => op.len(),
            Self::Range(key, other) | Self::Merge(key, other) => (key.len() + other.len()) as u64,
        }
    }

    /// Whether it is encoded alike each time: its record follows from it alone, and not from the
    /// time or from what values are compressed with.
    pub(crate) fn is_encoded_alike(&self, keyspace: &CatalogEntry) -> bool {
        match self {
            Self::One(Op { value: None, .. }) | Self::Merge(..) => true,
            Self::One(op) => {
                op.lifetime.is_for_good(keyspace.lifetime) && keyspace.stores_plainly()
            }
            Self::Range(..) => false,
        }
    }

    /// Memory that it takes while it is committed and in the MemTable, in bytes.
    pub(crate) fn memory(&self, keyspace: &CatalogEntry) -> usize {
        let entry = |key: &[u8], len| entry_memory(KEYSPACE_PREFIX_LEN + key.len(), len);
        match self {
            Self::One(op) => {
                let len = op.value.map_or(0, <[u8]>::len);
                let kept = if len < keyspace.separated_from { len } else { POINTER_LEN };
                let held = if self.is_encoded_alike(keyspace) { 0 } else { HELD_MEMORY + kept };
                held + entry(op.key, kept)
            }
            Self::Merge(key, stored) => entry(key, stored.len()),
            Self::Range(begin, end) => range_memory(begin, end),
        }
    }
}

/// Memory that the delete of a range takes, by the tree keys of its ends, in bytes: in the read
/// state, too.
pub(crate) fn range_memory(begin: &[u8], end: &[u8]) -> usize {
    2 * (HELD_MEMORY + begin.len() + end.len())
}

impl Op<'_> {
    /// Bytes of key and value.
    pub(crate) fn len(&self) -> u64 {
        (self.key.len() + self.value.map_or(0, <[u8]>::len)) as u64
    }

    /// Checks key and value against the stated limits.
    #[inline]
    pub(crate) fn check(&self) -> Result<()> {
        let value_len = self.value.map_or(0, <[u8]>::len);
        if self.key.len() > KEY_LEN_MAX || value_len > VALUE_LEN_MAX {
            return Err(refuse(self.key.len(), value_len));
        }
        Ok(())
    }
}

/// Fails if an end of a range is longer than any tree key and its successor.
pub(crate) fn check_end(encoded_key: &[u8]) -> Result<()> {
    match encoded_key.len().checked_sub(KEYSPACE_PREFIX_LEN + KEY_LEN_MAX + 1) {
        None | Some(0) => Ok(()),
        Some(_) => Err(refuse(encoded_key.len() - KEYSPACE_PREFIX_LEN, 0)),
    }
}

#[cold]
fn refuse(key_len: usize, value_len: usize) -> Error {
    let message = if key_len > KEY_LEN_MAX {
        format!("a key of {key_len} bytes is longer than the limit of {KEY_LEN_MAX}")
    } else {
        format!("a value of {value_len} bytes is longer than the limit of {VALUE_LEN_MAX}")
    };
    Error::new(ErrorKind::InvalidArgument, message)
}

/// A list of puts, deletes and merges that [`crate::Db::write`] applies atomically, in the order
/// given: in the default keyspace, and in others ([`WriteBatch::keyspace`]). One that
/// [`crate::Db::batch`] has begun refuses an operation for which its database has no memory; else
/// the write refuses the batch.
///
/// ```
/// let mut batch = cleavedb::WriteBatch::new();
/// batch.put("left", "1")?.delete("right")?;
/// assert_eq!(batch.len(), 2);
/// # Ok::<(), cleavedb::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct WriteBatch {
    bytes: Vec<u8>,
    ops: Vec<BatchOp>,
    /// Keyspaces besides the default one, each once.
    keyspaces: Vec<Arc<CatalogEntry>>,
    /// What its database has for it, if it knows that.
    room: Option<BatchRoom>,
}

/// An operation of a batch.
#[derive(Clone, Copy, Debug)]
struct BatchOp {
    /// End of its key in the bytes of the batch.
    key_end: usize,
    /// End of the value behind the key, for a put; of the second key, for a range.
    value_end: Option<usize>,
    kind: BatchOpKind,
    lifetime: Lifetime,
    /// Place of its keyspace in the list of the batch; none for the default one.
    keyspace: Option<u32>,
}

/// What the parts of an operation of a batch are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum BatchOpKind {
    /// A key, and the value of a put.
    One,
    /// The ends of a range that is deleted, as tree keys.
    Range,
    /// A key and the stored operand of a merge.
    Merge,
}

impl BatchOp {
    /// The end of the operation in the bytes of the batch.
    fn end(&self) -> usize {
        self.value_end.unwrap_or(self.key_end)
    }
}

/// The operations of a batch on one keyspace; see [`WriteBatch::keyspace`].
pub struct KeyspaceBatch<'b> {
    batch: &'b mut WriteBatch,
    keyspace: Option<u32>,
}

debug!(KeyspaceBatch<'_>, |_| {});

impl KeyspaceBatch<'_> {
    /// Adds a put. Fails as [`WriteBatch::put`] does.
    pub fn put(&mut self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<&mut Self> {
        self.batch.push(Op::put(key.as_ref(), value.as_ref()), self.keyspace)?;
        Ok(self)
    }

    /// Adds a delete. Fails as [`WriteBatch::put`] does.
    pub fn delete(&mut self, key: impl AsRef<[u8]>) -> Result<&mut Self> {
        self.batch.push(Op::delete(key.as_ref()), self.keyspace)?;
        Ok(self)
    }

    /// Adds a delete of all keys of a range; see [`WriteBatch::delete_range`].
    pub fn delete_range(&mut self, range: impl KeyRange) -> Result<&mut Self> {
        self.batch.push_range(&range, self.keyspace)?;
        Ok(self)
    }
}

impl WriteBatch {
    /// An empty batch, for any database.
    pub fn new() -> Self {
        Self::default()
    }

    /// An empty batch for the database with this default keyspace, which has `most` bytes of memory
    /// for it.
    pub(crate) fn within(default: &Arc<CatalogEntry>, most: usize) -> Self {
        let room = BatchRoom { default: default.clone(), takes: 0, most };
        Self { room: Some(room), ..Self::default() }
    }

    /// Adds a put. Fails on an oversize key or value, or on a full batch: 2 GiB of keys, values and
    /// 24 bytes for each operation, or the memory of its database ([`crate::Db::batch`]). The batch
    /// is then unchanged.
    pub fn put(&mut self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<&mut Self> {
        self.push(Op::put(key.as_ref(), value.as_ref()), None)?;
        Ok(self)
    }

    /// Adds a delete. Fails as [`WriteBatch::put`] does.
    pub fn delete(&mut self, key: impl AsRef<[u8]>) -> Result<&mut Self> {
        self.push(Op::delete(key.as_ref()), None)?;
        Ok(self)
    }

    /// Adds a delete of all keys of a range: of those that the database has, and that operations
    /// in front of it have put. Fails as [`WriteBatch::put`] does, and on a range whose ends are
    /// reversed.
    pub fn delete_range(&mut self, range: impl KeyRange) -> Result<&mut Self> {
        self.push_range(&range, None)?;
        Ok(self)
    }

    /// The batch's operations on a keyspace: `batch.keyspace(&users).put("key", "value")?`.
    pub fn keyspace(&mut self, within: impl AsRef<KeyspaceRef>) -> KeyspaceBatch<'_> {
        let KeyspaceRef(keyspace) = within.as_ref();
        let at = self.place_of(keyspace);
        KeyspaceBatch { batch: self, keyspace: Some(at) }
    }

    fn push(&mut self, op: Op<'_>, keyspace: Option<u32>) -> Result<()> {
        op.check()?;
        self.add(Change::One(op), keyspace)
    }

    fn push_range(&mut self, range: &impl KeyRange, keyspace: Option<u32>) -> Result<()> {
        let id = keyspace.map_or(KeyspaceId::DEFAULT, |at| self.keyspaces[at as usize].id);
        let Bounds { lower, upper, .. } = Bounds::to_change(id, range)?;
        if lower >= upper {
            return Ok(());
        }
        check_end(&lower)?;
        check_end(&upper)?;
        self.add(Change::Range(&lower, &upper), keyspace)
    }

    /// Takes room for one more operation, behind `len` bytes of others.
    fn make_room(&mut self, len: usize, change: &Change<'_>, keyspace: Option<u32>) -> Result<()> {
        let count = self.ops.len() + 1;
        room::check_len(len + change.len() as usize, count)?;
        let Some(room) = &mut self.room else { return Ok(()) };
        let within = keyspace.map_or(&room.default, |at| &self.keyspaces[at as usize]);
        room.take(change.memory(within), count)
    }

    fn add(&mut self, change: Change<'_>, keyspace: Option<u32>) -> Result<()> {
        self.make_room(self.bytes.len(), &change, keyspace)?;
        let usual = Lifetime::OfKeyspace;
        let (key, value, kind, lifetime) = match change {
            Change::One(op) => (op.key, op.value, BatchOpKind::One, op.lifetime),
            Change::Range(begin, end) => (begin, Some(end), BatchOpKind::Range, usual),
            Change::Merge(key, stored) => (key, Some(stored), BatchOpKind::Merge, usual),
        };
        self.bytes.extend_from_slice(key);
        let key_end = self.bytes.len();
        self.bytes.extend_from_slice(value.unwrap_or_default());
        let value_end = value.map(|_| self.bytes.len());
        self.ops.push(BatchOp { key_end, value_end, kind, lifetime, keyspace });
        Ok(())
    }

    /// Number of operations.
    pub fn len(&self) -> usize {
        self.ops.len()
    }

    /// Whether there are no operations.
    pub fn is_empty(&self) -> bool {
        self.ops.is_empty()
    }

    /// Takes back all operations but the first `len`: `batch.len()` is a savepoint. Does nothing if
    /// there are no more.
    ///
    /// ```
    /// let mut batch = cleavedb::WriteBatch::new();
    /// batch.put("kept", "1")?;
    /// let savepoint = batch.len();
    /// batch.put("taken back", "2")?.delete("kept")?;
    /// batch.truncate(savepoint);
    /// assert_eq!(batch.len(), 1);
    /// # Ok::<(), cleavedb::Error>(())
    /// ```
    pub fn truncate(&mut self, len: usize) {
        self.ops.truncate(len);
        self.bytes.truncate(self.ops.last().map_or(0, BatchOp::end));
        // A drop of a keyspace that no operation names any more does not matter.
        let used = self.ops.iter().filter_map(|op| op.keyspace).max();
        self.keyspaces.truncate(used.map_or(0, |last| last as usize + 1));
        if let Some(mut room) = self.room.take() {
            room.takes = memory_of(self.changes(&room.default));
            self.room = Some(room);
        }
    }

    /// Removes all operations and keeps the memory.
    pub fn clear(&mut self) {
        self.truncate(0);
    }

    /// The keyspaces of the batch besides the default one.
    pub(crate) fn keyspaces(&self) -> &[Arc<CatalogEntry>] {
        &self.keyspaces
    }

    /// The operations, in order, each with its keyspace; `default` is the default one.
    pub(crate) fn changes<'a>(
        &'a self,
        default: &'a Arc<CatalogEntry>,
    ) -> impl Iterator<Item = (Change<'a>, &'a Arc<CatalogEntry>)> + Clone {
        self.parts().map(move |(op, key, value)| {
            let lifetime = op.lifetime;
            let change = match (op.kind, value) {
                (BatchOpKind::Range, Some(end)) => Change::Range(key, end),
                (BatchOpKind::Merge, Some(stored)) => Change::Merge(key, stored),
                _ => Change::One(Op { key, value, lifetime }),
            };
            (change, op.keyspace.map_or(default, |at| &self.keyspaces[at as usize]))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operations::catalog::Catalog;
    use crate::settings::keyspace_options::KeyspaceOptions;
    use crate::settings::options::Options;

    #[test]
    fn operations_come_back_in_order() {
        let mut batch = WriteBatch::new();
        batch.put(b"a", b"1").unwrap().delete(b"b").unwrap().put(b"c", b"").unwrap();
        let catalog = Catalog::new(&Options::default());
        let named = KeyspaceRef(Arc::new(catalog.entry(
            KeyspaceId(5),
            "named",
            KeyspaceOptions::default(),
        )));
        batch.keyspace(&named).delete(b"a").unwrap();
        batch.keyspace(&named).delete_range("x".."y").unwrap().delete_range("x".."x").unwrap();
        assert!(batch.keyspace(&named).delete_range("y".."x").is_err());
        let changes: Vec<_> =
            batch.changes(&catalog.default).map(|(it, keyspace)| (it, keyspace.id.0)).collect();
        let lifetime = Lifetime::OfKeyspace;
        let one = |key, value| Change::One(Op { key, value, lifetime });
        assert_eq!(
            changes,
            [
                (one(b"a", Some(b"1")), 0),
                (one(b"b", None), 0),
                (one(b"c", Some(b"")), 0),
                (one(b"a", None), 5),
                (Change::Range(b"\0\x05x", b"\0\x05y"), 5),
            ]
        );
    }

    #[test]
    fn bad_keys_and_values_are_refused_and_leave_the_batch_as_it_was() {
        let mut batch = WriteBatch::new();
        let error = batch.delete(vec![0; KEY_LEN_MAX + 1]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        batch.put(vec![0; KEY_LEN_MAX], b"").unwrap().put(b"", b"").unwrap();
        assert_eq!(batch.len(), 2);
    }
}
