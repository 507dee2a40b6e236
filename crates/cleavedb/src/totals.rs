//! What a database did since it was created, as its manifest keeps it from close to close.

use cleavedb_base::Result;
use cleavedb_base::codec::{Cursor, put_varint};

/// What a database did since it was created: all sessions that ended with a close, and the one
/// under way. What a process did that died is not in it. All sizes are in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Keys and values that users wrote.
    pub user_bytes: u64,
    /// Write calls.
    pub writes: u64,
    /// Bytes written to log files.
    pub log_written: u64,
    /// Bytes written by flushes.
    pub flush_written: u64,
    /// Bytes written by compaction.
    pub compaction_written: u64,
    /// Bytes written by collection.
    pub collection_written: u64,
    /// Bytes written to the manifest.
    pub manifest_written: u64,
    /// Flushes done.
    pub flushes: u64,
    /// Compactions that rewrote data.
    pub compactions: u64,
    /// Collections done.
    pub collections: u64,
}

impl Totals {
    /// Bytes written to all files.
    pub fn written(&self) -> u64 {
        self.log_written
            + self.flush_written
            + self.compaction_written
            + self.collection_written
            + self.manifest_written
    }

    /// Bytes written to files per byte that users wrote; 0 if they wrote none.
    pub fn write_amplification(&self) -> f64 {
        match self.user_bytes {
            0 => 0.0,
            bytes => self.written() as f64 / bytes as f64,
        }
    }

    /// In the order of the encoding.
    fn fields(&mut self) -> [&mut u64; 10] {
        [
            &mut self.user_bytes,
            &mut self.writes,
            &mut self.log_written,
            &mut self.flush_written,
            &mut self.compaction_written,
            &mut self.collection_written,
            &mut self.manifest_written,
            &mut self.flushes,
            &mut self.compactions,
            &mut self.collections,
        ]
    }

    /// This and then `next`.
    pub(crate) fn then(mut self, mut next: Self) -> Self {
        for (sum, more) in self.fields().into_iter().zip(next.fields()) {
            // What stands on disk is not believed to be small.
            *sum = sum.saturating_add(*more);
        }
        self
    }

    pub(crate) fn encode(mut self, out: &mut Vec<u8>) {
        self.fields().into_iter().for_each(|field| put_varint(out, *field));
    }

    pub(crate) fn decode(cursor: &mut Cursor<'_>) -> Result<Self> {
        let mut totals = Self::default();
        for field in totals.fields() {
            *field = cursor.varint()?;
        }
        Ok(totals)
    }
}
