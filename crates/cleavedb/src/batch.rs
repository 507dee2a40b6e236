//! A batch of operations that are applied atomically.

use cleavedb_base::limits::{BATCH_BYTES_MAX, KEY_LEN_MAX, VALUE_LEN_MAX};
use cleavedb_base::record::HEADER_LEN;
use cleavedb_base::{Error, ErrorKind, KeyspaceId, Result};

/// The only keyspace so far.
pub(crate) const DEFAULT_KEYSPACE: KeyspaceId = KeyspaceId(0);

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
/// the MemTable; values of `separated_from` bytes or more leave the index.
pub(crate) fn check_memory<'a>(
    ops: impl Iterator<Item = Op<'a>>,
    separated_from: usize,
    most: usize,
) -> Result<()> {
    let kept = |value: &[u8]| if value.len() < separated_from { value.len() } else { 0 };
    let of = |op: Op<'_>| OP_MEMORY + op.key.len() + op.value.map_or(0, kept);
    let takes: usize = ops.map(of).sum();
    if takes <= most {
        return Ok(());
    }
    let what = "a batch takes more than an eighth of memory_bytes, less record_cache_bytes; split \
                it, or raise that";
    let error = Error::new(ErrorKind::InvalidArgument, what);
    Err(error.with("takes", takes).with("most", most))
}

/// A set of puts and deletes that [`crate::Db::write`] applies atomically, in the order given.
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
    /// End of the key and, for a put, of the value of each operation in `bytes`.
    ops: Vec<(usize, Option<usize>)>,
}

impl WriteBatch {
    /// An empty batch.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a put. Fails on an oversize key or value, or on a full batch (2 GiB of keys, values and
    /// 24 bytes for each operation); the batch is then unchanged.
    pub fn put(&mut self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<&mut Self> {
        self.push(Op { key: key.as_ref(), value: Some(value.as_ref()) })
    }

    /// Adds a delete. Fails as [`WriteBatch::put`] does.
    pub fn delete(&mut self, key: impl AsRef<[u8]>) -> Result<&mut Self> {
        self.push(Op { key: key.as_ref(), value: None })
    }

    fn push(&mut self, op: Op<'_>) -> Result<&mut Self> {
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
        self.ops.push((key_end, op.value.map(|_| self.bytes.len())));
        Ok(self)
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
    }

    /// The operations, in order.
    pub(crate) fn ops(&self) -> impl Iterator<Item = Op<'_>> {
        let mut start = 0;
        self.ops.iter().map(move |&(key_end, value_end)| {
            let key = &self.bytes[start..key_end];
            start = value_end.unwrap_or(key_end);
            Op { key, value: value_end.map(|end| &self.bytes[key_end..end]) }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_come_back_in_order() {
        let mut batch = WriteBatch::new();
        batch.put(b"a", b"1").unwrap().delete(b"b").unwrap().put(b"c", b"").unwrap();
        let ops: Vec<_> = batch.ops().map(|op| (op.key, op.value)).collect();
        assert_eq!(ops, [(&b"a"[..], Some(&b"1"[..])), (b"b", None), (b"c", Some(b""))]);
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
