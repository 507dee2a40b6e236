//! A batch of operations that are applied atomically.

use std::sync::Arc;

use cleavedb_base::limits::{BATCH_BYTES_MAX, KEY_LEN_MAX, VALUE_LEN_MAX};
use cleavedb_base::record::HEADER_LEN;
use cleavedb_base::{Error, ErrorKind, Result};

use crate::catalog::CatalogEntry;

/// Estimated memory of an operation besides its key and an inline value, in bytes: while it is
/// prepared for the commit, and as an index entry, which may hold a pointer.
const OP_MEMORY: usize = 256;

/// One operation, borrowed from its batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Op<'a> {
    pub(crate) key: &'a [u8],
    /// The value, or `None` for a delete.
    pub(crate) value: Option<&'a [u8]>,
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

#[cold]
fn refuse(key_len: usize, value_len: usize) -> Error {
    let message = if key_len > KEY_LEN_MAX {
        format!("a key of {key_len} bytes is longer than the limit of {KEY_LEN_MAX}")
    } else {
        format!("a value of {value_len} bytes is longer than the limit of {VALUE_LEN_MAX}")
    };
    Error::new(ErrorKind::InvalidArgument, message)
}

/// Fails if a batch of `ops` takes more than `most` bytes of memory while it is committed and in
/// the MemTable.
pub(crate) fn check_memory<'a>(
    ops: impl Iterator<Item = (Op<'a>, &'a Arc<CatalogEntry>)>,
    most: usize,
) -> Result<()> {
    let of = |(op, keyspace): (Op<'_>, &Arc<CatalogEntry>)| {
        let kept = op.value.map_or(0, <[u8]>::len);
        let kept = if kept < keyspace.separated_from { kept } else { 0 };
        OP_MEMORY + op.key.len() + kept
    };
    let takes: usize = ops.map(of).sum();
    if takes <= most {
        return Ok(());
    }
    let what = "a batch takes more than an eighth of memory_bytes, less record_cache_bytes; split \
                it, or raise that";
    let error = Error::new(ErrorKind::InvalidArgument, what);
    Err(error.with("takes", takes).with("most", most))
}

/// A set of puts and deletes that [`crate::Db::write`] applies atomically, in the order given: in
/// the default keyspace, and in others ([`WriteBatch::keyspace`]).
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
}

/// An operation of a batch.
#[derive(Clone, Copy, Debug)]
struct BatchOp {
    /// End of its key in the bytes of the batch.
    key_end: usize,
    /// End of the value behind the key, for a put.
    value_end: Option<usize>,
    /// Place of its keyspace in the list of the batch; none for the default one.
    keyspace: Option<u32>,
}

/// The operations of a batch on one keyspace; see [`WriteBatch::keyspace`].
pub struct KeyspaceBatch<'b> {
    batch: &'b mut WriteBatch,
    keyspace: Option<u32>,
}

impl KeyspaceBatch<'_> {
    /// Adds a put. Fails as [`WriteBatch::put`] does.
    pub fn put(&mut self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<&mut Self> {
        let op = Op { key: key.as_ref(), value: Some(value.as_ref()) };
        self.batch.push(op, self.keyspace)?;
        Ok(self)
    }

    /// Adds a delete. Fails as [`WriteBatch::put`] does.
    pub fn delete(&mut self, key: impl AsRef<[u8]>) -> Result<&mut Self> {
        self.batch.push(Op { key: key.as_ref(), value: None }, self.keyspace)?;
        Ok(self)
    }
}

impl WriteBatch {
    /// An empty batch.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a put. Fails on an oversize key or value, or on a full batch (2 GiB of keys, values and
    /// 24 bytes for each operation); the batch is then unchanged.
    pub fn put(&mut self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<&mut Self> {
        self.push(Op { key: key.as_ref(), value: Some(value.as_ref()) }, None)?;
        Ok(self)
    }

    /// Adds a delete. Fails as [`WriteBatch::put`] does.
    pub fn delete(&mut self, key: impl AsRef<[u8]>) -> Result<&mut Self> {
        self.push(Op { key: key.as_ref(), value: None }, None)?;
        Ok(self)
    }

    /// The operations on a keyspace.
    pub(crate) fn of(&mut self, keyspace: &Arc<CatalogEntry>) -> KeyspaceBatch<'_> {
        let found = self.keyspaces.iter().position(|known| Arc::ptr_eq(known, keyspace));
        let at = found.unwrap_or_else(|| {
            self.keyspaces.push(keyspace.clone());
            self.keyspaces.len() - 1
        });
        KeyspaceBatch { batch: self, keyspace: Some(at as u32) }
    }

    fn push(&mut self, op: Op<'_>, keyspace: Option<u32>) -> Result<()> {
        op.check()?;
        let value = op.value.unwrap_or_default();
        let records = self.bytes.len() + op.key.len() + value.len();
        if records + HEADER_LEN * (self.ops.len() + 1) > BATCH_BYTES_MAX {
            let message = "a batch holds at most 2 GiB of keys, values, and 24 bytes for each \
                           operation; split it";
            return Err(Error::new(ErrorKind::InvalidArgument, message));
        }
        self.bytes.extend_from_slice(op.key);
        let key_end = self.bytes.len();
        self.bytes.extend_from_slice(value);
        let value_end = op.value.map(|_| self.bytes.len());
        self.ops.push(BatchOp { key_end, value_end, keyspace });
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

    /// Removes all operations and keeps the memory.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.ops.clear();
        self.keyspaces.clear();
    }

    /// Its keyspaces besides the default one.
    pub(crate) fn keyspaces(&self) -> &[Arc<CatalogEntry>] {
        &self.keyspaces
    }

    /// The operations, in order, each with its keyspace; `default` is the default one.
    pub(crate) fn ops<'a>(
        &'a self,
        default: &'a Arc<CatalogEntry>,
    ) -> impl Iterator<Item = (Op<'a>, &'a Arc<CatalogEntry>)> + Clone {
        let mut start = 0;
        self.ops.iter().map(move |&BatchOp { key_end, value_end, keyspace }| {
            let key = &self.bytes[start..key_end];
            start = value_end.unwrap_or(key_end);
            let op = Op { key, value: value_end.map(|end| &self.bytes[key_end..end]) };
            (op, keyspace.map_or(default, |at| &self.keyspaces[at as usize]))
        })
    }
}

#[cfg(test)]
mod tests {
    use cleavedb_base::KeyspaceId;

    use super::*;
    use crate::catalog::Catalog;

    #[test]
    fn operations_come_back_in_order() {
        let mut batch = WriteBatch::new();
        batch.put(b"a", b"1").unwrap().delete(b"b").unwrap().put(b"c", b"").unwrap();
        let catalog = Catalog::new(0);
        let named = Arc::new(catalog.entry(KeyspaceId(5), "named", 0));
        batch.of(&named).delete(b"a").unwrap();
        let of = |(op, keyspace): (Op<'_>, &Arc<CatalogEntry>)| {
            (keyspace.id.0, op.key.to_vec(), op.value.map(<[u8]>::to_vec))
        };
        let ops: Vec<_> = batch.ops(&catalog.default).map(of).collect();
        let put = |key: &[u8], value: &[u8]| (0, key.to_vec(), Some(value.to_vec()));
        let deletes = [(0, b"b".to_vec(), None), (5, b"a".to_vec(), None)];
        let [delete, last] = deletes;
        assert_eq!(ops, [put(b"a", b"1"), delete, put(b"c", b""), last]);
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
