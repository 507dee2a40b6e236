//! Whether a batch has room for more operations: in a log file, and in the memory of a database.

use std::sync::Arc;

use cleavedb_base::limits::BATCH_BYTES_MAX;
use cleavedb_base::record::HEADER_LEN;
use cleavedb_base::{Error, ErrorKind, Result};

use super::Change;
use crate::operations::catalog::CatalogEntry;

/// Fails if `count` operations of `len` bytes, their headers not counted, do not fit in a log file.
pub(super) fn check_len(len: usize, count: usize) -> Result<()> {
    if len + HEADER_LEN * count <= BATCH_BYTES_MAX {
        return Ok(());
    }
    let message = "a batch holds at most 2 GiB of keys, values, and 24 bytes for each operation; \
                   split it";
    Err(Error::new(ErrorKind::InvalidArgument, message))
}

/// Fails if operations that take `takes` bytes of memory take more than `most`; `count` says how
/// many there are.
pub(crate) fn check_memory(takes: usize, most: usize, count: impl FnOnce() -> usize) -> Result<()> {
    if takes <= most {
        return Ok(());
    }
    let count = count();
    let what = "a batch takes more than an eighth of memory_bytes, less record_cache_bytes; split \
                it, or raise that";
    let error = Error::new(ErrorKind::InvalidArgument, what).with("takes", takes);
    Err(error.with("most", most).with("operations", count).with("fit", count * most / takes))
}

/// Memory that changes take while they are committed and in the MemTable, in bytes.
pub(crate) fn memory_of<'a>(
    changes: impl Iterator<Item = (Change<'a>, &'a Arc<CatalogEntry>)>,
) -> usize {
    changes.map(|(change, keyspace)| change.memory(keyspace)).sum()
}

/// The memory that a database has for a batch.
#[derive(Clone, Debug)]
pub(super) struct BatchRoom {
    /// The default keyspace of the database.
    pub(super) default: Arc<CatalogEntry>,
    /// Memory that the operations so far take, in bytes.
    pub(super) takes: usize,
    /// The most that they may take.
    pub(super) most: usize,
}

impl BatchRoom {
    /// Takes `more` bytes, with which there are `count` operations; fails if the database has no
    /// memory for them.
    pub(super) fn take(&mut self, more: usize, count: usize) -> Result<()> {
        check_memory(self.takes + more, self.most, || count)?;
        self.takes += more;
        Ok(())
    }
}
