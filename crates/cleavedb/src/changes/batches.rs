//! Committed batches as they lie in a log file.

use bytes::Bytes;
use cleavedb_base::record::{HEADER_LEN, Header};
use cleavedb_base::{Result, SeqNo};
use cleavedb_storage::log::LogReader;

/// One operation of a batch, with its whole value.
pub(super) struct LoggedOp {
    pub(super) header: Header,
    pub(super) key: Bytes,
    pub(super) value: Bytes,
}

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
    let mut ops = Vec::new();
    loop {
        let Some((offset, record)) = reader.next_record()? else { return Ok(None) };
        let (header, key) = (record.header, Bytes::copy_from_slice(record.key));
        if !header.kind.is_operation() {
            continue;
        }
        let value = if header.kind.is_separated() {
            let at = offset + (HEADER_LEN + key.len()) as u64;
            Bytes::from(reader.read(at, header.value_len as usize)?)
        } else {
            Bytes::copy_from_slice(record.value)
        };
        ops.push(LoggedOp { header, key, value });
        if !header.more {
            return Ok(Some(LoggedBatch { ops }));
        }
    }
}
