//! What a database did since it was created, as its manifest keeps it from open to open.

use cleavedb_base::Result;
use cleavedb_base::codec::{Cursor, put_varint};

/// Declares [`Totals`], and the order of its fields in the encoding: new ones stand at the end.
macro_rules! totals {
    ($($(#[$doc:meta])* $field:ident,)*) => {
        /// What a database did since it was created: all sessions, and the one under way. Of a
        /// session whose process died the work since its last flush is not in it. Sizes are in
        /// bytes.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        #[non_exhaustive]
        pub struct Totals {
            $($(#[$doc])* pub $field: u64,)*
        }

        impl Totals {
            /// In the order of the encoding.
            fn fields(&mut self) -> Vec<&mut u64> {
                vec![$(&mut self.$field,)*]
            }
        }
    };
}

totals! {
    /// Keys and values that users wrote.
    user_bytes,
    /// Write calls.
    writes,
    /// Bytes written to log files.
    log_written,
    /// Bytes written by flushes.
    flush_written,
    /// Bytes written by compaction.
    compaction_written,
    /// Bytes written by collection.
    collection_written,
    /// Bytes written to the manifest.
    manifest_written,
    /// Flushes done.
    flushes,
    /// Compactions that rewrote data.
    compactions,
    /// Collections done.
    collections,
    /// Sessions: opens after which something was written.
    sessions,
    /// Operations of write calls: puts, deletes, deletes of ranges.
    operations,
    /// Bytes read by compaction.
    compaction_read,
    /// Bytes read by collection.
    collection_read,
    /// Block look-ups that hit the cache.
    cache_hits,
    /// Block look-ups that read a file.
    cache_misses,
    /// Look-ups of separated values that hit the record cache.
    record_cache_hits,
    /// Look-ups of separated values that read a file or the log window, with a record cache.
    record_cache_misses,
    /// Dead entries that ranges skipped.
    dead_read,
    /// Waits of writers for background work.
    stalls,
    /// Time of the stalls, in nanoseconds.
    stall_nanos,
    /// Bytes of dead extents that were punched.
    bytes_punched,
    /// Files removed.
    files_removed,
    /// Bytes written to the files of blobs.
    blob_written,
}

impl Totals {
    /// Bytes written to all files.
    pub fn written(&self) -> u64 {
        self.log_written
            + self.flush_written
            + self.compaction_written
            + self.collection_written
            + self.manifest_written
            + self.blob_written
    }

    /// Bytes written to files per byte that users wrote; 0 if they wrote none.
    pub fn write_amplification(&self) -> f64 {
        match self.user_bytes {
            0 => 0.0,
            bytes => self.written() as f64 / bytes as f64,
        }
    }

    /// The totals of `self`, and then of `next`.
    pub(crate) fn then(mut self, mut next: Self) -> Self {
        for (sum, more) in self.fields().into_iter().zip(next.fields()) {
            // What stands on disk is not believed to be small.
            *sum = sum.saturating_add(*more);
        }
        self
    }

    /// The encoding: the number of fields, and each as a number of 64 bits. Times are measured, so
    /// varints would give equal sessions manifests of different lengths.
    pub(crate) fn encode(mut self, out: &mut Vec<u8>) {
        let fields = self.fields();
        put_varint(out, fields.len() as u64);
        fields.into_iter().for_each(|field| out.extend_from_slice(&field.to_le_bytes()));
    }

    /// Reads the encoding of any version: fields that it does not have are 0, and those that this
    /// version does not know are passed over, since they are for information only.
    pub(crate) fn decode(cursor: &mut Cursor<'_>) -> Result<Self> {
        let count = cursor.varint()?;
        let mut totals = Self::default();
        let mut fields = totals.fields().into_iter();
        // The cursor ends, with an error, before a senseless count does.
        for _ in 0..count {
            let value = cursor.u64()?;
            if let Some(field) = fields.next() {
                *field = value;
            }
        }
        Ok(totals)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decode(bytes: &[u8]) -> Result<Totals> {
        Totals::decode(&mut Cursor::new(bytes, "totals"))
    }

    #[test]
    fn totals_of_other_versions_are_read() {
        let mut totals = Totals::default();
        (1..).zip(totals.fields()).for_each(|(value, field)| *field = value << 20);
        let mut bytes = Vec::new();
        totals.encode(&mut bytes);
        assert_eq!(decode(&bytes).unwrap(), totals);
        let known = bytes[0];
        bytes[0] += 1;
        assert!(decode(&bytes).is_err(), "a field is missing");
        bytes.extend_from_slice(&7u64.to_le_bytes());
        assert_eq!(decode(&bytes).unwrap(), totals, "a field of a newer version");
        bytes[0] = known - 1;
        let older = Totals { blob_written: 0, ..totals };
        assert_eq!(decode(&bytes).unwrap(), older);
        let large = Totals { user_bytes: u64::MAX, ..totals };
        assert_eq!(large.then(totals).user_bytes, u64::MAX);
    }
}
