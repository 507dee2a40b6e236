//! Committed batches as they lie in a log file.

use cleavedb_base::{Result, SeqNo};
use cleavedb_storage::log::{Batches, LogReader, LoggedOp, Values};

/// One batch. It has at least one operation, and they are numbered in a row.
pub(super) struct LoggedBatch {
    pub(super) ops: Vec<LoggedOp>,
}

impl LoggedBatch {
    pub(super) fn first(&self) -> SeqNo {
        self.ops[0].header.seq
    }

    pub(super) fn last(&self) -> SeqNo {
        self.first() + self.ops.len() as u64 - 1
    }

    /// Bytes of keys and values.
    pub(super) fn bytes(&self) -> usize {
        self.ops.iter().map(|op| op.key.len() + op.value.len()).sum()
    }
}

/// The next whole batch of a log file; none if the reader has come to the end of what is there.
pub(super) fn next_batch(reader: &mut LogReader<'_>) -> Result<Option<LoggedBatch>> {
    let (mut batches, mut ops) = (Batches::new(reader, Values::All), Vec::new());
    // Records of the log itself make batches without an operation.
    while batches.next(&mut ops)? {
        if !ops.is_empty() {
            return Ok(Some(LoggedBatch { ops }));
        }
    }
    Ok(None)
}
